//! Chains: operators between which the processors exchange nothing.

use coexec_sim::device::Profile;
use coexec_sim::kernel::{CoreSet, Library};
use coexec_sim::plan::{Axis, Mechanism, Placement, Plan};
use coexec_sim::schedule::ScheduleError;
use coexec_sim::simulate::{Prediction, SimulateError, Simulator, StepKind};
use coexec_sim::units::Picos;
use coexec_sim::workload::{Stage, fuse, network};

fn device() -> Profile {
    Profile::load("pixel4").unwrap()
}

fn named(name: &str) -> Vec<Stage> {
    fuse(&network(name).unwrap())
}

/// Every operator that has rows cut in the middle, the rest on the GPU; those cut in
/// one chain where `is_chained`.
fn halves(device: &Profile, stages: &[Stage], is_chained: bool, synchronisation: Mechanism) -> Plan {
    let cores = CoreSet::fastest(&device.cpu, 1).unwrap();
    let placements: Vec<Placement> = stages
        .iter()
        .map(|stage| match Axis::Height.extent(&stage.layer.operator) {
            Some(rows) if rows >= 8 => {
                Placement::cpu_and_gpu(Axis::Height, cores, [rows / 2, rows - rows / 2])
            }
            _ => Placement::GPU,
        })
        .collect();
    let chains = placements.iter().map(|placement| (is_chained && placement.is_cut()).then_some(0)).collect();
    Plan::new(synchronisation, placements).chained(chains)
}

fn predict(stages: &[Stage], plan: &Plan) -> Prediction {
    let device = device();
    Simulator::new(&device, Library::Xnnpack).run(stages, plan).unwrap()
}

fn overhead(prediction: &Prediction) -> Picos {
    prediction.processors.iter().map(|usage| usage.overhead).sum()
}

fn busy(prediction: &Prediction) -> Picos {
    prediction.processors.iter().map(|usage| usage.busy).sum()
}

#[test]
fn a_chain_joins_once_and_computes_more() {
    let device = device();
    for name in ["vgg16", "resnet34", "codl-yolov2"] {
        let stages = named(name);
        let [apart, chained] = [false, true]
            .map(|is_chained| predict(&stages, &halves(&device, &stages, is_chained, Mechanism::EventWait)));
        assert!(overhead(&chained) < overhead(&apart), "{name}");
        assert!(busy(&chained) > busy(&apart), "{name}: halos are computed twice");
        let joins = |prediction: &Prediction| {
            prediction.critical_path.iter().filter(|step| step.kind == StepKind::Join).count()
        };
        assert_eq!(joins(&chained), 1, "{name}");
        assert!(joins(&apart) > 5, "{name}");
    }
}

#[test]
fn the_parts_of_a_chained_operator_overlap_and_cover_it() {
    let device = device();
    let stages = named("vgg16");
    let prediction = predict(&stages, &halves(&device, &stages, true, Mechanism::SvmPolling));
    let mut overlaps = Vec::new();
    for (stage, report) in stages.iter().zip(&prediction.stages) {
        let [cpu, gpu] = report.parts.as_slice() else { continue };
        let rows = Axis::Height.extent(&stage.layer.operator).unwrap();
        overlaps.push(cpu.rows.unwrap() + gpu.rows.unwrap() - rows);
    }
    assert!(overlaps.first() > overlaps.last(), "{overlaps:?}");
    assert_eq!(overlaps.last(), Some(&0));
}

#[test]
fn a_residual_network_and_one_that_concatenates_can_be_chained_as_one() {
    let device = device();
    for name in ["resnet18", "inception-v3", "mobilenet-v2", "codl-retinaface"] {
        let stages = named(name);
        for &synchronisation in Mechanism::ALL {
            let plan = halves(&device, &stages, true, synchronisation);
            let prediction = predict(&stages, &plan);
            assert!(prediction.latency > Picos::ZERO, "{name}");
        }
    }
}

#[test]
fn operators_that_must_exchange_results_form_no_chain() {
    let device = device();
    let stages = named("vgg16");
    let mut plan = halves(&device, &stages, true, Mechanism::SvmPolling);
    plan.placements[1] = Placement::GPU;
    let error = Simulator::new(&device, Library::Xnnpack).latency(&stages, &plan).unwrap_err();
    assert!(
        matches!(&error, SimulateError::Schedule(ScheduleError::Chain(error)) if error.stage == 1),
        "{error}"
    );
}

//! Whole inferences: launches and host path, which must agree between simulator and
//! validation, and be absent where operators are timed.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use coexec_fit::measure::GpuNetwork;
use coexec_fit::validate::host::predict;
use coexec_sim::device::gpu::{Gpu, HostPath};
use coexec_sim::device::profile::Profile;
use coexec_sim::device::quantity::Quantity;
use coexec_sim::kernel::cpu::{CoreSet, Library};
use coexec_sim::plan::synchronisation::Mechanism;
use coexec_sim::plan::{Axis, Placement, Plan, ProcessorKind};
use coexec_sim::simulate::{Measure, Prediction, Simulator, StepKind};
use coexec_sim::units::Picos;
use coexec_sim::workload::{DataType, Layer, Linear, Operator, Stage, fuse, network};

const SUBMIT_US: f64 = 700.0;
const READ_BACK_US: f64 = 300.0;

/// The Pixel 4 with and without a host path.
fn pixel4(has_host: bool) -> Profile {
    let profile = Profile::load("pixel4").unwrap();
    let host = HostPath {
        source: "test".to_owned(),
        submit_us: Quantity::plain(SUBMIT_US),
        read_back_us: Quantity::plain(READ_BACK_US),
        kernel_factor: Quantity::plain(1.07),
        gap_us: Quantity::plain(4.0),
        traffic_us_per_byte: Quantity::plain(2e-5),
    };
    let gpu = Gpu { host: has_host.then_some(host), ..profile.gpu.unwrap() };
    Profile { gpu: Some(gpu), ..profile }
}

fn networks() -> impl Iterator<Item = (&'static str, Vec<Stage>)> {
    coexec_sim::workload::networks().filter_map(|(name, _)| Some((name, fuse(&network(name)?))))
}

/// Two linear layers in a row.
fn chain() -> Vec<Stage> {
    let (_, stages) = networks().find(|(name, _)| *name == "vit-b32-mlp").unwrap();
    stages
}

fn run(profile: &Profile, stages: &[Stage], placements: Vec<Placement>, measure: Measure) -> Prediction {
    let plan = Plan::new(Mechanism::SvmPolling, placements);
    Simulator::new(profile, Library::Xnnpack).measuring(measure).run(stages, &plan).unwrap()
}

#[test]
fn a_simulated_inference_takes_what_validation_predicts() {
    let mut profile = pixel4(true);
    // Validation does not model the memory; the simulator limits a launch to its peak bandwidth.
    let plenty = Quantity::plain(1e4);
    profile.memory.peak_bandwidth_gbps = plenty.clone();
    profile.memory.concurrent_bandwidth_gbps = vec![plenty];
    for (name, stages) in networks() {
        let placements = vec![Placement::GPU; stages.len()];
        let simulated = run(&profile, &stages, placements, Measure::Inference).latency;
        let network = GpuNetwork {
            network: name.to_owned(),
            what: stages.into_iter().map(|stage| stage.layer).collect(),
            measured_us: 1.0,
            deviation_us: None,
            line: 1,
        };
        let predicted_us = predict(&network, profile.gpu.as_ref().unwrap()).unwrap();
        // Durations are rounded to picoseconds.
        let apart_us = (simulated.as_micros() - predicted_us).abs();
        assert!(apart_us < 1e-3, "{name}: {} us and {predicted_us} us", simulated.as_micros());
    }
}

#[test]
fn operators_are_timed_without_the_host_path() {
    for (name, stages) in networks() {
        let placements = vec![Placement::GPU; stages.len()];
        let [without, with] = [false, true]
            .map(|has_host| run(&pixel4(has_host), &stages, placements.clone(), Measure::Operators).latency);
        assert_eq!(without, with, "{name}");
    }
}

#[test]
fn a_profile_without_a_host_path_knows_no_difference() {
    let profile = pixel4(false);
    let latency = |measure| run(&profile, &chain(), vec![Placement::GPU; 2], measure).latency;
    assert_eq!(latency(Measure::Operators), latency(Measure::Inference));
}

#[test]
fn an_inference_starts_with_its_submission_and_ends_with_its_read_back() {
    let path = run(&pixel4(true), &chain(), vec![Placement::GPU; 2], Measure::Inference).critical_path;
    let (first, last) = (path.first().unwrap(), path.last().unwrap());
    assert_eq!((first.kind, first.start), (StepKind::Submit, Picos::ZERO));
    assert_eq!(first.finish, Picos::from_micros(SUBMIT_US));
    assert_eq!(last.kind, StepKind::ReadBack);
    assert_eq!(last.finish - last.start, Picos::from_micros(READ_BACK_US));
}

#[test]
fn an_inference_pays_once_however_many_operators_are_cut() {
    let profile = pixel4(true);
    let cores = CoreSet::fastest(&profile.cpu, 1).unwrap();
    let stages = chain();
    let cut = |stage: &Stage| {
        let Operator::Linear(linear) = &stage.layer.operator else { panic!("the chain is linear layers") };
        let cpu_channels = linear.output_features / 8;
        Placement::cpu_and_gpu(Axis::Channels, cores, [cpu_channels, linear.output_features - cpu_channels])
    };
    let overhead = |placements| {
        let prediction = run(&profile, &stages, placements, Measure::Inference);
        prediction.processors.iter().find(|usage| usage.processor == ProcessorKind::Gpu).unwrap().overhead
    };
    let both_cut = vec![cut(&stages[0]), cut(&stages[1])];
    // After a join the host already has the result, so no read-back follows.
    assert_eq!(overhead(both_cut), Picos::from_micros(SUBMIT_US));
    let first_cut = vec![cut(&stages[0]), Placement::GPU];
    assert_eq!(overhead(first_cut), Picos::from_micros(SUBMIT_US + READ_BACK_US));
}

#[test]
fn without_a_launch_nothing_is_paid() {
    let profile = pixel4(true);
    let cores = CoreSet::fastest(&profile.cpu, 2).unwrap();
    let latency = |measure| run(&profile, &chain(), vec![Placement::cpu(cores); 2], measure).latency;
    assert_eq!(latency(Measure::Operators), latency(Measure::Inference));
}

#[test]
fn a_longer_host_path_favours_the_cpu_for_a_small_inference() {
    let linear = Linear { rows: 1, input_features: 64, output_features: 64, bias: true };
    let layer = Layer::new(Operator::Linear(linear), DataType::F32);
    let stages = [Stage { layer, ..chain().swap_remove(0) }];
    let profile = pixel4(true);
    let cores = CoreSet::fastest(&profile.cpu, 1).unwrap();
    let latency = |placement| run(&profile, &stages, vec![placement], Measure::Inference).latency;
    assert!(latency(Placement::cpu(cores)) < latency(Placement::GPU));
}

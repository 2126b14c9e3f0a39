//! Cost of processors waiting for each other: time and energy.

use coexec_sim::device::{ProcessorKind, Profile};
use coexec_sim::explore::{Effort, Objective, SearchOptions, Strategy, explore};
use coexec_sim::input::Text;
use coexec_sim::kernel::{CoreSet, Library};
use coexec_sim::plan::{Axis, Mechanism, Placement, Plan, Processor};
use coexec_sim::simulate::{Detail, Prediction, Simulator, StepKind, timeline};
use coexec_sim::timeline::{Activity, TrackKind};
use coexec_sim::units::{Joules, Picos};
use coexec_sim::workload::{DataType, Layer, Linear, Operator, Read, Stage, fuse, network};

const SNAPDRAGON: &str = include_str!("../../../device-profiles/snapdragon-8gen3.toml");

fn snapdragon() -> Profile {
    Profile::load("snapdragon-8gen3").unwrap()
}

fn two_linear_layers() -> Vec<Stage> {
    fuse(&network("vit-b32-mlp").unwrap())
}

fn predict(device: &Profile, synchronisation: Mechanism, placements: &[Placement; 2]) -> Prediction {
    let plan = Plan::new(synchronisation, placements.to_vec());
    Simulator::new(device, Library::Xnnpack).run(&two_linear_layers(), &plan).unwrap()
}

fn cores(device: &Profile, name: &str) -> CoreSet {
    CoreSet::parse(name, &device.cpu).unwrap()
}

fn hand_over(prediction: &Prediction) -> Picos {
    let step = prediction.critical_path.iter().find(|step| step.kind == StepKind::HandOver).unwrap();
    step.finish - step.start
}

#[test]
fn only_the_gpu_keeps_results_that_must_be_transformed() {
    let device = snapdragon();
    let cpu = Placement::cpu(cores(&device, "1large"));
    let from = |placement| hand_over(&predict(&device, Mechanism::EventWait, &[placement, cpu]));
    let bytes = 50 * 3072 * 4;
    let transform = device.sync.transform.cost(coexec_sim::units::Bytes(bytes));
    assert_eq!(from(Placement::GPU), from(Placement::NPU) + transform);
}

/// Three layers, the second and the third with the given input.
fn three_layers(inputs: [Option<usize>; 2]) -> [Stage; 3] {
    let layer = |name: &str, input: Option<usize>| {
        let product = Linear { rows: 256, input_features: 1024, output_features: 1024, bias: false };
        let operator = Operator::Linear(product);
        let reads = input.map(|input| Read { position: 0, input }).into_iter().collect();
        Stage { reads, ..Stage::single(name.to_owned(), Layer::new(operator, DataType::F32)) }
    };
    [layer("a", None), layer("b", inputs[0]), layer("c", inputs[1])]
}

/// The latency of a plan, and the time that CPU and NPU compute.
fn busy(device: &Profile, stages: &[Stage], plan: &Plan) -> (Picos, [Picos; 2]) {
    let prediction = Simulator::new(device, Library::Xnnpack).run(stages, plan).unwrap();
    let of = |kind: ProcessorKind| {
        let usage = prediction.processors.iter().find(|usage| usage.processor == kind);
        usage.map_or(Picos::ZERO, |usage| usage.busy)
    };
    (prediction.latency, [of(ProcessorKind::Cpu), of(ProcessorKind::Npu)])
}

/// Most of the overhead of a graph.
fn most_of_a_graph(device: &Profile) -> Picos {
    Picos::from_micros(0.9 * device.npu.as_ref().unwrap().compiled.as_ref().unwrap().graph_us.value)
}

#[test]
fn an_npu_hands_out_the_results_of_a_graph_at_its_end() {
    let device = snapdragon();
    let stages = three_layers([Some(0); 2]);
    let cpu = Placement::cpu(cores(&device, "1large"));
    let plan = |placements: [Placement; 3]| Plan::new(Mechanism::SvmPolling, placements.to_vec());
    let late = plan([Placement::NPU, Placement::NPU, cpu]).running_in(&[0, 2, 1]);
    let (latency, [on_cpu, one_graph]) = busy(&device, &stages, &late);
    assert!(latency >= one_graph + on_cpu, "the CPU waits for both layers of the graph");
    let (_, [_, two_graphs]) = busy(&device, &stages, &plan([Placement::NPU, cpu, Placement::NPU]));
    let both = one_graph + most_of_a_graph(&device);
    assert!(two_graphs >= both, "a second graph begins after the CPU's read");
}

#[test]
fn an_npu_graph_has_all_its_inputs_when_it_starts() {
    let device = snapdragon();
    let stages = three_layers([None, Some(0)]);
    let cpu = Placement::cpu(cores(&device, "1large"));
    let plan = Plan::new(Mechanism::SvmPolling, vec![cpu, Placement::NPU, Placement::NPU]);
    let (at_once, [_, two_graphs]) = busy(&device, &stages, &plan);
    let (in_turn, [on_cpu, one_graph]) = busy(&device, &stages, &Plan { in_turn: true, ..plan });
    assert!(in_turn >= on_cpu + one_graph, "the NPU waits for its turn");
    assert!(two_graphs >= one_graph + most_of_a_graph(&device), "a second graph begins at the hand-over");
    assert!(at_once < in_turn, "the first graph does not wait for what the second one reads");
}

#[test]
fn an_npu_graph_ends_before_a_part_of_a_shared_operator() {
    let device = snapdragon();
    let stages = three_layers([None, Some(0)]);
    let run = |second| {
        let plan = Plan::new(Mechanism::SvmPolling, vec![Placement::NPU, second, Placement::NPU]);
        busy(&device, &stages, &plan).1[1]
    };
    let few = [(Processor::NPU, 32), (Processor::Gpu, 1024 - 32)];
    let [one_graph, three_graphs] = [Placement::GPU, Placement::cut(Axis::Channels, few)].map(run);
    assert!(three_graphs >= one_graph + most_of_a_graph(&device) + most_of_a_graph(&device));
}

#[test]
fn an_npu_graph_does_not_wait_for_a_join_in_its_middle() {
    let device = snapdragon();
    let few = [(Processor::NPU, 32), (Processor::Gpu, 1024 - 32)];
    let shared = Placement::cut(Axis::Channels, few);
    let plan = Plan::new(Mechanism::SvmPolling, vec![shared, Placement::NPU, Placement::NPU]);
    // The last layer reads the joined result, or the NPU's of the layer before.
    let run = |input| busy(&device, &three_layers([None, Some(input)]), &plan).1[1];
    assert!(run(0) >= run(1) + most_of_a_graph(&device));
}

#[test]
fn a_gpu_spins_on_a_flag_but_idles_before_an_event() {
    let device = snapdragon();
    let gpu_power = device.power.as_ref().unwrap().gpu.as_ref().unwrap();
    let cpu = Placement::cpu(cores(&device, "1large"));
    for &mechanism in Mechanism::ALL {
        let prediction = predict(&device, mechanism, &[cpu, Placement::GPU]);
        let gpu = prediction.processors.iter().find(|usage| usage.processor == ProcessorKind::Gpu).unwrap();
        assert!(gpu.wait > Picos::ZERO, "it waits for the CPU's layer");
        let waiting = if mechanism.accelerator_spins() { gpu_power.polling() } else { gpu_power.idle() };
        let expected = gpu_power.active().during(gpu.busy + gpu.overhead) + waiting.during(gpu.wait);
        assert!((gpu.energy.unwrap().0 - expected.0).abs() < 1e-9 * expected.0, "{mechanism}");
    }
}

#[test]
fn the_main_core_of_the_active_core_set_polls() {
    let device = snapdragon();
    let medium = Placement::cpu_and_gpu(Axis::Channels, cores(&device, "2med"), [64, 704]);
    let prediction = predict(&device, Mechanism::SvmPolling, &[Placement::GPU, medium]);
    let cpu = prediction.processors.iter().find(|usage| usage.processor == ProcessorKind::Cpu).unwrap();
    let power = &device.power.as_ref().unwrap().cluster;
    let resting: f64 =
        device.cpu.clusters.iter().zip(power).map(|(c, core)| f64::from(c.cores) * core.idle().0).sum();
    let main = &power[2];
    let above_idle = |watts: f64, time: Picos| Joules((watts - main.idle().0) * time.as_seconds());
    let part = prediction.stages[1].parts.iter().find(|part| part.processor == ProcessorKind::Cpu).unwrap();
    let Detail::Cpu { schedule, .. } = part.detail else { panic!("a CPU part has a CPU schedule") };
    let worker = schedule.busy[1];
    let expected = Joules(resting * prediction.latency.as_seconds())
        + above_idle(main.active().0, cpu.busy + worker)
        + above_idle(main.polling().0, (cpu.busy - worker) + cpu.polling + cpu.overhead);
    assert!((cpu.energy.unwrap().0 - expected.0).abs() < 1e-9 * expected.0);

    let plan = Plan::new(Mechanism::SvmPolling, vec![Placement::GPU, medium]);
    let mut simulator = Simulator::new(&device, Library::Xnnpack);
    let drawn = timeline(&mut simulator, &two_linear_layers(), &plan).unwrap();
    let synchronising: Vec<&str> = drawn
        .tracks
        .iter()
        .filter(|track| track.kind == TrackKind::Core)
        .filter(|track| track.slices.iter().any(|slice| slice.activity == Activity::Synchronise))
        .map(|track| track.name.as_str())
        .collect();
    assert_eq!(synchronising, ["CPU med 0"]);
}

#[test]
fn minimising_energy_chooses_the_core_set_of_least_energy() {
    let with_power = |device: &Profile| device.power.is_some();
    for device in Profile::bundled().unwrap().into_iter().filter(with_power) {
        let stages = two_linear_layers();
        let energy = |objective, core_sets| {
            let options = SearchOptions {
                strategy: Strategy::CpuOnly,
                objective,
                synchronisation: Mechanism::SvmPolling,
                core_sets,
                step: 64,
                effort: Effort::default(),
            };
            let mut simulator = Simulator::new(&device, Library::Xnnpack);
            explore(&mut simulator, &stages, &options).unwrap().prediction.energy.unwrap().0
        };
        let sets: Vec<CoreSet> = (1..=device.cpu.cores().min(3))
            .map(|threads| CoreSet::fastest(&device.cpu, threads).unwrap())
            .collect();
        let least =
            sets.iter().map(|&cores| energy(Objective::Energy, vec![cores])).fold(f64::INFINITY, f64::min);
        assert!((energy(Objective::Energy, sets) - least).abs() < 1e-15, "{}", device.name);
    }
}

#[test]
fn a_profile_without_the_power_of_a_processor_is_rejected() {
    for processor in ["gpu", "npu"] {
        let table = format!("[power.{processor}]");
        let start = SNAPDRAGON.find(&table).unwrap();
        let end = start + SNAPDRAGON[start..].find("\n\n").unwrap();
        let content = format!("{}{}", &SNAPDRAGON[..start], &SNAPDRAGON[end..]);
        let error = Profile::parse(&Text { name: "partial.toml".to_owned(), content }).unwrap_err();
        assert!(error.to_string().contains(&table), "{error}");
    }
}

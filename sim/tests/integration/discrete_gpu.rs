//! A GPU with dedicated memory: the transfers over its link, and their cost.

use coexec_sim::device::gpu::Link;
use coexec_sim::device::{Direction, LinkTransfer, OwnMemory, ProcessorKind, Profile, Quantity};
use coexec_sim::explore::{Effort, Objective, SearchOptions, Strategy, explore, latency_curve, split_search};
use coexec_sim::kernel::{CoreSet, Library};
use coexec_sim::plan::{Axis, Mechanism, Placement, Plan, Processor};
use coexec_sim::simulate::{Prediction, SimulateError, Simulator, StepKind, Transfers, execute, timeline};
use coexec_sim::timeline::Activity;
use coexec_sim::units::{Bytes, Picos};
use coexec_sim::workload::{DataType, Layer, Linear, Operator, Read, Stage, fuse, network};

/// Faster than any link: a transfer of a megabyte takes one picosecond.
const INFINITE_GBPS: f64 = 1e9;

/// The `OnePlus` 11, with unified memory.
fn integrated() -> Profile {
    Profile { npu: None, ..Profile::load("oneplus11").unwrap() }
}

fn with_memory(memory: OwnMemory) -> Profile {
    let mut device = integrated();
    device.gpu.as_mut().unwrap().memory = Some(memory);
    device
}

fn own_memory(bandwidth_gbps: f64, link: Link) -> OwnMemory {
    OwnMemory {
        source: "test".to_owned(),
        bandwidth_gbps: Quantity::plain(bandwidth_gbps),
        capacity_gb: Quantity::plain(8.0),
        link,
    }
}

fn link(latency_us: f64, to_gpu_gbps: f64, to_host_gbps: f64) -> Link {
    Link {
        source: "test".to_owned(),
        latency_us: Quantity::plain(latency_us),
        to_gpu_gbps: Quantity::plain(to_gpu_gbps),
        to_host_gbps: Quantity::plain(to_host_gbps),
        queue_us: None,
        row_to_gpu_ns: None,
        row_to_host_ns: None,
        arrange: None,
        picojoules_per_byte: None,
    }
}

/// The same phone with a dedicated memory of the same speed for the GPU, over a link of 12
/// and 6 GB/s and 10 us.
fn discrete() -> Profile {
    let bandwidth = integrated().memory.peak_bandwidth_gbps.value;
    with_memory(own_memory(bandwidth, link(10.0, 12.0, 6.0)))
}

fn linear(name: &str, rows: u32, input_features: u32, output_features: u32) -> Stage {
    let operator = Linear { rows, input_features, output_features, bias: false };
    Stage::single(name.to_owned(), Layer::new(Operator::Linear(operator), DataType::F32))
}

/// Layers of 512 rows, each of which reads the result of the one before.
fn chain(features: &[u32]) -> Vec<Stage> {
    let mut stages: Vec<Stage> = features
        .windows(2)
        .enumerate()
        .map(|(index, widths)| linear(&format!("layer{index}"), 512, widths[0], widths[1]))
        .collect();
    for (index, stage) in stages.iter_mut().enumerate().skip(1) {
        stage.reads = vec![Read { position: 0, input: index - 1 }];
    }
    stages
}

fn cores(device: &Profile) -> CoreSet {
    CoreSet::fastest(&device.cpu, 2).unwrap()
}

fn options(device: &Profile) -> SearchOptions {
    SearchOptions {
        strategy: Strategy::ChannelSplit,
        objective: Objective::Latency,
        synchronisation: Mechanism::SvmPolling,
        core_sets: vec![cores(device)],
        step: 32,
        effort: Effort::default(),
    }
}

fn plan(placements: Vec<Placement>) -> Plan {
    Plan::new(Mechanism::SvmPolling, placements)
}

fn predict(device: &Profile, stages: &[Stage], placements: Vec<Placement>) -> Prediction {
    Simulator::new(device, Library::Xnnpack).run(stages, &plan(placements)).unwrap()
}

fn alone(device: &Profile, stage: &Stage, by: Processor) -> Picos {
    execute(&stage.layer, device, Library::Xnnpack, by).unwrap().0.duration()
}

fn crossed(prediction: &Prediction) -> Transfers {
    let gpu = prediction.processors.iter().find(|usage| usage.processor == ProcessorKind::Gpu).unwrap();
    gpu.transfers.unwrap_or_default()
}

#[test]
fn with_an_infinitely_fast_link_a_discrete_gpu_alone_equals_the_integrated_one() {
    let integrated = integrated();
    let bandwidth = integrated.memory.peak_bandwidth_gbps.value;
    let endless = with_memory(own_memory(bandwidth, link(0.0, INFINITE_GBPS, INFINITE_GBPS)));
    for name in ["mobilenet-v2", "resnet18", "inception-v3"] {
        let Some(graph) = network(name) else { panic!("{name} is bundled") };
        let stages = fuse(&graph);
        let [behind_link, beside] = [&endless, &integrated]
            .map(|device| predict(device, &stages, vec![Placement::GPU; stages.len()]));
        // A megabyte at an exabyte per second takes one picosecond.
        let copies = crossed(&behind_link).time;
        assert!(copies <= Picos(2));
        assert_eq!(behind_link.latency, beside.latency + copies, "{name}");
    }
}

#[test]
fn an_operator_alone_on_the_gpu_pays_for_its_input_and_its_result() {
    let device = discrete();
    let stage = linear("fc", 512, 1024, 768);
    let prediction = predict(&device, std::slice::from_ref(&stage), vec![Placement::GPU]);
    let (input, result) = (Bytes(512 * 1024 * 4), Bytes(512 * 768 * 4));
    let link = device.gpu.as_ref().unwrap().memory.as_ref().unwrap().link.clone();
    let copies = link.transfer(LinkTransfer::whole(input), Direction::ToGpu)
        + link.transfer(LinkTransfer::whole(result), Direction::ToHost);
    assert_eq!(crossed(&prediction), Transfers { time: copies, bytes: input + result });
    assert_eq!(prediction.latency, copies + alone(&device, &stage, Processor::Gpu));
    let kinds: Vec<StepKind> = prediction.critical_path.iter().map(|step| step.kind).collect();
    assert_eq!(kinds, [StepKind::Move, StepKind::Compute, StepKind::Move]);
}

#[test]
fn a_chain_on_the_gpu_crosses_the_link_at_its_ends_only() {
    let device = discrete();
    let stages = chain(&[256, 1024, 2048, 512]);
    let prediction = predict(&device, &stages, vec![Placement::GPU; 3]);
    assert_eq!(crossed(&prediction).bytes, Bytes(512 * 4 * (256 + 512)));
    let layers: Picos = stages.iter().map(|stage| alone(&device, stage, Processor::Gpu)).sum();
    assert_eq!(prediction.latency, layers + crossed(&prediction).time);
}

#[test]
fn a_result_crosses_once_each_way_and_only_what_is_missing() {
    let device = discrete();
    let stages = chain(&[256, 1024, 2048, 512]);
    let split = Placement::cpu_and_gpu(Axis::Channels, cores(&device), [1024, 1024]);
    let prediction = predict(&device, &stages, vec![Placement::GPU, split, Placement::GPU]);
    // To the GPU: the input, and later the CPU's part. To the host: the first result for the
    // CPU's part, the GPU's part for the join, and the last result.
    assert_eq!(crossed(&prediction).bytes, Bytes(512 * 4 * (256 + 1024 + 1024 + 1024 + 512)));
}

#[test]
fn without_a_shared_memory_a_cut_operator_is_not_contended() {
    let (mut shared, mut own) = (integrated(), discrete());
    for device in [&mut shared, &mut own] {
        device.memory.concurrent_bandwidth_gbps[1] = Quantity::plain(10.0);
    }
    let stage = linear("fc", 4, 4096, 8192);
    let split = Placement::cpu_and_gpu(Axis::Channels, cores(&own), [2048, 6144]);
    let part = |device: &Profile, by, channels| {
        let layer = stage.layer.with_output_channels(channels);
        let part = Stage { layer, ..stage.clone() };
        alone(device, &part, by)
    };
    let stages = std::slice::from_ref(&stage);
    let lasts = |device: &Profile, processor: ProcessorKind| {
        let prediction = predict(device, stages, vec![split]);
        let parts = &prediction.stages[0].parts;
        parts.iter().find(|part| part.processor == processor).map(|part| part.finish - part.start).unwrap()
    };
    assert_eq!(lasts(&own, ProcessorKind::Gpu), part(&own, Processor::Gpu, 6144));
    assert!(
        lasts(&shared, ProcessorKind::Gpu) > part(&shared, Processor::Gpu, 6144),
        "the test needs traffic"
    );
    // The copy of the input is traffic in the host's memory.
    let copied = crossed(&predict(&own, stages, vec![split])).time;
    let cpu = part(&own, Processor::Cpu(cores(&own)), 2048);
    assert!((cpu..=cpu + copied).contains(&lasts(&own, ProcessorKind::Cpu)));
}

#[test]
fn a_tiny_operator_is_not_worth_the_transfer() {
    let (shared, own) = (integrated(), discrete());
    let best = |device: &Profile, stage: &Stage| {
        let simulator = Simulator::new(device, Library::Xnnpack);
        split_search(&simulator, stage, &options(device)).unwrap().best.placement
    };
    let (tiny, large) = (linear("tiny", 16, 256, 256), linear("large", 512, 2048, 2048));
    assert!(matches!(best(&own, &tiny).only(), Some(Processor::Cpu(_))));
    assert!(!matches!(best(&own, &large).only(), Some(Processor::Cpu(_))), "large enough to cross");
    assert!(!matches!(best(&shared, &large).only(), Some(Processor::Cpu(_))));
}

/// The same phone with 40 ns per row of a strided transfer: per pixel of a part of the channels.
fn with_costly_rows() -> Profile {
    let mut device = discrete();
    let link = &mut device.gpu.as_mut().unwrap().memory.as_mut().unwrap().link;
    for row in [&mut link.row_to_gpu_ns, &mut link.row_to_host_ns] {
        *row = Some(Quantity::plain(40.0));
    }
    device
}

#[test]
fn a_part_of_the_channels_crosses_row_by_row() {
    let (plain, costly) = (discrete(), with_costly_rows());
    let stages = chain(&[256, 1024, 512]);
    let split = Placement::cpu_and_gpu(Axis::Channels, cores(&plain), [512, 512]);
    let time = |device: &Profile, first: Placement| {
        crossed(&predict(device, &stages, vec![first, Placement::GPU])).time
    };
    // The GPU's part goes to the host and the CPU's to the GPU; each has 512 rows.
    let rows = Picos::from_nanos(2.0 * 512.0 * 40.0);
    assert_eq!(time(&costly, split), time(&plain, split) + rows);
    assert_eq!(time(&costly, Placement::GPU), time(&plain, Placement::GPU));
}

#[test]
fn a_search_predicts_the_simulated_time_of_its_plan() {
    let device = with_costly_rows();
    let mut simulator = Simulator::new(&device, Library::Xnnpack);
    for stage in [linear("tiny", 16, 256, 256), linear("large", 512, 2048, 2048)] {
        let search = split_search(&simulator, &stage, &options(&device)).unwrap();
        for candidate in [search.gpu_only, search.cpu_only, search.split].into_iter().flatten() {
            let simulated = simulator.latency(std::slice::from_ref(&stage), &plan(vec![candidate.placement]));
            assert_eq!(simulated, Ok(candidate.latency), "{:?}", candidate.placement);
        }
        let curve = latency_curve(&simulator, &stage, &options(&device)).unwrap();
        let whole = curve.last().and_then(|point| point.together);
        let gpu_only = simulator.latency(std::slice::from_ref(&stage), &plan(vec![Placement::GPU]));
        assert_eq!(whole, gpu_only.ok());
    }
}

#[test]
fn a_plan_of_a_chain_is_no_slower_than_one_processor() {
    let device = discrete();
    let mut simulator = Simulator::new(&device, Library::Xnnpack);
    for features in [&[256, 1024, 2048, 512][..], &[64, 64, 64, 64], &[4096, 64, 4096]] {
        let answer = explore(&mut simulator, &chain(features), &options(&device)).unwrap();
        assert!(!answer.baselines.is_empty());
        for baseline in &answer.baselines {
            assert!(answer.prediction.latency <= baseline.prediction.latency, "{features:?}");
        }
    }
}

#[test]
fn crossing_bytes_cost_the_link_energy() {
    let device = discrete();
    let mut costly = device.clone();
    let memory = costly.gpu.as_mut().unwrap().memory.as_mut().unwrap();
    memory.link.picojoules_per_byte = Some(Quantity::plain(1_000.0));
    let stages = chain(&[256, 1024, 512]);
    let [free, paid] = [&device, &costly].map(|device| predict(device, &stages, vec![Placement::GPU; 2]));
    let joules = crossed(&paid).bytes.0 as f64 * 1e-9;
    assert!((paid.energy.unwrap().0 - free.energy.unwrap().0 - joules).abs() < 1e-12);
    assert_eq!(free.latency, paid.latency);
}

#[test]
fn transfers_are_slices_of_the_gpu_s_queue() {
    let device = discrete();
    let mut simulator = Simulator::new(&device, Library::Xnnpack);
    let stages = chain(&[256, 1024, 512]);
    let timeline = timeline(&mut simulator, &stages, &plan(vec![Placement::GPU; 2])).unwrap();
    let names: Vec<&str> = timeline
        .tracks
        .iter()
        .flat_map(|track| &track.slices)
        .filter(|slice| slice.activity == Activity::Transfer)
        .map(|slice| slice.name.as_str())
        .collect();
    assert_eq!(names, ["to GPU", "to host"]);
}

#[test]
fn weights_that_do_not_fit_the_gpu_s_memory_are_refused_and_planned_around() {
    let mut device = discrete();
    // Each layer alone fits with its 4 MB of weights; both together do not.
    device.gpu.as_mut().unwrap().memory.as_mut().unwrap().capacity_gb = Quantity::plain(0.012);
    let mut simulator = Simulator::new(&device, Library::Xnnpack);
    let stages = chain(&[1024, 1024, 1024]);
    let both = simulator.latency(&stages, &plan(vec![Placement::GPU; 2]));
    assert!(matches!(both, Err(SimulateError::GpuMemoryFull { .. })), "{both:?}");
    assert!(simulator.latency(&stages[..1], &plan(vec![Placement::GPU])).is_ok());
    assert!(explore(&mut simulator, &stages, &options(&device)).is_ok());
}

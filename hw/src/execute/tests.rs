//! Plans on the available device.
//!
//! Without a platform the tests are skipped with a message; with `COEXEC_REQUIRE_OPENCL=1` they
//! fail instead.

mod chains;
mod random;
mod streams;

use coexec_sim::workload::{GraphBuilder, Shape, fuse};
use coexec_sim::{Axis, Mechanism as Modelled, Overrides, Placement, Plan, Scenario, Text, Workload};

use super::program::Program;
use super::*;
use crate::sync::Mechanism;
use crate::tests::DeviceLock;
use random::draw::heads;

/// Time limit of a step on a busy machine that is also compiling.
const LIMIT: Duration = Duration::from_secs(20);

/// A chain, a branch and a join of operators that both processors compute.
const NETWORK: &str = r#"
title = "a test"
device = "pixel4"
[[operator]]
name = "conv"
conv2d = { input = [9, 7, 8], output_channels = 16, kernel = [3, 3], padding = { top = 1, bottom = 1, left = 1, right = 1 } }
[[operator]]
name = "relu"
function = "relu"
[[operator]]
name = "left"
conv2d = { input = [9, 7, 16], output_channels = 24, kernel = [1, 1] }
[[operator]]
name = "depthwise"
from = ["relu"]
depthwise_conv2d = { input = [9, 7, 16], kernel = [3, 3], padding = { top = 1, bottom = 1, left = 1, right = 1 } }
[[operator]]
name = "right"
conv2d = { input = [9, 7, 16], output_channels = 24, kernel = [1, 1] }
[[operator]]
name = "sum"
from = ["left", "right"]
function = "add"
[[operator]]
name = "head"
conv2d = { input = [9, 7, 24], output_channels = 20, kernel = [1, 1] }
"#;

const SINGLE: &str = r#"
title = "a test"
device = "pixel4"
[[operator]]
name = "linear"
linear = { rows = 12, input_features = 40, output_features = 48 }
"#;

/// Sets the result that [`Machine::sharing`] would find by probing.
fn assume(machine: &mut Machine, wanted: Modelled, mechanism: Mechanism, memory: Home) {
    machine.tried.retain(|(tried, ..)| *tried != wanted);
    machine.tried.push((wanted, mechanism, memory));
}

fn scenario(text: &str) -> (Vec<Stage>, Profile) {
    let text = Text { name: "test.toml".to_owned(), content: text.to_owned() };
    let scenario = Scenario::parse("test", &text, &Overrides::default()).unwrap();
    match scenario.workload {
        Workload::Model(stages) => (stages, scenario.device),
        Workload::Set(_) | Workload::Language(_) | Workload::Applications(_) => panic!("it has operators"),
    }
}

fn choice() -> DeviceChoice {
    let opencl = std::env::var("COEXEC_OPENCL").unwrap_or_default();
    DeviceChoice { gpu: true, opencl, compute_units: None }
}

/// The machine with its device, locked against other tests.
fn machine() -> Option<(DeviceLock, Machine)> {
    let lock = crate::tests::lock_devices();
    Some((lock, crate::tests::available(Machine::open(&choice()))?))
}

fn cores(profile: &Profile) -> CoreSet {
    CoreSet::fastest(&profile.cpu, 1).unwrap()
}

/// Placements by number; cut, where the operator can be.
fn placements(stages: &[Stage], profile: &Profile, numbers: &[usize]) -> Vec<Placement> {
    let cores = cores(profile);
    let placement = |(stage, number): (&Stage, &usize)| match (number % 3, &stage.layer.operator) {
        (0, _) => Placement::cpu(cores),
        (2, operator) if operator.splittable_channels().is_some_and(|channels| channels > 8) => {
            let channels = operator.splittable_channels().unwrap();
            Placement::cpu_and_gpu(Axis::Channels, cores, [8, channels - 8])
        }
        _ => Placement::GPU,
    };
    stages.iter().zip(numbers).map(placement).collect()
}

/// Runs a plan several times and verifies every result of every operator.
fn check(machine: &mut Machine, text: &str, numbers: &[usize], synchronisation: Modelled, clock: Clock) {
    let (stages, profile) = scenario(text);
    let placements = placements(&stages, &profile, numbers);
    check_plan(machine, (&stages, &profile), &Plan::new(synchronisation, placements), clock);
}

fn check_plan(machine: &mut Machine, (stages, profile): (&[Stage], &Profile), plan: &Plan, clock: Clock) {
    let task = Task { stages, plan, profile, clock, seed: 7, limit: LIMIT };
    let context = format!("{plan:?}");
    let mut program =
        Program::<f32>::new(machine, &task).unwrap_or_else(|error| panic!("{context}: {error}"));
    let verified = program.verify(machine).unwrap_or_else(|error| panic!("{context}: {error}"));
    assert!(verified.elements > 0);
    for _ in 0..3 {
        program.poison().unwrap();
        let taken = program.run(machine).unwrap_or_else(|error| panic!("{context}: {error}"));
        assert!(taken.counted.as_micros() > 0.0 && taken.wall >= taken.counted, "{context}");
        program.compare(&verified).unwrap_or_else(|error| panic!("{context}: {error}"));
    }
    program.poison().unwrap();
    assert!(matches!(program.compare(&verified), Err(ExecuteError::Changed { .. })), "{context}");
}

#[test]
fn a_cut_operator_is_right_by_every_mechanism() {
    let Some((_lock, mut machine)) = machine() else { return };
    for &mechanism in Modelled::ALL {
        check(&mut machine, SINGLE, &[2], mechanism, Clock::Host);
    }
}

/// Windows with stride, dilation and padding, cut inside their overlap.
const WINDOWS: [&str; 4] = [
    "linear = { rows = 12, input_features = 40, output_features = 48 }",
    "conv2d = { input = [13, 7, 8], output_channels = 20, kernel = [3, 3], padding = { top = 1, bottom = 1, left = 1, right = 1 } }",
    "conv2d = { input = [15, 9, 8], output_channels = 12, kernel = [5, 3], stride = [2, 2], padding = { top = 2, bottom = 1, left = 0, right = 1 } }",
    "depthwise_conv2d = { input = [16, 6, 16], kernel = [3, 3], stride = [2, 1], padding = { top = 0, bottom = 1, left = 1, right = 1 } }",
];

#[test]
fn an_operator_cut_along_its_height_is_right() {
    let Some((_lock, mut machine)) = machine() else { return };
    for window in WINDOWS {
        let text =
            format!("title = \"a test\"\ndevice = \"pixel4\"\n[[operator]]\nname = \"op\"\n{window}\n");
        let (stages, profile) = scenario(&text);
        let rows = stages[0].layer.operator.splittable_rows().unwrap();
        for cpu_rows in [1, rows / 2, rows - 2] {
            let cut = Placement::cpu_and_gpu(Axis::Height, cores(&profile), [cpu_rows, rows - cpu_rows]);
            let plan = Plan::new(Modelled::SvmPolling, vec![cut]);
            check_plan(&mut machine, (&stages, &profile), &plan, Clock::Host);
        }
    }
}

#[test]
fn networks_are_right_wherever_their_operators_run() {
    let Some((_lock, mut machine)) = machine() else { return };
    let (stages, _) = scenario(NETWORK);
    let plans = [[0, 1, 2, 0, 1, 2], [2, 1, 0, 2, 1, 0], [1, 0, 0, 1, 1, 2], [2, 0, 1, 2, 1, 1]];
    for numbers in plans {
        check(&mut machine, NETWORK, &numbers[..stages.len()], Modelled::SvmPolling, Clock::Host);
    }
    check(&mut machine, NETWORK, &vec![2; stages.len()], Modelled::EventWait, Clock::Host);
}

#[test]
fn one_processor_alone_is_right() {
    let Some((_lock, mut machine)) = machine() else { return };
    let (stages, _) = scenario(NETWORK);
    for (number, clock) in [(0, Clock::Host), (1, Clock::Host), (1, Clock::Device)] {
        check(&mut machine, NETWORK, &vec![number; stages.len()], Modelled::SvmPolling, clock);
    }
}

#[test]
fn without_shared_memory_results_are_copied_and_right() {
    let Some((_lock, mut machine)) = machine() else { return };
    let (stages, _) = scenario(NETWORK);
    for mechanism in [Mechanism::EventPolling, Mechanism::EventWait, Mechanism::BlockingFinish] {
        assume(&mut machine, Modelled::SvmPolling, mechanism, Home::Device);
        for numbers in [[2; 7], [0, 1, 2, 0, 1, 2, 0], [1, 0, 2, 1, 0, 1, 2]] {
            check(&mut machine, NETWORK, &numbers[..stages.len()], Modelled::SvmPolling, Clock::Host);
        }
    }
    // Kernels that read sliced buffers convert their inputs first.
    let arranging = NETWORK.replace("pixel4", "h200");
    for numbers in [[2; 7], [1, 0, 2, 1, 0, 1, 2], [1; 7]] {
        check(&mut machine, &arranging, &numbers[..stages.len()], Modelled::SvmPolling, Clock::Host);
    }
}

#[test]
fn products_of_activations_are_right_in_every_memory() {
    let Some((_lock, mut machine)) = machine() else { return };
    let mut net = GraphBuilder::new("a test", DataType::F32);
    let input = net.input(Shape::tokens(9, 128));
    let read = net.linear(input, 128);
    // A product is the first to read the transposed heads, under its own shape, but not the last.
    let summed = heads(&mut net, read, true);
    heads(&mut net, summed, false);
    let stages = fuse(&net.build().unwrap());
    let profile = Profile::load("h200").unwrap();
    let both = |first: usize| (first..first + stages.len()).collect::<Vec<_>>();
    for numbers in [both(0), both(1), both(2), vec![1; stages.len()]] {
        let plan = Plan::new(Modelled::SvmPolling, placements(&stages, &profile, &numbers));
        for memory in [Home::Shared, Home::Mapped, Home::Device] {
            assume(&mut machine, Modelled::SvmPolling, Mechanism::EventPolling, memory);
            check_plan(&mut machine, (&stages, &profile), &plan, Clock::Host);
        }
    }
    let plan = Plan::new(Modelled::SvmPolling, vec![Placement::GPU; stages.len()]);
    check_plan(&mut machine, (&stages, &profile), &plan, Clock::Device);
}

#[test]
fn buffers_that_stay_mapped_are_mapped_at_meetings_where_the_mechanism_says_so() {
    let Some((_lock, mut machine)) = machine() else { return };
    let (stages, _) = scenario(NETWORK);
    if sharing::choose(machine.runtime().unwrap(), Mechanism::EventWait) != Home::Mapped {
        eprintln!("skipped: the device does not share mapped buffers");
        return;
    }
    for mechanism in [Mechanism::PinnedPolling, Mechanism::EventWait] {
        assume(&mut machine, Modelled::SvmPolling, mechanism, Home::Mapped);
        check(&mut machine, NETWORK, &vec![2; stages.len()], Modelled::SvmPolling, Clock::Host);
    }
}

/// A task on the host's clock.
fn task<'a>((stages, profile): (&'a [Stage], &'a Profile), plan: &'a Plan) -> Task<'a> {
    Task { stages, plan, profile, clock: Clock::Host, seed: 7, limit: LIMIT }
}

/// The outcome of a plan for [`SINGLE`].
fn attempt(machine: &mut Machine, placement: Placement) -> Result<(), ExecuteError> {
    let (stages, profile) = scenario(SINGLE);
    let plan = Plan::new(Modelled::SvmPolling, vec![placement]);
    let task = task((&stages, &profile), &plan);
    Program::<f32>::new(machine, &task).map(drop)
}

#[test]
fn what_cannot_run_here_says_why() {
    let Some((_lock, mut machine)) = machine() else { return };
    let (_, profile) = scenario(SINGLE);
    let cut = Placement::cpu_and_gpu(Axis::Channels, cores(&profile), [6, 42]);
    let error = attempt(&mut machine, cut).unwrap_err();
    assert!(matches!(error, ExecuteError::CutSlice { channels: 6, .. }), "{error}");
    let error = attempt(&mut machine, Placement::NPU).unwrap_err();
    assert!(matches!(error, ExecuteError::NoNpu { .. }) && error.is_of_variant(), "{error}");
}

#[test]
fn a_plan_of_the_cpu_alone_needs_no_device() {
    let mut machine = Machine::open(&DeviceChoice::default()).unwrap();
    assert!(machine.runtime().is_none());
    let (stages, _) = scenario(NETWORK);
    check(&mut machine, NETWORK, &vec![0; stages.len()], Modelled::SvmPolling, Clock::Host);
    let error = attempt(&mut machine, Placement::GPU).unwrap_err();
    assert!(matches!(error, ExecuteError::NoGpu), "{error}");
}

#[test]
fn without_a_name_the_device_that_the_profile_was_probed_on_is_chosen() {
    let Some((_lock, machine)) = machine() else { return };
    let device = machine.runtime().unwrap().device();
    let (_, profile) = scenario(NETWORK);
    let probed = Profile { soc: device.full_name(), ..profile.clone() };
    let any = DeviceChoice { gpu: true, ..DeviceChoice::default() };
    let chosen = any.clone().of_profile(&probed);
    assert_eq!(chosen.opencl, format!("{}:{}", device.platform_index, device.device_index));
    let named = DeviceChoice { opencl: "another".to_owned(), ..any.clone() };
    assert_eq!(named.clone().of_profile(&probed), named);
    assert_eq!(any.clone().of_profile(&profile), any);
    assert_eq!(DeviceChoice::default().of_profile(&probed), DeviceChoice::default());
}

/// Verified elements of an operator on a core that reads tensors of `extent`.
fn verified_on_the_cpu(inputs: &[&str], extent: &str, operator: &str) -> usize {
    let input = |name| format!("[[input]]\nname = \"{name}\"\nextent = {extent}\n");
    let listed: String = inputs.iter().map(input).collect();
    let (stages, profile) = scenario(&format!(
        "title = \"a test\"\ndevice = \"pixel4\"\n{listed}[[operator]]\nname = \"op\"\nfrom = {inputs:?}\n{operator}\n"
    ));
    let mut machine = Machine::open(&DeviceChoice::default()).unwrap();
    let plan = Plan::new(Modelled::SvmPolling, vec![Placement::cpu(cores(&profile))]);
    let mut program = Program::<f32>::new(&mut machine, &task((&stages, &profile), &plan)).unwrap();
    program.verify(&mut machine).unwrap().elements
}

#[test]
fn operators_without_products_are_sampled_by_the_cost_of_their_reference() {
    // Each of the 262,144 elements depends on 1,024 inputs.
    let elements = verified_on_the_cpu(&["x"], "[1, 1, 256, 1024]", "softmax = true");
    assert!((512..=1_024).contains(&elements), "{elements}");
}

#[test]
fn no_quotient_is_taken_for_an_element_that_was_not_computed() {
    // Enough that both operands would be zero somewhere, if they could be.
    let elements = verified_on_the_cpu(&["x", "y"], "[1, 64, 64, 128]", "function = \"divide\"");
    assert!(elements > 0);
}

#[test]
fn variants_on_too_many_cores_are_left_out_and_the_others_measured() {
    let mut request = request(false, 1);
    let mut machine = Machine::of(None, free_cores(None)[..1].to_vec());
    let [one, two] = [1, 2].map(|threads| CoreSet::fastest(&request.profile.cpu, threads).unwrap());
    machine.prepare(&[one, two], &request.profile.cpu).unwrap();
    let variant = request.groups.remove(0).remove(0);
    let plan = Plan::new(Modelled::SvmPolling, vec![Placement::cpu(two)]);
    let mut group = vec![Variant { plan, ..variant.clone() }];
    // More than are prepared at once.
    group.resize(MOST_IN_TURN + 2, variant);
    let settings = Settings { repetitions: 1, seed: 1, deadline: None };
    let measured = request.measure::<f32>(&mut machine, &group, settings).unwrap();
    assert!(matches!(measured[0], Err(ExecuteError::TooFewCores { needed: 2, free: 1, .. })), "{measured:?}");
    assert_eq!(measured.len(), MOST_IN_TURN + 2);
    assert!(measured[1..].iter().all(|measured| measured.as_ref().unwrap().times_us.len() == 1));
}

fn request(gpu: bool, repetitions: u32) -> Request {
    let (stages, profile) = scenario(SINGLE);
    let plan = |placement| Plan::new(Modelled::SvmPolling, vec![placement]);
    let variant = |placement, clock| Variant { stages: stages.clone(), plan: plan(placement), clock };
    let mut group = vec![variant(Placement::cpu(cores(&profile)), Clock::Host)];
    if gpu {
        group.push(variant(Placement::GPU, Clock::Device));
    }
    Request {
        choice: DeviceChoice { gpu, ..choice() },
        groups: vec![group],
        repetitions,
        seed: 1,
        time_limit: None,
        run_limit: LIMIT,
        streaming: None,
        profile,
    }
}

#[test]
fn variants_are_measured_with_all_their_repetitions() {
    let Some((_lock, machine)) = machine() else { return };
    drop(machine);
    let report = execute(request(true, 9), &Arc::default(), &mut |_| {}).unwrap();
    let group = report.groups[0].as_ref().unwrap();
    for measured in group {
        let measured = measured.as_ref().unwrap();
        assert_eq!(measured.times_us.len(), 9);
        assert!(measured.times_us.iter().all(|&time| time > 0.0));
        assert!(measured.verified_elements >= 2 * 12 * 48, "all of it, twice");
    }
    assert!(group[1].as_ref().unwrap().launch.is_some());
    assert!(report.fingerprint.driver.is_some(), "{:?}", report.fingerprint);
}

#[test]
fn a_cancelled_measurement_ends_soon() {
    let stop = Arc::new(AtomicBool::new(false));
    let started = Instant::now();
    let stopping = Arc::clone(&stop);
    let result = execute(request(false, u32::MAX), &stop, &mut move |_| {
        stopping.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    assert!(matches!(result, Err(ExecuteError::Cancelled)), "{result:?}");
    assert!(started.elapsed() < LIMIT);
}

use super::*;
use crate::kernel::CoreSet;
use crate::plan::{Axis, Mechanism, Placement};
use crate::workload::{DataType, GraphBuilder, PoolKind, Shape, Window, fuse};

/// Bytes of one row of a result with 32x32 pixels and 8 channels of 4 bytes.
const ROW: u64 = 32 * 8 * 4;

fn two_convolutions() -> Vec<Stage> {
    let mut net = GraphBuilder::new("two convolutions", DataType::F32);
    let input = net.input(Shape::image(32, 32, 8));
    let x = net.conv(input, 8, Window::same(3));
    net.conv(x, 8, Window::same(3));
    fuse(&net.build().unwrap())
}

fn planned(placements: &[Placement], setting: Setting) -> Schedule {
    let stages = two_convolutions();
    let plan = Plan::new(Mechanism::SvmPolling, placements.to_vec());
    schedule(&stages[..placements.len()], &plan, &setting).unwrap()
}

fn crossing(placements: &[Placement; 2]) -> Missing {
    planned(placements, SHARED).missing[0]
}

/// Operators on a phone whose processors share one memory.
const SHARED: Setting = Setting {
    gpu_has_own_memory: false,
    ends_on_host: true,
    is_inference: false,
    cpu_fills_the_queue: false,
    control: None,
};

fn rows(cpu_rows: u32) -> Placement {
    Placement::cpu_and_gpu(Axis::Height, cores(), [cpu_rows, 32 - cpu_rows])
}

fn channels(cpu_channels: u32) -> Placement {
    Placement::cpu_and_gpu(Axis::Channels, cores(), [cpu_channels, 8 - cpu_channels])
}

fn cores() -> CoreSet {
    let profile = crate::device::profile::Profile::load("pixel4").unwrap();
    CoreSet::fastest(&profile.cpu, 1).unwrap()
}

fn bytes(cpu: u64, gpu: u64) -> Missing {
    [Bytes(cpu), Bytes(gpu), Bytes::ZERO]
}

#[test]
fn along_the_height_only_halos_cross() {
    assert_eq!(crossing(&[rows(12), rows(12)]), bytes(ROW, ROW));
}

#[test]
fn along_channels_everything_crosses() {
    assert_eq!(crossing(&[channels(2), channels(2)]), bytes(32 * ROW * 6 / 8, 32 * ROW * 2 / 8));
}

#[test]
fn one_processor_hands_the_other_what_its_part_reads() {
    assert_eq!(crossing(&[Placement::GPU, rows(12)]), bytes(13 * ROW, 0));
    assert_eq!(crossing(&[Placement::GPU, channels(2)]), bytes(32 * ROW, 0));
    assert_eq!(crossing(&[rows(12), Placement::GPU]), bytes(0, 12 * ROW));
    assert_eq!(crossing(&[Placement::GPU, Placement::GPU]), bytes(0, 0));
}

/// Each command in a few words: its queue, what it does, and the commands that it waits for.
fn written(schedule: &Schedule) -> Vec<String> {
    let one = |command: &Command| {
        let what = match command.what {
            What::Submit => "submit".to_owned(),
            What::Compute { part, .. } => format!("compute {}.{part}", command.stage),
            What::Move { to: Memory::Gpu, .. } => "to gpu".to_owned(),
            What::Move { to: Memory::Host, .. } => "to host".to_owned(),
            What::HandOver { result, .. } => format!("hand over {result}"),
            What::Join { .. } => "join".to_owned(),
            What::ReadBack => "read back".to_owned(),
        };
        let after: Vec<String> = command.after.iter().map(|id| id.0.to_string()).collect();
        format!("{}: {what} <{}>", command.by.kind().name(), after.join(" "))
    };
    schedule.commands.iter().map(one).collect()
}

#[test]
fn later_commands_of_the_gpu_wait_for_a_join() {
    let found = written(&planned(&[rows(12), Placement::GPU], SHARED));
    assert_eq!(
        found,
        ["cpu: compute 0.0 <>", "gpu: compute 0.1 <>", "cpu: join <0 1>", "gpu: compute 1.0 <2 2>"]
    );
}

#[test]
fn a_result_is_handed_over_once_to_a_processor_that_did_not_compute_it() {
    let found = written(&planned(&[Placement::cpu(cores()), channels(4)], SHARED));
    let expected = [
        "cpu: compute 0.0 <>",
        "cpu: compute 1.0 <0>",
        "gpu: hand over 0 <0>",
        "gpu: compute 1.1 <2>",
        "cpu: join <1 3>",
    ];
    assert_eq!(found, expected);
}

/// The hand-overs of a plan in which the GPU computes three convolutions, and the CPU what reads them: their
/// concatenation, or an activation of each. The result, the commands it comes after, and whether the CPU is notified.
fn hand_overs(is_concatenated: bool, in_turn: bool) -> Vec<(usize, Vec<u32>, bool)> {
    let mut net = GraphBuilder::new("three results", DataType::F32);
    let input = net.input(Shape::image(32, 32, 8));
    let ends = [1, 3, 5].map(|side| net.conv(input, 8, Window::same(side)));
    if is_concatenated {
        net.concat(&ends);
    } else {
        for end in ends {
            net.pool(end, PoolKind::Max, Window::same(3));
        }
    }
    let stages = fuse(&net.build().unwrap());
    let on = |stage: usize| if stage < 3 { Placement::GPU } else { Placement::cpu(cores()) };
    let placements = (0..stages.len()).map(on).collect();
    let plan = Plan { in_turn, ..Plan::new(Mechanism::BlockingFinish, placements) };
    let schedule = schedule(&stages, &plan, &SHARED).unwrap();
    let of = |command: &Command| {
        let What::HandOver { result, waits, .. } = command.what else { return None };
        Some((result, command.after.iter().map(|id| id.0).collect(), waits))
    };
    schedule.commands.iter().filter_map(of).collect()
}

#[test]
fn a_stage_waits_once_for_all_results_of_another_processor() {
    let found = hand_overs(true, false);
    assert_eq!(found, [(0, vec![2], true), (1, vec![1], false), (2, vec![2], false)]);
}

#[test]
fn one_wait_serves_later_stages_only_if_processors_take_turns() {
    let waits = |in_turn| hand_overs(false, in_turn).into_iter().map(|one| one.2).collect::<Vec<_>>();
    assert_eq!(waits(false), [true, true, true]);
    assert_eq!(waits(true), [true, false, false]);
}

#[test]
fn a_gpu_with_memory_of_its_own_is_sent_what_it_lacks_and_sends_its_part_back() {
    let setting = Setting { gpu_has_own_memory: true, ..SHARED };
    let found = written(&planned(&[channels(4), Placement::GPU], setting));
    let expected = [
        "cpu: compute 0.0 <>",
        "gpu: to gpu <>",
        "gpu: compute 0.1 <1>",
        "gpu: to host <2>",
        "cpu: join <0 3>",
        "gpu: to gpu <4>",
        "gpu: compute 1.0 <5 4>",
        "gpu: to host <6>",
    ];
    assert_eq!(found, expected);
}

#[test]
fn three_processors_meet_in_one_join_after_which_all_have_the_result() {
    let thirds = [(Processor::Cpu(cores()), 3), (Processor::Gpu, 3), (Processor::NPU, 2)];
    let found = written(&planned(&[Placement::cut(Axis::Channels, thirds), Placement::NPU], SHARED));
    let expected = [
        "cpu: compute 0.0 <>",
        "gpu: compute 0.1 <>",
        "npu: compute 0.2 <>",
        "cpu: join <0 1 2>",
        "npu: compute 1.0 <3>",
    ];
    assert_eq!(found, expected);
}

#[test]
fn an_inference_fills_the_queue_first_and_reads_back_what_only_the_gpu_has() {
    let setting = Setting { is_inference: true, ..SHARED };
    let found = written(&planned(&[Placement::GPU; 2], setting));
    assert_eq!(
        found,
        ["gpu: submit <>", "gpu: compute 0.0 <>", "gpu: compute 1.0 <1>", "gpu: read back <2>"]
    );
}

#[test]
fn inside_a_chain_no_queue_comes_after_the_other() {
    let plan = Plan::new(Mechanism::SvmPolling, vec![rows(12); 2]).chained(vec![Some(0); 2]);
    let found = written(&schedule(&two_convolutions(), &plan, &SHARED).unwrap());
    let expected = [
        "cpu: compute 0.0 <>",
        "gpu: compute 0.1 <>",
        "cpu: compute 1.0 <0>",
        "gpu: compute 1.1 <1>",
        "cpu: join <2 3>",
    ];
    assert_eq!(found, expected);
}

#[test]
fn parts_that_do_not_cover_the_output_are_refused() {
    let less = Placement::cut(Axis::Channels, [(Processor::Cpu(cores()), 3), (Processor::Gpu, 3)]);
    let plan = Plan::new(Mechanism::SvmPolling, vec![channels(4), less]);
    let error = schedule(&two_convolutions(), &plan, &SHARED).unwrap_err();
    assert!(matches!(error, ScheduleError::Placement(PlacementError::Uncovered { .. })), "{error}");
}

/// Two branches that read the same input of the workload.
fn two_branches() -> Vec<Stage> {
    let mut net = GraphBuilder::new("two branches", DataType::F32);
    let input = net.input(Shape::image(32, 32, 8));
    net.conv(input, 8, Window::same(3));
    net.conv(input, 8, Window::same(1));
    fuse(&net.build().unwrap())
}

#[test]
fn commands_come_in_the_order_of_the_plan_and_no_stage_before_what_it_reads() {
    let stages = [two_branches(), two_convolutions()].map(|stages| {
        let plan = Plan::new(Mechanism::SvmPolling, vec![Placement::GPU; 2]);
        let ordered = |order: &[usize]| Plan { order: order.to_vec(), ..plan.clone() };
        let of = |order: &[usize]| schedule(&stages, &ordered(order), &SHARED);
        [of(&[1, 0]), of(&[0, 0]), of(&[0]), of(&[0, 2])].map(|schedule| {
            schedule.map(|schedule| schedule.commands.iter().map(|command| command.stage).collect::<Vec<_>>())
        })
    });
    let wrong = |stage| Err(ScheduleError::Order { stage });
    assert_eq!(stages[0], [Ok(vec![1, 0]), wrong(0), wrong(1), wrong(2)]);
    assert_eq!(stages[1][0], wrong(1));
}

#[test]
fn every_result_that_only_the_gpu_has_is_read_back_once() {
    let inference = Setting { is_inference: true, control: Some(cores()), ..SHARED };
    let read_back = |placements: [Placement; 2]| {
        let plan = Plan::new(Mechanism::SvmPolling, placements.to_vec());
        let schedule = schedule(&two_branches(), &plan, &inference).unwrap();
        let of = |command: &&Command| command.what == What::ReadBack;
        let results = |command: &Command| {
            command.after.iter().map(|before| schedule.commands[before.index()].stage).collect::<Vec<_>>()
        };
        schedule.commands.iter().filter(of).map(results).collect::<Vec<_>>()
    };
    let cpu = Placement::cpu(cores());
    assert_eq!(read_back([Placement::GPU, Placement::GPU]), [vec![0, 1]]);
    assert_eq!(read_back([Placement::GPU, cpu]), [vec![0]]);
    assert_eq!(read_back([cpu, Placement::GPU]), [vec![1]]);
    assert_eq!(read_back([cpu, cpu]), Vec::<Vec<usize>>::new());
    assert_eq!(read_back([channels(4), cpu]), Vec::<Vec<usize>>::new());
}

#[test]
fn a_gpu_with_memory_of_its_own_is_sent_the_inputs_and_has_the_constants() {
    let image = Shape::image(32, 32, 8);
    let mut net = GraphBuilder::new("shifted", DataType::F32);
    let (input, shift, scale) = (net.input(image), net.constant(image), net.constant(image));
    let sum = net.add(shift, input);
    let scaled = net.multiply(sum, scale);
    net.conv(scaled, 8, Window::same(3));
    let stages = fuse(&net.build().unwrap());
    assert_eq!(stages[0].constants, [0, 2], "the second is read by a linked function");
    assert_eq!(stages[0].own_weights(), Bytes(2 * 32 * ROW), "constants are held like weights");
    let plan = Plan::new(Mechanism::SvmPolling, vec![Placement::GPU; stages.len()]);
    let schedule = schedule(&stages, &plan, &Setting { gpu_has_own_memory: true, ..SHARED }).unwrap();
    let sent: Vec<Bytes> = schedule
        .commands
        .iter()
        .filter_map(|command| match command.what {
            What::Move { tensor: Tensor::Inputs(0), bytes, to: Memory::Gpu, .. } => Some(bytes),
            _ => None,
        })
        .collect();
    assert_eq!(sent, [Bytes(32 * ROW)]);
}

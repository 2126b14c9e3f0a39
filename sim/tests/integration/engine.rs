//! Properties of whole runs: the engine against a slow reference, its bounds, and
//! what its results must not depend on.

// By its path, as this file is also a module of the crate of kernels, for tests under emulation.
#[path = "engine/reference.rs"]
mod reference;

use coexec_sim::engine::{
    Capacity, ClientId, Engine, Interference, NoTrace, ProcessorId, Program, Recorder, TaskId, Work,
};
use coexec_sim::units::{Bytes, BytesPerSecond, Picos};
use proptest::prelude::*;

use reference::reference;

const PROCESSORS: u8 = 4;
const PICOS_PER_SECOND: f64 = 1e12;
/// Bytes per picosecond by number of streaming processors; 40 GB/s and less.
const CURVE: [f64; 3] = [0.040, 0.036, 0.030];

/// Interference curves of processors 0 and 1, as fractions of the first rate of [`CURVE`]:
/// onset, saturation, alone, crowded, then the slowdown at low demand. Processors 2 and 3 are
/// subject to max-min sharing only.
const INTERFERENCE: [[f64; 5]; 2] = [[0.2, 0.7, 0.8, 0.3, 1.15], [0.0, 1.5, 1.0, 0.5, 1.0]];

/// Description of a task; without a processor it is a delay.
#[derive(Clone, Debug)]
struct Spec {
    processor: Option<u8>,
    streams: u32,
    /// Duration in picoseconds, and bytes, of each phase.
    phases: Vec<(u64, u64)>,
    after: Vec<usize>,
}

impl Spec {
    fn duration(&self) -> u64 {
        self.phases.iter().map(|(duration, _)| duration).sum()
    }
}

fn phase(duration: u64, bytes: u64) -> Work {
    Work { duration: Picos(duration), bytes: Bytes(bytes) }
}

fn program_of(specs: &[Spec]) -> Program {
    let mut program = Program::default();
    for spec in specs {
        let phases = spec.phases.iter().map(|&(duration, bytes)| phase(duration, bytes));
        let task = match spec.processor {
            Some(processor) => program.task(ProcessorId(processor), spec.streams, phases),
            None => program.delay(Picos(spec.duration())),
        };
        for &predecessor in &spec.after {
            program.after(task, TaskId(predecessor as u32));
        }
    }
    program
}

fn capacity_of(curve: &[f64]) -> Capacity {
    Capacity::new(&curve.iter().map(|rate| BytesPerSecond(rate * PICOS_PER_SECOND)).collect::<Vec<_>>())
}

/// The capacity `curve` with [`INTERFERENCE`].
fn with_interference(curve: &[f64]) -> Capacity {
    let rate = |share: f64| BytesPerSecond(share * curve[0] * PICOS_PER_SECOND);
    (0..).zip(INTERFERENCE).fold(
        capacity_of(curve),
        |capacity, (client, [onset, saturation, alone, crowded, slowdown])| {
            let demands = [rate(onset), rate(saturation)];
            let rates = [rate(alone), rate(crowded)];
            capacity.with_interference(ClientId(client), Interference::new(demands, rates, slowdown))
        },
    )
}

fn run(specs: &[Spec], capacity: &Capacity) -> Vec<Picos> {
    let mut engine = Engine::default();
    engine.run(&program_of(specs), capacity, &mut NoTrace);
    (0..specs.len() as u32).map(|task| engine.finish(TaskId(task))).collect()
}

/// The predecessors of a task: those in `after`, and the previous task on its processor.
fn predecessors(specs: &[Spec], task: usize) -> impl Iterator<Item = usize> {
    let processor = specs[task].processor;
    let previous = (0..task).rev().find(|&other| processor.is_some() && specs[other].processor == processor);
    specs[task].after.iter().copied().chain(previous)
}

/// Finish time of each task without contention.
fn uncontended(specs: &[Spec]) -> Vec<Picos> {
    let mut finish = vec![Picos::ZERO; specs.len()];
    for task in 0..specs.len() {
        let start = predecessors(specs, task).map(|other| finish[other]).max().unwrap_or_default();
        finish[task] = start + Picos(specs[task].duration());
    }
    finish
}

/// A phase of 10 to 200 us that claims up to `share` of the memory's bandwidth for one
/// processor.
fn phase_spec(share: f64) -> impl Strategy<Value = (u64, u64)> {
    (10_000_000_u64..200_000_000, prop_oneof![Just(0.0), 0.0..share])
        .prop_map(|(duration, share)| (duration, (share * CURVE[0] * duration as f64) as u64))
}

/// Rates by number of streaming processors that rise or fall from the first of [`CURVE`],
/// as 43.3, 59.5 and 61.9 GB/s do on a Snapdragon 8 Gen 3 (HeteroInfer, section 5.4).
fn curve() -> impl Strategy<Value = [f64; 3]> {
    (0.6..2.0, 0.6..2.0).prop_map(|(two, three)| [1.0, two, three].map(|factor| factor * CURVE[0]))
}

fn task_spec(share: f64) -> impl Strategy<Value = Spec> {
    let phases = prop::collection::vec(phase_spec(share), 0..4);
    (0..PROCESSORS, 1_u32..5, phases).prop_map(|(processor, streams, phases)| Spec {
        processor: Some(processor),
        streams,
        phases,
        after: Vec::new(),
    })
}

fn delay_spec() -> impl Strategy<Value = Spec> {
    (0_u64..50_000_000).prop_map(|duration| Spec {
        processor: None,
        streams: 1,
        phases: vec![(duration, 0)],
        after: Vec::new(),
    })
}

/// Up to 14 tasks, each of which waits for some of the eight before it.
fn specs(share: f64) -> impl Strategy<Value = Vec<Spec>> {
    let spec = prop_oneof![5 => task_spec(share), 1 => delay_spec()];
    prop::collection::vec((spec, any::<u8>(), any::<u8>()), 1..15).prop_map(|drawn| {
        let mut specs = Vec::new();
        for (task, (mut spec, mask, thinner)) in drawn.into_iter().enumerate() {
            let named = (0..8).filter(|bit| mask & thinner & (1 << bit) != 0);
            spec.after = named.filter_map(|bit| task.checked_sub(bit + 1)).collect();
            specs.push(spec);
        }
        specs
    })
}

proptest! {
    #[test]
    fn finish_times_equal_the_reference(specs in specs(1.0)) {
        let finish = run(&specs, &capacity_of(&CURVE));
        for (task, (fast, slow)) in finish.iter().zip(reference(&specs, &CURVE, &[])).enumerate() {
            let error = (fast.0 as f64 - slow).abs();
            prop_assert!(error <= 1e-6 * slow + 1.0, "task {task}: {fast:?}, reference {slow}");
        }
    }

    #[test]
    fn finish_times_equal_the_reference_for_any_capacity_curve(specs in specs(1.0), curve in curve()) {
        let finish = run(&specs, &capacity_of(&curve));
        for (task, (fast, slow)) in finish.iter().zip(reference(&specs, &curve, &[])).enumerate() {
            let error = (fast.0 as f64 - slow).abs();
            prop_assert!(error <= 1e-6 * slow + 1.0, "task {task}: {fast:?}, reference {slow}");
        }
    }

    #[test]
    fn finish_times_with_interference_equal_the_reference(specs in specs(1.0)) {
        let finish = run(&specs, &with_interference(&CURVE));
        for (task, (fast, slow)) in finish.iter().zip(reference(&specs, &CURVE, &INTERFERENCE)).enumerate() {
            let error = (fast.0 as f64 - slow).abs();
            prop_assert!(error <= 1e-6 * slow + 1.0, "task {task}: {fast:?}, reference {slow}");
        }
    }

    #[test]
    fn finish_times_without_contention_are_exact(specs in specs(0.2)) {
        let ample = capacity_of(&[CURVE[0]]);
        prop_assert_eq!(run(&specs, &ample), uncontended(&specs));
    }

    #[test]
    fn a_lone_processor_takes_the_sum_of_its_phases(
        phases in prop::collection::vec((1_u64..1 << 40, 0_u64..1 << 40), 0..20), streams in 1_u32..9
    ) {
        let spec = Spec { processor: Some(0), streams, phases, after: Vec::new() };
        let specs = vec![spec; 3];
        prop_assert_eq!(run(&specs, &capacity_of(&CURVE)), uncontended(&specs));
        prop_assert_eq!(run(&specs, &with_interference(&CURVE)), uncontended(&specs));
    }

    #[test]
    fn a_run_is_no_shorter_than_its_critical_path_and_its_traffic(specs in specs(1.0)) {
        let bytes: u64 = specs.iter().flat_map(|spec| &spec.phases).map(|(_, bytes)| bytes).sum();
        for capacity in [capacity_of(&CURVE), with_interference(&CURVE)] {
            let makespan = run(&specs, &capacity).into_iter().max().unwrap_or_default();
            // A flow may end a picosecond early, and there are at most 42.
            prop_assert!(makespan + Picos(42) >= uncontended(&specs).into_iter().max().unwrap_or_default());
            prop_assert!(makespan.0 as f64 + 42.0 >= bytes as f64 / CURVE[0]);
        }
    }

    #[test]
    fn every_byte_is_moved_within_the_memory_s_capacity(
        specs in specs(1.0), capacity in prop_oneof![Just(capacity_of(&CURVE)), Just(with_interference(&CURVE))]
    ) {
        let mut recorder = Recorder::default();
        let end = Engine::default().run(&program_of(&specs), &capacity, &mut recorder);
        let ends = recorder.memory.iter().skip(1).map(|(time, _)| *time).chain([end]);
        let mut moved = 0.0;
        for ((start, rate), end) in recorder.memory.iter().zip(ends) {
            prop_assert!(rate.0 <= CURVE[0] * PICOS_PER_SECOND * (1.0 + 1e-12));
            moved += rate.0 * (end - *start).as_seconds();
        }
        let bytes: u64 = specs.iter().flat_map(|spec| &spec.phases).map(|(_, bytes)| bytes).sum();
        prop_assert!((moved - bytes as f64).abs() <= 1e-6 * bytes as f64 + 1.0, "{moved} of {bytes} bytes");
    }

    #[test]
    fn results_do_not_depend_on_how_the_program_interleaves_processors(
        queues in prop::collection::vec(prop::collection::vec(task_spec(1.0), 1..4), 4),
        order in Just((0..4).flat_map(|queue| [queue; 3]).collect::<Vec<usize>>()).prop_shuffle(),
        curve in prop_oneof![Just(capacity_of(&CURVE)), Just(with_interference(&CURVE))],
    ) {
        let finish_by_queue = |order: &[usize]| {
            let mut taken = [0; 4];
            let mut specs = Vec::new();
            let mut places = Vec::new();
            for &queue in order {
                if let Some(spec) = queues[queue].get(taken[queue]) {
                    specs.push(Spec { processor: Some(queue as u8), ..spec.clone() });
                    places.push((queue, taken[queue]));
                    taken[queue] += 1;
                }
            }
            let mut finish: Vec<_> = places.into_iter().zip(run(&specs, &curve)).collect();
            finish.sort_unstable();
            finish
        };
        let one_after_the_other: Vec<usize> = (0..4).flat_map(|queue| [queue; 3]).collect();
        prop_assert_eq!(finish_by_queue(&order), finish_by_queue(&one_after_the_other));
    }

    #[test]
    fn results_do_not_depend_on_tracing_or_earlier_runs(first in specs(1.0), second in specs(1.0)) {
        let capacity = capacity_of(&CURVE);
        let mut engine = Engine::default();
        engine.run(&program_of(&first), &capacity, &mut NoTrace);
        let mut recorder = Recorder::default();
        let end = engine.run(&program_of(&second), &capacity, &mut recorder);
        let finish = run(&second, &capacity);
        prop_assert_eq!(end, finish.iter().copied().max().unwrap_or_default());
        for (task, finish) in (0..).map(TaskId).zip(finish) {
            prop_assert_eq!(engine.finish(task), finish);
        }
        let phases = |spec: &Spec| if spec.processor.is_some() { spec.phases.len() } else { 1 };
        prop_assert_eq!(recorder.phases.len(), second.iter().map(phases).sum::<usize>());
        for (task, start, end) in recorder.phases {
            prop_assert!(engine.start(task) <= start && end <= engine.finish(task));
        }
    }
}

#[test]
fn a_program_without_tasks_takes_no_time() {
    let mut engine = Engine::default();
    assert_eq!(engine.run(&Program::default(), &capacity_of(&CURVE), &mut NoTrace), Picos::ZERO);
    assert_eq!(engine.events(), 0);
}

#[test]
fn a_long_chain_of_empty_tasks_needs_no_stack() {
    let mut program = Program::default();
    let tasks: Vec<TaskId> = (0..100_000).map(|_| program.task(ProcessorId(0), 1, [])).collect();
    let mut engine = Engine::default();
    assert_eq!(engine.run(&program, &capacity_of(&CURVE), &mut NoTrace), Picos::ZERO);
    assert_eq!(engine.events(), tasks.len() as u64);
}

/// Two processors that alone stream 30 of 40 GB/s for 100 us share 36 GB/s: each
/// runs at 18/30 of its speed, so both end after 500/3 us.
#[test]
fn two_processors_slow_down_according_to_the_capacity_curve() {
    let spec = |processor| Spec {
        processor: Some(processor),
        streams: 1,
        phases: vec![(100_000_000, 3_000_000)],
        after: Vec::new(),
    };
    let finish = run(&[spec(0), spec(1)], &capacity_of(&CURVE));
    assert_eq!(finish, [Picos(166_666_667); 2]);
}

/// Each demands 30 of 40 GB/s, past the saturation of processor 0's curve and halfway along
/// processor 1's: they keep 12 and 30 of their 30 GB/s.
#[test]
fn interference_reduces_a_rate_according_to_its_curve() {
    let spec = |processor| Spec {
        processor: Some(processor),
        streams: 1,
        phases: vec![(100_000_000, 3_000_000)],
        after: Vec::new(),
    };
    let finish = run(&[spec(0), spec(1)], &with_interference(&[0.04, 0.06]));
    // 12 GB/s until the other ends after 100 us, then the remaining 1.8 MB at 30 GB/s.
    assert_eq!(finish, [Picos(160_000_000), Picos(100_000_000)]);
}

#[test]
fn bandwidth_is_shared_once_per_point_in_time() {
    let mut program = Program::default();
    for _ in 0..5 {
        for processor in (0..3).map(ProcessorId) {
            program.task(processor, 2, [phase(10_000_000, 300_000), phase(10_000_000, 200_000)]);
        }
    }
    let mut recorder = Recorder::default();
    Engine::default().run(&program, &capacity_of(&CURVE), &mut recorder);
    assert!(recorder.memory.is_sorted_by(|(earlier, _), (later, _)| earlier < later));
}

/// Two starts, the end of the phase without traffic, and the ends of the two flows. The first
/// flow's original end is rescheduled when the second flow starts.
#[test]
fn a_rescheduled_phase_ends_once() {
    let mut program = Program::default();
    program.task(ProcessorId(0), 1, [phase(100_000_000, 4_000_000)]);
    program.task(ProcessorId(1), 1, [phase(50_000_000, 0), phase(100_000_000, 4_000_000)]);
    let mut engine = Engine::default();
    engine.run(&program, &capacity_of(&CURVE), &mut NoTrace);
    assert!(engine.finish(TaskId(0)) > Picos(100_000_000));
    assert_eq!(engine.events(), 5);
}

//! The engine program of a stream of batches.
//!
//! Responsible for: dependencies between tasks, and the order in each processor's queue. Not for: throughput and
//! latency (`super`). Invariants: a batch starts only after the batch `depth` before it has ended; the host submits it
//! to the GPU, and reads it back, while the GPU computes others.

use super::{DISPATCHER, HOST, READER, SUBMITTER, queue};
use crate::device::ProcessorKind;
use crate::engine::{ProcessorId, Program, TaskId, Work};
use crate::simulate::Lowered;
use crate::units::{Bytes, Picos};

/// The tasks of each batch in the program.
#[derive(Debug, Default)]
pub(super) struct Written {
    /// The host's work before each batch.
    pub(super) gaps: Vec<TaskId>,
    /// The host's dispatching of each batch's operators.
    pub(super) dispatches: Vec<TaskId>,
    /// The plan's tasks of each batch, in the plan's order.
    pub(super) tasks: Vec<Vec<TaskId>>,
}

impl Written {
    /// Writes `batches` batches with at most `depth` in flight; `host` is the host's `[work before, dispatching]`
    /// time for each.
    pub(super) fn new(
        (lowered, stretch): (&Lowered, &[f64]),
        host: [Picos; 2],
        [depth, batches]: [u32; 2],
        program: &mut Program,
    ) -> Self {
        program.clear();
        let segments = segments(lowered);
        let last_segment = segments.iter().copied().max().unwrap_or(0);
        let sinks = sinks(lowered);
        let around = around(lowered);
        let mut of_segment: Vec<Vec<usize>> = vec![Vec::new(); last_segment + 1];
        segments.iter().enumerate().for_each(|(index, &segment)| of_segment[segment].push(index));
        let [gap, dispatch] = host.map(|duration| [Work { duration, bytes: Bytes::ZERO }]);
        let mut written = Self { tasks: vec![Vec::new(); batches as usize], ..Self::default() };
        let steps = first_steps(batches, depth, last_segment);
        let end = steps.last().map_or(0, |last| last + last_segment);
        for step in 0..=end {
            for batch in (0..batches as usize)
                .filter(|&batch| (steps[batch]..=steps[batch] + last_segment).contains(&step))
            {
                if step == steps[batch] {
                    let task = program.task(HOST, 1, gap);
                    if let Some(before) = batch.checked_sub(depth as usize) {
                        for &sink in &sinks {
                            program.after(task, written.tasks[before][sink]);
                        }
                        program.after(task, written.dispatches[before]);
                    }
                    written.gaps.push(task);
                    let dispatched = program.task(DISPATCHER, 1, dispatch);
                    program.after(dispatched, task);
                    written.dispatches.push(dispatched);
                    written.tasks[batch] = vec![TaskId(0); lowered.tasks.len()];
                }
                for &index in &of_segment[step - steps[batch]] {
                    let task = add(lowered, index, stretch.get(index).copied(), program);
                    program.after(task, written.gaps[batch]);
                    let around = around.iter().filter(|edge| edge[1] == index).map(|edge| edge[0]);
                    let before = lowered.tasks[index].predecessors.iter().map(|before| before.0 as usize);
                    for before in before.chain(around) {
                        program.after(task, written.tasks[batch][before]);
                    }
                    written.tasks[batch][index] = task;
                }
            }
        }
        written
    }
}

/// Appends a task to its queue in a stream, stretched by the factor if given.
fn add(lowered: &Lowered, index: usize, stretch: Option<f64>, program: &mut Program) -> TaskId {
    let task = &lowered.tasks[index];
    let on = queue(task);
    if on == task.processor().id() {
        return lowered.add(index, stretch, program);
    }
    let duration = task.phases.duration().scale(stretch.unwrap_or(1.0));
    program.task(on, 1, [Work { duration, bytes: Bytes::ZERO }])
}

/// Pairs of tasks, of which the second waits for the first: the GPU's first for the submission, and the read-back for
/// the GPU's last. In a single inference they are in one queue.
fn around(lowered: &Lowered) -> Vec<[usize; 2]> {
    let position = |on: ProcessorId| lowered.tasks.iter().position(|task| queue(task) == on);
    let last = |on: ProcessorId| lowered.tasks.iter().rposition(|task| queue(task) == on);
    let gpu = ProcessorKind::Gpu.id();
    let pairs = [(position(SUBMITTER), position(gpu)), (last(gpu), position(READER))];
    pairs.into_iter().filter_map(|(before, after)| Some([before?, after?])).collect()
}

/// The step at which each batch starts: at least one after the previous batch, and after
/// the batch `depth` before it has ended.
fn first_steps(batches: u32, depth: u32, last_segment: usize) -> Vec<usize> {
    let mut steps: Vec<usize> = Vec::with_capacity(batches as usize);
    for batch in 0..batches as usize {
        let after_previous = steps.last().map_or(0, |before| before + 1);
        let room = batch.checked_sub(depth as usize).map_or(0, |before| steps[before] + last_segment + 1);
        steps.push(after_previous.max(room));
    }
    steps
}

/// The segment of each task: one more than that of its predecessors on other processors,
/// and no less than that of earlier tasks on its own processor.
fn segments(lowered: &Lowered) -> Vec<usize> {
    let mut latest = [0; ProcessorKind::ALL.len()];
    let mut segments: Vec<usize> = Vec::with_capacity(lowered.tasks.len());
    for task in &lowered.tasks {
        let own = &mut latest[task.processor() as usize];
        let waited = task.predecessors.iter().map(|before| {
            let crosses = lowered.tasks[before.0 as usize].processor() != task.processor();
            segments[before.0 as usize] + usize::from(crosses)
        });
        *own = waited.fold(*own, usize::max);
        segments.push(*own);
    }
    segments
}

/// Indices of the tasks without successors.
pub(in super::super) fn sinks(lowered: &Lowered) -> Vec<usize> {
    let mut is_read = vec![false; lowered.tasks.len()];
    lowered.tasks.iter().flat_map(|task| &task.predecessors).for_each(|task| is_read[task.0 as usize] = true);
    (0..is_read.len()).filter(|&index| !is_read[index]).collect()
}

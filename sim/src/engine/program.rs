//! What the engine runs: tasks on processors, and which waits for which.
//!
//! Responsible for: the flat, reusable input of a run. Not for: where the phases
//! come from (`kernel`) or who computes what (`plan`).
//! Invariant: a task waits only for tasks added before it, so a program has no
//! cycle and every run ends.

use std::ops::Range;

use super::ClientId;
use crate::units::{Bytes, Picos};

/// Most processors of a program.
pub const MAX_PROCESSORS: usize = 32;

/// A processor: a CPU core set, a GPU, an NPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessorId(pub u8);

/// A task: its place in the order of addition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(pub u32);

impl TaskId {
    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

/// One phase of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// Length while nobody else uses the memory.
    pub duration: Picos,
    /// Bytes moved meanwhile, evenly.
    pub bytes: Bytes,
}

#[derive(Clone, Debug)]
pub(super) struct Task {
    pub(super) processor: Option<ProcessorId>,
    pub(super) client: ClientId,
    pub(super) streams: u32,
    /// First of its phases, in the program's list.
    pub(super) first_phase: u32,
    /// One past the last of its phases.
    pub(super) end_phase: u32,
    /// Edges that lead here.
    pub(super) predecessors: u32,
    /// Latest edge that leaves here.
    last_edge: Option<u32>,
    /// Whether the host does it while the processor's hardware is free.
    pub(super) is_host_side: bool,
    /// Whose requests run it, where requests come over time.
    pub(super) application: u16,
}

/// A dependency; the edges that leave one task form a list, so that adding one
/// needs no second pass over the program.
#[derive(Clone, Debug)]
struct Edge {
    successor: TaskId,
    previous: Option<u32>,
}

/// Tasks in the order their processors take them, and their dependencies.
///
/// A processor is an in-order command queue: each task also waits for the task
/// before it on the same processor.
#[derive(Clone, Debug, Default)]
pub struct Program {
    pub(super) tasks: Vec<Task>,
    pub(super) phases: Vec<Work>,
    edges: Vec<Edge>,
    queue_tails: [Option<TaskId>; MAX_PROCESSORS],
    /// The first task of each application, where there are any.
    applications: Vec<u32>,
}

impl Program {
    /// Removes every task; keeps the buffers.
    pub fn clear(&mut self) {
        self.tasks.clear();
        self.phases.clear();
        self.edges.clear();
        self.queue_tails = [None; MAX_PROCESSORS];
        self.applications.clear();
    }

    /// Says that the tasks added from here on are those of another application, whose queues are its own:
    /// for [`Engine::serve`](super::Engine::serve).
    pub fn next_application(&mut self) {
        self.queue_tails = [None; MAX_PROCESSORS];
        self.applications.push(self.tasks.len() as u32);
    }

    /// Where the tasks of an application are.
    pub(super) fn tasks_of(&self, application: usize) -> Range<usize> {
        let first = |application| self.applications.get(application).map(|&first| first as usize);
        let end = self.tasks.len();
        first(application).unwrap_or(end)..first(application + 1).unwrap_or(end)
    }

    /// Adds a task, its phases in order, at the end of a processor's queue. While it runs, `streams`
    /// equal flows share its traffic (the threads of a CPU core set).
    ///
    /// # Panics
    /// For a processor from [`MAX_PROCESSORS`] on, and for no streams.
    pub fn task(
        &mut self,
        processor: ProcessorId,
        streams: u32,
        phases: impl IntoIterator<Item = Work>,
    ) -> TaskId {
        assert!(streams > 0, "a task has at least one stream");
        self.phases.extend(phases);
        let task = self.add(Some(processor), streams);
        if let Some(previous) = self.queue_tails[usize::from(processor.0)].replace(task) {
            self.after(task, previous);
        }
        task
    }

    /// Makes the traffic of `task` suffer from others as that of `client`. Unless
    /// said so, a task's client has the number of its processor.
    ///
    /// # Panics
    /// Where `task` is unknown.
    pub fn moves_as(&mut self, task: TaskId, client: ClientId) {
        self.tasks[task.index()].client = client;
    }

    /// Says that the host does `task`, which keeps its place in the queue but not the
    /// processor: another application may run there meanwhile.
    ///
    /// # Panics
    /// Where `task` is unknown.
    pub fn on_host(&mut self, task: TaskId) {
        self.tasks[task.index()].is_host_side = true;
    }

    /// Adds a wait that occupies no processor and moves nothing: the way of a
    /// signal from one processor to another, or, without `duration`, a join.
    pub fn delay(&mut self, duration: Picos) -> TaskId {
        self.phases.push(Work { duration, bytes: Bytes::ZERO });
        self.add(None, 1)
    }

    /// Makes `task` wait until `predecessor` has finished.
    ///
    /// # Panics
    /// Where `predecessor` was not added before `task`, or `task` is unknown.
    pub fn after(&mut self, task: TaskId, predecessor: TaskId) {
        assert!(predecessor < task, "a task waits only for tasks added before it");
        self.tasks[task.index()].predecessors += 1;
        let edge = self.edges.len() as u32;
        let previous = self.tasks[predecessor.index()].last_edge.replace(edge);
        self.edges.push(Edge { successor: task, previous });
    }

    /// Every task that waits for `task`, once an edge.
    pub(super) fn successors(&self, task: TaskId) -> impl Iterator<Item = TaskId> {
        let mut next = self.tasks[task.index()].last_edge;
        std::iter::from_fn(move || {
            let edge = &self.edges[next? as usize];
            next = edge.previous;
            Some(edge.successor)
        })
    }

    /// The task of the phases added last.
    fn add(&mut self, processor: Option<ProcessorId>, streams: u32) -> TaskId {
        let first_phase = self.tasks.last().map_or(0, |task| task.end_phase);
        let end_phase = self.phases.len() as u32;
        self.tasks.push(Task {
            processor,
            // A delay, which has no processor, moves nothing.
            client: ClientId(processor.map_or(0, |processor| processor.0)),
            streams,
            first_phase,
            end_phase,
            predecessors: 0,
            last_edge: None,
            is_host_side: false,
            application: self.applications.len().saturating_sub(1) as u16,
        });
        TaskId((self.tasks.len() - 1) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_processor_takes_its_tasks_in_the_order_they_were_added() {
        let mut program = Program::default();
        let first = program.task(ProcessorId(0), 1, []);
        let elsewhere = program.task(ProcessorId(1), 1, []);
        let second = program.task(ProcessorId(0), 1, []);
        let third = program.task(ProcessorId(0), 1, []);
        assert_eq!(program.successors(first).collect::<Vec<_>>(), [second]);
        assert_eq!(program.successors(second).collect::<Vec<_>>(), [third]);
        assert_eq!(program.successors(elsewhere).count(), 0);
    }

    #[test]
    #[should_panic(expected = "added before")]
    fn a_task_cannot_wait_for_a_later_one() {
        let mut program = Program::default();
        let first = program.delay(Picos(1));
        let second = program.delay(Picos(1));
        program.after(first, second);
    }

    #[test]
    fn a_cleared_program_remembers_no_queue() {
        let mut program = Program::default();
        program.task(ProcessorId(0), 1, []);
        program.clear();
        assert_eq!(program.task(ProcessorId(0), 1, []), TaskId(0));
        assert_eq!(program.tasks[0].predecessors, 0);
    }
}

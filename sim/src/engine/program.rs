//! The engine's input: a graph of tasks on processors.
//!
//! Responsible for: the flat, reusable description of a run. Not for: where the
//! phases come from (`kernel`), or which processor computes what (`plan`).
//! Invariant: a task depends only on tasks added before it, so a program is acyclic
//! and every run ends.

use std::ops::Range;

use super::ClientId;
use crate::units::{Bytes, Picos};

/// Maximum number of processors in a program.
pub const MAX_PROCESSORS: usize = 32;

/// A processor: a CPU core set, a GPU, an NPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessorId(pub u8);

/// A task: its index in the order of addition.
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
    /// Duration without memory contention.
    pub duration: Picos,
    /// Bytes moved in that time, at a constant rate.
    pub bytes: Bytes,
}

#[derive(Clone, Debug)]
pub(super) struct Task {
    pub(super) processor: Option<ProcessorId>,
    pub(super) client: ClientId,
    pub(super) streams: u32,
    /// Index of its first phase in the program's list.
    pub(super) first_phase: u32,
    /// One past the index of its last phase.
    pub(super) end_phase: u32,
    /// Number of incoming edges.
    pub(super) predecessors: u32,
    /// The outgoing edge added last: head of a linked list.
    last_edge: Option<u32>,
    /// Whether the host does it while the processor's hardware is free.
    pub(super) is_host_side: bool,
    /// Whether its processor goes on with the next task of the queue, and takes no other meanwhile.
    pub(super) keeps_processor: bool,
    /// The application whose requests run it; zero where the program runs once.
    pub(super) application: u16,
}

/// A dependency. The outgoing edges of a task form a linked list, so that adding an
/// edge needs no second pass over the program.
#[derive(Clone, Debug)]
struct Edge {
    successor: TaskId,
    previous: Option<u32>,
}

/// Tasks in the order in which their processors take them, and their dependencies.
///
/// A processor is an in-order command queue: each task also waits for the task
/// before it on the same processor.
#[derive(Clone, Debug, Default)]
pub struct Program {
    pub(super) tasks: Vec<Task>,
    pub(super) phases: Vec<Work>,
    edges: Vec<Edge>,
    queue_tails: [Option<TaskId>; MAX_PROCESSORS],
    /// Index of the first task of each application; empty where the program runs once.
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

    /// Starts another application: the tasks added from here on belong to it and have queues of their own.
    /// For [`Engine::serve`](super::Engine::serve).
    pub fn next_application(&mut self) {
        self.queue_tails = [None; MAX_PROCESSORS];
        self.applications.push(self.tasks.len() as u32);
    }

    /// Index range of an application's tasks.
    pub(super) fn tasks_of(&self, application: usize) -> Range<usize> {
        let first = |application| self.applications.get(application).map(|&first| first as usize);
        let end = self.tasks.len();
        first(application).unwrap_or(end)..first(application + 1).unwrap_or(end)
    }

    /// Appends a task with its phases to a processor's queue. `streams` equal streams share its
    /// traffic (the threads of a CPU core set).
    ///
    /// # Panics
    /// If the processor's number is [`MAX_PROCESSORS`] or more, or `streams` is zero.
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

    /// Sets the client under which the memory treats the traffic of `task`. The default
    /// is the client with the number of the task's processor.
    ///
    /// # Panics
    /// If `task` is unknown.
    pub fn set_client(&mut self, task: TaskId, client: ClientId) {
        self.tasks[task.index()].client = client;
    }

    /// Marks `task` as done by the host: it keeps its place in the queue but does not
    /// occupy the processor, on which another application may run meanwhile.
    ///
    /// # Panics
    /// If `task` is unknown.
    pub fn on_host(&mut self, task: TaskId) {
        self.tasks[task.index()].is_host_side = true;
    }

    /// Marks `task` as a command that only the next task of its processor completes, such as an operator of a
    /// compiled graph: no other application's command comes between them.
    ///
    /// # Panics
    /// If `task` is unknown.
    pub fn keep_processor(&mut self, task: TaskId) {
        self.tasks[task.index()].keeps_processor = true;
    }

    /// Adds a delay that occupies no processor and moves no bytes: the latency of a
    /// signal from one processor to another or, with a `duration` of zero, a join.
    pub fn delay(&mut self, duration: Picos) -> TaskId {
        self.phases.push(Work { duration, bytes: Bytes::ZERO });
        self.add(None, 1)
    }

    /// Makes `task` wait until `predecessor` has finished.
    ///
    /// # Panics
    /// If `predecessor` was not added before `task`, or `task` is unknown.
    pub fn after(&mut self, task: TaskId, predecessor: TaskId) {
        assert!(predecessor < task, "a task waits only for tasks added before it");
        self.tasks[task.index()].predecessors += 1;
        let edge = self.edges.len() as u32;
        let previous = self.tasks[predecessor.index()].last_edge.replace(edge);
        self.edges.push(Edge { successor: task, previous });
    }

    /// Every task that waits for `task`, once per edge.
    pub(super) fn successors(&self, task: TaskId) -> impl Iterator<Item = TaskId> {
        let mut next = self.tasks[task.index()].last_edge;
        std::iter::from_fn(move || {
            let edge = &self.edges[next? as usize];
            next = edge.previous;
            Some(edge.successor)
        })
    }

    /// Adds a task with the phases that no earlier task has.
    fn add(&mut self, processor: Option<ProcessorId>, streams: u32) -> TaskId {
        let first_phase = self.tasks.last().map_or(0, |task| task.end_phase);
        let end_phase = self.phases.len() as u32;
        self.tasks.push(Task {
            processor,
            // A delay has no processor and moves nothing, so its client does not matter.
            client: ClientId(processor.map_or(0, |processor| processor.0)),
            streams,
            first_phase,
            end_phase,
            predecessors: 0,
            last_edge: None,
            is_host_side: false,
            keeps_processor: false,
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

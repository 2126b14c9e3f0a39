//! Trace sinks: what a run reports while it happens.
//!
//! Responsible for: the sink that the engine reports to, and a sink that records
//! everything. Not for: names and tracks (`timeline`), which are made after the run.
//! Invariants: a sink observes and never influences a run; with [`NoTrace`] all
//! tracing compiles away.

use super::TaskId;
use crate::units::{BytesPerSecond, Picos};

/// Records everything in flat lists.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recorder {
    /// Task, start and end (exclusive) of each phase, ordered by end.
    pub phases: Vec<(TaskId, Picos, Picos)>,
    /// The memory's total rate from each time on.
    pub memory: Vec<(Picos, BytesPerSecond)>,
    /// The rate of each task's flow from each time on; empty unless `keeps_flows`.
    pub flows: Vec<(Picos, TaskId, BytesPerSecond)>,
    /// Whether `flows` is recorded.
    pub keeps_flows: bool,
}

/// Receives what happens, in the order of simulated time.
pub trait TraceSink {
    /// The next phase of `task` ran from `start` to `end`.
    #[inline]
    fn phase(&mut self, _task: TaskId, _start: Picos, _end: Picos) {}

    /// From `time` on the memory moves `rate` in total; of several calls for one time the last one holds.
    #[inline]
    fn memory(&mut self, _time: Picos, _rate: BytesPerSecond) {}

    /// The share of `task` in that total. Called after each [`Self::memory`], once for every
    /// active flow.
    #[inline]
    fn flow(&mut self, _time: Picos, _task: TaskId, _rate: BytesPerSecond) {}
}

/// Discards everything.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoTrace;

impl TraceSink for NoTrace {}

impl TraceSink for Recorder {
    fn phase(&mut self, task: TaskId, start: Picos, end: Picos) {
        self.phases.push((task, start, end));
    }

    fn memory(&mut self, time: Picos, rate: BytesPerSecond) {
        self.memory.push((time, rate));
    }

    fn flow(&mut self, time: Picos, task: TaskId, rate: BytesPerSecond) {
        if self.keeps_flows {
            self.flows.push((time, task, rate));
        }
    }
}

//! What a run tells whoever listens.
//!
//! Responsible for: the sink the engine reports to, and the sink that keeps
//! everything. Not for: names and tracks (`timeline`), which come after the run.
//! Invariant: a sink sees and never decides; a run with [`NoTrace`] compiles to
//! code without a trace.

use super::TaskId;
use crate::units::{BytesPerSecond, Picos};

/// Keeps everything, in flat lists.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recorder {
    /// Phases, by end: whose, first picosecond, first picosecond after it.
    pub phases: Vec<(TaskId, Picos, Picos)>,
    /// The memory's total rate from each time on.
    pub memory: Vec<(Picos, BytesPerSecond)>,
    /// What each task moves from each time on, where that is kept.
    pub flows: Vec<(Picos, TaskId, BytesPerSecond)>,
    /// Whether it is.
    pub keeps_flows: bool,
}

/// Receives what happens, in the order of the ends.
pub trait TraceSink {
    /// The next phase of `task` ran from `start` to `end`.
    #[inline]
    fn phase(&mut self, _task: TaskId, _start: Picos, _end: Picos) {}

    /// From `time` on the memory moves `rate` in all; the last word at a time holds.
    #[inline]
    fn memory(&mut self, _time: Picos, _rate: BytesPerSecond) {}

    /// Of that, `rate` for `task`; follows each [`Self::memory`] for every task that
    /// moves something then.
    #[inline]
    fn flow(&mut self, _time: Picos, _task: TaskId, _rate: BytesPerSecond) {}
}

/// Listens to nothing.
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

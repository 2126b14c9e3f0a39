//! HOW one operator runs on one processor: operator and device in, phases out.
//!
//! Responsible for: dispatch rules and latency models of the CPU cores, the GPU
//! and the NPU. Not for: other processors; a model sees its own processor and an
//! idle memory system. Contention exists only in `engine`.
//! Invariant: the phases' durations are what the layer takes alone; the engine,
//! with one processor active, returns their sum to the picosecond.

pub mod cpu;
pub mod gpu;
pub mod language;
pub mod npu;

pub use cpu::{CoreSet, Library, MAX_THREADS};

use std::fmt::Display;

use arrayvec::ArrayVec;
use thiserror::Error;

use crate::units::{Bytes, BytesPerSecond, PICOS_PER_SECOND, Picos};

/// What pricing gives: phases or which processor has no time for the layer.
pub type Result<T, E = Unsupported> = std::result::Result<T, E>;

/// A processor has no kernel for a layer, or the profile no rates of it: nothing is known of that time.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the {processor} has no time for {operator}: {reason}")]
pub struct Unsupported {
    /// The processor asked.
    pub processor: &'static str,
    /// The operator, with its dimensions.
    pub operator: String,
    /// What is missing.
    pub reason: String,
}

/// How one layer runs on one processor, and why it takes that long.
#[derive(Clone, Debug, PartialEq)]
pub struct Execution<Detail> {
    /// What happens, in order.
    pub phases: Phases,
    /// The kernel chosen and the counts that decide its time: a GPU launch, a
    /// CPU schedule or an NPU schedule.
    pub detail: Detail,
}

impl<Detail> Execution<Detail> {
    /// Its phases, and its detail as `told` among those of other processors.
    pub(crate) fn detailed<Told>(self, told: impl FnOnce(Detail) -> Told) -> (Phases, Told) {
        (self.phases, told(self.detail))
    }
}

/// Most phases one execution has.
pub const MAX_PHASES: usize = 8;

/// What a processor does during a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PhaseKind {
    /// Idle between two launches of a GPU's queue, inside an inference.
    QueueGap,
    /// Kernel launch (GPU), graph dispatch (NPU) or operator dispatch (CPU).
    Launch,
    /// Occupancy rounds with every resident-group slot taken.
    FullRounds,
    /// The last, partly filled occupancy round.
    LastRound,
    /// Prologues and epilogues of waves.
    Epilogue,
    /// Traffic that a kernel's loop does not hide.
    MemoryTraffic,
    /// A transform before or after the main kernel (Winograd).
    Transform,
    /// Work only the main CPU thread does.
    Serial,
    /// Work shared by the threads of a core set.
    Parallel,
    /// Waking the worker threads and waiting for the last of them.
    ForkJoin,
    /// Stationary tiles on their way into systolic arrays, of all folds together.
    StationaryLoad,
    /// Operands streaming through systolic arrays, of all folds together; in decode,
    /// weights on their way from memory.
    Stream,
    /// The last results leaving systolic arrays, of all folds together.
    Drain,
    /// Units of an NPU at work on a layer of a compiled graph, and its weights and spilled
    /// tensors on their way.
    OnChip,
    /// Notifying another processor, and mapping or transforming its result.
    Synchronise,
    /// Copying between a GPU's own memory and the host's.
    Transfer,
}

/// A stretch of an execution with one rate of work and one rate of traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phase {
    /// What happens.
    pub kind: PhaseKind,
    /// Length while nobody else uses the memory.
    pub duration: Picos,
    /// Bytes moved to and from memory, evenly over the phase.
    pub bytes: Bytes,
    /// Equal, consecutive steps the phase consists of (occupancy rounds, folds).
    pub steps: u32,
}

impl Phase {
    /// A phase of one step.
    pub fn new(kind: PhaseKind, duration: Picos, bytes: Bytes) -> Self {
        Self { kind, duration, bytes, steps: 1 }
    }
}

/// How a layer runs on one processor: phases in order, with nothing between.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Phases(ArrayVec<Phase, MAX_PHASES>);

/// Those that take time or move bytes, as [`Phases::push`] says.
impl FromIterator<Phase> for Phases {
    fn from_iter<I: IntoIterator<Item = Phase>>(phases: I) -> Self {
        let mut all = Self::default();
        phases.into_iter().for_each(|phase| all.push(phase));
        all
    }
}

impl Phases {
    /// Appends a phase; one that takes no time and moves no bytes is left out.
    ///
    /// # Panics
    /// Beyond [`MAX_PHASES`], which no kernel model reaches.
    pub fn push(&mut self, phase: Phase) {
        if phase.duration > Picos::ZERO || phase.bytes > Bytes::ZERO {
            self.0.push(phase);
        }
    }

    /// The phases in order.
    pub fn as_slice(&self) -> &[Phase] {
        &self.0
    }

    /// What the layer takes while nobody else uses the memory.
    pub fn duration(&self) -> Picos {
        self.0.iter().map(|phase| phase.duration).sum()
    }

    /// Bytes moved to and from memory.
    pub fn bytes(&self) -> Bytes {
        self.0.iter().map(|phase| phase.bytes).sum()
    }

    /// Stretches phases that would move their bytes faster than `rate`, the memory
    /// interface's: fits on layers that fit a cache say nothing of larger ones.
    pub fn limit_rate(&mut self, rate: BytesPerSecond) {
        for phase in &mut self.0 {
            let least = phase.bytes.0 as f64 / rate.0 * PICOS_PER_SECOND;
            if least > phase.duration.0 as f64 {
                phase.duration = Picos::from_nanos(least / 1e3);
            }
        }
    }

    /// Multiplies the duration of every phase by `factor`.
    pub fn stretch(&mut self, factor: f64) {
        self.0.iter_mut().for_each(|phase| phase.duration = phase.duration.scale(factor));
    }

    /// The same phases without the launch.
    #[must_use]
    pub(crate) fn without_launch(&self) -> Self {
        self.0.iter().copied().filter(|phase| phase.kind != PhaseKind::Launch).collect()
    }

    /// Adds to the first phase of the same kind, or behind all.
    pub fn merge(&mut self, phase: Phase) {
        match self.0.iter_mut().find(|own| own.kind == phase.kind) {
            Some(own) => {
                own.duration += phase.duration;
                own.bytes += phase.bytes;
                own.steps = own.steps.saturating_add(phase.steps);
            }
            None => self.push(phase),
        }
    }

    /// The same phases so many times over.
    pub fn repeat(&mut self, times: u32) {
        for phase in &mut self.0 {
            phase.duration = Picos(phase.duration.0.saturating_mul(u64::from(times)));
            phase.bytes = Bytes(phase.bytes.0.saturating_mul(u64::from(times)));
            phase.steps = phase.steps.saturating_mul(times);
        }
    }

    /// Spreads `bytes` over the phases that `carries` selects, in proportion to
    /// their durations; the last of them takes what rounding leaves.
    pub fn spread(&mut self, bytes: Bytes, carries: impl Fn(PhaseKind) -> bool) {
        let total: Picos = self.0.iter().filter(|p| carries(p.kind)).map(|p| p.duration).sum();
        if total == Picos::ZERO {
            return;
        }
        let mut left = bytes.0;
        let mut last = None;
        for (index, phase) in self.0.iter_mut().enumerate() {
            if !carries(phase.kind) {
                continue;
            }
            let part = (u128::from(bytes.0) * u128::from(phase.duration.0) / u128::from(total.0)) as u64;
            phase.bytes = Bytes(part);
            left -= part;
            last = Some(index);
        }
        if let Some(index) = last {
            self.0[index].bytes += Bytes(left);
        }
    }
}

impl Unsupported {
    /// What `processor` has no time for, and why.
    pub(crate) fn new(processor: &'static str, operator: impl Display, reason: impl Into<String>) -> Self {
        Self { processor, operator: operator.to_string(), reason: reason.into() }
    }
}

/// Narrows a count; what is beyond 2^32 is no phone's business.
fn saturated(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// What has the largest of the times; the first of equals.
fn largest<Limit: Copy>(times: &[(Limit, f64)]) -> Limit {
    times[1..].iter().fold(times[0], |most, next| if next.1 > most.1 { *next } else { most }).0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phase(kind: PhaseKind, micros: f64) -> Phase {
        Phase { kind, duration: Picos::from_micros(micros), bytes: Bytes::ZERO, steps: 1 }
    }

    #[test]
    fn spreading_keeps_every_byte_and_spares_the_launch() {
        let mut phases = Phases::default();
        phases.push(phase(PhaseKind::Launch, 5.0));
        phases.push(phase(PhaseKind::FullRounds, 2.0));
        phases.push(phase(PhaseKind::LastRound, 1.0));
        phases.spread(Bytes(100), |kind| kind != PhaseKind::Launch);
        let bytes: Vec<u64> = phases.as_slice().iter().map(|p| p.bytes.0).collect();
        assert_eq!(bytes, [0, 66, 34]);
        assert_eq!(phases.bytes(), Bytes(100));
    }

    #[test]
    fn no_phase_outruns_the_memory_interface() {
        let mut phases = Phases::default();
        phases.push(phase(PhaseKind::Launch, 5.0));
        phases.push(Phase { bytes: Bytes(40_000), ..phase(PhaseKind::FullRounds, 2.0) });
        phases.push(Phase { bytes: Bytes(10_000), ..phase(PhaseKind::LastRound, 2.0) });
        phases.limit_rate(BytesPerSecond::from_gigabytes(10.0));
        let micros: Vec<f64> = phases.as_slice().iter().map(|p| p.duration.as_micros()).collect();
        assert_eq!(micros, [5.0, 4.0, 2.0]);
    }

    #[test]
    fn an_empty_phase_is_no_phase() {
        let mut phases = Phases::default();
        phases.push(phase(PhaseKind::LastRound, 0.0));
        assert!(phases.as_slice().is_empty());
    }
}

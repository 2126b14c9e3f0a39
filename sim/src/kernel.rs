//! HOW one operator runs on one processor: operator and device in, phases out.
//!
//! Responsible for: dispatch rules and latency models of the CPU cores, the GPU
//! and the NPU. Not for: interaction between processors; a kernel model sees one
//! processor and an idle memory system. Contention exists only in `engine`.
//! Invariant: phase durations are contention-free; with one processor active, the
//! engine returns their sum to the picosecond.

pub mod cpu;
pub mod gpu;
pub mod language;
pub mod npu;

pub use cpu::{CoreSet, Library, MAX_THREADS};

use std::fmt::Display;

use arrayvec::ArrayVec;
use thiserror::Error;

use crate::units::{Bytes, BytesPerSecond, PICOS_PER_SECOND, Picos};

/// Result of a kernel model; the error is [`Unsupported`] unless stated otherwise.
pub type Result<T, E = Unsupported> = std::result::Result<T, E>;

/// A layer cannot be timed: the processor has no kernel for it, or the profile has no
/// rates for that kernel.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the time of {operator} on the {processor} cannot be predicted: {reason}")]
pub struct Unsupported {
    /// The processor, as in messages: `GPU`.
    pub processor: &'static str,
    /// The operator, with its dimensions.
    pub operator: String,
    /// What is missing.
    pub reason: String,
}

/// How one layer runs on one processor, with the counts that explain its time.
#[derive(Clone, Debug, PartialEq)]
pub struct Execution<Detail> {
    /// The phases, in order.
    pub phases: Phases,
    /// The chosen kernel and the counts that decide its time: a GPU launch, a
    /// CPU schedule or an NPU schedule.
    pub detail: Detail,
}

impl<Detail> Execution<Detail> {
    /// Splits into the phases and the detail, the latter wrapped by `wrap` into a type
    /// common to all processors.
    pub(crate) fn detailed<Wrapped>(self, wrap: impl FnOnce(Detail) -> Wrapped) -> (Phases, Wrapped) {
        (self.phases, wrap(self.detail))
    }
}

/// Upper bound on the phases of one execution.
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
    /// Memory traffic that the kernel's main loop does not overlap.
    MemoryTraffic,
    /// Separate launches before or after the main kernel, such as Winograd's transforms.
    Transform,
    /// Work that runs on the main CPU thread only.
    Serial,
    /// Work divided among the threads of a core set.
    Parallel,
    /// Waking the worker threads and waiting for the last of them.
    ForkJoin,
    /// Loading stationary tiles into the systolic arrays, summed over all folds.
    StationaryLoad,
    /// Operands streaming through the systolic arrays, summed over all folds; in decode,
    /// weights streaming from memory.
    Stream,
    /// Draining the last results from the systolic arrays, summed over all folds.
    Drain,
    /// An NPU executing one layer of a compiled graph, while spilled tensors and the weights of this layer
    /// and later ones are transferred.
    OnChip,
    /// Notifying another processor, and mapping or transforming its result.
    Synchronise,
    /// Copying between a GPU's dedicated memory and the host's.
    Transfer,
}

/// A part of an execution in which the rates of work and of memory traffic are constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phase {
    /// What the processor does.
    pub kind: PhaseKind,
    /// Duration without memory contention.
    pub duration: Picos,
    /// Bytes moved to and from memory, spread evenly over the phase.
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

/// The phases of a layer on one processor, back to back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Phases(ArrayVec<Phase, MAX_PHASES>);

/// Drops empty phases, as [`Phases::push`] does.
impl FromIterator<Phase> for Phases {
    fn from_iter<I: IntoIterator<Item = Phase>>(phases: I) -> Self {
        let mut all = Self::default();
        phases.into_iter().for_each(|phase| all.push(phase));
        all
    }
}

impl Phases {
    /// Appends a phase, unless it has neither duration nor bytes.
    ///
    /// # Panics
    /// If there are [`MAX_PHASES`] already, which no kernel model reaches.
    pub fn push(&mut self, phase: Phase) {
        if phase.duration > Picos::ZERO || phase.bytes > Bytes::ZERO {
            self.0.push(phase);
        }
    }

    /// The phases in order.
    pub fn as_slice(&self) -> &[Phase] {
        &self.0
    }

    /// Total duration without memory contention.
    pub fn duration(&self) -> Picos {
        self.0.iter().map(|phase| phase.duration).sum()
    }

    /// Total bytes moved to and from memory.
    pub fn bytes(&self) -> Bytes {
        self.0.iter().map(|phase| phase.bytes).sum()
    }

    /// Stretches phases that would move their bytes faster than `rate`, the bandwidth of
    /// the memory interface. Rates fitted on cache-resident layers would otherwise exceed
    /// it on larger ones. Returns the time of the stretched phases.
    pub fn limit_rate(&mut self, rate: BytesPerSecond) -> Picos {
        let mut stretched = Picos::ZERO;
        for phase in &mut self.0 {
            let least = phase.bytes.0 as f64 / rate.0 * PICOS_PER_SECOND;
            if least > phase.duration.0 as f64 {
                phase.duration = Picos::from_nanos(least / 1e3);
                stretched += phase.duration;
            }
        }
        stretched
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

    /// Adds `phase` to the first phase of the same kind, or appends it if there is none.
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

    /// Scales durations, bytes and steps to `times` repetitions.
    pub fn repeat(&mut self, times: u32) {
        for phase in &mut self.0 {
            phase.duration = phase.duration.times(times);
            phase.bytes = Bytes(phase.bytes.0.saturating_mul(u64::from(times)));
            phase.steps = phase.steps.saturating_mul(times);
        }
    }

    /// Spreads `bytes` over the phases that `carries` selects, in proportion to
    /// their durations; the last of them takes the rounding remainder.
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
    /// `reason` completes the message: what is missing and how to supply it.
    pub(crate) fn new(processor: &'static str, operator: impl Display, reason: impl Into<String>) -> Self {
        Self { processor, operator: operator.to_string(), reason: reason.into() }
    }
}

/// Narrows a count, saturating at `u32::MAX`, which no layer of a phone reaches.
fn saturated(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// The limit with the largest time; the first one on a tie.
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
        let stretched = phases.limit_rate(BytesPerSecond::from_gigabytes(10.0));
        let micros: Vec<f64> = phases.as_slice().iter().map(|p| p.duration.as_micros()).collect();
        assert_eq!((micros, stretched), (vec![5.0, 4.0, 2.0], Picos::from_micros(4.0)));
    }

    #[test]
    fn an_empty_phase_is_no_phase() {
        let mut phases = Phases::default();
        phases.push(phase(PhaseKind::LastRound, 0.0));
        assert!(phases.as_slice().is_empty());
    }
}

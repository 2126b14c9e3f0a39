//! Synchronisation mechanisms between host and device, probed before use.
//!
//! Responsible for: what each mechanism does (`link`), its latency in both directions, whether it
//! works on this device, and its fallbacks. Not for: when a plan synchronises.
//! Invariants: a mechanism is used only after a probe found it sound; every wait has a limit, after
//! which the device is released and an error returned. A probe runs a few rounds on a thread of its
//! own: if a driver call never returns, that thread is abandoned and the device given up, but the
//! caller goes on.

mod clock;
pub(crate) mod link;
mod round;

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use coexec_sim::{Mechanism as Modelled, Picos};
use thiserror::Error;

use crate::opencl::{FlagHome, Result, Runtime, Signals};

pub(crate) use link::Link;
pub use link::sleep_granularity;
use link::spin_until;
pub use round::{Notifications, measure, ping_pong};

/// Rounds of a probe, all of which must succeed.
const ROUNDS: u32 = 100;
/// Time limit of one round. Another process may hold the core for several scheduler time slices: 24
/// to 52 ms were observed on a loaded machine with two cores.
const ROUND_LIMIT: Duration = Duration::from_millis(500);
/// Time limit of a probe, kernel builds included.
const PROBE_LIMIT: Duration = Duration::from_secs(20);

/// How one side learns that the other has finished. An unsound mechanism falls back to a later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, strum::Display, strum::VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum Mechanism {
    /// Both sides spin on flags in fine-grained shared virtual memory. The last work-group of the
    /// computing kernel to finish sets the device's flag, and a single-thread kernel after it waits
    /// for the host's (EPEW'25, section 4).
    SvmPolling,
    /// The host sleeps for most of the predicted wait, then spins on such a flag (`HeteroInfer`,
    /// SOSP'25, section 4.3).
    SleepThenPoll,
    /// As [`Self::SvmPolling`], with flags in a host buffer that stays mapped.
    PinnedPolling,
    /// The host polls an event's status, and enqueues the device's next command only after the
    /// event has completed.
    EventPolling,
    /// The host blocks on an event (`clWaitForEvents`). The device's next kernel waits for a user
    /// event, which the host completes.
    EventWait,
    /// The host blocks until the queue is empty (`clFinish`), and only then enqueues the device's
    /// next command.
    BlockingFinish,
}

/// A mechanism that does not work on this device.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{mechanism} does not work here: {why}")]
pub struct Unsound {
    /// The mechanism.
    pub mechanism: Mechanism,
    /// The observed failure.
    pub why: String,
}

impl Mechanism {
    /// Every mechanism.
    pub const ALL: &[Self] = <Self as strum::VariantArray>::VARIANTS;

    /// This mechanism and its fallbacks, best first: other kinds of polling, then the blocking
    /// mechanisms, which always work. Sleep-then-poll is never a fallback.
    pub fn candidates(self) -> impl Iterator<Item = Self> {
        let from_here = Self::ALL.iter().copied().skip_while(move |&mechanism| mechanism != self);
        from_here.filter(move |&mechanism| mechanism == self || mechanism != Self::SleepThenPoll)
    }

    /// The simulator's counterpart; the model does not distinguish what is polled. Polling maps no results, as both
    /// sides were found to see them.
    pub fn modelled(self) -> Modelled {
        match self {
            Self::BlockingFinish => Modelled::BlockingFinish,
            Self::EventWait => Modelled::EventWait,
            Self::SvmPolling | Self::PinnedPolling | Self::EventPolling => Modelled::SvmPolling,
            Self::SleepThenPoll => Modelled::SleepThenPoll,
        }
    }
}

impl From<Modelled> for Mechanism {
    fn from(modelled: Modelled) -> Self {
        match modelled {
            Modelled::BlockingFinish => Self::BlockingFinish,
            Modelled::EventWait => Self::EventWait,
            Modelled::SvmPolling => Self::SvmPolling,
            Modelled::SleepThenPoll => Self::SleepThenPoll,
        }
    }
}

/// Tries `mechanism` for a hundred rounds.
///
/// # Errors
/// Why it does not work.
pub fn probe(runtime: &Arc<Runtime>, mechanism: Mechanism) -> Result<(), Unsound> {
    measure_within(runtime, mechanism, (ROUNDS, ROUND_LIMIT), PROBE_LIMIT).map(drop)
}

/// As [`measure`], on a thread of its own, which is abandoned, and the device given up, if it has
/// not ended at `limit`.
///
/// # Errors
/// Why the mechanism does not work.
pub(crate) fn measure_within(
    runtime: &Arc<Runtime>,
    mechanism: Mechanism,
    (rounds, round_limit): (u32, Duration),
    limit: Duration,
) -> Result<Notifications, Unsound> {
    let unsound = |why: String| Unsound { mechanism, why };
    if runtime.is_lost() {
        return Err(unsound("the device did not answer earlier".to_owned()));
    }
    let (sender, receiver) = channel();
    let probed = Arc::clone(runtime);
    let spawned = std::thread::Builder::new().name(format!("probe {mechanism}")).spawn(move || {
        // The receiver is gone if the limit has passed.
        let _ = sender.send(measure(&probed, mechanism, rounds, round_limit));
    });
    let _detached =
        spawned.map_err(|error| unsound(format!("cannot start a thread for the probe: {error}")))?;
    match receiver.recv_timeout(limit) {
        Ok(outcome) => outcome.map_err(|error| unsound(error.to_string())),
        Err(RecvTimeoutError::Timeout) => {
            runtime.give_up();
            Err(unsound(format!("the device did not answer within {} ms", limit.as_millis())))
        }
        Err(RecvTimeoutError::Disconnected) => Err(unsound("the thread of the probe failed".to_owned())),
    }
}

/// Returns the first sound mechanism among `wanted` and its fallbacks, and the unsound ones before
/// it, of which the caller should warn.
///
/// # Errors
/// All candidates, where none works.
pub fn choose(
    wanted: Mechanism,
    mut probe: impl FnMut(Mechanism) -> Result<(), Unsound>,
) -> Result<(Mechanism, Vec<Unsound>), Vec<Unsound>> {
    let mut passed_over = Vec::new();
    for mechanism in wanted.candidates() {
        match probe(mechanism) {
            Ok(()) => return Ok((mechanism, passed_over)),
            Err(unsound) => passed_over.push(unsound),
        }
    }
    Err(passed_over)
}

/// The flags that `mechanism` polls; `None` if it polls no flags.
pub(crate) fn flags(runtime: &Arc<Runtime>, mechanism: Mechanism) -> Result<Option<Signals>> {
    let has_shared = runtime.device().polls_shared_memory;
    let home = match mechanism {
        Mechanism::SvmPolling => FlagHome::Shared,
        Mechanism::SleepThenPoll if has_shared => FlagHome::Shared,
        Mechanism::PinnedPolling | Mechanism::SleepThenPoll => FlagHome::Pinned,
        Mechanism::BlockingFinish | Mechanism::EventWait | Mechanism::EventPolling => return Ok(None),
    };
    let mut signals = Signals::new(runtime, home)?;
    signals.reset();
    Ok(Some(signals))
}

/// The median of `times`; zero if empty.
pub fn median(times: &[Picos]) -> Picos {
    let micros: Vec<f64> = times.iter().map(|time| time.as_micros()).collect();
    coexec_sim::statistics::median(&micros).map_or(Picos::ZERO, Picos::from_micros)
}

#[cfg(test)]
mod tests;

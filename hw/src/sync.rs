//! How host and device learn of each other's results, measured and tried before use.
//!
//! Responsible for: what each mechanism does (`link`), the time it takes in both directions,
//! whether it works here, and what replaces one that does not. Not for: what a plan
//! synchronises when.
//! Invariants: a mechanism is used only after a probe found it sound; every wait has a
//! limit, after which the device is released and an error returned. A probe runs a few rounds on a
//! thread of its own: a call that never returns leaves that thread behind, and the device is given
//! up, but the caller goes on.

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

/// Rounds of a probe, which must go well.
const ROUNDS: u32 = 100;
/// What a round may take: another process may hold the core for some slices of the
/// scheduler, of which 24 to 52 ms were seen on a loaded machine with two cores.
const ROUND_LIMIT: Duration = Duration::from_millis(500);
/// What a probe may take, with building its kernels.
const PROBE_LIMIT: Duration = Duration::from_secs(20);

/// How one side learns that the other is done; one that is not sound is replaced by a later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, strum::Display, strum::VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum Mechanism {
    /// Both spin on flags in fine-grained shared virtual memory: the computing kernel's
    /// last-finishing group sets the device's, and a kernel of one thread behind it waits
    /// for the host's (EPEW'25, section 4).
    SvmPolling,
    /// The host sleeps for most of the predicted wait, then spins on such a flag
    /// (`HeteroInfer`, SOSP'25, section 4.3).
    SleepThenPoll,
    /// As by [`Self::SvmPolling`], with flags in a host buffer that stays mapped.
    PinnedPolling,
    /// The host polls an event's status, and queues what the device does next only when it
    /// has ended.
    EventPolling,
    /// The host sleeps until an event (`clWaitForEvents`), and ends the user event that
    /// the device's next kernel waits for.
    EventWait,
    /// The host sleeps until the queue is empty (`clFinish`), and queues what the
    /// device does next only then.
    BlockingFinish,
}

/// A mechanism that must not be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{mechanism} does not work here: {why}")]
pub struct Unsound {
    /// The mechanism.
    pub mechanism: Mechanism,
    /// What went wrong.
    pub why: String,
}

impl Mechanism {
    /// Every mechanism.
    pub const ALL: &[Self] = <Self as strum::VariantArray>::VARIANTS;

    /// This mechanism and what may replace it, best first: polling is replaced by polling as
    /// long as one kind works; what always works comes last.
    pub fn candidates(self) -> impl Iterator<Item = Self> {
        let from_here = Self::ALL.iter().copied().skip_while(move |&mechanism| mechanism != self);
        from_here.filter(move |&mechanism| mechanism == self || mechanism != Self::SleepThenPoll)
    }

    /// The mechanism as the simulator models it: polling is the same whatever is
    /// polled.
    pub fn modelled(self) -> Modelled {
        match self {
            Self::BlockingFinish => Modelled::BlockingFinish,
            Self::EventWait | Self::EventPolling => Modelled::EventWait,
            Self::SvmPolling | Self::PinnedPolling => Modelled::SvmPolling,
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
/// What went wrong.
pub fn probe(runtime: &Arc<Runtime>, mechanism: Mechanism) -> Result<(), Unsound> {
    probe_within(runtime, mechanism, ROUNDS, ROUND_LIMIT, PROBE_LIMIT)
}

fn probe_within(
    runtime: &Arc<Runtime>,
    mechanism: Mechanism,
    rounds: u32,
    round_limit: Duration,
    limit: Duration,
) -> Result<(), Unsound> {
    let unsound = |why: String| Unsound { mechanism, why };
    if runtime.is_lost() {
        return Err(unsound("the device did not answer before".to_owned()));
    }
    let (sender, receiver) = channel();
    let probed = Arc::clone(runtime);
    let spawned = std::thread::Builder::new().name(format!("probe {mechanism}")).spawn(move || {
        // Nobody listens any more where the limit has passed.
        let _ = sender.send(measure(&probed, mechanism, rounds, round_limit));
    });
    let _detached = spawned.map_err(|error| unsound(format!("no thread to try it on: {error}")))?;
    match receiver.recv_timeout(limit) {
        Ok(outcome) => outcome.map(drop).map_err(|error| unsound(error.to_string())),
        Err(RecvTimeoutError::Timeout) => {
            runtime.give_up();
            Err(unsound(format!("the device did not answer within {} ms", limit.as_millis())))
        }
        Err(RecvTimeoutError::Disconnected) => Err(unsound("the thread that tried it failed".to_owned())),
    }
}

/// The first of `wanted` and what may replace it that `probe` finds sound, and those that were passed over
/// before: warn of them.
///
/// # Errors
/// What was tried, where the device does not answer at all.
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

/// The flags that `mechanism` polls, where it polls any.
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

/// The median of `times`; zero of none.
pub fn median(times: &[Picos]) -> Picos {
    let micros: Vec<f64> = times.iter().map(|time| time.as_micros()).collect();
    coexec_sim::statistics::median(&micros).map_or(Picos::ZERO, Picos::from_micros)
}

#[cfg(test)]
mod tests;

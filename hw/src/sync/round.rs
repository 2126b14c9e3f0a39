//! A meeting of host and device by each mechanism, and how long both took to learn of
//! it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use coexec_sim::units::Picos;

use super::clock::Clock;
use super::{
    Mechanism, SyncError, blocking_finish, event_polling, event_wait, flag_polling, sleep_then_poll,
};
use crate::opencl::Runtime;
use crate::opencl::signals::{Busy, FlagHome, Signals};

/// Dependent multiply-adds of the kernel whose end is learned of: tens of microseconds
/// on any device, so that the host is waiting when it ends.
const WORK_STEPS: u32 = 20_000;
/// The same where the host sleeps meanwhile: some sleeps long.
const SLEPT_THROUGH_STEPS: u32 = 10 * WORK_STEPS;
/// Rounds that are not counted: drivers allocate in the first ones.
const WARM_UP: u32 = 5;

/// How long it took in each round until one side knew of the other's end, by the clock
/// of the host. Raw: nothing is left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notifications {
    /// From the end of the device's kernel until the host knew.
    pub to_host: Vec<Picos>,
    /// From the host's signal until the device went on.
    pub to_device: Vec<Picos>,
    /// How far all of `to_host` may be too high and all of `to_device` too low, or the
    /// other way round: the clocks of host and device are compared no better.
    pub uncertainty: Picos,
}

/// When what happened in a round.
pub(super) struct Round {
    /// Readings of the host's clock around queueing the work.
    pub(super) queueing: [Instant; 2],
    /// The work's stamps: queued, started, ended.
    pub(super) work: [u64; 3],
    /// The host knew of the work's end.
    pub(super) known: Instant,
    /// The host signalled.
    pub(super) signalled: Instant,
    /// The device went on, by its clock.
    pub(super) resumed: u64,
}

/// What rounds are made with.
pub(super) struct Bench {
    pub(super) runtime: Arc<Runtime>,
    /// Announces itself where there are flags.
    pub(super) work: Busy,
    /// What the device does next.
    pub(super) next: Busy,
    /// For mechanisms that poll flags.
    pub(super) signals: Option<Signals>,
    /// How long the device is expected to take, for the host that sleeps meanwhile.
    pub(super) predicted: Duration,
}

impl Bench {
    fn new(runtime: &Arc<Runtime>, mechanism: Mechanism) -> Result<Self, SyncError> {
        let home = match mechanism {
            Mechanism::SvmPolling => Some(FlagHome::Shared),
            Mechanism::PinnedPolling => Some(FlagHome::Pinned),
            Mechanism::SleepThenPoll => Some(flag_polling::any_home(runtime)),
            Mechanism::BlockingFinish | Mechanism::EventWait | Mechanism::EventPolling => None,
        };
        let steps = if mechanism == Mechanism::SleepThenPoll { SLEPT_THROUGH_STEPS } else { WORK_STEPS };
        let signals = home.map(|home| Signals::new(runtime, home)).transpose()?;
        Ok(Self {
            runtime: Arc::clone(runtime),
            work: Busy::new(runtime, steps, signals.as_ref())?,
            next: Busy::new(runtime, 1, None)?,
            signals,
            predicted: Duration::ZERO,
        })
    }

    fn round(&mut self, mechanism: Mechanism, round: u32, limit: Duration) -> Result<Round, SyncError> {
        match mechanism {
            Mechanism::BlockingFinish => blocking_finish::round(self),
            Mechanism::EventWait => event_wait::round(self),
            Mechanism::EventPolling => event_polling::round(self, limit),
            Mechanism::SvmPolling | Mechanism::PinnedPolling => flag_polling::round(self, round, limit),
            Mechanism::SleepThenPoll => sleep_then_poll::round(self, round, limit),
        }
    }
}

/// Meets the device `rounds` times by `mechanism`, each within `limit`.
///
/// Call it where nothing else uses the runtime's queue; [`super::probe`] says first
/// whether the mechanism works at all.
///
/// # Errors
/// Where the device lacks the memory for it, fails, or does not answer in time.
pub fn measure(
    runtime: &Arc<Runtime>,
    mechanism: Mechanism,
    rounds: u32,
    limit: Duration,
) -> Result<Notifications, SyncError> {
    let mut bench = Bench::new(runtime, mechanism)?;
    let mut clock = Clock::new();
    let mut measured = Vec::with_capacity(rounds as usize);
    for number in 1..=WARM_UP + rounds {
        let round = bench.round(mechanism, number, limit)?;
        clock.observe(round.work[0], round.queueing);
        // By the device's clock: what the host overslept must not lengthen its next sleep.
        let [queued, _, ended] = round.work;
        bench.predicted = Duration::from_nanos(ended.saturating_sub(queued));
        measured.push(round);
    }
    let counted = || measured.iter().enumerate().skip(WARM_UP as usize);
    Ok(Notifications {
        to_host: counted()
            .map(|(number, round)| clock.since_device(number, round.work[2], round.known))
            .collect(),
        to_device: counted()
            .map(|(number, round)| clock.until_device(number, round.signalled, round.resumed))
            .collect(),
        uncertainty: clock.uncertainty(),
    })
}

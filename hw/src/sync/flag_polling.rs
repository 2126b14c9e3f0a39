//! Polling of flags, in shared virtual memory or in a pinned buffer: of the computing
//! kernel's groups the one that finishes last sets the device's flag, on which the host
//! spins; a kernel behind it spins on the host's (EPEW'25, section 4).

use std::sync::Arc;
use std::time::{Duration, Instant};

use coexec_sim::units::Picos;

use super::event_polling::poll;
use super::round::{Bench, Round};
use super::{Mechanism, SyncError, milliseconds};
use crate::opencl::events::{flush, stamps};
use crate::opencl::signals::{FlagHome, Meeting, SPIN_LIMIT, Signals};
use crate::opencl::timing::of_duration;
use crate::opencl::{OpenClError, Runtime};

/// By when a kernel has ended that never sees the host's flag, not even its release: where
/// the two share no memory after all.
const SPUN_OUT: Duration = SPIN_LIMIT.saturating_mul(3);
/// Spins between two looks at the clock, which costs as much as many of them.
const SPINS_A_LOOK: u32 = 64;

pub(super) fn round(bench: &mut Bench, round: u32, limit: Duration) -> Result<Round, SyncError> {
    round_after(bench, round, limit, |_| {})
}

/// A round in which the host does `meanwhile` with the bench before it polls.
pub(super) fn round_after(
    bench: &mut Bench,
    round: u32,
    limit: Duration,
    meanwhile: impl FnOnce(&Bench),
) -> Result<Round, SyncError> {
    let before = Instant::now();
    let work = bench.work.enqueue_announcing(round)?;
    let queueing = [before, Instant::now()];
    let meeting = match bench.signals.as_mut() {
        Some(signals) => signals.enqueue_meeting(round, 1, false)?,
        None => return Err(no_flags(&bench.runtime).into()),
    };
    flush(&bench.runtime)?;
    meanwhile(bench);
    let Some(signals) = &bench.signals else { return Err(no_flags(&bench.runtime).into()) };
    let reached = await_device(signals, round, limit);
    let known = Instant::now();
    if reached.is_ok() {
        signals.answer(round);
    }
    let signalled = Instant::now();
    // Also a kernel that was released has to end before its flags are used again.
    poll(&bench.runtime, &meeting, limit.max(SPUN_OUT))?;
    reached?;
    check_meeting(signals, round)?;
    let [_, _, resumed] = stamps(&meeting)?;
    Ok(Round { queueing, work: stamps(&work)?, known, signalled, resumed })
}

/// Spins until the device has reached `round`; releases it after `limit`.
pub(super) fn await_device(signals: &Signals, round: u32, limit: Duration) -> Result<(), SyncError> {
    let deadline = Instant::now() + limit;
    while !signals.device_reached(round) {
        for _ in 0..SPINS_A_LOOK {
            std::hint::spin_loop();
        }
        if Instant::now() > deadline {
            signals.release();
            return Err(SyncError::Unanswered { round, limit_ms: milliseconds(limit) });
        }
    }
    if signals.device_data_seen(round) { Ok(()) } else { Err(SyncError::Stale { who: "host", round }) }
}

/// What the kernel of `round`, which has ended, says of the meeting.
pub(super) fn check_meeting(signals: &Signals, round: u32) -> Result<(), SyncError> {
    match signals.meeting() {
        Meeting::Met => Ok(()),
        Meeting::Stale => Err(SyncError::Stale { who: "device", round }),
        Meeting::SpunOut | Meeting::GivenUp | Meeting::Pending => Err(SyncError::SpunOut { round }),
    }
}

/// Shared virtual memory where the device has it.
pub(super) fn any_home(runtime: &Runtime) -> FlagHome {
    if runtime.device().shared_virtual_memory.allows_polling() { FlagHome::Shared } else { FlagHome::Pinned }
}

fn no_flags(runtime: &Runtime) -> OpenClError {
    OpenClError::NoFineGrainedSvm { device: runtime.device().name.clone() }
}

/// The time of each of `rounds` round trips, device to host to device, while one kernel
/// keeps running: what the flags cost without any launch. Each within `limit`.
///
/// # Errors
/// Where `mechanism` polls no flags, the device lacks the memory for them, or does not
/// answer in time.
pub fn ping_pong(
    runtime: &Arc<Runtime>,
    mechanism: Mechanism,
    rounds: u32,
    limit: Duration,
) -> Result<Vec<Picos>, SyncError> {
    let home = match mechanism {
        Mechanism::SvmPolling => FlagHome::Shared,
        Mechanism::PinnedPolling => FlagHome::Pinned,
        Mechanism::SleepThenPoll => any_home(runtime),
        Mechanism::BlockingFinish | Mechanism::EventWait | Mechanism::EventPolling => {
            let reason = format!("{mechanism} uses no flags");
            return Err(OpenClError::Unsupported { operator: "a ping-pong".to_owned(), reason }.into());
        }
    };
    let mut signals = Signals::new(runtime, home)?;
    signals.reset();
    let kernel = signals.enqueue_meetings(rounds)?;
    flush(runtime)?;
    let mut times = Vec::with_capacity(rounds as usize);
    let mut last = None;
    for round in 1..=rounds {
        if let Err(error) = await_device(&signals, round, limit) {
            signals.release();
            poll(runtime, &kernel, limit.max(SPUN_OUT))?;
            return Err(error);
        }
        let now = Instant::now();
        if let Some(last) = last.replace(now) {
            times.push(of_duration(now.saturating_duration_since(last)));
        }
        signals.answer(round);
    }
    poll(runtime, &kernel, limit)?;
    check_meeting(&signals, rounds)?;
    Ok(times)
}

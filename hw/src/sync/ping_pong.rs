//! Flags thrown back and forth while one kernel keeps running: what they cost without any
//! launch.

use std::sync::Arc;
use std::time::{Duration, Instant};

use coexec_sim::units::Picos;

use super::link::{check, has_announced};
use super::{Mechanism, SyncError, flags};
use crate::opencl::events::{flush, poll};
use crate::opencl::signals::{SPIN_LIMIT, Signals};
use crate::opencl::timing::{of_duration, timed_out};
use crate::opencl::{OpenClError, Runtime};

/// By when a kernel has ended that never sees the host's flag, not even its release: where
/// the two share no memory after all.
pub(super) const SPUN_OUT: Duration = SPIN_LIMIT.saturating_mul(3);
/// What is waited for, in an error's words.
pub(super) const MEETING: &str = "a kernel that meets the host at a flag";
/// Spins between two looks at the clock, which costs as much as many of them.
const SPINS_A_LOOK: u32 = 64;

/// Spins until the device has announced `round`; releases it after `limit`.
pub(super) fn await_device(signals: &Signals, round: u32, limit: Duration) -> Result<(), SyncError> {
    let deadline = Instant::now() + limit;
    while !has_announced(signals, round)? {
        for _ in 0..SPINS_A_LOOK {
            std::hint::spin_loop();
        }
        if Instant::now() > deadline {
            signals.release();
            return Err(timed_out(MEETING, limit).into());
        }
    }
    Ok(())
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
    let Some(mut signals) = flags(runtime, mechanism)? else {
        let reason = format!("{mechanism} uses no flags");
        return Err(OpenClError::Unsupported { operator: "a ping-pong".to_owned(), reason }.into());
    };
    let kernel = signals.enqueue_ping_pong(rounds)?;
    flush(runtime)?;
    let mut times = Vec::with_capacity(rounds as usize);
    let mut last = None;
    for round in 1..=rounds {
        if let Err(error) = await_device(&signals, round, limit) {
            signals.release();
            poll(runtime, &kernel, MEETING, limit.max(SPUN_OUT))?;
            return Err(error);
        }
        let now = Instant::now();
        if let Some(last) = last.replace(now) {
            times.push(of_duration(now.saturating_duration_since(last)));
        }
        signals.signal(round);
    }
    poll(runtime, &kernel, MEETING, limit)?;
    check(&signals, rounds)?;
    Ok(times)
}

//! Flags thrown back and forth while one kernel keeps running: what they cost without any
//! launch.

use std::sync::Arc;
use std::time::{Duration, Instant};

use coexec_sim::Picos;

use super::{Mechanism, flags, spin_until};
use crate::opencl::{OpenClError, Result, Runtime, SPIN_LIMIT, Signals, flush, of_duration, poll};

/// By when a kernel has ended that never sees the host's flag, not even its release: where
/// the two share no memory after all.
pub(super) const SPUN_OUT: Duration = SPIN_LIMIT.saturating_mul(3);
/// What is waited for, in an error's words.
pub(super) const MEETING: &str = "a kernel that meets the host at a flag";

/// Spins until the device has announced `round`; releases it after `limit`.
pub(super) fn await_device(signals: &Signals, round: u32, limit: Duration) -> Result<()> {
    let waiting = (Instant::now(), limit, MEETING);
    spin_until(waiting, || signals.has_announced(round)).inspect_err(|_| signals.release())
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
) -> Result<Vec<Picos>> {
    let Some(mut signals) = flags(runtime, mechanism)? else {
        let reason = format!("{mechanism} uses no flags");
        return Err(OpenClError::Unsupported { operator: "a ping-pong".to_owned(), reason });
    };
    let kernel = signals.enqueue_ping_pong(rounds)?;
    flush(runtime)?;
    let mut times = Vec::with_capacity(rounds as usize);
    let mut last = None;
    for round in 1..=rounds {
        if let Err(error) = await_device(&signals, round, limit) {
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
    signals.check(rounds)?;
    Ok(times)
}

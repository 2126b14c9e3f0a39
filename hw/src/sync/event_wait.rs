//! Event wait: the host sleeps until the device's event, the device until the host's.
//! The host's sleep cannot be given a limit; [`super::probe`] runs it where it can be
//! left behind.

use std::time::Instant;

use super::SyncError;
use super::round::{Bench, Round};
use crate::opencl::events::{UserEvent, flush, stamps, wait_for};

pub(super) fn round(bench: &mut Bench) -> Result<Round, SyncError> {
    let signal = UserEvent::new(&bench.runtime)?;
    let before = Instant::now();
    let work = bench.work.enqueue(None)?;
    let queueing = [before, Instant::now()];
    let next = bench.next.enqueue(Some(&signal))?;
    flush(&bench.runtime)?;
    let ended = wait_for(&work);
    let known = Instant::now();
    let signalled = Instant::now();
    // Also after a failure: what waits for the signal must not wait for ever.
    signal.complete()?;
    ended?;
    wait_for(&next)?;
    let [_, resumed, _] = stamps(&next)?;
    Ok(Round { queueing, work: stamps(&work)?, known, signalled, resumed })
}

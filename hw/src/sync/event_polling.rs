//! Event polling: the host asks for the event's status again and again.

use std::time::{Duration, Instant};

use crate::opencl::signals::Event;

use super::SyncError;
use super::round::{Bench, Round};
use crate::opencl::Runtime;
use crate::opencl::signals::{UserEvent, flush, has_ended, stamps};
use crate::opencl::timing::timed_out;

pub(super) fn round(bench: &mut Bench, limit: Duration) -> Result<Round, SyncError> {
    let signal = UserEvent::new(&bench.runtime)?;
    let before = Instant::now();
    let work = bench.work.enqueue(None)?;
    let queueing = [before, Instant::now()];
    let next = bench.next.enqueue(Some(&signal))?;
    flush(&bench.runtime)?;
    let ended = poll(&bench.runtime, &work, limit);
    let known = Instant::now();
    let signalled = Instant::now();
    // Also after a failure: what waits for the signal must not wait for ever.
    signal.complete()?;
    // A driver may leave what a signal has freed in its own queue until it is flushed
    // or waited for; asking for a status does neither.
    flush(&bench.runtime)?;
    ended?;
    poll(&bench.runtime, &next, limit)?;
    let [_, resumed, _] = stamps(&next)?;
    Ok(Round { queueing, work: stamps(&work)?, known, signalled, resumed })
}

/// Asks until `event` has ended, at most for `limit`; a device that takes longer is
/// given up.
pub(super) fn poll(runtime: &Runtime, event: &Event, limit: Duration) -> Result<(), SyncError> {
    let deadline = Instant::now() + limit;
    while !has_ended(event)? {
        if Instant::now() > deadline {
            runtime.give_up();
            return Err(timed_out("a kernel whose event was polled", limit).into());
        }
        std::hint::spin_loop();
    }
    Ok(())
}

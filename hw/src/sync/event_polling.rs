//! Event polling: the host asks for the event's status again and again, and queues what
//! the device does next once it knows. A command that waits for the host's own event would
//! be left to a thread of the driver, which some wake every few milliseconds unless the host
//! sleeps in a call of theirs (NVIDIA: 7.9 ms).

use std::time::{Duration, Instant};

use crate::opencl::events::Event;

use super::SyncError;
use super::round::{Bench, Round};
use crate::opencl::Runtime;
use crate::opencl::events::{flush, has_ended, stamps};
use crate::opencl::timing::timed_out;

pub(super) fn round(bench: &mut Bench, limit: Duration) -> Result<Round, SyncError> {
    let before = Instant::now();
    let work = bench.work.enqueue(None)?;
    let queueing = [before, Instant::now()];
    flush(&bench.runtime)?;
    poll(&bench.runtime, &work, limit)?;
    let known = Instant::now();
    // The device goes on when it is given something.
    let next = bench.next.enqueue(None)?;
    flush(&bench.runtime)?;
    poll(&bench.runtime, &next, limit)?;
    let [_, resumed, _] = stamps(&next)?;
    Ok(Round { queueing, work: stamps(&work)?, known, signalled: known, resumed })
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

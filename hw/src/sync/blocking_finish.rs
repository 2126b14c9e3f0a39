//! Blocking finish: the host sleeps until the queue is empty. It cannot be given a
//! limit; [`super::probe`] runs it where it can be left behind.

use std::time::Instant;

use super::SyncError;
use super::round::{Bench, Round};
use crate::opencl::events::{finish, stamps};

pub(super) fn round(bench: &mut Bench) -> Result<Round, SyncError> {
    let before = Instant::now();
    let work = bench.work.enqueue(None)?;
    let queueing = [before, Instant::now()];
    finish(&bench.runtime)?;
    let known = Instant::now();
    // The device goes on when it is given something.
    let next = bench.next.enqueue(None)?;
    finish(&bench.runtime)?;
    let [_, resumed, _] = stamps(&next)?;
    Ok(Round { queueing, work: stamps(&work)?, known, signalled: known, resumed })
}

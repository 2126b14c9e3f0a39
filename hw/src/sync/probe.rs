//! Whether a mechanism works here, and what is used where it does not.
//!
//! A probe runs a few rounds on a thread of its own: a call that never returns leaves
//! that thread behind, and the device is given up, but the caller goes on.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use thiserror::Error;

use super::{Mechanism, measure};
use crate::opencl::Runtime;

/// Rounds that must go well.
const ROUNDS: u32 = 100;
/// What a round may take: another process may hold the core for some slices of the
/// scheduler, of which 24 to 52 ms were seen on a loaded machine with two cores.
const ROUND_LIMIT: Duration = Duration::from_millis(500);
/// What a probe may take, with building its kernels.
const PROBE_LIMIT: Duration = Duration::from_secs(20);

/// A mechanism that must not be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{mechanism} does not work here: {why}")]
pub struct Unsound {
    /// The mechanism.
    pub mechanism: Mechanism,
    /// What went wrong.
    pub why: String,
}

/// Tries `mechanism` for a hundred rounds.
///
/// # Errors
/// What went wrong.
pub fn probe(runtime: &Arc<Runtime>, mechanism: Mechanism) -> Result<(), Unsound> {
    probe_within(runtime, mechanism, ROUNDS, ROUND_LIMIT, PROBE_LIMIT)
}

pub(super) fn probe_within(
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

/// The first of `wanted` and its fallbacks that is sound, and those that were passed over
/// before: warn of them.
///
/// # Errors
/// What was tried, where the device does not answer at all.
pub fn choose(runtime: &Arc<Runtime>, wanted: Mechanism) -> Result<(Mechanism, Vec<Unsound>), Vec<Unsound>> {
    first_sound(wanted, |mechanism| probe(runtime, mechanism))
}

pub(super) fn first_sound(
    wanted: Mechanism,
    mut probe: impl FnMut(Mechanism) -> Result<(), Unsound>,
) -> Result<(Mechanism, Vec<Unsound>), Vec<Unsound>> {
    let mut passed_over = Vec::new();
    for mechanism in std::iter::once(wanted).chain(wanted.fallbacks()) {
        match probe(mechanism) {
            Ok(()) => return Ok((mechanism, passed_over)),
            Err(unsound) => passed_over.push(unsound),
        }
    }
    Err(passed_over)
}

//! Whether a mechanism works here, and what is used where it does not.
//!
//! A probe runs a few rounds on a thread of its own: a call that never returns leaves
//! that thread behind, and the device is given up, but the caller goes on.

use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use super::{Mechanism, measure};
use crate::opencl::Runtime;

/// Rounds that must go well.
const ROUNDS: u32 = 100;
/// What a round may take: another process may hold the core for some slices of the
/// scheduler, of which 24 to 52 ms were seen on a loaded machine with two cores.
const ROUND_LIMIT: Duration = Duration::from_millis(500);
/// What a probe may take, with building its kernels.
const PROBE_LIMIT: Duration = Duration::from_secs(20);

/// What a probe found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Soundness {
    /// All rounds went well.
    Sound,
    /// It must not be used.
    Unsound {
        /// What went wrong.
        why: String,
    },
}

/// A mechanism that was passed over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replaced {
    /// The mechanism.
    pub mechanism: Mechanism,
    /// What went wrong.
    pub why: String,
}

/// The mechanism to use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The first that is sound.
    pub mechanism: Mechanism,
    /// What was passed over before: warn of it.
    pub replaced: Vec<Replaced>,
}

impl fmt::Display for Replaced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} does not work here: {}", self.mechanism, self.why)
    }
}

/// Tries `mechanism` for a hundred rounds.
pub fn probe(runtime: &Arc<Runtime>, mechanism: Mechanism) -> Soundness {
    probe_within(runtime, mechanism, ROUNDS, ROUND_LIMIT, PROBE_LIMIT)
}

pub(super) fn probe_within(
    runtime: &Arc<Runtime>,
    mechanism: Mechanism,
    rounds: u32,
    round_limit: Duration,
    limit: Duration,
) -> Soundness {
    if runtime.is_lost() {
        return Soundness::Unsound { why: "the device did not answer before".to_owned() };
    }
    let (sender, receiver) = channel();
    let probed = Arc::clone(runtime);
    let spawned = std::thread::Builder::new().name(format!("probe {mechanism}")).spawn(move || {
        // Nobody listens any more where the limit has passed.
        let _ = sender.send(measure(&probed, mechanism, rounds, round_limit));
    });
    let outcome = match spawned {
        Ok(_detached) => receiver.recv_timeout(limit),
        Err(error) => return Soundness::Unsound { why: format!("no thread to try it on: {error}") },
    };
    match outcome {
        Ok(Ok(_)) => Soundness::Sound,
        Ok(Err(error)) => Soundness::Unsound { why: error.to_string() },
        Err(RecvTimeoutError::Timeout) => {
            runtime.give_up();
            let why = format!("the device did not answer within {} ms", super::milliseconds(limit));
            Soundness::Unsound { why }
        }
        Err(RecvTimeoutError::Disconnected) => {
            Soundness::Unsound { why: "the thread that tried it failed".to_owned() }
        }
    }
}

/// The first of `wanted` and its fallbacks that is sound.
///
/// # Errors
/// What was tried, where the device does not answer at all.
pub fn choose(runtime: &Arc<Runtime>, wanted: Mechanism) -> Result<Choice, Vec<Replaced>> {
    first_sound(wanted, |mechanism| probe(runtime, mechanism))
}

pub(super) fn first_sound(
    wanted: Mechanism,
    mut probe: impl FnMut(Mechanism) -> Soundness,
) -> Result<Choice, Vec<Replaced>> {
    let mut replaced = Vec::new();
    for &mechanism in std::iter::once(&wanted).chain(wanted.fallbacks()) {
        match probe(mechanism) {
            Soundness::Sound => return Ok(Choice { mechanism, replaced }),
            Soundness::Unsound { why } => replaced.push(Replaced { mechanism, why }),
        }
    }
    Err(replaced)
}

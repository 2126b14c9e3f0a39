//! What kernels took.

use std::time::Duration;

use coexec_sim::Picos;
use opencl3::event::Event;

use super::error::{OpenClError, Result};
use super::events::{Stamps, stamps};

/// What a run of a layer took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timing {
    /// What became of its kernels when, in order.
    pub kernels: Vec<Stamps>,
    /// From the first kernel's start to the last one's end, by the device's clock.
    pub device: Picos,
    /// From the host's first call until it knew of the end, by the host's clock.
    pub wall: Picos,
}

impl Timing {
    /// The times of `events`, which are complete.
    pub(super) fn of(events: &[Event], wall: Duration) -> Result<Self> {
        let kernels = events.iter().map(stamps).collect::<Result<Vec<_>, _>>()?;
        let first = kernels.iter().map(|kernel| kernel.started).min();
        let last = kernels.iter().map(|kernel| kernel.ended).max();
        let device = first.zip(last).map_or(Picos::ZERO, |(first, last)| between(first, last));
        Ok(Self { kernels, device, wall: of_duration(wall) })
    }
}

/// The time between two stamps, zero where the second is not later.
pub(crate) fn between(from: u64, to: u64) -> Picos {
    Picos::from_nanos(to.saturating_sub(from) as f64)
}

/// A time of the host's clock.
pub(crate) fn of_duration(duration: Duration) -> Picos {
    between(0, u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}

/// The error of what took longer than `limit`.
pub(crate) fn timed_out(what: &'static str, limit: Duration) -> OpenClError {
    OpenClError::TimedOut { what, limit_ms: u64::try_from(limit.as_millis()).unwrap_or(u64::MAX) }
}

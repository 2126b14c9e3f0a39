//! What kernels took.

use std::time::Duration;

use coexec_sim::units::Picos;
use opencl3::event::Event;

use super::error::OpenClError;
use super::events::{Stamps, stamps};

/// What one kernel of a layer took, by the device's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelTime {
    /// The kernel.
    pub name: &'static str,
    /// From the host's call until the driver handed it to the device.
    pub queued: Picos,
    /// From then until it started.
    pub submitted: Picos,
    /// From its start until its end.
    pub execution: Picos,
}

/// What a run of a layer took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Its kernels, in order.
    pub kernels: Vec<KernelTime>,
    /// From the first kernel's start to the last one's end, by the device's clock.
    pub device: Picos,
    /// From the host's first call until it knew of the end, by the host's clock.
    pub wall: Picos,
}

impl Timing {
    /// The times of `events`, which are complete.
    pub(super) fn of(events: &[(&'static str, Event)], wall: Duration) -> Result<Self, OpenClError> {
        let mut kernels = Vec::with_capacity(events.len());
        let mut span: Option<[u64; 2]> = None;
        for (name, event) in events {
            let Stamps { queued, submitted: submit, started: start, ended: end } = stamps(event)?;
            let between = |from: u64, to: u64| nanoseconds(to.saturating_sub(from));
            kernels.push(KernelTime {
                name,
                queued: between(queued, submit),
                submitted: between(submit, start),
                execution: between(start, end),
            });
            span = Some(span.map_or([start, end], |[first, last]| [first.min(start), last.max(end)]));
        }
        let device = span.map_or(Picos::ZERO, |[first, last]| nanoseconds(last.saturating_sub(first)));
        Ok(Self { kernels, device, wall: of_duration(wall) })
    }
}

fn nanoseconds(count: u64) -> Picos {
    Picos::from_nanos(count as f64)
}

/// A time of the host's clock.
pub(crate) fn of_duration(duration: Duration) -> Picos {
    nanoseconds(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}

/// The error of what took longer than `limit`.
pub(crate) fn timed_out(what: &'static str, limit: Duration) -> OpenClError {
    OpenClError::TimedOut { what, limit_ms: u64::try_from(limit.as_millis()).unwrap_or(u64::MAX) }
}

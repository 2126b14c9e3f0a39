//! Events and the queue: ending, waiting, asking, and what kernels took.
//!
//! Responsible for: the driver's calls. Not for: limits on waits that have none of their
//! own (`crate::execute`), or flags (`super::signals`).

use std::time::{Duration, Instant};

use opencl3::event::CL_COMPLETE;
pub(crate) use opencl3::event::Event;

use super::{Naming, OpenClError, Result, Runtime};
use coexec_sim::Picos;

/// How long the host sleeps between two looks at an event that it waits for.
const BETWEEN_LOOKS: Duration = Duration::from_micros(50);

/// An event that the host ends.
pub(crate) struct UserEvent(pub(super) Event);

impl UserEvent {
    /// One that has not ended.
    pub(crate) fn new(runtime: &Runtime) -> Result<Self> {
        let event = cl3::event::create_user_event(runtime.context().get()).naming("clCreateUserEvent")?;
        Ok(Self(Event::new(event)))
    }

    /// Ends it: commands that wait for it may start.
    pub(crate) fn complete(&self) -> Result<()> {
        cl3::event::set_user_event_status(self.0.get(), CL_COMPLETE).naming("clSetUserEventStatus")
    }
}

/// Holds whatever is queued from now on until the host ends `event`.
pub(crate) fn hold(runtime: &Runtime, event: &UserEvent) -> Result<()> {
    let after = [event.0.get()];
    // SAFETY: the event is valid; the driver keeps it as long as it needs it.
    let held = unsafe { runtime.queue().enqueue_barrier_with_wait_list(&after) };
    held.naming("clEnqueueBarrierWithWaitList").map(|_: Event| ())
}

/// Sleeps until the queue is empty.
pub(crate) fn finish(runtime: &Runtime) -> Result<()> {
    runtime.queue().finish().naming("clFinish")
}

/// Hands what is queued to the device.
pub(crate) fn flush(runtime: &Runtime) -> Result<()> {
    runtime.queue().flush().naming("clFlush")
}

/// Sleeps until `event` has ended.
pub(crate) fn wait_for(event: &Event) -> Result<()> {
    event.wait().naming("clWaitForEvents")
}

/// Whether `event` has ended.
pub(crate) fn has_ended(event: &Event) -> Result<bool> {
    let status = event.command_execution_status().naming("clGetEventInfo")?.0;
    if status < 0 { Err(status).naming("a kernel") } else { Ok(status == CL_COMPLETE) }
}

/// What became of a command when, in nanoseconds of the device's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamps {
    /// The host queued it.
    pub queued: u64,
    /// The device started it.
    pub started: u64,
    /// It ended.
    pub ended: u64,
}

/// The time stamps of `event`, which has ended.
pub(crate) fn stamps(event: &Event) -> Result<Stamps> {
    let call = "clGetEventProfilingInfo";
    Ok(Stamps {
        queued: event.profiling_command_queued().naming(call)?,
        started: event.profiling_command_start().naming(call)?,
        ended: event.profiling_command_end().naming(call)?,
    })
}

/// Polls until `event` has ended, at most for `limit`; a device that takes longer is given
/// up.
pub(crate) fn poll(runtime: &Runtime, event: &Event, what: &'static str, limit: Duration) -> Result<()> {
    let waiting = (Instant::now(), limit, what);
    or_give_up(runtime, look_until(waiting, std::hint::spin_loop, || has_ended(event)))
}

/// Hands what is queued to the device and sleeps until `event` has ended, at most for
/// `limit`; a device that takes longer is given up.
pub(crate) fn wait(runtime: &Runtime, event: &Event, what: &'static str, limit: Duration) -> Result<()> {
    flush(runtime)?;
    let (waiting, sleep) = ((Instant::now(), limit, what), || std::thread::sleep(BETWEEN_LOOKS));
    or_give_up(runtime, look_until(waiting, sleep, || has_ended(event)))
}

/// Looks until `condition` holds, at most for a limit from an instant on: the error names what was waited for.
pub(crate) fn look_until(
    (started, limit, what): (Instant, Duration, &'static str),
    between_looks: impl Fn(),
    mut condition: impl FnMut() -> Result<bool>,
) -> Result<()> {
    while !condition()? {
        if started.elapsed() > limit {
            return Err(timed_out(what, limit));
        }
        between_looks();
    }
    Ok(())
}

/// `waited`; a device that took longer than the limit is given up.
pub(crate) fn or_give_up(runtime: &Runtime, waited: Result<()>) -> Result<()> {
    waited.inspect_err(|error| {
        if let OpenClError::TimedOut { .. } = error {
            runtime.give_up();
        }
    })
}

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

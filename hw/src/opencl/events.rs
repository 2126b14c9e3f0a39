//! Events and the queue: ending, waiting, asking.
//!
//! Responsible for: the driver's calls. Not for: limits on waits that have none of their
//! own (`crate::execute`), or flags (`super::signals`).

use std::time::{Duration, Instant};

use opencl3::event::CL_COMPLETE;
pub(crate) use opencl3::event::Event;

use super::error::{Naming, Result};
use super::runtime::Runtime;
use super::timing::timed_out;

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
    look_until_ended(runtime, event, (what, limit), std::hint::spin_loop)
}

/// Hands what is queued to the device and sleeps until `event` has ended, at most for
/// `limit`; a device that takes longer is given up.
pub(crate) fn wait(runtime: &Runtime, event: &Event, what: &'static str, limit: Duration) -> Result<()> {
    flush(runtime)?;
    look_until_ended(runtime, event, (what, limit), || std::thread::sleep(BETWEEN_LOOKS))
}

fn look_until_ended(
    runtime: &Runtime,
    event: &Event,
    (what, limit): (&'static str, Duration),
    between_looks: impl Fn(),
) -> Result<()> {
    let deadline = Instant::now() + limit;
    while !has_ended(event)? {
        if Instant::now() > deadline {
            runtime.give_up();
            return Err(timed_out(what, limit));
        }
        between_looks();
    }
    Ok(())
}

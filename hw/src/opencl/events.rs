//! Events and the queue: completion, waiting, polling, and profiling.
//!
//! Responsible for: the driver's calls. Not for: limits on blocking calls that have none
//! (`crate::execute`), or flags (`super::signals`).

use std::sync::Arc;
use std::time::{Duration, Instant};

use opencl3::event::CL_COMPLETE;
pub(crate) use opencl3::event::Event;

use super::{Naming, OpenClError, Result, Runtime};
use coexec_sim::Picos;

/// How long the host sleeps between two polls of an event.
const POLL_INTERVAL: Duration = Duration::from_micros(50);

/// An event that the host completes.
pub(crate) struct UserEvent(pub(super) Event);

impl UserEvent {
    /// An event that is not complete.
    pub(crate) fn new(runtime: &Runtime) -> Result<Self> {
        let event = cl3::event::create_user_event(runtime.context().get()).naming("clCreateUserEvent")?;
        Ok(Self(Event::new(event)))
    }

    /// Completes the event: commands that wait for it may start.
    pub(crate) fn complete(&self) -> Result<()> {
        cl3::event::set_user_event_status(self.0.get(), CL_COMPLETE).naming("clSetUserEventStatus")
    }
}

/// Holds all commands enqueued from now on until the host completes `event`.
pub(crate) fn hold(runtime: &Runtime, event: &UserEvent) -> Result<()> {
    let after = [event.0.get()];
    // SAFETY: the event is valid; the driver retains it as long as needed.
    let held = unsafe { runtime.queue().enqueue_barrier_with_wait_list(&after) };
    held.naming("clEnqueueBarrierWithWaitList").map(|_: Event| ())
}

/// Blocks until the queue is empty.
pub(crate) fn finish(runtime: &Runtime) -> Result<()> {
    runtime.queue().finish().naming("clFinish")
}

/// Submits the enqueued commands to the device.
pub(crate) fn flush(runtime: &Runtime) -> Result<()> {
    runtime.queue().flush().naming("clFlush")
}

/// Blocks until `event` is complete.
pub(crate) fn wait_for(event: &Event) -> Result<()> {
    event.wait().naming("clWaitForEvents")
}

/// Whether `event` is complete; fails if its command failed.
pub(crate) fn has_ended(event: &Event) -> Result<bool> {
    let status = event.command_execution_status().naming("clGetEventInfo")?.0;
    if status < 0 { Err(status).naming("a kernel") } else { Ok(status == CL_COMPLETE) }
}

/// Profiling time stamps of a command, in nanoseconds of the device's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamps {
    /// When the host enqueued it.
    pub queued: u64,
    /// When the device started it.
    pub started: u64,
    /// When it ended.
    pub ended: u64,
}

/// The time stamps of `event`, which must be complete.
pub(crate) fn stamps(event: &Event) -> Result<Stamps> {
    let call = "clGetEventProfilingInfo";
    Ok(Stamps {
        queued: event.profiling_command_queued().naming(call)?,
        started: event.profiling_command_start().naming(call)?,
        ended: event.profiling_command_end().naming(call)?,
    })
}

/// Polls until `event` is complete; gives the device up at `limit`, unless it was given up before.
pub(crate) fn poll(runtime: &Runtime, event: &Event, what: &'static str, limit: Duration) -> Result<()> {
    complete(runtime, event, (what, limit), std::hint::spin_loop)
}

/// Submits the enqueued commands and sleeps until `event` is complete; gives the device up at
/// `limit`, unless it was given up before.
pub(crate) fn wait(runtime: &Runtime, event: &Event, what: &'static str, limit: Duration) -> Result<()> {
    flush(runtime)?;
    complete(runtime, event, (what, limit), || std::thread::sleep(POLL_INTERVAL))
}

/// Checks `event` until it is complete; gives the device up at `limit`. Fails at once if it was given up before, so that
/// commands queued behind one that hangs are not waited for one by one.
fn complete(
    runtime: &Runtime,
    event: &Event,
    (what, limit): (&'static str, Duration),
    pause: impl Fn(),
) -> Result<()> {
    if runtime.is_lost() && !has_ended(event)? {
        return Err(timed_out(what, limit));
    }
    or_give_up(runtime, poll_until((Instant::now(), limit, what), pause, || has_ended(event)))
}

/// Sleeps until everything enqueued so far has ended; gives the device up at `limit`. Fails at once
/// if it was given up before.
pub(crate) fn drain(runtime: &Runtime, limit: Duration) -> Result<()> {
    let what = "what was enqueued";
    if runtime.is_lost() {
        return Err(timed_out(what, limit));
    }
    // SAFETY: the command accesses no memory, and waits for nothing but the queue.
    let last = unsafe { runtime.queue().enqueue_marker_with_wait_list(&[]) };
    wait(runtime, &last.naming("clEnqueueMarkerWithWaitList")?, what, limit)
}

/// Polls until `condition` holds, or fails at the limit with an error that names what was waited
/// for.
pub(crate) fn poll_until(
    (started, limit, what): (Instant, Duration, &'static str),
    pause: impl Fn(),
    mut condition: impl FnMut() -> Result<bool>,
) -> Result<()> {
    while !condition()? {
        if started.elapsed() > limit {
            return Err(timed_out(what, limit));
        }
        pause();
    }
    Ok(())
}

/// Returns `waited`, and gives the device up if it missed the time limit.
pub(crate) fn or_give_up(runtime: &Runtime, waited: Result<()>) -> Result<()> {
    waited.inspect_err(|error| {
        if let OpenClError::TimedOut { .. } = error {
            runtime.give_up();
        }
    })
}

/// Times of one run of a layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Time stamps of its kernels, in order.
    pub kernels: Vec<Stamps>,
    /// From the first kernel's start to the last one's end, on the device's clock.
    pub device: Picos,
    /// From the host's first call until the host learned of the end, on the host's clock.
    pub wall: Picos,
}

/// Enqueued kernels.
pub(crate) struct Queued {
    runtime: Arc<Runtime>,
    events: Vec<Event>,
    /// Name of the last kernel.
    last: &'static str,
    started: Instant,
}

impl Queued {
    /// The kernels that `enqueue` enqueues, of which the last is named `last`.
    pub(super) fn new(
        runtime: &Arc<Runtime>,
        last: &'static str,
        enqueue: impl FnOnce() -> Result<Vec<Event>>,
    ) -> Result<Self> {
        let started = Instant::now();
        Ok(Self { runtime: Arc::clone(runtime), events: enqueue()?, last, started })
    }

    /// Sleeps until the last has ended, at most for `limit`.
    ///
    /// # Errors
    /// Where the device fails or exceeds the limit, in which case it is given up.
    pub(crate) fn wait(self, limit: Duration) -> Result<Timing> {
        self.timed(|last| wait(&self.runtime, last, self.last, limit))
    }

    /// As [`Self::wait`], but polls without a pause.
    pub(super) fn poll(self, limit: Duration) -> Result<Timing> {
        flush(&self.runtime)?;
        self.timed(|last| poll(&self.runtime, last, self.last, limit))
    }

    fn timed(&self, wait: impl FnOnce(&Event) -> Result<()>) -> Result<Timing> {
        self.events.last().map_or(Ok(()), wait)?;
        let wall = duration_to_picos(self.started.elapsed());
        let kernels = self.events.iter().map(stamps).collect::<Result<Vec<_>, _>>()?;
        let first = kernels.iter().map(|kernel| kernel.started).min();
        let last = kernels.iter().map(|kernel| kernel.ended).max();
        let device = first.zip(last).map_or(Picos::ZERO, |(first, last)| between(first, last));
        Ok(Timing { kernels, device, wall })
    }
}

/// The time between two stamps; zero where the second is not later.
pub(crate) fn between(from: u64, to: u64) -> Picos {
    Picos::from_nanos(to.saturating_sub(from) as f64)
}

/// A duration on the host's clock.
pub(crate) fn duration_to_picos(duration: Duration) -> Picos {
    between(0, u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}

/// The error for what took longer than `limit`.
pub(crate) fn timed_out(what: &'static str, limit: Duration) -> OpenClError {
    OpenClError::TimedOut { what, limit_ms: u64::try_from(limit.as_millis()).unwrap_or(u64::MAX) }
}

//! Waiting for kernels, and what they took.

use std::ffi::c_void;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use coexec_sim::units::Picos;
use opencl3::event::{CL_COMPLETE, Event};
use opencl3::types::{cl_event, cl_int};

use super::error::{Naming, OpenClError};
use super::runtime::Runtime;

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
            let [queued, submit, start, end] = stamps(event).naming("clGetEventProfilingInfo")?;
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

fn stamps(event: &Event) -> opencl3::Result<[u64; 4]> {
    Ok([
        event.profiling_command_queued()?,
        event.profiling_command_submit()?,
        event.profiling_command_start()?,
        event.profiling_command_end()?,
    ])
}

fn nanoseconds(count: u64) -> Picos {
    Picos::from_nanos(count as f64)
}

/// A time of the host's clock.
pub(crate) fn of_duration(duration: Duration) -> Picos {
    nanoseconds(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}

/// Where the driver notes that a command ended.
#[derive(Default)]
struct Ending {
    status: Mutex<Option<i32>>,
    noted: Condvar,
}

extern "C" fn note_ending(_event: cl_event, status: cl_int, ending: *mut c_void) {
    // SAFETY: `ending` came from `Arc::into_raw` in `wait`, and the driver calls back
    // once.
    let ending = unsafe { Arc::from_raw(ending.cast::<Ending>().cast_const()) };
    *ending.status.lock().unwrap_or_else(PoisonError::into_inner) = Some(status);
    ending.noted.notify_all();
}

/// Sleeps until `event` has ended, at most for `limit`; a device that takes longer is
/// given up.
pub(crate) fn wait(
    runtime: &Runtime,
    event: &Event,
    what: &'static str,
    limit: Duration,
) -> Result<(), OpenClError> {
    let ending = Arc::new(Ending::default());
    let handed_over = Arc::into_raw(Arc::clone(&ending));
    let registered = event.set_callback(CL_COMPLETE, note_ending, handed_over.cast_mut().cast());
    if registered.is_err() {
        // SAFETY: the driver refused it, so it will not call back with this pointer.
        drop(unsafe { Arc::from_raw(handed_over) });
    }
    registered.naming("clSetEventCallback")?;
    runtime.queue().flush().naming("clFlush")?;
    let deadline = Instant::now() + limit;
    let mut status = ending.status.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        if let Some(status) = *status {
            return if status < 0 { Err(status).naming("a kernel") } else { Ok(()) };
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            runtime.give_up();
            return Err(timed_out(what, limit));
        }
        status = ending.noted.wait_timeout(status, left).unwrap_or_else(PoisonError::into_inner).0;
    }
}

/// The error of what took longer than `limit`.
pub(crate) fn timed_out(what: &'static str, limit: Duration) -> OpenClError {
    OpenClError::TimedOut { what, limit_ms: u64::try_from(limit.as_millis()).unwrap_or(u64::MAX) }
}

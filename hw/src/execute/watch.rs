//! Measuring on a separate thread, which is abandoned when it hangs: some driver calls never return
//! once a device is lost.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::Builder;
use std::time::{Duration, Instant};

use super::{ExecuteError, Result};

/// Interval at which the watchdog checks for cancellation.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Time limit of preparing or checking one operator, which includes compilation.
pub(super) const STEP_LIMIT: Duration = Duration::from_mins(2);
/// How long a cancelled measurement may continue with its current action.
const CANCEL_LIMIT: Duration = Duration::from_secs(2);
/// Shortest interval between heartbeats: sending one takes about a microsecond.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(1);

/// A message to the user during a measurement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProgressEvent {
    /// Progress of the measurement.
    Progress(String),
    /// Something the user should know about the results.
    Warning(String),
}

/// The measuring thread's handle.
#[derive(Clone, Debug)]
pub(crate) struct Control {
    stop: Arc<AtomicBool>,
    /// Heartbeats, some with a message to the user.
    events: Sender<Option<ProgressEvent>>,
    last_heartbeat: Cell<Instant>,
}

impl Control {
    /// Sends a heartbeat.
    ///
    /// # Errors
    /// Where the measurement was cancelled.
    pub(super) fn check(&self) -> Result<()> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(ExecuteError::Cancelled);
        }
        if self.last_heartbeat.get().elapsed() > HEARTBEAT_INTERVAL {
            self.last_heartbeat.set(Instant::now());
            self.send(None);
        }
        Ok(())
    }

    /// A handle without a watchdog.
    pub(crate) fn unwatched() -> Self {
        Self { stop: Arc::default(), events: channel().0, last_heartbeat: Cell::new(Instant::now()) }
    }

    /// Sends a message to the user.
    pub(super) fn notify(&self, event: ProgressEvent) {
        self.send(Some(event));
    }

    fn send(&self, event: Option<ProgressEvent>) {
        // The watchdog may be gone.
        let _ = self.events.send(event);
    }
}

/// Runs `work` on a separate thread until it ends, is cancelled by `stop`, or has sent no heartbeat
/// for `patience`.
pub(super) fn watched<R: Send + 'static>(
    patience: Duration,
    stop: &Arc<AtomicBool>,
    on_event: &mut dyn FnMut(ProgressEvent),
    work: impl FnOnce(&Control) -> Result<R> + Send + 'static,
) -> Result<R> {
    let (events, heartbeats) = channel();
    let control = Control { stop: Arc::clone(stop), events, last_heartbeat: Cell::new(Instant::now()) };
    let thread = Builder::new().name("measurement".to_owned());
    let thread = thread.spawn(move || work(&control)).map_err(ExecuteError::NoThread)?;
    let mut last_message = Instant::now();
    let mut cancelled: Option<Instant> = None;
    loop {
        match heartbeats.recv_timeout(POLL_INTERVAL) {
            Ok(event) => {
                last_message = Instant::now();
                event.into_iter().for_each(&mut *on_event);
            }
            Err(RecvTimeoutError::Disconnected) => {
                return thread.join().unwrap_or(Err(ExecuteError::ThreadFailed));
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
        if stop.load(Ordering::Relaxed) && cancelled.get_or_insert_with(Instant::now).elapsed() > CANCEL_LIMIT
        {
            return Err(ExecuteError::Cancelled);
        }
        if last_message.elapsed() > patience {
            return Err(ExecuteError::Stalled { seconds: patience.as_secs_f64() });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hang() -> ! {
        loop {
            std::thread::park();
        }
    }

    #[test]
    fn a_hanging_thread_is_abandoned() {
        let started = Instant::now();
        let result: Result<(), _> =
            watched(Duration::from_millis(100), &Arc::default(), &mut |_| {}, |_| hang());
        assert!(matches!(result, Err(ExecuteError::Stalled { .. })), "{result:?}");
        assert!(started.elapsed() < Duration::from_secs(5));
    }

    #[test]
    fn cancelling_ends_what_looks_and_what_hangs() {
        let stop = Arc::new(AtomicBool::new(true));
        let looks = |control: &Control| loop {
            control.check()?;
        };
        let result: Result<(), _> = watched(STEP_LIMIT, &stop, &mut |_| {}, looks);
        assert!(matches!(result, Err(ExecuteError::Cancelled)), "{result:?}");
        let result: Result<(), _> = watched(STEP_LIMIT, &stop, &mut |_| {}, |_| hang());
        assert!(matches!(result, Err(ExecuteError::Cancelled)), "{result:?}");
    }

    #[test]
    fn events_reach_the_user_before_the_result() {
        let mut heard = Vec::new();
        let work = |control: &Control| {
            control.notify(ProgressEvent::Warning("mind".to_owned()));
            Ok(7)
        };
        let result = watched(STEP_LIMIT, &Arc::default(), &mut |event| heard.push(event), work);
        assert_eq!((result.ok(), heard), (Some(7), vec![ProgressEvent::Warning("mind".to_owned())]));
    }

    #[test]
    fn a_thread_that_panics_is_an_error() {
        let result: Result<(), _> =
            watched(STEP_LIMIT, &Arc::default(), &mut |_| {}, |_| panic!("a test's panic"));
        assert!(matches!(result, Err(ExecuteError::ThreadFailed)), "{result:?}");
    }
}

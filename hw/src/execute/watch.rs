//! Measuring on a thread of its own, which is left behind where it hangs: some calls of
//! a driver never return when a device is lost.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::Builder;
use std::time::{Duration, Instant};

use super::{ExecuteError, Result};

/// How often the watcher looks whether it was cancelled.
const LOOK: Duration = Duration::from_millis(50);
/// What preparing or checking one operator may take; a driver also compiles meanwhile.
pub(super) const PATIENCE: Duration = Duration::from_mins(2);
/// How long a cancelled measurement may go on with what it is doing.
const GRACE: Duration = Duration::from_secs(2);
/// Signs of life are this far apart at least: a message costs about a microsecond.
const BEAT: Duration = Duration::from_secs(1);

/// What is worth telling a user while things are measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProgressEvent {
    /// How far it is.
    Progress(String),
    /// Something that the user should know of the results.
    Warning(String),
}

/// The measuring thread's side.
pub(super) struct Control {
    stop: Arc<AtomicBool>,
    /// Signs of life, some of which are worth telling.
    say: Sender<Option<ProgressEvent>>,
    last_beat: Cell<Instant>,
}

impl Control {
    /// Says that the thread is alive.
    ///
    /// # Errors
    /// Where it should stop.
    pub(super) fn check(&self) -> Result<()> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(ExecuteError::Cancelled);
        }
        if self.last_beat.get().elapsed() > BEAT {
            self.last_beat.set(Instant::now());
            self.say(None);
        }
        Ok(())
    }

    /// Of a thread that nobody watches.
    pub(super) fn unwatched() -> Self {
        Self { stop: Arc::default(), say: channel().0, last_beat: Cell::new(Instant::now()) }
    }

    /// Tells the user.
    pub(super) fn tell(&self, event: ProgressEvent) {
        self.say(Some(event));
    }

    fn say(&self, event: Option<ProgressEvent>) {
        // A watcher that went away listens no more.
        let _ = self.say.send(event);
    }
}

/// Runs `work` on a thread of its own until it ends, is cancelled by `stop`, or has shown
/// no sign of life for `patience`.
pub(super) fn watched<R: Send + 'static>(
    patience: Duration,
    stop: &Arc<AtomicBool>,
    tell: &mut dyn FnMut(ProgressEvent),
    work: impl FnOnce(&Control) -> Result<R> + Send + 'static,
) -> Result<R> {
    let (say, signs_of_life) = channel();
    let control = Control { stop: Arc::clone(stop), say, last_beat: Cell::new(Instant::now()) };
    let thread = Builder::new().name("measurement".to_owned());
    let thread = thread.spawn(move || work(&control)).map_err(ExecuteError::NoThread)?;
    let mut heard = Instant::now();
    let mut cancelled: Option<Instant> = None;
    loop {
        match signs_of_life.recv_timeout(LOOK) {
            Ok(event) => {
                heard = Instant::now();
                event.into_iter().for_each(&mut *tell);
            }
            Err(RecvTimeoutError::Disconnected) => {
                return thread.join().unwrap_or(Err(ExecuteError::ThreadFailed));
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
        if stop.load(Ordering::Relaxed) && cancelled.get_or_insert_with(Instant::now).elapsed() > GRACE {
            return Err(ExecuteError::Cancelled);
        }
        if heard.elapsed() > patience {
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
    fn a_thread_that_hangs_is_left_behind() {
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
        let result: Result<(), _> = watched(PATIENCE, &stop, &mut |_| {}, looks);
        assert!(matches!(result, Err(ExecuteError::Cancelled)), "{result:?}");
        let result: Result<(), _> = watched(PATIENCE, &stop, &mut |_| {}, |_| hang());
        assert!(matches!(result, Err(ExecuteError::Cancelled)), "{result:?}");
    }

    #[test]
    fn what_is_told_reaches_the_user_before_the_result() {
        let mut heard = Vec::new();
        let work = |control: &Control| {
            control.tell(ProgressEvent::Warning("mind".to_owned()));
            Ok(7)
        };
        let result = watched(PATIENCE, &Arc::default(), &mut |told| heard.push(told), work);
        assert_eq!((result.ok(), heard), (Some(7), vec![ProgressEvent::Warning("mind".to_owned())]));
    }

    #[test]
    fn a_thread_that_panics_is_an_error() {
        let result: Result<(), _> =
            watched(PATIENCE, &Arc::default(), &mut |_| {}, |_| panic!("a test's panic"));
        assert!(matches!(result, Err(ExecuteError::ThreadFailed)), "{result:?}");
    }
}

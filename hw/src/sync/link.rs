//! Synchronisation between host and device by any mechanism, for plans and for measurements.
//!
//! Responsible for: announcements of the device, signals of the host, and waits for both. One thread
//! may enqueue commands while another, the host, waits and signals.
//! Invariants: every wait in this module has a limit (blocking driver calls without one are watched
//! by `crate::execute` and [`super::measure_within`]); an aborted run leaves no side waiting.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use coexec_sim::Picos;

use super::{Mechanism, median};
use crate::lock::lock;
use crate::opencl::events::Event;
use crate::opencl::{
    Result, Runtime, Signals, UserEvent, duration_to_picos, finish, has_ended, hold, or_give_up, poll_until,
    wait_for,
};

/// Spins between two polls, each of which may read the clock and cost as much as many spins.
const SPINS_PER_POLL: u32 = 64;

/// Requested duration when the shortest sleep is measured.
const REQUESTED_SLEEP: Duration = Duration::from_micros(1);
/// Granularity of sleeps on phones (`HeteroInfer`, section 4.3: 80 to 100 us).
const STEP: Duration = Duration::from_micros(100);

/// The synchronisation state of a program.
pub(crate) struct Link {
    pub(crate) runtime: Arc<Runtime>,
    mechanism: Mechanism,
    /// The flags; `None` for mechanisms that poll none.
    signals: Option<Signals>,
    /// Announcements and signals of earlier runs: flag values only grow.
    announced_before: u32,
    signalled_before: u32,
    /// Of this run, by announcement: the event of the command before it, if there is one; not set
    /// before it is enqueued, or where flags are polled.
    announcements: Vec<OnceLock<Option<Arc<Event>>>>,
    /// Number of the host's signals in this run.
    signalled: AtomicU32,
    /// Of this run, by signal: the user event that holds the device's queue.
    held: Mutex<Vec<Option<Arc<UserEvent>>>>,
    /// For each announcement, how long the host waited for it in the last run.
    waited: Mutex<Vec<Duration>>,
    /// Whether a side failed, so that the other must not wait for it.
    has_failed: AtomicBool,
    limit: Duration,
}

impl Link {
    /// A link by `mechanism` through its flags, with the given numbers of announcements and signals
    /// per run.
    pub(crate) fn new(
        runtime: &Arc<Runtime>,
        (mechanism, flags): (Mechanism, Option<Signals>),
        [announcements, signals]: [u32; 2],
        limit: Duration,
    ) -> Self {
        Self {
            runtime: Arc::clone(runtime),
            mechanism,
            signals: flags,
            announced_before: 0,
            signalled_before: 0,
            announcements: (0..announcements).map(|_| OnceLock::new()).collect(),
            signalled: AtomicU32::new(0),
            held: Mutex::new((0..signals).map(|_| None).collect()),
            waited: Mutex::new(vec![Duration::ZERO; announcements as usize]),
            has_failed: AtomicBool::new(false),
            limit,
        }
    }

    /// How many signals ahead the device's queue may be filled. With 1, the device's next command
    /// is enqueued before the host has finished, which hides the launch latency. It is 0 for a
    /// blocking finish, which waits for an empty queue, and for event polling, which enqueues only
    /// after the event.
    pub(crate) fn ahead(&self) -> u32 {
        u32::from(!matches!(self.mechanism, Mechanism::BlockingFinish | Mechanism::EventPolling))
    }

    /// The flag value that a self-announcing kernel writes for an announcement; `None` for
    /// mechanisms without flags.
    pub(crate) fn flag_value(&self, announcement: u32) -> Option<u32> {
        self.signals.as_ref().map(|_| self.announced_before + announcement)
    }

    /// Number of the host's signals in this run.
    pub(crate) fn signalled(&self) -> u32 {
        self.signalled.load(Ordering::Acquire)
    }

    /// Whether a side failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Acquire)
    }

    /// Enqueues an announcement, unless the preceding command has made it, followed by the wait for
    /// the signal `awaited`, if any. `last` is the preceding command. Returns the event of the
    /// enqueued kernel, if there is one.
    pub(crate) fn announce(
        &self,
        (announcement, is_made): (u32, bool),
        awaited: Option<u32>,
        last: Option<Arc<Event>>,
    ) -> Result<Option<Event>> {
        if let Some(signals) = &self.signals {
            let awaited = awaited.map(|signal| self.signalled_before + signal);
            let announced = (!is_made).then_some(self.announced_before + announcement);
            if announced.is_none() && awaited.is_none() {
                return Ok(None);
            }
            return signals.enqueue_hand_over(announced, awaited).map(Some);
        }
        // It is set once in a run.
        let _ = self.announcements[announcement as usize - 1].set(last);
        awaited.map_or(Ok(None), |signal| self.hold(signal))
    }

    /// Makes the device's queue wait for a signal, unless it was made.
    pub(crate) fn hold(&self, signal: u32) -> Result<Option<Event>> {
        if signal <= self.signalled() {
            return Ok(None);
        }
        if let Some(signals) = &self.signals {
            return Ok(Some(signals.enqueue_hand_over(None, Some(self.signalled_before + signal))?));
        }
        let event = Arc::new(UserEvent::new(&self.runtime)?);
        let mut held = lock(&self.held);
        // The host signals before it looks for the event.
        if signal > self.signalled() {
            held[signal as usize - 1] = Some(Arc::clone(&event));
            drop(held);
            hold(&self.runtime, &event)?;
        }
        Ok(None)
    }

    /// Signals the device, which then continues.
    pub(crate) fn signal(&self, signal: u32) -> Result<()> {
        self.signalled.store(signal, Ordering::Release);
        if let Some(signals) = &self.signals {
            signals.signal(self.signalled_before + signal);
            return Ok(());
        }
        let held = lock(&self.held)[signal as usize - 1].take();
        held.map_or(Ok(()), |event| event.complete())
    }

    /// Whether the device has made the announcement.
    pub(crate) fn has_announced(&self, announcement: u32) -> Result<bool> {
        match (&self.signals, self.announcements[announcement as usize - 1].get()) {
            (Some(signals), _) => signals.has_announced(self.announced_before + announcement),
            (None, Some(Some(event))) => has_ended(event),
            (None, Some(None)) => Ok(true),
            (None, None) => Ok(false),
        }
    }

    /// Waits until the device has made the announcement, and gives the device up at the time limit.
    pub(crate) fn wait_or_give_up(&self, announcement: u32) -> Result<()> {
        let waited = self.wait_for(announcement);
        or_give_up(&self.runtime, waited)
    }

    /// Waits until the device has made the announcement.
    pub(crate) fn wait_for(&self, announcement: u32) -> Result<()> {
        let index = announcement as usize - 1;
        let started = Instant::now();
        let waiting = (started, self.limit, "its part of a run");
        let mut overslept = None;
        if self.mechanism == Mechanism::SleepThenPoll {
            let sleep = whole_sleeps(lock(&self.waited)[index], STEP);
            if !sleep.is_zero() {
                std::thread::sleep(sleep);
                overslept = self.has_announced(announcement)?.then_some(sleep);
            }
        }
        let spin =
            |until: &dyn Fn() -> Result<bool>| spin_until(waiting, || Ok(self.has_failed() || until()?));
        let blocks = matches!(self.mechanism, Mechanism::BlockingFinish | Mechanism::EventWait);
        if self.signals.is_some() || !blocks {
            spin(&|| self.has_announced(announcement))?;
        } else {
            let enqueued = &self.announcements[index];
            spin(&|| Ok(enqueued.get().is_some()))?;
            match enqueued.get() {
                Some(Some(event)) if self.mechanism == Mechanism::EventWait => wait_for(event)?,
                Some(Some(_)) => finish(&self.runtime)?,
                Some(None) | None => {}
            }
        }
        // If the host overslept, the next sleep must be shorter.
        lock(&self.waited)[index] = overslept.map_or_else(|| started.elapsed(), |sleep| sleep / 2);
        Ok(())
    }

    /// Finishes a successful run.
    pub(crate) fn end(&mut self) -> Result<()> {
        self.announced_before += self.announcements.len() as u32;
        let mut held = lock(&self.held);
        self.signalled_before += held.len() as u32;
        held.fill_with(|| None);
        drop(held);
        self.signalled.store(0, Ordering::Release);
        self.announcements.fill_with(OnceLock::new);
        self.signals.as_ref().map_or(Ok(()), |signals| signals.check(self.announced_before))
    }

    /// Releases the device after a failed run, and ends the waits of both sides; the link is not used afterwards.
    pub(crate) fn abandon(&self) {
        self.has_failed.store(true, Ordering::Release);
        if let Some(signals) = &self.signals {
            signals.release();
        }
        for event in lock(&self.held).iter_mut().filter_map(Option::take) {
            // The device may be lost, in which case nothing waits for it.
            let _ = event.complete();
        }
    }
}

/// Spins until `condition` holds, or fails at the time limit.
pub(super) fn spin_until(
    waiting: (Instant, Duration, &'static str),
    condition: impl FnMut() -> Result<bool>,
) -> Result<()> {
    poll_until(waiting, || (0..SPINS_PER_POLL).for_each(|_| std::hint::spin_loop()), condition)
}

/// The largest multiple of `step` that surely ends before `predicted` has passed: one step fewer
/// than fits, since a sleep lasts longer than requested.
fn whole_sleeps(predicted: Duration, step: Duration) -> Duration {
    let fitting = predicted.as_nanos() / step.as_nanos().max(1);
    step * u32::try_from(fitting.saturating_sub(1)).unwrap_or(u32::MAX)
}

/// The duration of the shortest sleep on this system: the median of `rounds`.
pub fn sleep_granularity(rounds: u32) -> Picos {
    let times: Vec<Picos> = (0..rounds)
        .map(|_| {
            let started = Instant::now();
            std::thread::sleep(REQUESTED_SLEEP);
            duration_to_picos(started.elapsed())
        })
        .collect();
    median(&times)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_wakes_before_the_predicted_end() {
        let slept = |micros| whole_sleeps(Duration::from_micros(micros), STEP).as_micros();
        assert_eq!([0, 99, 100, 199, 250, 1_000].map(slept), [0, 0, 0, 0, 100, 900]);
    }
}

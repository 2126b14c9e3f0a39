//! How host and device learn of each other's results: what a plan runs with, and what is
//! measured.
//!
//! Responsible for: announcements of the device, signals of the host, and waiting for
//! either, by each mechanism. Invariants: every wait of the host's own has a limit (calls
//! of the driver that have none are watched by whoever makes them); an abandoned run leaves
//! nothing waiting.

use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use coexec_sim::Picos;

use super::{Mechanism, median};
use crate::opencl::events::Event;
use crate::opencl::{
    Result, Runtime, Signals, UserEvent, finish, flush, has_ended, hold, look_until, of_duration, or_give_up,
    wait_for,
};

/// Spins between two looks at the clock, which costs as much as many of them.
const SPINS_A_LOOK: u32 = 64;

/// The sleep that is asked for when the shortest one is measured.
const SHORTEST: Duration = Duration::from_micros(1);
/// A sleep's length on phones, of which a sleep is a multiple (`HeteroInfer`, section
/// 4.3: 80 to 100 us).
const STEP: Duration = Duration::from_micros(100);

/// What passes between the two sides of a program.
pub(crate) struct Link {
    runtime: Arc<Runtime>,
    mechanism: Mechanism,
    /// For mechanisms that poll flags.
    signals: Option<Signals>,
    /// Flags of earlier runs: numbers only grow.
    announced_before: u32,
    signalled_before: u32,
    /// Of this run, by announcement: the last command before it.
    announcements: Vec<Option<Rc<Event>>>,
    /// Of this run, by signal: what the device's queue is held by.
    held: Vec<Option<UserEvent>>,
    /// How long the host waited for each announcement in the last run.
    waited: Vec<Duration>,
    limit: Duration,
}

impl Link {
    /// A link by `mechanism` through its `flags`, for so many announcements and signals.
    pub(crate) fn new(
        runtime: &Arc<Runtime>,
        (mechanism, flags): (Mechanism, Option<Signals>),
        [announcements, signals]: [u32; 2],
        limit: Duration,
    ) -> Self {
        let none = |count: u32| (0..count).map(|_| None).collect();
        Self {
            runtime: Arc::clone(runtime),
            mechanism,
            signals: flags,
            announced_before: 0,
            signalled_before: 0,
            announcements: none(announcements),
            held: (0..signals).map(|_| None).collect(),
            waited: vec![Duration::ZERO; announcements as usize],
            limit,
        }
    }

    /// How many signals ahead the device's queue may be filled: what the device does
    /// next is queued before the host is done, so that no launch is waited for. An empty
    /// queue is what a blocking finish waits for; one that polls events gives the device
    /// something when it knows.
    pub(crate) fn ahead(&self) -> u32 {
        u32::from(!matches!(self.mechanism, Mechanism::BlockingFinish | Mechanism::EventPolling))
    }

    /// What a kernel that announces itself does in a given announcement; none where the
    /// host learns of it otherwise.
    pub(crate) fn number_of(&self, announcement: u32) -> Option<u32> {
        self.signals.as_ref().map(|_| self.announced_before + announcement)
    }

    /// Queues an announcement, unless the command before has made it, and right behind it
    /// the wait for a signal, if any. `last` is the command before; what was queued for it is
    /// returned.
    pub(crate) fn announce(
        &mut self,
        (announcement, is_made): (u32, bool),
        awaited: Option<u32>,
        last: Option<Rc<Event>>,
    ) -> Result<Option<Event>> {
        if let Some(signals) = &mut self.signals {
            let awaited = awaited.map(|signal| self.signalled_before + signal);
            let announced = (!is_made).then_some(self.announced_before + announcement);
            if announced.is_none() && awaited.is_none() {
                return Ok(None);
            }
            return signals.enqueue_hand_over(announced, awaited).map(Some);
        }
        self.announcements[announcement as usize - 1] = last;
        awaited.map_or(Ok(None), |signal| self.hold(signal))
    }

    /// Makes the device's queue wait for a signal.
    pub(crate) fn hold(&mut self, signal: u32) -> Result<Option<Event>> {
        if let Some(signals) = &mut self.signals {
            return Ok(Some(signals.enqueue_hand_over(None, Some(self.signalled_before + signal))?));
        }
        let event = UserEvent::new(&self.runtime)?;
        hold(&self.runtime, &event)?;
        self.held[signal as usize - 1] = Some(event);
        Ok(None)
    }

    /// Hands what was queued to the device.
    pub(crate) fn flush(&self) -> Result<()> {
        flush(&self.runtime)
    }

    /// Sleeps until the device's queue is empty.
    pub(crate) fn finish(&self) -> Result<()> {
        finish(&self.runtime)
    }

    /// Lets the device go on behind a signal.
    pub(crate) fn signal(&mut self, signal: u32) -> Result<()> {
        match &self.signals {
            Some(signals) => signals.signal(self.signalled_before + signal),
            None => {
                if let Some(event) = &self.held[signal as usize - 1] {
                    event.complete()?;
                }
            }
        }
        Ok(())
    }

    /// Whether the device has announced that.
    pub(crate) fn has_announced(&self, announcement: u32) -> Result<bool> {
        match (&self.signals, &self.announcements[announcement as usize - 1]) {
            (Some(signals), _) => signals.has_announced(self.announced_before + announcement),
            (None, Some(event)) => has_ended(event),
            (None, None) => Ok(true),
        }
    }

    /// Waits until the device has announced that; one that has not at the limit is given up.
    pub(crate) fn wait_or_give_up(&mut self, announcement: u32) -> Result<()> {
        let waited = self.wait_for(announcement);
        or_give_up(&self.runtime, waited)
    }

    /// Waits until the device has announced that.
    pub(crate) fn wait_for(&mut self, announcement: u32) -> Result<()> {
        let index = announcement as usize - 1;
        let started = Instant::now();
        let waiting = (started, self.limit, "its part of a run");
        let mut overslept = None;
        if self.mechanism == Mechanism::SleepThenPoll {
            let sleep = whole_sleeps(self.waited[index], STEP);
            if !sleep.is_zero() {
                std::thread::sleep(sleep);
                overslept = self.has_announced(announcement)?.then_some(sleep);
            }
        }
        match (&self.signals, self.mechanism) {
            (Some(signals), _) => {
                let number = self.announced_before + announcement;
                spin_until(waiting, || signals.has_announced(number))?;
            }
            (None, Mechanism::BlockingFinish) => finish(&self.runtime)?,
            (None, mechanism) => {
                let Some(event) = &self.announcements[index] else { return Ok(()) };
                if mechanism == Mechanism::EventWait {
                    wait_for(event)?;
                } else {
                    spin_until(waiting, || has_ended(event))?;
                }
            }
        }
        // What was overslept must not lengthen the next sleep.
        self.waited[index] = overslept.map_or_else(|| started.elapsed(), |sleep| sleep / 2);
        Ok(())
    }

    /// Ends a run that went well.
    pub(crate) fn end(&mut self) -> Result<()> {
        self.announced_before += self.announcements.len() as u32;
        self.signalled_before += self.held.len() as u32;
        self.announcements.iter_mut().for_each(|event| *event = None);
        self.held.iter_mut().for_each(|event| *event = None);
        self.signals.as_ref().map_or(Ok(()), |signals| signals.check(self.announced_before))
    }

    /// Releases the device after a run that went wrong; nothing is used afterwards.
    pub(crate) fn abandon(&mut self) {
        if let Some(signals) = &self.signals {
            signals.release();
        }
        for event in self.held.iter_mut().filter_map(Option::take) {
            // The device may be lost; nobody waits for it then.
            let _ = event.complete();
        }
    }
}

/// Spins until `condition` holds, at most for a limit from an instant on.
pub(super) fn spin_until(
    waiting: (Instant, Duration, &'static str),
    condition: impl FnMut() -> Result<bool>,
) -> Result<()> {
    look_until(waiting, || (0..SPINS_A_LOOK).for_each(|_| std::hint::spin_loop()), condition)
}

/// The sleeps of length `step` that surely end before `predicted` has passed: one fewer
/// than fit, as a sleep lasts longer than it should.
fn whole_sleeps(predicted: Duration, step: Duration) -> Duration {
    let fitting = predicted.as_nanos() / step.as_nanos().max(1);
    step * u32::try_from(fitting.saturating_sub(1)).unwrap_or(u32::MAX)
}

/// How long the shortest sleep takes here: the median of `rounds`.
pub fn sleep_granularity(rounds: u32) -> Picos {
    let times: Vec<Picos> = (0..rounds)
        .map(|_| {
            let started = Instant::now();
            std::thread::sleep(SHORTEST);
            of_duration(started.elapsed())
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

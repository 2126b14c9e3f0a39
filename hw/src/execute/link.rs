//! How host and device learn of each other's results while a plan runs.
//!
//! Responsible for: announcements of the device, signals of the host, and waiting for
//! either, by each mechanism. Invariants: every wait of the host's own has a limit (calls
//! of the driver that have none are watched by `super::watch`); an abandoned run leaves
//! nothing waiting.

use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::ExecuteError;
use crate::opencl::Runtime;
use crate::opencl::events::{Event, UserEvent, finish, flush, has_ended, hold, wait_for};
use crate::opencl::signals::{FlagHome, Meeting, Signals};
use crate::opencl::timing::timed_out;
use crate::sync::{Mechanism, SLEEP_STEP, SyncError, whole_sleeps};

/// Spins between two looks at the clock, which costs as much as many of them.
const SPINS_A_LOOK: u32 = 64;

/// What passes between the two sides of a program.
pub(super) struct Link {
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
    /// The flags of mechanisms that poll some.
    pub(super) fn flags(
        runtime: &Arc<Runtime>,
        mechanism: Mechanism,
    ) -> Result<Option<Signals>, ExecuteError> {
        let fine = runtime.device().shared_virtual_memory.allows_polling();
        let home = match mechanism {
            Mechanism::SvmPolling => Some(FlagHome::Shared),
            Mechanism::SleepThenPoll if fine => Some(FlagHome::Shared),
            Mechanism::PinnedPolling | Mechanism::SleepThenPoll => Some(FlagHome::Pinned),
            Mechanism::BlockingFinish | Mechanism::EventWait | Mechanism::EventPolling => None,
        };
        let mut flags = home.map(|home| Signals::new(runtime, home)).transpose()?;
        if let Some(flags) = &mut flags {
            flags.reset();
        }
        Ok(flags)
    }

    /// A link by `mechanism` through its `flags`, for so many announcements and signals.
    pub(super) fn new(
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
    pub(super) fn ahead(&self) -> u32 {
        u32::from(!matches!(self.mechanism, Mechanism::BlockingFinish | Mechanism::EventPolling))
    }

    /// What a kernel that announces itself does in a given announcement; none where the
    /// host learns of it otherwise.
    pub(super) fn number_of(&self, announcement: u32) -> Option<u32> {
        self.signals.as_ref().map(|_| self.announced_before + announcement)
    }

    /// Queues an announcement, unless the command before has made it, and right behind it
    /// the wait for a signal, if any. `last` is the command before.
    pub(super) fn announce(
        &mut self,
        (announcement, is_made): (u32, bool),
        awaited: Option<u32>,
        last: Option<Rc<Event>>,
    ) -> Result<(), ExecuteError> {
        if let Some(signals) = &mut self.signals {
            let awaited = awaited.map(|signal| self.signalled_before + signal);
            let announced = (!is_made).then_some(self.announced_before + announcement);
            if announced.is_some() || awaited.is_some() {
                signals.enqueue_hand_over(announced, awaited)?;
            }
            return Ok(());
        }
        self.announcements[announcement as usize - 1] = last;
        awaited.map_or(Ok(()), |signal| self.hold(signal))
    }

    /// Makes the device's queue wait for a signal.
    pub(super) fn hold(&mut self, signal: u32) -> Result<(), ExecuteError> {
        if let Some(signals) = &mut self.signals {
            signals.enqueue_hand_over(None, Some(self.signalled_before + signal))?;
        } else {
            let event = UserEvent::new(&self.runtime)?;
            hold(&self.runtime, &event)?;
            self.held[signal as usize - 1] = Some(event);
        }
        Ok(())
    }

    /// Hands what was queued to the device.
    pub(super) fn flush(&self) -> Result<(), ExecuteError> {
        Ok(flush(&self.runtime)?)
    }

    /// Sleeps until the device's queue is empty.
    pub(super) fn finish(&self) -> Result<(), ExecuteError> {
        Ok(finish(&self.runtime)?)
    }

    /// Lets the device go on behind a signal.
    pub(super) fn signal(&mut self, signal: u32) -> Result<(), ExecuteError> {
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
    pub(super) fn has_announced(&self, announcement: u32) -> Result<bool, ExecuteError> {
        match (&self.signals, &self.announcements[announcement as usize - 1]) {
            (Some(signals), _) => Ok(signals.device_announced(self.announced_before + announcement)),
            (None, Some(event)) => Ok(has_ended(event)?),
            (None, None) => Ok(true),
        }
    }

    /// Waits until the device has announced that.
    pub(super) fn wait_for(&mut self, announcement: u32) -> Result<(), ExecuteError> {
        let index = announcement as usize - 1;
        let started = Instant::now();
        if self.mechanism == Mechanism::SleepThenPoll {
            let sleep = whole_sleeps(self.waited[index], SLEEP_STEP);
            if !sleep.is_zero() {
                std::thread::sleep(sleep);
            }
        }
        match (&self.signals, self.mechanism) {
            (Some(signals), _) => {
                let number = self.announced_before + announcement;
                self.spin_until(started, || Ok(signals.device_announced(number)))?;
            }
            (None, Mechanism::BlockingFinish) => finish(&self.runtime)?,
            (None, mechanism) => {
                let Some(event) = &self.announcements[index] else { return Ok(()) };
                if mechanism == Mechanism::EventWait {
                    wait_for(event)?;
                } else {
                    self.spin_until(started, || Ok(has_ended(event)?))?;
                }
            }
        }
        self.waited[index] = started.elapsed();
        Ok(())
    }

    /// Spins until `condition` holds; gives the device up at the limit.
    fn spin_until(
        &self,
        started: Instant,
        mut condition: impl FnMut() -> Result<bool, ExecuteError>,
    ) -> Result<(), ExecuteError> {
        while !condition()? {
            for _ in 0..SPINS_A_LOOK {
                std::hint::spin_loop();
            }
            if started.elapsed() > self.limit {
                self.runtime.give_up();
                return Err(timed_out("its part of a run", self.limit).into());
            }
        }
        Ok(())
    }

    /// Ends a run that went well.
    pub(super) fn end(&mut self) -> Result<(), ExecuteError> {
        self.announced_before += self.announcements.len() as u32;
        self.signalled_before += self.held.len() as u32;
        self.announcements.iter_mut().for_each(|event| *event = None);
        self.held.iter_mut().for_each(|event| *event = None);
        let spun_out = self.signals.as_ref().is_some_and(|signals| signals.meeting() == Meeting::SpunOut);
        if spun_out { Err(SyncError::SpunOut { round: self.announced_before }.into()) } else { Ok(()) }
    }

    /// Releases the device after a run that went wrong; nothing is used afterwards.
    pub(super) fn abandon(&mut self) {
        if let Some(signals) = &self.signals {
            signals.release();
        }
        for event in self.held.iter_mut().filter_map(Option::take) {
            // The device may be lost; nobody waits for it then.
            let _ = event.complete();
        }
    }
}

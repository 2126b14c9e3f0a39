//! Meetings of host and device by each mechanism, as a plan's run has them ([`Link`]), and how
//! long both took to learn of them; and flags thrown back and forth while one kernel keeps running:
//! what they cost without any launch.

use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use coexec_sim::Picos;

use super::clock::Clock;
use super::{Link, Mechanism, flags, spin_until};
use crate::opencl::{
    BoundKernel, OpenClError, Result, Runtime, SPIN_LIMIT, Signals, Stamps, flush, of_duration, poll, stamps,
};

/// Dependent multiply-adds of the kernel whose end is learned of: tens of microseconds
/// on any device, so that the host is waiting when it ends.
const WORK_STEPS: u32 = 20_000;
/// The same where the host sleeps meanwhile: some sleeps long.
const SLEPT_THROUGH_STEPS: u32 = 10 * WORK_STEPS;
/// Threads of the kernels, which are one group.
const THREADS: usize = 64;
/// Rounds that are not counted: drivers allocate in the first ones.
const WARM_UP: u32 = 5;
/// By when a kernel has ended that never sees the host's flag, not even its release: where
/// the two share no memory after all.
const SPUN_OUT: Duration = SPIN_LIMIT.saturating_mul(3);
/// What is waited for, in an error's words.
const MEETING: &str = "a kernel that meets the host at a flag";

/// How long it took in each round until one side knew of the other's end, by the clock
/// of the host. Raw: nothing is left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notifications {
    /// From the end of the device's kernel until the host knew.
    pub to_host: Vec<Picos>,
    /// From the host's signal until the device went on.
    pub to_device: Vec<Picos>,
    /// How far all of `to_host` may be too high and all of `to_device` too low, or the
    /// other way round: the clocks of host and device are compared no better.
    pub uncertainty: Picos,
}

/// When what happened in a round.
struct Round {
    /// Readings of the host's clock around queueing the work.
    queueing: [Instant; 2],
    /// What became of the work when.
    work: Stamps,
    /// The host knew of the work's end.
    known: Instant,
    /// The host signalled.
    signalled: Instant,
    /// The device went on, by its clock.
    resumed: u64,
}

/// What rounds are made with.
struct Bench {
    runtime: Arc<Runtime>,
    link: Link,
    /// Announces itself where there are flags.
    work: BoundKernel,
    /// What the device does next.
    next: BoundKernel,
    limit: Duration,
}

impl Bench {
    fn new(runtime: &Arc<Runtime>, mechanism: Mechanism, limit: Duration) -> Result<Self> {
        let steps = if mechanism == Mechanism::SleepThenPoll { SLEPT_THROUGH_STEPS } else { WORK_STEPS };
        let signals = flags(runtime, mechanism)?;
        Ok(Self {
            runtime: Arc::clone(runtime),
            work: BoundKernel::announcing(runtime, [1, THREADS], steps, signals.as_ref())?,
            next: BoundKernel::spin(runtime, 1, THREADS, 1)?,
            link: Link::new(runtime, (mechanism, signals), [1, 1], limit),
            limit,
        })
    }

    /// A meeting as a plan's run has it: work, of whose end the host learns, and what the
    /// device does next, once the host has signalled.
    fn round(&mut self) -> Result<Round> {
        let link = &mut self.link;
        let announced = link.number_of(1);
        let before = Instant::now();
        let work = Rc::new(self.work.enqueue_announcing(announced.unwrap_or(0))?);
        let queueing = [before, Instant::now()];
        let is_ahead = link.ahead() > 0;
        let awaited = is_ahead.then_some(1);
        let held = link.announce((1, announced.is_some()), awaited, Some(Rc::clone(&work)))?;
        let next = if is_ahead { Some(self.next.enqueue()?) } else { None };
        link.flush()?;
        let reached = link.wait_for(1);
        let known = Instant::now();
        if reached.is_ok() {
            link.signal(1)?;
        } else {
            link.abandon();
        }
        let signalled = Instant::now();
        let next = match next {
            Some(next) => next,
            None => self.next.enqueue()?,
        };
        // Also a kernel that was released has to end before its flags are used again.
        if held.is_some() || reached.is_err() {
            link.flush()?;
            poll(&self.runtime, &next, MEETING, self.limit.max(SPUN_OUT))?;
        } else {
            link.finish()?;
        }
        reached?;
        link.end()?;
        let resumed = match &held {
            Some(held) => stamps(held)?.ended,
            None => stamps(&next)?.started,
        };
        Ok(Round { queueing, work: stamps(&work)?, known, signalled, resumed })
    }
}

/// Meets the device `rounds` times by `mechanism`, each within `limit`.
///
/// Call it where nothing else uses the runtime's queue; [`super::probe`] says first
/// whether the mechanism works at all.
///
/// # Errors
/// Where the device lacks the memory for it, fails, or does not answer in time.
pub fn measure(
    runtime: &Arc<Runtime>,
    mechanism: Mechanism,
    rounds: u32,
    limit: Duration,
) -> Result<Notifications> {
    let mut bench = Bench::new(runtime, mechanism, limit)?;
    let mut clock = Clock::new();
    let mut measured = Vec::with_capacity(rounds as usize);
    for _ in 0..WARM_UP + rounds {
        let round = bench.round()?;
        clock.observe(round.work.queued, round.queueing);
        measured.push(round);
    }
    let counted = || measured.iter().enumerate().skip(WARM_UP as usize);
    Ok(Notifications {
        to_host: counted()
            .map(|(number, round)| clock.since_device(number, round.work.ended, round.known))
            .collect(),
        to_device: counted()
            .map(|(number, round)| clock.until_device(number, round.signalled, round.resumed))
            .collect(),
        uncertainty: clock.uncertainty(),
    })
}

/// Spins until the device has announced `round`; releases it after `limit`.
pub(super) fn await_device(signals: &Signals, round: u32, limit: Duration) -> Result<()> {
    let waiting = (Instant::now(), limit, MEETING);
    spin_until(waiting, || signals.has_announced(round)).inspect_err(|_| signals.release())
}

/// The time of each of `rounds` round trips, device to host to device, while one kernel
/// keeps running: what the flags cost without any launch. Each within `limit`.
///
/// # Errors
/// Where `mechanism` polls no flags, the device lacks the memory for them, or does not
/// answer in time.
pub fn ping_pong(
    runtime: &Arc<Runtime>,
    mechanism: Mechanism,
    rounds: u32,
    limit: Duration,
) -> Result<Vec<Picos>> {
    let Some(mut signals) = flags(runtime, mechanism)? else {
        let reason = format!("{mechanism} uses no flags");
        return Err(OpenClError::Unsupported { operator: "a ping-pong".to_owned(), reason });
    };
    let kernel = signals.enqueue_ping_pong(rounds)?;
    flush(runtime)?;
    let mut times = Vec::with_capacity(rounds as usize);
    let mut last = None;
    for round in 1..=rounds {
        if let Err(error) = await_device(&signals, round, limit) {
            poll(runtime, &kernel, MEETING, limit.max(SPUN_OUT))?;
            return Err(error);
        }
        let now = Instant::now();
        if let Some(last) = last.replace(now) {
            times.push(of_duration(now.saturating_duration_since(last)));
        }
        signals.signal(round);
    }
    poll(runtime, &kernel, MEETING, limit)?;
    signals.check(rounds)?;
    Ok(times)
}

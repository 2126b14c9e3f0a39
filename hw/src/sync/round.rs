//! Benchmarks of the mechanisms: synchronisation of host and device as in a plan's run ([`Link`]),
//! with the notification latency of both sides; and flags in a ping-pong within one running kernel,
//! their cost without any launch.

use std::sync::Arc;
use std::time::{Duration, Instant};

use coexec_sim::Picos;

use super::clock::Clock;
use super::{Link, Mechanism, flags, spin_until};
use crate::opencl::{
    BoundKernel, OpenClError, Result, Runtime, SPIN_LIMIT, Signals, Stamps, between, drain,
    duration_to_picos, finish, flush, poll, stamps,
};

/// Dependent multiply-adds of the kernel whose end is announced: tens of microseconds on any
/// device, so that the host is already waiting when it ends.
const WORK_STEPS: u32 = 20_000;
/// The same for a host that sleeps meanwhile: long enough for several sleeps.
const SLEEPING_WORK_STEPS: u32 = 10 * WORK_STEPS;
/// Threads of each kernel, a single work-group.
const THREADS: usize = 64;
/// Warm-up rounds, not counted: drivers allocate in the first ones.
const WARM_UP: u32 = 5;
/// Time after which a kernel has ended that never sees the host's flag, nor its release, because
/// the two share no memory after all.
const SPIN_END: Duration = SPIN_LIMIT.saturating_mul(3);
/// What is waited for, as errors name it.
const FLAG_KERNEL: &str = "a kernel that waits for a flag of the host";

/// For each round, the time until one side learned of the other's end, on the host's clock. Raw:
/// nothing is dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notifications {
    /// From the end of the device's kernel until the host noticed it.
    pub to_host: Vec<Picos>,
    /// From the host's signal until the device continued.
    pub to_device: Vec<Picos>,
    /// Half of both together, in which the offset between the clocks cancels.
    pub mean: Vec<Picos>,
    /// Uncertainty of the clock alignment: by how much all of `to_host` may be too high and all of
    /// `to_device` too low, or the reverse.
    pub uncertainty: Picos,
}

/// Time stamps of one round.
struct Round {
    /// Host time before and after enqueueing the work.
    queueing: [Instant; 2],
    /// Device times of the work.
    work: Stamps,
    /// When the host learned of the work's end.
    known: Instant,
    /// When the host signalled.
    signalled: Instant,
    /// When the device continued, on its own clock.
    resumed: u64,
}

impl Round {
    /// Half of what the device waited, except for the time that the host took to signal.
    fn mean(&self) -> Picos {
        let own = duration_to_picos(self.signalled.saturating_duration_since(self.known));
        Picos(between(self.work.ended, self.resumed).saturating_sub(own).0 / 2)
    }
}

/// The objects of a benchmark.
struct Bench {
    runtime: Arc<Runtime>,
    /// The device's work; announces its end through flags where the mechanism has them.
    work: BoundKernel,
    /// The device's next command.
    next: BoundKernel,
    /// Holds the flags, which outlive the work.
    link: Link,
    limit: Duration,
}

impl Bench {
    fn new(runtime: &Arc<Runtime>, mechanism: Mechanism, limit: Duration) -> Result<Self> {
        let steps = if mechanism == Mechanism::SleepThenPoll { SLEEPING_WORK_STEPS } else { WORK_STEPS };
        let signals = flags(runtime, mechanism)?;
        Ok(Self {
            runtime: Arc::clone(runtime),
            work: BoundKernel::announcing(runtime, [1, THREADS], steps, signals.as_ref())?,
            next: BoundKernel::spin(runtime, 1, THREADS, 1)?,
            link: Link::new(runtime, (mechanism, signals), [1, 1], limit),
            limit,
        })
    }

    /// One round, after which neither side waits, even if it failed.
    fn round(&mut self) -> Result<Round> {
        self.synchronise().inspect_err(|_| {
            self.link.abandon();
            // A device that does not answer is given up.
            let _ = drain(&self.runtime, self.limit.max(SPIN_END));
        })
    }

    /// One synchronisation as in a plan's run: work, whose end the host learns of, then the
    /// device's next command, once the host has signalled.
    fn synchronise(&mut self) -> Result<Round> {
        let link = &mut self.link;
        let announced = link.flag_value(1);
        let before = Instant::now();
        let work = Arc::new(self.work.enqueue_announcing(announced.unwrap_or(0))?);
        let queueing = [before, Instant::now()];
        let is_ahead = link.ahead() > 0;
        let awaited = is_ahead.then_some(1);
        let held = link.announce((1, announced.is_some()), awaited, Some(Arc::clone(&work)))?;
        let next = if is_ahead { Some(self.next.enqueue()?) } else { None };
        flush(&self.runtime)?;
        link.wait_for(1)?;
        let known = Instant::now();
        link.signal(1)?;
        let signalled = Instant::now();
        let next = match next {
            Some(next) => next,
            None => self.next.enqueue()?,
        };
        if held.is_some() {
            flush(&self.runtime)?;
            poll(&self.runtime, &next, FLAG_KERNEL, self.limit.max(SPIN_END))?;
        } else {
            finish(&self.runtime)?;
        }
        link.end()?;
        let resumed = match &held {
            Some(held) => stamps(held)?.ended,
            None => stamps(&next)?.started,
        };
        Ok(Round { queueing, work: stamps(&work)?, known, signalled, resumed })
    }
}

/// Synchronises with the device `rounds` times by `mechanism`, each within `limit`.
///
/// The runtime's queue must be otherwise idle; [`super::probe`] finds out whether the mechanism
/// works at all.
///
/// # Errors
/// Where the device lacks the memory, fails, or does not answer in time.
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
        mean: counted().map(|(_, round)| round.mean()).collect(),
        uncertainty: clock.uncertainty(),
    })
}

/// Spins until the device has announced `round`; releases the device at `limit`.
pub(super) fn await_device(signals: &Signals, round: u32, limit: Duration) -> Result<()> {
    let waiting = (Instant::now(), limit, FLAG_KERNEL);
    spin_until(waiting, || signals.has_announced(round)).inspect_err(|_| signals.release())
}

/// The duration of each of `rounds` round trips, device to host to device, within one running
/// kernel: the cost of flags without any launch. Each is limited to `limit`.
///
/// # Errors
/// Where `mechanism` polls no flags, the device lacks the memory for them, or it does not answer in
/// time.
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
            poll(runtime, &kernel, FLAG_KERNEL, limit.max(SPIN_END))?;
            return Err(error);
        }
        let now = Instant::now();
        if let Some(last) = last.replace(now) {
            times.push(duration_to_picos(now.saturating_duration_since(last)));
        }
        signals.signal(round);
    }
    poll(runtime, &kernel, FLAG_KERNEL, limit)?;
    signals.check(rounds)?;
    Ok(times)
}

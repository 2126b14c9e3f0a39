//! Memory streams: the bandwidth of each processor alone, and the slowdown of each processor's
//! stream by the other's, at several demands of both.
//!
//! Responsible for: the streams and their bandwidths, alone and co-running; the curves are fitted
//! by `calibrate::interference`. A stream reads and writes, so its bytes are twice the memory it
//! traverses. Invariants: the memory exceeds the caches that the system reports; a co-run time is
//! compared with one taken alone just before, in several rounds, because other load on the machine
//! changes from second to second.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use coexec_fit::calibrate::interference::CoRun;
use coexec_sim::statistics::median;

use super::{BYTES_PER_MICRO_OF_GBPS, Result, TimeBudget};
use crate::cpu::ThreadPool;
use crate::opencl::{BoundKernel, Runtime};
use crate::system;

/// Least memory of a stream, in bytes: several times a phone's caches.
const MIN_BYTES: u64 = 32 << 20;
/// Most memory of a stream, in bytes: affordable on a phone, and a server's last-level cache.
const MAX_BYTES: u64 = 256 << 20;
/// Multiple of the largest cache that a stream traverses.
const CACHES: u64 = 2;
/// Numbers processed together in registers.
const LANES: usize = 16;
/// Multiply-adds at which the search for a compute-bound stream starts.
const FIRST_WORK: u32 = 8;
/// Limit of that search, beyond which the work is no stream any more.
const MAX_WORK: u32 = 100_000;

/// Fractions of its full demand at which a client is measured, and at which the others stream
/// meanwhile.
const QUICK: [&[f64]; 2] = [&[1.0, 0.6, 0.35, 0.15], &[0.2, 0.45, 0.7, 1.0]];
const FULL: [&[f64]; 2] = [&[1.0, 0.75, 0.5, 0.35, 0.2, 0.1], &[0.1, 0.2, 0.3, 0.4, 0.5, 0.65, 0.8, 1.0]];
/// Rounds, quick and full, and passes of each kind per round.
const ROUNDS: [usize; 2] = [2, 10];
const PASSES: usize = 2;
/// Time for co-running traffic to ramp up.
const RAMP: Duration = Duration::from_millis(20);

/// Bytes that a stream traverses: more than the last-level cache holds, within limits.
pub(super) fn memory_bytes(root: &Path) -> usize {
    let largest = system::caches(root, 0).map(|cache| u64::from(cache.bytes)).max().unwrap_or(0);
    (CACHES * largest).clamp(MIN_BYTES, MAX_BYTES) as usize
}

fn walk(numbers: &mut [f32], work: u32) {
    for lanes in numbers.chunks_exact_mut(LANES) {
        let mut values = [0.0_f32; LANES];
        values.copy_from_slice(lanes);
        for _ in 0..work {
            for value in &mut values {
                *value = *value * 0.999 + 1.0;
            }
        }
        for (lane, value) in lanes.iter_mut().zip(values) {
            *lane = value + 1.0;
        }
    }
}

/// A stream on one of the processors.
pub(super) enum Stream {
    /// By all threads of a pool, each over its own part.
    Cpu(ThreadPool, Vec<Vec<f32>>),
    /// By the `OpenCL` device.
    Gpu(BoundKernel),
}

impl Stream {
    /// A stream by `pool`'s threads, over `bytes` in all.
    pub(super) fn of_cpu(pool: ThreadPool, bytes: usize) -> Self {
        let threads = pool.threads();
        let numbers = bytes / size_of::<f32>() / threads;
        Self::Cpu(pool, (0..threads).map(|_| vec![1.0; numbers]).collect())
    }

    /// A stream by the device, over two buffers of `bytes`: one read, one written.
    pub(super) fn of_gpu(runtime: &Arc<Runtime>, bytes: usize) -> Result<Self> {
        Ok(Self::Gpu(BoundKernel::stream(runtime, bytes)?))
    }

    /// Bytes that one pass moves.
    pub(super) fn bytes(&self) -> f64 {
        match self {
            Self::Cpu(_, parts) => {
                2.0 * parts.iter().map(|part| size_of_val(part.as_slice()) as f64).sum::<f64>()
            }
            Self::Gpu(stream) => stream.bytes().0 as f64,
        }
    }

    /// Number of threads, or 1 on the device.
    pub(super) fn streams(&self) -> u32 {
        match self {
            Self::Cpu(pool, _) => pool.threads() as u32,
            Self::Gpu(_) => 1,
        }
    }

    /// One pass with `work` multiply-adds per number; returns microseconds on the processor's own
    /// clock.
    pub(super) fn pass(&mut self, work: u32) -> Result<f64> {
        match self {
            Self::Cpu(pool, parts) => {
                let started = Instant::now();
                let threads = pool.threads();
                pool.for_each_mut(threads, parts, &|_, part| walk(part, work));
                Ok(started.elapsed().as_secs_f64() * 1e6)
            }
            Self::Gpu(stream) => {
                stream.set_work(work)?;
                Ok(stream.run()?.device.as_micros())
            }
        }
    }

    /// The times of `repetitions` passes, after a warm-up pass.
    pub(super) fn passes(&mut self, work: u32, repetitions: usize) -> Result<Vec<f64>> {
        self.pass(work)?;
        (0..repetitions).map(|_| self.pass(work)).collect()
    }

    /// Multiply-adds per number at which the stream has each of these `parts` of its full
    /// bandwidth.
    pub(super) fn works(&mut self, parts: &[f64]) -> Result<Vec<u32>> {
        let mut shortest =
            |work| -> Result<f64> { Ok(self.passes(work, 2)?.into_iter().fold(f64::INFINITY, f64::min)) };
        let none = shortest(0)?;
        let (mut work, mut time) = (FIRST_WORK, shortest(FIRST_WORK)?);
        // Work hidden behind memory traffic does not show its own duration.
        while time < 2.0 * none && work < MAX_WORK {
            work *= 2;
            time = shortest(work)?;
        }
        Ok(parts.iter().map(|&part| work_for(part, none, time / f64::from(work))).collect())
    }

    /// Runs passes until `is_over`; returns the bandwidth in GB/s since `both` stream.
    fn flow(&mut self, work: u32, both: &AtomicBool, is_over: impl Fn() -> bool) -> Result<f64> {
        let (mut started, mut moved, mut counted) = (Instant::now(), 0.0, false);
        while !is_over() {
            if !counted && both.load(Ordering::Relaxed) {
                (started, moved, counted) = (Instant::now(), 0.0, true);
            }
            self.pass(work)?;
            moved += self.bytes();
        }
        Ok(moved / started.elapsed().as_nanos() as f64)
    }
}

/// The work that takes as long as the stream does at `part` of its full bandwidth; none at the full
/// bandwidth.
fn work_for(part: f64, none_us: f64, step_us: f64) -> u32 {
    if part >= 1.0 { 0 } else { (none_us / part / step_us).round().min(f64::from(MAX_WORK)) as u32 }
}

/// Co-runs of both processors, and the highest combined bandwidth.
pub(super) struct CoRuns {
    pub(super) runs: Vec<CoRun>,
    pub(super) together_gbps: f64,
    rounds: usize,
}

/// A processor's stream, with the name of its client in a profile.
pub(super) struct Client {
    pub(super) name: &'static str,
    pub(super) stream: Stream,
}

/// Demands of a client.
struct Demands {
    /// Work per number at which it is measured.
    own: Vec<u32>,
    /// Work per number, and bandwidth alone, at which it streams while the other is measured.
    levels: Vec<(u32, f64)>,
}

impl Demands {
    fn of(stream: &mut Stream, [own, levels]: [&[f64]; 2], passes: usize) -> Result<Self> {
        let own = stream.works(own)?;
        let works = stream.works(levels)?;
        let levels = works.into_iter().map(|work| Ok((work, rate(stream, work, passes)?)));
        Ok(Self { own, levels: levels.collect::<Result<_>>()? })
    }
}

/// Measures each of two clients while the other streams, level by level, so that both have about
/// equally many levels if time runs out.
pub(super) fn co_run(clients: &mut [Client; 2], quick: bool, budget: &TimeBudget<'_>) -> Result<CoRuns> {
    let parts = if quick { QUICK } else { FULL };
    let rounds = ROUNDS[usize::from(!quick)];
    let passes = rounds * PASSES;
    let [first, second] = &mut *clients;
    let mut demands =
        [Demands::of(&mut first.stream, parts, passes)?, Demands::of(&mut second.stream, parts, passes)?];
    let mut co_runs = CoRuns { runs: Vec::new(), together_gbps: 0.0, rounds };
    for level in 0..parts[1].len() {
        for _ in 0..2 {
            if budget.is_over() {
                return Ok(co_runs);
            }
            let ([client, others], [own, other]) = (&mut *clients, &demands);
            let at = other.levels[level];
            co_run_at_level([client, others], &own.own, (level, at), &mut co_runs)?;
            budget.report(&format!("{} with {} at {:.1} GB/s", client.name, others.name, at.1));
            // Then with exchanged roles.
            clients.reverse();
            demands.reverse();
        }
    }
    Ok(co_runs)
}

/// Measures `client` while `others` stream at one level of traffic.
fn co_run_at_level(
    [client, others]: [&mut Client; 2],
    works: &[u32],
    (level, (others_work, others_gbps)): (usize, (u32, f64)),
    co_runs: &mut CoRuns,
) -> Result<()> {
    for &work in works {
        let bytes = client.stream.bytes();
        let rounds: Vec<Round> = (0..co_runs.rounds)
            .map(|_| round([&mut *client, &mut *others], [work, others_work]))
            .collect::<Result<_, _>>()?;
        let middle_of = |value: fn(&Round) -> f64| middle(&rounds.iter().map(value).collect::<Vec<_>>());
        let gbps = |time_us: f64| bytes / time_us / BYTES_PER_MICRO_OF_GBPS;
        let together_gbps = gbps(middle_of(|round| round.together_us)) + middle_of(|round| round.flow_gbps);
        co_runs.together_gbps = co_runs.together_gbps.max(together_gbps);
        co_runs.runs.push(CoRun {
            client: client.name.to_owned(),
            own_gbps: gbps(middle_of(|round| round.alone_us)),
            streams: client.stream.streams(),
            others: others.name.to_owned(),
            others_gbps,
            others_streams: others.stream.streams(),
            level: level as u32 + 1,
            slowdown: middle_of(|round| round.together_us / round.alone_us),
        });
    }
    Ok(())
}

/// Bandwidth of a stream alone, in GB/s.
fn rate(stream: &mut Stream, work: u32, passes: usize) -> Result<f64> {
    let times = stream.passes(work, passes)?;
    Ok(stream.bytes() / middle(&times) / BYTES_PER_MICRO_OF_GBPS)
}

/// A client's time of a pass, alone and co-running, in microseconds, and the bandwidth of the
/// others meanwhile, in GB/s.
struct Round {
    alone_us: f64,
    together_us: f64,
    flow_gbps: f64,
}

fn round([client, others]: [&mut Client; 2], [work, others_work]: [u32; 2]) -> Result<Round> {
    let alone_us = middle(&client.stream.passes(work, PASSES)?);
    let both = AtomicBool::new(false);
    thread::scope(|scope| {
        let passes = scope.spawn(|| {
            thread::sleep(RAMP);
            both.store(true, Ordering::Relaxed);
            client.stream.passes(work, PASSES)
        });
        // A thread that panics has finished, too.
        let flow = others.stream.flow(others_work, &both, || passes.is_finished());
        let times = passes.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Ok(Round { alone_us, together_us: middle(&times?), flow_gbps: flow? })
    })
}

fn middle(times: &[f64]) -> f64 {
    median(times).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_exceeds_unreported_caches() {
        assert_eq!(memory_bytes(Path::new("/nonexistent")) as u64, MIN_BYTES);
    }

    #[test]
    fn half_the_demand_takes_work_for_twice_the_time() {
        assert_eq!((work_for(1.0, 100.0, 2.0), work_for(0.5, 100.0, 2.0)), (0, 100));
    }

    #[test]
    fn more_work_on_each_number_makes_a_stream_slower() {
        let mut stream = Stream::of_cpu(ThreadPool::new(1).unwrap(), 1 << 20);
        let shortest = |times: Vec<f64>| times.into_iter().fold(f64::INFINITY, f64::min);
        let light = shortest(stream.passes(0, 5).unwrap());
        let heavy = shortest(stream.passes(400, 5).unwrap());
        assert!(heavy > 2.0 * light, "{light} and {heavy}");
        assert!((stream.bytes() - f64::from(2 << 20)).abs() < 1.0);
    }
}

//! Streams of bytes through the memory: the rate of each processor alone, and a stream of a
//! wanted demand to set beside other work.
//!
//! Responsible for: the streams and their rates. Not for: what one does to the other
//! (`co_run`). A stream reads and writes: its bytes count twice the memory it walks
//! through. Invariant: the memory exceeds the caches that the system reports.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use super::{Measured, NANOS_PER_MICRO, Result};
use crate::cpu::ThreadPool;
use crate::opencl::{BoundKernel, Runtime};
use crate::system;

/// Least memory that a stream walks through, in bytes: several times a phone's caches.
const MIN_BYTES: u64 = 32 << 20;
/// Most: what a phone can spare, and a server's last-level cache.
const MAX_BYTES: u64 = 256 << 20;
/// Caches that the memory exceeds, in multiples.
const CACHES: u64 = 2;
/// Numbers that are in registers together.
const LANES: usize = 16;
/// Multiply-adds at which the search for those that slow a stream down starts.
const FIRST_WORK: u32 = 8;
/// More is no stream any more.
const MAX_WORK: u32 = 100_000;

/// How many bytes a stream walks through: beyond the last-level cache.
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

/// Gigabytes a second of `bytes` in the time that was measured in microseconds.
pub(super) fn gbps(bytes: f64, time_us: &Measured) -> Measured {
    time_us.scaled(NANOS_PER_MICRO).rate(bytes)
}

/// A stream of either processor.
pub(super) enum Stream {
    /// By all threads of a pool, each over a part.
    Cpu(ThreadPool, Vec<Vec<f32>>),
    /// By the `OpenCL` device.
    Gpu(BoundKernel),
}

impl Stream {
    /// Of `pool`'s threads, over `bytes` in all.
    pub(super) fn of_cpu(pool: ThreadPool, bytes: usize) -> Self {
        let threads = pool.threads();
        let numbers = bytes / size_of::<f32>() / threads;
        Self::Cpu(pool, (0..threads).map(|_| vec![1.0; numbers]).collect())
    }

    /// Of the device over `bytes` twice, one to read and one to write.
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

    /// Threads that share it.
    pub(super) fn streams(&self) -> u32 {
        match self {
            Self::Cpu(pool, _) => pool.threads() as u32,
            Self::Gpu(_) => 1,
        }
    }

    /// Walks through all of it once, with `work` multiply-adds on each number: the
    /// microseconds it took, by the processor's own clock.
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

    /// The times of `repetitions` passes, after one that does not count.
    pub(super) fn passes(&mut self, work: u32, repetitions: usize) -> Result<Vec<f64>> {
        self.pass(work)?;
        (0..repetitions).map(|_| self.pass(work)).collect()
    }

    /// Multiply-adds on each number with which the stream moves each of these `parts` of
    /// what it moves without any.
    pub(super) fn works(&mut self, parts: &[f64]) -> Result<Vec<u32>> {
        let mut shortest =
            |work| -> Result<f64> { Ok(self.passes(work, 2)?.into_iter().fold(f64::INFINITY, f64::min)) };
        let none = shortest(0)?;
        let (mut work, mut time) = (FIRST_WORK, shortest(FIRST_WORK)?);
        // Work that hides behind the traffic says nothing of its time.
        while time < 2.0 * none && work < MAX_WORK {
            work *= 2;
            time = shortest(work)?;
        }
        Ok(parts.iter().map(|&part| work_for(part, none, time / f64::from(work))).collect())
    }

    /// Passes until `stop`: gigabytes a second that it moved.
    pub(super) fn flow(&mut self, work: u32, stop: &AtomicBool) -> Result<f64> {
        let started = Instant::now();
        let mut moved = 0.0;
        while !stop.load(Ordering::Relaxed) {
            self.pass(work)?;
            moved += self.bytes();
        }
        Ok(moved / started.elapsed().as_nanos() as f64)
    }
}

/// Work that takes as long as the bytes of a stream at that part of its rate; a stream
/// at its full rate does none.
fn work_for(part: f64, none_us: f64, step_us: f64) -> u32 {
    if part >= 1.0 { 0 } else { (none_us / part / step_us).round().min(f64::from(MAX_WORK)) as u32 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_exceeds_caches_that_nobody_tells_of() {
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

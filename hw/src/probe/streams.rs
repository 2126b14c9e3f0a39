//! Streams of bytes through the memory: the rate of each processor, alone and strided,
//! and a stream of a wanted demand to set beside other work.
//!
//! Responsible for: the streams and their rates. Not for: what one does to the other
//! (`co_run`). A stream reads and writes: its bytes count twice the memory it walks
//! through. Invariant: the memory exceeds the caches that the system tells of.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::cpu::ThreadPool;
use crate::opencl::traffic::Launched;
use crate::opencl::{OpenClError, Runtime};

use super::statistics::Measured;

/// Least memory that a stream walks through, in bytes: several times a phone's caches.
const LEAST_BYTES: u64 = 32 << 20;
/// Most: what a phone can spare, and a server's last-level cache.
const MOST_BYTES: u64 = 256 << 20;
/// Caches that the memory exceeds, in multiples.
const CACHES: u64 = 2;
/// Numbers that are in registers together.
const LANES: usize = 16;
/// Multiply-adds at which the search for those that slow a stream down starts.
const FIRST_WORK: u32 = 8;
/// More is no stream any more.
const MOST_WORK: u32 = 100_000;
/// What a stream's launch may take.
const LIMIT: Duration = Duration::from_secs(30);
const NANOS_PER_MICRO: f64 = 1e3;

/// How many bytes a stream walks through: beyond the last-level cache.
pub(super) fn memory_bytes(root: &Path) -> usize {
    let caches = (0..8).filter_map(|index| {
        let path = root.join(format!("sys/devices/system/cpu/cpu0/cache/index{index}/size"));
        kibibytes(fs::read_to_string(path).ok()?.trim())
    });
    let largest = caches.max().unwrap_or(0) << 10;
    (CACHES * largest).clamp(LEAST_BYTES, MOST_BYTES) as usize
}

/// `32768K`, `32M`.
fn kibibytes(text: &str) -> Option<u64> {
    let (number, unit) = text.split_at(text.find(|letter: char| !letter.is_ascii_digit())?);
    let number: u64 = number.parse().ok()?;
    match unit {
        "K" => Some(number),
        "M" => Some(number << 10),
        _ => None,
    }
}

/// A stream by all threads of a pool.
pub(super) struct CpuStream {
    pool: ThreadPool,
    parts: Vec<Vec<f32>>,
}

impl CpuStream {
    /// Of `pool`'s threads, over `bytes` in all.
    pub(super) fn new(pool: ThreadPool, bytes: usize) -> Self {
        let threads = pool.threads();
        let numbers = bytes / size_of::<f32>() / threads;
        let parts = (0..threads).map(|_| vec![1.0; numbers]).collect();
        Self { pool, parts }
    }

    /// Bytes that one pass moves.
    pub(super) fn bytes(&self) -> f64 {
        let walked: usize = self.parts.iter().map(|part| size_of_val(part.as_slice())).sum();
        2.0 * walked as f64
    }

    /// Walks through all of it once, with `work` multiply-adds on each number: the
    /// microseconds it took.
    pub(super) fn pass(&mut self, work: u32) -> f64 {
        let started = Instant::now();
        let threads = self.pool.threads();
        self.pool.for_each_mut(threads, &mut self.parts, &|_, part| walk(part, work));
        started.elapsed().as_secs_f64() * 1e6
    }
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

/// A stream by the `OpenCL` device.
pub(super) struct GpuStream(Launched);

impl GpuStream {
    /// Over `bytes` twice, one to read and one to write.
    pub(super) fn new(runtime: &Arc<Runtime>, bytes: usize) -> Result<Self, OpenClError> {
        Ok(Self(Launched::stream(runtime, bytes)?))
    }

    /// Bytes that one pass moves.
    pub(super) fn bytes(&self) -> f64 {
        self.0.bytes().0 as f64
    }

    /// Walks through all of it once, with `work` multiply-adds on each number: the
    /// microseconds it took, by the device's clock.
    pub(super) fn pass(&mut self, work: u32) -> Result<f64, OpenClError> {
        self.0.set_work(work)?;
        Ok(self.0.run(LIMIT)?.device.as_micros())
    }
}

/// Gigabytes a second of `bytes` in the time that was measured in microseconds.
pub(super) fn gbps(bytes: f64, time_us: &Measured) -> Measured {
    time_us.scaled(NANOS_PER_MICRO).rate(bytes)
}

/// A stream of either processor.
pub(super) enum Stream {
    Cpu(CpuStream),
    Gpu(GpuStream),
}

impl Stream {
    pub(super) fn bytes(&self) -> f64 {
        match self {
            Self::Cpu(stream) => stream.bytes(),
            Self::Gpu(stream) => stream.bytes(),
        }
    }

    /// Makes a GPU's stream read texels in steps of `stride`; the CPU's stays as it is.
    pub(super) fn set_stride(&mut self, stride: u32) -> Result<(), OpenClError> {
        match self {
            Self::Cpu(_) => Ok(()),
            Self::Gpu(stream) => stream.0.set_stride(stride),
        }
    }

    /// Threads that share it.
    pub(super) fn streams(&self) -> u32 {
        match self {
            Self::Cpu(stream) => stream.pool.threads() as u32,
            Self::Gpu(_) => 1,
        }
    }

    /// One pass: its microseconds.
    pub(super) fn pass(&mut self, work: u32) -> Result<f64, OpenClError> {
        match self {
            Self::Cpu(stream) => Ok(stream.pass(work)),
            Self::Gpu(stream) => stream.pass(work),
        }
    }

    /// The times of `repetitions` passes, after one that does not count.
    pub(super) fn passes(&mut self, work: u32, repetitions: usize) -> Result<Vec<f64>, OpenClError> {
        self.pass(work)?;
        (0..repetitions).map(|_| self.pass(work)).collect()
    }

    /// Multiply-adds on each number with which the stream moves each of these `parts` of
    /// what it moves without any.
    pub(super) fn works(&mut self, parts: &[f64]) -> Result<Vec<u32>, OpenClError> {
        let mut shortest = |work| -> Result<f64, OpenClError> {
            Ok(self.passes(work, 2)?.into_iter().fold(f64::INFINITY, f64::min))
        };
        let none = shortest(0)?;
        let (mut work, mut time) = (FIRST_WORK, shortest(FIRST_WORK)?);
        // Work that hides behind the traffic says nothing of its time.
        while time < 2.0 * none && work < MOST_WORK {
            work *= 2;
            time = shortest(work)?;
        }
        Ok(parts.iter().map(|&part| work_for(part, none, time / f64::from(work))).collect())
    }

    /// Passes until `stop`: gigabytes a second that it moved.
    pub(super) fn flow(&mut self, work: u32, stop: &AtomicBool) -> Result<f64, OpenClError> {
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
    if part >= 1.0 { 0 } else { (none_us / part / step_us).round().min(f64::from(MOST_WORK)) as u32 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_caches_are_read_in_both_units() {
        assert_eq!(
            (kibibytes("32768K"), kibibytes("32M"), kibibytes("?")),
            (Some(32 << 10), Some(32 << 10), None)
        );
        assert_eq!(memory_bytes(Path::new("/nonexistent")) as u64, LEAST_BYTES);
    }

    #[test]
    fn half_the_demand_takes_work_for_twice_the_time() {
        assert_eq!((work_for(1.0, 100.0, 2.0), work_for(0.5, 100.0, 2.0)), (0, 100));
    }

    #[test]
    fn more_work_on_each_number_makes_a_stream_slower() {
        let stream = CpuStream::new(ThreadPool::new(1).unwrap(), 1 << 20);
        let mut stream = Stream::Cpu(stream);
        let shortest = |times: Vec<f64>| times.into_iter().fold(f64::INFINITY, f64::min);
        let light = shortest(stream.passes(0, 5).unwrap());
        let heavy = shortest(stream.passes(400, 5).unwrap());
        assert!(heavy > 2.0 * light, "{light} and {heavy}");
        assert!((stream.bytes() - f64::from(2 << 20)).abs() < 1.0);
    }
}

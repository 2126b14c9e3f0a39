//! Streams of batches: several runs of a plan in flight, on the same queue and the same cores.
//!
//! Responsible for: which batch advances next, and when each began and ended. Not for: the commands
//! of a batch (`super::program`). The host's work per batch is emulated by a delay before the batch
//! begins. Invariants: no time counts before each program in flight was verified, and the last
//! result of each equals the verified one; the oldest batch that need not wait advances first.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::check::Verified;
use super::program::{Advance, Progress};
use super::{Machine, Program, Result, Task};
use crate::cpu::Element;
use crate::opencl::{stamping, timed_out};

/// Batches that do not count, before the others while the pipeline fills, and after them while it
/// drains: as many as the simulator excludes.
const WARM_UP: usize = 5;

/// How batches are streamed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Streaming {
    /// Batches in flight at once, at most.
    pub depth: u32,
    /// Time of the host's work for each batch before its first operator.
    pub host_gap: Duration,
    /// Batches that count.
    pub batches: u32,
}

/// The times of a stream.
#[derive(Clone, Debug, PartialEq)]
pub struct Streamed {
    /// Time from the end of the preceding batch to the end of each counted batch, in microseconds.
    pub periods_us: Vec<f64>,
    /// Time from the start of the host's work for each counted batch to its last result, in
    /// microseconds.
    pub latencies_us: Vec<f64>,
    /// Number of result elements compared with the reference.
    pub verified_elements: usize,
}

/// A batch in flight.
struct Flight {
    program: usize,
    /// Start and end of the host's work for it.
    from: Duration,
    ready: Duration,
    batch: Option<Progress>,
}

impl Streamed {
    /// Mean time from the end of one batch to the end of the next, in microseconds.
    pub fn period_us(&self) -> f64 {
        self.periods_us.iter().sum::<f64>() / self.periods_us.len().max(1) as f64
    }

    /// Mean time from the start of the host's work for a batch to its last result, in microseconds.
    pub fn batch_latency_us(&self) -> f64 {
        self.latencies_us.iter().sum::<f64>() / self.latencies_us.len().max(1) as f64
    }
}

/// Streams batches of `task`.
pub(super) fn stream<T: Element>(
    machine: &mut Machine,
    task: &Task<'_>,
    streaming: Streaming,
) -> Result<Streamed> {
    let mut programs: Vec<Program<T>> = Vec::new();
    let mut verified: Vec<Verified> = Vec::new();
    let all = streaming.batches as usize + 2 * WARM_UP;
    for _ in 0..(streaming.depth as usize).clamp(1, all) {
        machine.control.check()?;
        let mut program = Program::new(machine, task)?;
        machine.pin_caller_to(program.team());
        verified.push(program.verify(machine)?);
        program.poison()?;
        programs.push(program);
    }
    let runtime = machine.runtime().map(Arc::clone);
    let times = stamping(runtime.as_deref(), false, || {
        let times = run_in_flight(machine, &mut programs, (streaming.host_gap, all), task.limit);
        if times.is_err() {
            programs.iter().for_each(Program::abandon);
        }
        times
    })?;
    for (program, verified) in programs.iter().zip(&verified) {
        program.compare(verified)?;
    }
    let counted = WARM_UP..times.len() - WARM_UP;
    let micros = |duration: Duration| duration.as_secs_f64() * 1e6;
    Ok(Streamed {
        periods_us: counted
            .clone()
            .map(|batch| micros(times[batch][1].saturating_sub(times[batch - 1][1])))
            .collect(),
        latencies_us: counted.map(|batch| micros(times[batch][1].saturating_sub(times[batch][0]))).collect(),
        verified_elements: verified.iter().map(|verified| verified.elements).sum(),
    })
}

/// For each of `all` batches, the start of the host's work and the batch's end.
fn run_in_flight<T: Element>(
    machine: &mut Machine,
    programs: &mut [Program<T>],
    (host_gap, all): (Duration, usize),
    limit: Duration,
) -> Result<Vec<[Duration; 2]>> {
    let started = Instant::now();
    let mut free: VecDeque<usize> = (0..programs.len()).collect();
    let mut flights: VecDeque<Flight> = VecDeque::new();
    let mut times = Vec::with_capacity(all);
    let (mut begun, mut host_free, mut latest) = (0, Duration::ZERO, Instant::now());
    while times.len() < all {
        machine.control.check()?;
        while begun < all
            && let Some(program) = free.pop_front()
        {
            let from = started.elapsed().max(host_free);
            host_free = from + host_gap;
            flights.push_back(Flight { program, from, ready: host_free, batch: None });
            begun += 1;
        }
        match advance(machine, programs, &mut flights, started)? {
            Some((index, Advance::Finished)) => {
                let Some(flight) = flights.remove(index) else { continue };
                times.push([flight.from, started.elapsed()]);
                free.push_back(flight.program);
                latest = Instant::now();
            }
            Some(_) => latest = Instant::now(),
            None if latest.elapsed() > limit + host_gap => {
                if let Some(runtime) = machine.runtime() {
                    runtime.give_up();
                }
                return Err(timed_out("its part of a batch", limit).into());
            }
            None => {}
        }
    }
    Ok(times)
}

/// Advances the oldest batch that need not wait; returns its index and the outcome.
fn advance<T: Element>(
    machine: &mut Machine,
    programs: &mut [Program<T>],
    flights: &mut VecDeque<Flight>,
    started: Instant,
) -> Result<Option<(usize, Advance)>> {
    for (index, flight) in flights.iter_mut().enumerate() {
        let program = &mut programs[flight.program];
        let Some(batch) = &mut flight.batch else {
            if started.elapsed() < flight.ready {
                continue;
            }
            flight.batch = Some(program.begin()?);
            return Ok(Some((index, Advance::Stepped)));
        };
        match program.advance(machine, batch)? {
            Advance::Blocked => {}
            going => return Ok(Some((index, going))),
        }
    }
    Ok(None)
}

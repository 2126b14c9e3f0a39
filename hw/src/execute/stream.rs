//! Batches of a plan that follow each other: several runs of it at once, on the same queue
//! and the same cores.
//!
//! Responsible for: which batch goes on next, and when each began and ended. Not for: what a
//! batch does (`super::program`). The host's work for each batch is stood for by time that
//! passes: batches begin when it would have ended. Invariants: no time counts before each
//! program in flight was verified, and what each computed last is what was verified; the
//! oldest batch that need not wait goes on first.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::check::Verified;
use super::program::{Going, Progress};
use super::{Control, Machine, Program, Result, Task};
use crate::cpu::Element;
use crate::opencl::timed_out;

/// Batches before those that count, while the pipeline fills, and after them, while it
/// empties: as many as the simulator leaves out.
const WARM_UP: usize = 5;

/// How batches follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Streaming {
    /// Batches in flight at once, at most.
    pub depth: u32,
    /// What the host does for each before its first operator.
    pub host_gap: Duration,
    /// Batches that count.
    pub batches: u32,
}

/// What became of a stream.
#[derive(Clone, Debug, PartialEq)]
pub struct Streamed {
    /// From the end of each batch that counts to the next one's, in microseconds.
    pub periods_us: Vec<f64>,
    /// From the start of the host's work for each to its last result, in microseconds.
    pub latencies_us: Vec<f64>,
    /// Elements of results that were compared with the reference.
    pub verified_elements: usize,
}

/// A batch on its way.
struct Flight {
    program: usize,
    /// When the host's work for it begins and ends.
    from: Duration,
    ready: Duration,
    batch: Option<Progress>,
}

impl Streamed {
    /// From the end of one batch to the end of the next, on average, in microseconds.
    pub fn period_us(&self) -> f64 {
        self.periods_us.iter().sum::<f64>() / self.periods_us.len().max(1) as f64
    }

    /// From the start of the host's work for a batch to its last result, on average, in
    /// microseconds.
    pub fn batch_latency_us(&self) -> f64 {
        self.latencies_us.iter().sum::<f64>() / self.latencies_us.len().max(1) as f64
    }
}

/// Streams batches of `task`.
pub(super) fn stream<T: Element>(
    machine: &mut Machine,
    task: &Task<'_>,
    streaming: Streaming,
    control: &Control,
) -> Result<Streamed> {
    let mut programs: Vec<Program<T>> = Vec::new();
    let mut verified: Vec<Verified> = Vec::new();
    let all = streaming.batches as usize + 2 * WARM_UP;
    for _ in 0..(streaming.depth as usize).clamp(1, all) {
        control.check()?;
        let mut program = Program::new(machine, task)?;
        machine.pin_caller_to(program.team());
        verified.push(program.verify(machine)?);
        program.spoil_results()?;
        programs.push(program);
    }
    let times = run_in_flight(machine, &mut programs, (streaming.host_gap, all), task.limit, control);
    if times.is_err() {
        programs.iter_mut().for_each(Program::abandon);
    }
    let times = times?;
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

/// The start of the host's work for each of `all` batches, and the batch's end.
fn run_in_flight<T: Element>(
    machine: &mut Machine,
    programs: &mut [Program<T>],
    (host_gap, all): (Duration, usize),
    limit: Duration,
    control: &Control,
) -> Result<Vec<[Duration; 2]>> {
    let started = Instant::now();
    let mut free: VecDeque<usize> = (0..programs.len()).collect();
    let mut flights: VecDeque<Flight> = VecDeque::new();
    let mut times = Vec::with_capacity(all);
    let (mut begun, mut host_free, mut latest) = (0, Duration::ZERO, Instant::now());
    while times.len() < all {
        control.check()?;
        while begun < all
            && let Some(program) = free.pop_front()
        {
            let from = started.elapsed().max(host_free);
            host_free = from + host_gap;
            flights.push_back(Flight { program, from, ready: host_free, batch: None });
            begun += 1;
        }
        match go_on(machine, programs, &mut flights, started)? {
            Some((index, Going::Ended)) => {
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

/// Lets the oldest batch go on that need not wait: which one, and what became of it.
fn go_on<T: Element>(
    machine: &mut Machine,
    programs: &mut [Program<T>],
    flights: &mut VecDeque<Flight>,
    started: Instant,
) -> Result<Option<(usize, Going)>> {
    for (index, flight) in flights.iter_mut().enumerate() {
        let program = &mut programs[flight.program];
        let Some(batch) = &mut flight.batch else {
            if started.elapsed() < flight.ready {
                continue;
            }
            flight.batch = Some(program.begin()?);
            return Ok(Some((index, Going::On)));
        };
        match program.go_on(machine, batch)? {
            Going::Waiting => {}
            going => return Ok(Some((index, going))),
        }
    }
    Ok(None)
}

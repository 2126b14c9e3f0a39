//! The time of work: units times rates, stretched by the threads at work.

use arrayvec::ArrayVec;

use super::{Sharing, Work};
use crate::device::cpu::{CoexecRates, CoexecUnit};
use crate::kernel::cpu::{
    MAX_THREADS, Makespan, NANOS_PER_MICRO, self_scheduled, self_scheduled_blocks, static_rows,
};

/// Most blocks of different sizes that are scheduled one by one; beyond it, their sizes
/// differ by little.
const MOST_SINGLE_BLOCKS: usize = 64;

/// A table of rates as plain numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Costs {
    /// Nanoseconds of each unit.
    pub nanos: [f64; CoexecUnit::ALL.len()],
    /// Weights that a core finds in a cache, in bytes.
    pub near_weight_bytes: f64,
    /// Waking the first worker and waiting for it, in nanoseconds.
    pub first_fork_ns: f64,
    /// What each further one adds.
    pub further_thread_ns: f64,
    /// What each further thread adds to parallel work.
    pub contention: f64,
    /// What the slowest thread takes more than the fastest.
    pub straggler: f64,
}

impl Costs {
    /// The costs that the rates of a profile say.
    pub fn of(rates: &CoexecRates) -> Self {
        Self {
            nanos: rates.rates(),
            near_weight_bytes: rates.near_weight_bytes.value,
            first_fork_ns: rates.fork_us.value * NANOS_PER_MICRO,
            further_thread_ns: rates.further_thread_us.value * NANOS_PER_MICRO,
            contention: rates.contention_factor.value,
            straggler: rates.straggler_factor.value,
        }
    }

    pub(super) fn operator_ns(&self) -> f64 {
        self.nanos[CoexecUnit::Operator as usize]
    }

    /// Time that all units of one kind take one core.
    pub(super) fn of_unit(&self, work: &Work, unit: CoexecUnit) -> f64 {
        let units = if unit == CoexecUnit::FarWeightByte {
            (work.weight_bytes - self.near_weight_bytes).max(0.0)
        } else {
            work.units[unit as usize]
        };
        units * self.nanos[unit as usize]
    }

    /// Time that the work takes one core alone, its dispatch apart.
    pub(super) fn nanos(&self, work: &Work) -> f64 {
        let counted: f64 = work.units.iter().zip(&self.nanos).map(|(units, nanos)| units * nanos).sum();
        counted + self.of_unit(work, CoexecUnit::FarWeightByte)
    }

    /// How many times as long thread number `thread` of `threads` takes.
    pub(super) fn stretch(&self, thread: usize, threads: usize) -> f64 {
        if threads < 2 {
            return 1.0;
        }
        let further = (threads - 1) as f64;
        (1.0 + self.contention * further) * (1.0 + self.straggler * thread as f64 / further)
    }

    /// Time of the work on the threads of one cluster, in nanoseconds.
    pub fn time(&self, work: &Work) -> f64 {
        let (threads, nanos) = (work.threads(), self.nanos(work));
        if threads == 1 {
            return self.operator_ns() + nanos;
        }
        let per_thread: ArrayVec<f64, MAX_THREADS> =
            (0..threads).map(|thread| nanos * self.stretch(thread, threads)).collect();
        self.operator_ns() + work.makespan(&per_thread).nanos + self.fork_ns(threads)
    }

    /// What it takes to give so many threads work, and to wait for them.
    pub(super) fn fork_ns(&self, threads: usize) -> f64 {
        self.first_fork_ns + (threads as f64 - 2.0) * self.further_thread_ns
    }
}

impl Work {
    /// Threads that share the work.
    pub(super) fn threads(&self) -> usize {
        match self.sharing {
            Sharing::Alone => 1,
            Sharing::Lines { threads, .. } => threads,
            Sharing::Blocks(division) => division.threads,
        }
    }

    /// Pieces that the threads share out.
    pub(super) fn pieces(&self) -> usize {
        match self.sharing {
            Sharing::Alone => 1,
            Sharing::Lines { lines, .. } => lines,
            Sharing::Blocks(division) => division.blocks(),
        }
    }

    /// When the last of the threads is done, of which thread `i` takes `per_thread[i]` for
    /// all of the work.
    pub(super) fn makespan(&self, per_thread: &[f64]) -> Makespan {
        if per_thread.len() < 2 {
            return Makespan::alone(per_thread.first().copied().unwrap_or(0.0));
        }
        let of_each = |pieces: usize| -> ArrayVec<f64, MAX_THREADS> {
            per_thread.iter().map(|nanos| nanos / pieces as f64).collect()
        };
        match self.sharing {
            Sharing::Alone => Makespan::alone(per_thread[0]),
            Sharing::Lines { lines, .. } => static_rows(lines as u64, &of_each(lines)),
            Sharing::Blocks(division) if division.is_even() || division.blocks() > MOST_SINGLE_BLOCKS => {
                self_scheduled(division.blocks() as u64, &of_each(division.blocks()))
            }
            Sharing::Blocks(division) => {
                let sizes = (0..division.blocks()).map(|index| {
                    let block = division.block(index);
                    (block.pixel_tiles.len() * block.channel_tiles.len()) as f64
                });
                self_scheduled_blocks(sizes, &of_each(division.tiles()))
            }
        }
    }
}

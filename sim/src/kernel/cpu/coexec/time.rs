//! The time of work: units times rates, stretched by contention between threads.

use arrayvec::ArrayVec;

use super::{Sharing, Work};
use crate::device::cpu::{CoexecRates, CoexecUnit};
use crate::kernel::cpu::{
    MAX_THREADS, Makespan, NANOS_PER_MICRO, self_scheduled, self_scheduled_blocks, static_rows,
};

/// Maximum blocks of different sizes that are scheduled one by one; above it, their sizes
/// differ little and are treated as equal.
const MAX_UNEVEN_BLOCKS: usize = 64;

/// A rate table as plain values.
#[derive(Clone, Debug, PartialEq)]
pub struct Costs {
    /// Nanoseconds per unit, in the order of [`CoexecUnit::ALL`].
    pub nanos: [f64; CoexecUnit::ALL.len()],
    /// Weight bytes up to which a core's caches hold them.
    pub near_weight_bytes: f64,
    /// Waking the first worker and waiting for it, in nanoseconds.
    pub first_fork_ns: f64,
    /// Additional time for each further worker, in nanoseconds.
    pub further_thread_ns: f64,
    /// Relative slowdown of parallel work per further thread.
    pub contention: f64,
    /// Relative extra time of the slowest thread over the fastest.
    pub straggler: f64,
}

impl Costs {
    /// The values of a profile's rate table.
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

    /// Time of all units of one kind on one core, in nanoseconds.
    pub(super) fn of_unit(&self, work: &Work, unit: CoexecUnit) -> f64 {
        let units = if unit == CoexecUnit::FarWeightByte {
            (work.weight_bytes - self.near_weight_bytes).max(0.0)
        } else {
            work.units[unit as usize]
        };
        units * self.nanos[unit as usize]
    }

    /// Time of the work on a single core without dispatch, in nanoseconds.
    pub(super) fn nanos(&self, work: &Work) -> f64 {
        let counted: f64 = work.units.iter().zip(&self.nanos).map(|(units, nanos)| units * nanos).sum();
        counted + self.of_unit(work, CoexecUnit::FarWeightByte)
    }

    /// Slowdown of thread `thread` of `threads` by contention and straggling.
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

    /// Fork-join time of a parallel region on `threads` threads, at least two, in nanoseconds.
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

    /// Pieces distributed to the threads.
    pub(super) fn pieces(&self) -> usize {
        match self.sharing {
            Sharing::Alone => 1,
            Sharing::Lines { lines, .. } => lines,
            Sharing::Blocks(division) => division.blocks(),
        }
    }

    /// Makespan of the work; `per_thread[i]` is the time of all of it on thread `i`, in
    /// nanoseconds.
    pub(super) fn makespan(&self, per_thread: &[f64]) -> Makespan {
        if per_thread.len() < 2 {
            return Makespan::even(per_thread.first().copied().unwrap_or(0.0), 1);
        }
        let of_each = |pieces: usize| -> ArrayVec<f64, MAX_THREADS> {
            per_thread.iter().map(|nanos| nanos / pieces as f64).collect()
        };
        match self.sharing {
            Sharing::Alone => Makespan::even(per_thread[0], 1),
            Sharing::Lines { lines, .. } => static_rows(lines as u64, &of_each(lines)),
            Sharing::Blocks(division) if division.is_even() || division.blocks() > MAX_UNEVEN_BLOCKS => {
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

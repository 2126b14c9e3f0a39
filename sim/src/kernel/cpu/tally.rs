//! Accumulated cost of a layer on a core set, before conversion to phases.

use derive_more::{AddAssign, Mul};

use super::{Kernel, Library, Limit, MAX_THREADS, Makespan, Schedule};
use crate::kernel::{Execution, Phase, PhaseKind, Phases, largest, saturated};
use crate::units::{Bytes, Picos};

/// Time of parallel work on one core by category, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, AddAssign, Mul)]
pub(super) struct Shares {
    /// Arithmetic.
    pub(super) compute: f64,
    /// Packing of operands.
    pub(super) packing: f64,
    /// Data that miss the caches.
    pub(super) memory: f64,
}

impl Shares {
    /// Total time.
    pub(super) fn nanos(&self) -> f64 {
        self.compute + self.packing + self.memory
    }
}

/// Running totals of a layer, in nanoseconds: its operator, then each linked
/// function that runs as a separate pass.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    /// Kernel of the operator.
    pub(super) kernel: Kernel,
    /// Micro-kernel tile of the operator.
    pub(super) tile: [u32; 2],
    /// Pieces into which the operator's parallel work is divided.
    pub(super) blocks: u64,
    /// Threads that share the operator's parallel work.
    pub(super) threads: u32,
    /// Work of the main thread alone.
    pub(super) serial: f64,
    /// Fork-join overhead: waking threads and waiting for them.
    pub(super) fork: f64,
    /// Duration of the parallel regions, by category.
    pub(super) parallel: Shares,
    /// Busy time of each thread in the parallel regions.
    pub(super) busy: [f64; MAX_THREADS],
}

impl Tally {
    /// An empty tally of `kernel`.
    pub(super) fn new(kernel: Kernel) -> Self {
        Self { kernel, blocks: 1, threads: 1, ..Self::default() }
    }

    /// Adds a parallel region of duration `makespan`, split by category in the proportions
    /// of `shares`.
    pub(super) fn add_parallel(&mut self, makespan: &Makespan, shares: &Shares) {
        let work = shares.nanos();
        if work > 0.0 {
            self.parallel += *shares * (makespan.nanos / work);
        }
        for (busy, more) in self.busy.iter_mut().zip(makespan.busy) {
            *busy += more;
        }
    }

    /// Multiplies every time by `factor`.
    pub(super) fn scale(&mut self, factor: f64) {
        self.serial *= factor;
        self.fork *= factor;
        self.parallel = self.parallel * factor;
        for busy in &mut self.busy {
            *busy *= factor;
        }
    }

    /// Converts to phases, with `bytes` spread over serial and parallel work.
    pub(super) fn finish(&self, library: Option<Library>, bytes: u64) -> Execution<Schedule> {
        let serial = Picos::from_nanos(self.serial);
        let mut phases = Phases::from_iter([
            Phase::new(PhaseKind::Serial, serial, Bytes::ZERO),
            Phase::new(PhaseKind::Parallel, Picos::from_nanos(self.parallel.nanos()), Bytes::ZERO),
            Phase::new(PhaseKind::ForkJoin, Picos::from_nanos(self.fork), Bytes::ZERO),
        ]);
        phases.spread(Bytes(bytes), |kind| kind != PhaseKind::ForkJoin);
        let schedule = Schedule {
            library,
            kernel: self.kernel,
            threads: self.threads,
            tile: self.tile,
            blocks: saturated(self.blocks),
            busy: self.busy.map(busy_time),
            serial,
            limit: self.limit(),
        };
        Execution { phases, detail: schedule }
    }

    fn limit(&self) -> Limit {
        largest(&[
            (Limit::Serial, self.serial),
            (Limit::Compute, self.parallel.compute),
            (Limit::Packing, self.parallel.packing),
            (Limit::Memory, self.parallel.memory),
            (Limit::ForkJoin, self.fork),
        ])
    }
}

/// Rounds to picoseconds. Most threads are idle and skip the rounding, which would be a
/// notable part of a kernel model's run time.
fn busy_time(nanos: f64) -> Picos {
    if nanos > 0.0 { Picos::from_nanos(nanos) } else { Picos::ZERO }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_the_largest_share() {
        let mut tally = Tally::new(Kernel::Gemm);
        tally.serial = 3.0;
        assert_eq!(tally.limit(), Limit::Serial);
        let shares = Shares { compute: 1.0, packing: 4.0, memory: 0.0 };
        tally.add_parallel(&Makespan::even(5.0, 1), &shares);
        assert_eq!(tally.limit(), Limit::Packing);
        tally.fork = 5.0;
        assert_eq!(tally.limit(), Limit::ForkJoin);
    }

    #[test]
    fn bytes_move_while_cores_work_not_while_they_wake() {
        let mut tally = Tally::new(Kernel::Gemm);
        tally.serial = 1.0;
        tally.fork = 2.0;
        tally.add_parallel(&Makespan::even(3.0, 1), &Shares { compute: 3.0, ..Shares::default() });
        let phases = tally.finish(Some(Library::Ruy), 400).phases;
        let bytes: Vec<u64> = phases.as_slice().iter().map(|phase| phase.bytes.0).collect();
        assert_eq!(bytes, [100, 300, 0]);
    }
}

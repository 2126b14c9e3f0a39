//! Makespan of equal pieces of work on unequal cores.
//!
//! Responsible for: ruy's dynamic self-scheduling of blocks and TFLite's static division
//! of rows. Times are in nanoseconds. Invariant: for equal pieces, constant time in their
//! number, so that a search can evaluate it at every step.

use super::MAX_THREADS;

/// Times of the threads until all pieces are done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Makespan {
    /// Time until the last thread is done.
    pub(super) nanos: f64,
    /// Busy time of each thread.
    pub(super) busy: [f64; MAX_THREADS],
}

/// Shortens the closed-form part of the schedule, so that rounding cannot assign a piece
/// too many.
const BELOW_ROUNDING: f64 = 1.0 - 1e-9;

impl Makespan {
    /// `threads` threads are all busy for `nanos`.
    pub(super) fn even(nanos: f64, threads: u32) -> Self {
        let busy = std::array::from_fn(|thread| if thread < threads as usize { nanos } else { 0.0 });
        Self { nanos, busy }
    }

    fn of_counts(counts: [u64; MAX_THREADS], piece_nanos: &[f64]) -> Self {
        let mut busy = [0.0; MAX_THREADS];
        let mut nanos = 0.0_f64;
        for ((busy, count), piece) in busy.iter_mut().zip(counts).zip(piece_nanos) {
            *busy = count as f64 * piece;
            nanos = nanos.max(*busy);
        }
        Self { nanos, busy }
    }
}

/// Dynamic self-scheduling: each thread starts on one of `blocks`, then takes
/// the next one whenever it is free; `block_nanos[i]` is the time of one block on
/// thread `i`. A tie goes to the faster thread.
///
/// Thread `i` takes blocks at multiples of its block time, so the schedule is the first
/// `blocks` of these instants over all threads. All but the last few are counted in
/// closed form; the rest, at most as many as threads, are assigned one by one.
pub(super) fn self_scheduled(blocks: u64, block_nanos: &[f64]) -> Makespan {
    let threads = block_nanos.len() as u64;
    let mut taken = [0_u64; MAX_THREADS];
    if block_nanos.iter().any(|&nanos| nanos <= 0.0) {
        return Makespan::of_counts(taken, block_nanos);
    }
    let rate: f64 = block_nanos.iter().map(|nanos| 1.0 / nanos).sum();
    let mut left = blocks;
    if blocks > threads {
        let counted_until = (blocks - threads) as f64 / rate * BELOW_ROUNDING;
        for (taken, nanos) in taken.iter_mut().zip(block_nanos) {
            *taken = (counted_until / nanos) as u64 + 1;
            left -= *taken;
        }
    }
    for _ in 0..left {
        let free_at = |thread: usize| (taken[thread] as f64 * block_nanos[thread], block_nanos[thread]);
        let next = first_minimum(block_nanos.len(), |one, other| free_at(one) < free_at(other));
        taken[next] += 1;
    }
    Makespan::of_counts(taken, block_nanos)
}

/// The first minimal thread of `threads` under the order `comes_before`.
fn first_minimum(threads: usize, comes_before: impl Fn(usize, usize) -> bool) -> usize {
    (1..threads).fold(0, |least, thread| if comes_before(thread, least) { thread } else { least })
}

/// [`self_scheduled`] for blocks of different sizes, taken in order, one by one: `unit_nanos[i]` is the
/// time of a block of size 1 on thread `i`.
pub(super) fn self_scheduled_blocks(sizes: impl Iterator<Item = f64>, unit_nanos: &[f64]) -> Makespan {
    let mut busy = [0.0; MAX_THREADS];
    for size in sizes {
        let next = first_minimum(unit_nanos.len(), |one, other| busy[one] < busy[other]);
        busy[next] += size * unit_nanos[next];
    }
    Makespan { nanos: busy.into_iter().fold(0.0, f64::max), busy }
}

/// A static division of `rows` into contiguous parts as equal as possible, the larger ones
/// for the last threads (TFLite's depthwise convolution); `row_nanos[i]` is the time of one
/// row on thread `i`.
pub(super) fn static_rows(rows: u64, row_nanos: &[f64]) -> Makespan {
    let threads = row_nanos.len() as u64;
    let mut counts = [0; MAX_THREADS];
    let mut left = rows;
    for (thread, count) in counts.iter_mut().enumerate().take(row_nanos.len()) {
        *count = left / (threads - thread as u64);
        left -= *count;
    }
    Makespan::of_counts(counts, row_nanos)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Reference implementation of [`self_scheduled`], block by block.
    fn replayed(blocks: u64, block_nanos: &[f64]) -> f64 {
        let mut free_at = vec![0.0; block_nanos.len()];
        for _ in 0..blocks {
            let (next, _) = free_at
                .iter()
                .zip(block_nanos)
                .enumerate()
                .min_by(|(_, a), (_, b)| a.partial_cmp(b).unwrap())
                .unwrap();
            free_at[next] += block_nanos[next];
        }
        free_at.into_iter().fold(0.0, f64::max)
    }

    fn threads() -> impl Strategy<Value = Vec<f64>> {
        prop::collection::vec(1.0..50.0_f64, 1..=MAX_THREADS)
    }

    proptest! {
        #[test]
        fn counting_agrees_with_replaying_block_by_block(blocks in 1_u64..3000, times in threads()) {
            let counted = self_scheduled(blocks, &times).nanos;
            prop_assert!((counted / replayed(blocks, &times) - 1.0).abs() < 1e-9);
        }

        #[test]
        fn no_schedule_beats_the_sum_of_the_rates(blocks in 1_u64..100_000, times in threads()) {
            let rate: f64 = times.iter().map(|time| 1.0 / time).sum();
            prop_assert!(self_scheduled(blocks, &times).nanos >= blocks as f64 / rate * (1.0 - 1e-9));
        }

        #[test]
        fn self_scheduling_is_within_one_block_of_the_sum_of_the_rates(
            blocks in 1_u64..100_000,
            times in threads(),
        ) {
            let rate: f64 = times.iter().map(|time| 1.0 / time).sum();
            let slowest = times.iter().copied().fold(0.0, f64::max);
            prop_assert!(self_scheduled(blocks, &times).nanos <= blocks as f64 / rate + slowest);
        }

        #[test]
        fn self_scheduling_never_loses_to_an_equal_split(blocks in 1_u64..100_000, times in threads()) {
            let share = blocks.div_ceil(times.len() as u64) as f64;
            let slowest = times.iter().copied().fold(0.0, f64::max);
            prop_assert!(self_scheduled(blocks, &times).nanos <= share * slowest * (1.0 + 1e-9));
        }

        #[test]
        fn the_order_of_the_threads_does_not_matter(blocks in 1_u64..3000, times in threads()) {
            let mut reversed = times.clone();
            reversed.reverse();
            let (forward, backward) = (self_scheduled(blocks, &times), self_scheduled(blocks, &reversed));
            prop_assert!((forward.nanos / backward.nanos - 1.0).abs() < 1e-9);
        }

        #[test]
        fn equal_cores_take_whole_blocks_each(blocks in 1_u64..100_000, count in 1_usize..=MAX_THREADS) {
            let times = vec![3.7; count];
            let expected = blocks.div_ceil(count as u64) as f64 * 3.7;
            prop_assert!((self_scheduled(blocks, &times).nanos / expected - 1.0).abs() < 1e-12);
            prop_assert!((static_rows(blocks, &times).nanos / expected - 1.0).abs() < 1e-12);
        }

        #[test]
        fn the_threads_work_adds_up_to_the_blocks(blocks in 1_u64..100_000, times in threads()) {
            for makespan in [self_scheduled(blocks, &times), static_rows(blocks, &times)] {
                let done: f64 = times.iter().zip(makespan.busy).map(|(time, busy)| busy / time).sum();
                prop_assert!((done - blocks as f64).abs() < 1e-6 * blocks as f64);
            }
        }
    }

    #[test]
    fn a_slow_core_is_the_straggler_of_a_fixed_division() {
        let mixed = [1.0, 4.0];
        assert!((static_rows(7, &mixed).nanos - 16.0).abs() < 1e-12);
        assert!((self_scheduled(7, &mixed).nanos - 8.0).abs() < 1e-12);
    }

    #[test]
    fn work_that_costs_nothing_takes_no_time() {
        assert!(self_scheduled(1_000_000_000, &[0.0, 0.0]).nanos.abs() < 1e-12);
    }
}

//! Predicted sleep, then polling: the host sleeps for as many whole sleeps as fit into
//! the predicted wait, and spins on the flag for the rest (`HeteroInfer`, SOSP'25,
//! section 4.3).

use std::time::{Duration, Instant};

use coexec_sim::units::Picos;

use super::flag_polling::round_after;
use super::round::{Bench, Round};
use super::{SyncError, median};
use crate::opencl::timing::of_duration;

/// The sleep that is asked for when the shortest one is measured.
const SHORTEST: Duration = Duration::from_micros(1);
/// A sleep's length on phones, of which a sleep is a multiple (`HeteroInfer`, section
/// 4.3: 80 to 100 us).
pub(crate) const STEP: Duration = Duration::from_micros(100);

pub(super) fn round(bench: &mut Bench, round: u32, limit: Duration) -> Result<Round, SyncError> {
    round_after(bench, round, limit, |bench| {
        let sleep = whole_sleeps(bench.predicted, STEP);
        if !sleep.is_zero() {
            std::thread::sleep(sleep);
        }
    })
}

/// The sleeps of length `step` that surely end before `predicted` has passed: one fewer
/// than fit, as a sleep lasts longer than it should.
pub(crate) fn whole_sleeps(predicted: Duration, step: Duration) -> Duration {
    let fitting = predicted.as_nanos() / step.as_nanos().max(1);
    step * u32::try_from(fitting.saturating_sub(1)).unwrap_or(u32::MAX)
}

/// How long the shortest sleep takes here: the median of `rounds`.
pub fn sleep_granularity(rounds: u32) -> Picos {
    let times: Vec<Picos> = (0..rounds)
        .map(|_| {
            let started = Instant::now();
            std::thread::sleep(SHORTEST);
            of_duration(started.elapsed())
        })
        .collect();
    median(&times)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_wakes_before_the_predicted_end() {
        let slept = |micros| whole_sleeps(Duration::from_micros(micros), STEP).as_micros();
        assert_eq!([0, 99, 100, 199, 250, 1_000].map(slept), [0, 0, 0, 0, 100, 900]);
    }
}

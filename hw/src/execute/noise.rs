//! The noise floor: how repeatable times are on this machine.

use std::hint::black_box;
use std::time::{Duration, Instant};

use coexec_sim::statistics::quantile;
use serde::Serialize;

use crate::statistics::Summary;

/// Steps of the fixed loop, each a dependent multiply-add of a few nanoseconds: about a tenth of a
/// millisecond, as long as a small operator.
const STEPS: u32 = 50_000;
/// Repetitions of the loop.
const REPETITIONS: usize = 60;
/// Clock readings from which its resolution is derived.
const READINGS: usize = 1_000;
/// Fraction of the repetitions excluded at either end of the reported spread.
const TAIL: f64 = 0.1;

/// The noise floor of time measurements on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct NoiseFloor {
    /// Resolution of the host's clock, in nanoseconds.
    pub clock_ns: f64,
    /// Half the range of the middle 80 % of times of a fixed loop, in percent of their median.
    pub spread_percent: f64,
}

impl NoiseFloor {
    /// Measures it on the calling thread.
    pub fn measure() -> Self {
        let mut times: Vec<f64> = (0..REPETITIONS)
            .map(|_| {
                let started = Instant::now();
                let mut value = black_box(1.0_f64);
                for _ in 0..STEPS {
                    value = value * 0.999 + 1.0;
                }
                black_box(value);
                started.elapsed().as_secs_f64() * 1e6
            })
            .collect();
        let centre = Summary::of(&times).median_us;
        times.sort_by(f64::total_cmp);
        let [low, high] = [TAIL, 1.0 - TAIL].map(|part| quantile(&times, part));
        Self { clock_ns: clock_step(), spread_percent: 50.0 * (high - low) / centre }
    }
}

/// The smallest non-zero difference between consecutive clock readings, in nanoseconds.
fn clock_step() -> f64 {
    let mut last = Instant::now();
    let steps = (0..READINGS).map(|_| {
        let now = Instant::now();
        now.duration_since(std::mem::replace(&mut last, now))
    });
    let least = steps.filter(|step| !step.is_zero()).min();
    least.unwrap_or(Duration::ZERO).as_secs_f64() * 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fixed_loop_is_found_to_vary_by_some_percent() {
        let floor = NoiseFloor::measure();
        assert!(floor.clock_ns > 0.0 && floor.clock_ns < 1e6, "{floor:?}");
        assert!(floor.spread_percent.is_finite() && floor.spread_percent >= 0.0, "{floor:?}");
    }
}

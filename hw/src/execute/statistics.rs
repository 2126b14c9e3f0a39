//! What repetitions say: their median, how sure it is, and which of them were disturbed.

use coexec_sim::statistics::median;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

use crate::statistics::outliers;

/// Resamples of a bootstrap: enough for two digits of a 95 % interval (Efron and
/// Tibshirani, "An introduction to the bootstrap", 1993, name 1,000).
const RESAMPLES: usize = 1_000;
/// What lies on either side of a 95 % interval.
const TAIL: f64 = 0.025;

/// What repetitions of one thing say.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Median of those that are no outliers, in microseconds.
    pub median_us: f64,
    /// Its 95 % interval by the bootstrap.
    pub ci95_us: [f64; 2],
    /// Which repetitions are outliers.
    pub outliers: Vec<bool>,
}

impl Summary {
    /// Of `times` in microseconds; the resamples are drawn with `seed`.
    pub fn of(times: &[f64], seed: u64) -> Self {
        let outliers = outliers(times);
        let kept: Vec<f64> =
            times.iter().zip(&outliers).filter(|(_, outlier)| !**outlier).map(|(&time, _)| time).collect();
        Self { median_us: median(&kept).unwrap_or(f64::NAN), ci95_us: interval(&kept, seed), outliers }
    }

    /// Half the interval's width as a share of the median, in percent.
    pub fn spread_percent(&self) -> f64 {
        let [low, high] = self.ci95_us;
        50.0 * (high - low) / self.median_us
    }
}

/// The percentile bootstrap of the median.
fn interval(times: &[f64], seed: u64) -> [f64; 2] {
    if times.is_empty() {
        return [f64::NAN; 2];
    }
    let mut stream = ChaCha8Rng::seed_from_u64(seed);
    let mut resample = vec![0.0; times.len()];
    let mut medians: Vec<f64> = (0..RESAMPLES)
        .filter_map(|_| {
            resample.fill_with(|| times[stream.random_range(0..times.len())]);
            median(&resample)
        })
        .collect();
    medians.sort_by(f64::total_cmp);
    let last = (RESAMPLES - 1) as f64;
    [TAIL, 1.0 - TAIL].map(|share| medians[(share * last).round() as usize])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disturbed_repetition_is_marked_and_in_no_median() {
        let mut times: Vec<f64> = (0..29).map(|n| 100.0 + f64::from(n % 5)).collect();
        times.push(900.0);
        let summary = Summary::of(&times, 1);
        assert_eq!(summary.outliers.iter().filter(|outlier| **outlier).count(), 1);
        assert!(summary.outliers[29]);
        assert!((summary.median_us - 102.0).abs() < f64::EPSILON);
        assert!(summary.ci95_us[0] >= 101.0 && summary.ci95_us[1] <= 103.0, "{summary:?}");
        assert_eq!(summary, Summary::of(&times, 1), "the seed decides");
    }

    #[test]
    fn the_interval_covers_the_true_median_about_as_often_as_it_says() {
        let mut stream = ChaCha8Rng::seed_from_u64(3);
        let covered = (0..200)
            .filter(|&trial| {
                // Uniform around 1.
                let times: Vec<f64> = (0..30).map(|_| stream.random_range(0.9..1.1)).collect();
                let [low, high] = Summary::of(&times, trial).ci95_us;
                (low..=high).contains(&1.0)
            })
            .count();
        assert!((180..=200).contains(&covered), "{covered} of 200");
    }

    #[test]
    fn equal_times_have_no_spread_and_no_outlier() {
        let summary = Summary::of(&[7.0; 10], 0);
        assert_eq!((summary.median_us, summary.spread_percent()), (7.0, 0.0));
        assert!(!summary.outliers.contains(&true));
    }
}

//! Outlier marking, and the confidence interval of a median.
//!
//! Responsible for: the single rule that marks repetitions of a run as disturbed, and the single
//! confidence interval of a median, for all measurements. Invariant: nothing is dropped here;
//! repetitions are only marked.

use coexec_fit::calibrate::least_squares::DEVIATIONS_95;
use coexec_fit::measure::runs::Repetition;
use coexec_sim::statistics::median;
use serde::Serialize;

/// How far above the lower quartile a repetition may lie, as a multiple of the distance from the
/// minimum to the lower quartile. For ten normal samples that distance is about 0.9 standard
/// deviations, so undisturbed samples are hardly ever marked, and uniform ones seldom.
const OUTLIER_DISTANCES: f64 = 8.0;
/// Fewest repetitions of which any is marked: of fewer, the lower quartile is the minimum, and nothing tells what is
/// usual.
const MIN_REPETITIONS: usize = 4;
/// Margin above the lower quartile that is always allowed, as a fraction of it: cache and clock
/// variation.
const MIN_MARGIN: f64 = 0.05;
/// Fewest values whose range covers their median in 95 % of cases: of n it does in 1 - 2 / 2^n.
const MIN_IN_INTERVAL: usize = 6;

/// Marks the disturbed repetitions. Other work on the machine only lengthens a time, and may
/// lengthen most of them, so the fastest quarter defines what is usual.
pub(crate) fn outliers(times: &[f64]) -> Vec<bool> {
    if times.len() < MIN_REPETITIONS {
        return vec![false; times.len()];
    }
    let mut sorted = times.to_vec();
    sorted.sort_by(f64::total_cmp);
    let [least, quartile] = [sorted[0], sorted[times.len() / 4]];
    let usual = (OUTLIER_DISTANCES * (quartile - least)).max(MIN_MARGIN * quartile);
    times.iter().map(|&time| time > quartile + usual).collect()
}

/// `times_us` as repetitions of a run file, disturbed ones marked.
pub(crate) fn repetitions(times_us: &[f64]) -> Vec<Repetition> {
    let marked = (0..).zip(times_us).zip(outliers(times_us));
    marked.map(|((number, &measured_us), outlier)| Repetition { number, measured_us, outlier }).collect()
}

/// The distribution-free 95 % confidence interval of the median of `values`, from order statistics
/// (Conover, "Practical nonparametric statistics", 1999, section 3.2). Of fewer than [`MIN_IN_INTERVAL`] values
/// it is their range, which covers the median less often. NaN without values.
pub(crate) fn median_interval(values: &[f64]) -> [f64; 2] {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let Some(last) = sorted.len().checked_sub(1) else { return [f64::NAN; 2] };
    let count = sorted.len() as f64;
    let half = DEVIATIONS_95 * count.sqrt() / 2.0;
    [(count / 2.0 - half).floor(), (count / 2.0 + half).ceil()]
        .map(|rank| sorted[(rank.max(0.0) as usize).min(last)])
}

/// Median, confidence interval and outliers of repeated times.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Median of the repetitions that are not outliers, in microseconds.
    pub median_us: f64,
    /// Its 95 % confidence interval, in microseconds; none of so few repetitions that not even their range is one.
    pub ci95_us: Option<[f64; 2]>,
    /// For each repetition, whether it is an outlier.
    pub outliers: Vec<bool>,
}

impl Summary {
    /// Summarises `times`, in microseconds.
    pub fn of(times: &[f64]) -> Self {
        let outliers = outliers(times);
        let kept: Vec<f64> =
            times.iter().zip(&outliers).filter(|(_, outlier)| !**outlier).map(|(&time, _)| time).collect();
        let ci95_us = (kept.len() >= MIN_IN_INTERVAL).then(|| median_interval(&kept));
        Self { median_us: median(&kept).unwrap_or(f64::NAN), ci95_us, outliers }
    }

    /// Half the width of the confidence interval, in percent of the median; none without an interval.
    pub fn spread_percent(&self) -> Option<f64> {
        self.ci95_us.map(|[low, high]| 50.0 * (high - low) / self.median_us)
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;

    #[test]
    fn a_disturbed_repetition_is_marked_and_ordinary_ones_are_not() {
        let times = [10.0, 10.2, 9.9, 10.1, 25.0, 10.0, 9.8];
        assert_eq!(outliers(&times).iter().filter(|&&outlier| outlier).count(), 1);
        assert!(outliers(&times)[4]);
        assert_eq!(outliers(&[5.0, 5.0, 5.1, 5.0]), [false; 4]);
        assert_eq!(outliers(&[12.0, 14.0, 12.0]), [false; 3]);
    }

    #[test]
    fn times_of_a_machine_that_is_shared_most_of_the_time_are_those_of_the_quick_quarter() {
        let times = [30.0, 10.0, 28.0, 10.1, 31.0, 10.2, 29.0, 33.0, 10.1, 30.0];
        let kept: Vec<f64> = times
            .iter()
            .zip(outliers(&times))
            .filter(|(_, outlier)| !outlier)
            .map(|(&time, _)| time)
            .collect();
        assert!(kept.iter().all(|&time| time < 11.0) && kept.len() == 4, "{kept:?}");
        assert!(outliers(&[]).is_empty());
    }

    #[test]
    fn a_disturbed_repetition_is_marked_and_in_no_median() {
        let mut times: Vec<f64> = (0..29).map(|n| 100.0 + f64::from(n % 5)).collect();
        times.push(900.0);
        let summary = Summary::of(&times);
        assert_eq!(summary.outliers.iter().filter(|outlier| **outlier).count(), 1);
        assert!(summary.outliers[29]);
        assert!((summary.median_us - 102.0).abs() < f64::EPSILON);
        let [low, high] = summary.ci95_us.unwrap();
        assert!(low >= 101.0 && high <= 103.0, "{summary:?}");
    }

    #[test]
    fn the_interval_covers_the_true_median_about_as_often_as_it_says() {
        let mut stream = ChaCha8Rng::seed_from_u64(3);
        let covered = (0..200)
            .filter(|_| {
                // Uniform around 1.
                let times: Vec<f64> = (0..30).map(|_| stream.random_range(0.9..1.1)).collect();
                let [low, high] = Summary::of(&times).ci95_us.unwrap();
                (low..=high).contains(&1.0)
            })
            .count();
        assert!((180..=200).contains(&covered), "{covered} of 200");
    }

    #[test]
    fn no_interval_is_claimed_of_fewer_times_than_cover_the_median_in_95_percent_of_cases() {
        let times = [1.0, 1.01, 1.02, 0.99, 0.98, 1.03];
        for count in 0..6 {
            let summary = Summary::of(&times[..count]);
            assert_eq!((summary.ci95_us, summary.spread_percent()), (None, None), "{count}");
        }
        assert_eq!(Summary::of(&times).ci95_us, Some([0.98, 1.03]));
    }

    #[test]
    fn equal_times_have_no_spread_and_no_outlier() {
        let summary = Summary::of(&[7.0; 10]);
        assert_eq!((summary.median_us, summary.spread_percent()), (7.0, Some(0.0)));
        assert!(!summary.outliers.contains(&true));
    }
}

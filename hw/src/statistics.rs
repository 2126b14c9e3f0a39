//! Which repetitions count, and how sure their median is.
//!
//! Responsible for: the one rule by which repetitions of a run are marked as disturbed, and
//! the one interval of a median, whatever measured them. Invariant: nothing is dropped
//! here; a mark is all a repetition gets.

use coexec_fit::measure::runs::Repetition;
use coexec_sim::statistics::median;
use serde::Serialize;

/// Distances of the lower quartile from the least time that a repetition may lie above
/// the quartile: ten normal errors spread 0.9 deviations below their lower quartile, so
/// that an undisturbed one hardly ever exceeds it, and even flat ones seldom do.
const OUTLIER_DISTANCES: f64 = 8.0;
/// Part of the lower quartile that it may lie above in any case: caches and clocks.
const UNDISTURBED: f64 = 0.05;

/// Deviations either side of the mean that hold 95 % of a normal distribution.
const DEVIATIONS_95: f64 = 1.96;

/// Which repetitions were disturbed. Other work on the machine only ever lengthens a
/// time, and may lengthen most of them: the quickest quarter shows what is usual.
pub(crate) fn outliers(times: &[f64]) -> Vec<bool> {
    let mut sorted = times.to_vec();
    sorted.sort_by(f64::total_cmp);
    let Some((&least, &quartile)) = sorted.first().zip(sorted.get(times.len() / 4)) else {
        return Vec::new();
    };
    let usual = (OUTLIER_DISTANCES * (quartile - least)).max(UNDISTURBED * quartile);
    times.iter().map(|&time| time > quartile + usual).collect()
}

/// Times of one thing as a file of runs has them, with the mark of those that were disturbed.
pub(crate) fn repetitions(times_us: &[f64]) -> Vec<Repetition> {
    let marked = (0..).zip(times_us).zip(outliers(times_us));
    marked.map(|((number, &measured_us), outlier)| Repetition { number, measured_us, outlier }).collect()
}

/// The 95 % interval of the median of `values`: between two of them, by their ranks, whatever
/// they are distributed like (Conover, "Practical nonparametric statistics", 1999, section
/// 3.2). Not a number of none.
pub(crate) fn median_interval(values: &[f64]) -> [f64; 2] {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let Some(last) = sorted.len().checked_sub(1) else { return [f64::NAN; 2] };
    let count = sorted.len() as f64;
    let half = DEVIATIONS_95 * count.sqrt() / 2.0;
    [(count / 2.0 - half).floor(), (count / 2.0 + half).ceil()]
        .map(|rank| sorted[(rank.max(0.0) as usize).min(last)])
}

/// What repetitions of one thing say.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Median of those that are no outliers, in microseconds.
    pub median_us: f64,
    /// Its 95 % interval.
    pub ci95_us: [f64; 2],
    /// Which repetitions are outliers.
    pub outliers: Vec<bool>,
}

impl Summary {
    /// Of `times` in microseconds.
    pub fn of(times: &[f64]) -> Self {
        let outliers = outliers(times);
        let kept: Vec<f64> =
            times.iter().zip(&outliers).filter(|(_, outlier)| !**outlier).map(|(&time, _)| time).collect();
        Self { median_us: median(&kept).unwrap_or(f64::NAN), ci95_us: median_interval(&kept), outliers }
    }

    /// Half the interval's width as a share of the median, in percent.
    pub fn spread_percent(&self) -> f64 {
        let [low, high] = self.ci95_us;
        50.0 * (high - low) / self.median_us
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
        assert_eq!(outliers(&[5.0, 5.0, 5.1]), [false; 3]);
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
        assert!(summary.ci95_us[0] >= 101.0 && summary.ci95_us[1] <= 103.0, "{summary:?}");
    }

    #[test]
    fn the_interval_covers_the_true_median_about_as_often_as_it_says() {
        let mut stream = ChaCha8Rng::seed_from_u64(3);
        let covered = (0..200)
            .filter(|_| {
                // Uniform around 1.
                let times: Vec<f64> = (0..30).map(|_| stream.random_range(0.9..1.1)).collect();
                let [low, high] = Summary::of(&times).ci95_us;
                (low..=high).contains(&1.0)
            })
            .count();
        assert!((180..=200).contains(&covered), "{covered} of 200");
    }

    #[test]
    fn equal_times_have_no_spread_and_no_outlier() {
        let summary = Summary::of(&[7.0; 10]);
        assert_eq!((summary.median_us, summary.spread_percent()), (7.0, 0.0));
        assert!(!summary.outliers.contains(&true));
    }
}

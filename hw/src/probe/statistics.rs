//! What repetitions say: a middle value, how well it is known, a straight line.
//!
//! Invariant: an interval always holds its value, so that a profile takes both.

use coexec_sim::device::quantity::Quantity;
use coexec_sim::units::Picos;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Deviations either side of the mean that hold 95 % of a normal distribution.
const DEVIATIONS_95: f64 = 1.96;
/// Distances of the lower quartile from the least time that a repetition may lie above
/// the quartile. Ten normal errors spread 0.9 deviations below their lower quartile, so
/// that an undisturbed one hardly ever exceeds it.
const OUTLIER_DISTANCES: f64 = 5.0;
/// Part of the lower quartile that it may lie above in any case: caches and clocks.
const UNDISTURBED: f64 = 0.05;
/// Resamplings behind the interval of a line.
const RESAMPLINGS: usize = 200;
/// Significant digits of a written value.
const DIGITS: usize = 5;

/// A measured value.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Measured {
    /// The median of the repetitions, or what was computed from several.
    pub(super) value: f64,
    /// 95 % interval.
    pub(super) ci95: [f64; 2],
    /// Repetitions.
    pub(super) repetitions: usize,
}

/// A cost that grows with the bytes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Line {
    /// What no bytes cost.
    pub(super) fixed: Measured,
    /// What each byte adds.
    pub(super) slope: Measured,
}

/// Middle of the values in order; none of none.
pub(super) fn median(values: &[f64]) -> Option<f64> {
    let sorted = sorted(values);
    let middle = sorted.len() / 2;
    let low = sorted.get(middle.saturating_sub(usize::from(sorted.len().is_multiple_of(2))))?;
    Some(f64::midpoint(*low, sorted[middle]))
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// Microseconds of each time.
pub(super) fn micros(times: &[Picos]) -> Vec<f64> {
    times.iter().map(|time| time.as_micros()).collect()
}

/// Median absolute deviation from the median over the median; 0 of none.
pub(super) fn relative_deviation(values: &[f64]) -> f64 {
    let Some(middle) = median(values).filter(|&middle| middle > 0.0) else { return 0.0 };
    let away: Vec<f64> = values.iter().map(|value| (value - middle).abs()).collect();
    median(&away).unwrap_or(0.0) / middle
}

/// Which repetitions were disturbed. Other work on the machine only ever lengthens a
/// time, and may lengthen most of them: what is usual is told by the quickest quarter.
pub(super) fn outliers(times: &[f64]) -> Vec<bool> {
    let sorted = sorted(times);
    let Some((&least, &quartile)) = sorted.first().zip(sorted.get(times.len() / 4)) else {
        return Vec::new();
    };
    let usual = (OUTLIER_DISTANCES * (quartile - least)).max(UNDISTURBED * quartile);
    times.iter().map(|&time| time > quartile + usual).collect()
}

impl Measured {
    /// The median of `values` and the interval of its order statistics.
    pub(super) fn of(values: &[f64]) -> Option<Self> {
        let value = median(values)?;
        let sorted = sorted(values);
        let count = sorted.len() as f64;
        let half = DEVIATIONS_95 * count.sqrt() / 2.0;
        let at = |rank: f64| sorted[(rank.max(0.0) as usize).min(sorted.len() - 1)];
        let ci95 = [at((count / 2.0 - half).floor()), at((count / 2.0 + half).ceil())];
        Some(Self { value, ci95: around(value, ci95), repetitions: values.len() })
    }

    /// The value in another unit.
    pub(super) fn scaled(&self, factor: f64) -> Self {
        let ci95 = self.ci95.map(|end| end * factor);
        Self { value: self.value * factor, ci95: around(self.value * factor, ci95), ..*self }
    }

    /// The rate of `amount` in this time.
    pub(super) fn rate(&self, amount: f64) -> Self {
        let [low, high] = self.ci95;
        let value = amount / self.value;
        Self { value, ci95: around(value, [amount / high, amount / low.max(f64::MIN_POSITIVE)]), ..*self }
    }

    /// As a profile has it. `source` says what was measured; the repetitions are added.
    pub(super) fn quantity(&self, source: &str) -> Quantity {
        let value = significant(self.value);
        let ci95 = around(value, self.ci95.map(significant));
        let source = format!("{source}, {} repetitions", self.repetitions);
        Quantity { value, source: Some(source), ci95: Some(ci95) }
    }
}

fn around(value: f64, [low, high]: [f64; 2]) -> [f64; 2] {
    [low.min(value), high.max(value)]
}

/// `value` with a few significant digits.
pub(super) fn significant(value: f64) -> f64 {
    format!("{value:.*e}", DIGITS - 1).parse().unwrap_or(value)
}

impl Line {
    /// The line through the medians of the `times` at each number of bytes, by the least
    /// relative errors; neither part is below zero. None of fewer than two sizes.
    pub(super) fn of(times: &[(f64, Vec<f64>)], seed: u64) -> Option<Self> {
        let all = points(times);
        let [fixed, slope] = through(&all)?;
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut resampled: [Vec<f64>; 2] = [Vec::new(), Vec::new()];
        for _ in 0..RESAMPLINGS {
            let drawn: Vec<(f64, Vec<f64>)> = times
                .iter()
                .map(|(bytes, times)| {
                    (*bytes, (0..times.len()).map(|_| times[random.random_range(0..times.len())]).collect())
                })
                .collect();
            for (part, value) in resampled.iter_mut().zip(through(&points(&drawn))?) {
                part.push(value);
            }
        }
        let repetitions = times.iter().map(|(_, times)| times.len()).sum();
        let measured = |value: f64, resampled: &[f64]| {
            let sorted = sorted(resampled);
            let at = |part: f64| sorted[(part * (sorted.len() - 1) as f64).round() as usize];
            Measured { value, ci95: around(value, [at(0.025), at(0.975)]), repetitions }
        };
        Some(Self { fixed: measured(fixed, &resampled[0]), slope: measured(slope, &resampled[1]) })
    }
}

fn points(times: &[(f64, Vec<f64>)]) -> Vec<[f64; 2]> {
    times.iter().filter_map(|(bytes, times)| Some([*bytes, median(times)?])).collect()
}

/// Offset and slope with the least squares of relative errors.
fn through(points: &[[f64; 2]]) -> Option<[f64; 2]> {
    let mut sums = [0.0; 5];
    for &[x, y] in points {
        let weight = 1.0 / (y * y);
        if !weight.is_finite() {
            continue;
        }
        for (sum, term) in sums.iter_mut().zip([1.0, x, x * x, y, x * y]) {
            *sum += weight * term;
        }
    }
    let [one, x, xx, y, xy] = sums;
    let determinant = one * xx - x * x;
    if points.len() < 2 || determinant <= 0.0 {
        return None;
    }
    let [fixed, slope] = [(xx * y - x * xy) / determinant, (one * xy - x * y) / determinant];
    Some(if fixed < 0.0 {
        [0.0, xy / xx]
    } else if slope < 0.0 {
        [y / one, 0.0]
    } else {
        [fixed, slope]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_count_lies_between_the_middle_two() {
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), Some(2.5));
        assert_eq!((median(&[7.0]), median(&[])), (Some(7.0), None));
    }

    #[test]
    fn an_interval_holds_the_median_and_narrows_with_repetitions() {
        let values = |count: u32| (0..count).map(|n| 10.0 + f64::from(n * 7 % 10)).collect::<Vec<_>>();
        let width = |count| {
            let measured = Measured::of(&values(count)).unwrap();
            assert!(measured.ci95[0] <= measured.value && measured.value <= measured.ci95[1]);
            measured.ci95[1] - measured.ci95[0]
        };
        assert!(width(400) < width(10));
    }

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
    fn the_line_that_made_the_times_is_found() {
        // 20 us and 0.1 ns a byte, with errors of 2 %.
        let times: Vec<(f64, Vec<f64>)> = (10..25)
            .map(|power| {
                let bytes = f64::from(1_u32 << power);
                let error = |n: u32| 1.0 + 0.02 * (f64::from(n % 5) - 2.0) / 2.0;
                (bytes, (0..20).map(|n| (20.0 + 1e-4 * bytes) * error(n)).collect())
            })
            .collect();
        let line = Line::of(&times, 1).unwrap();
        assert!((line.fixed.value / 20.0 - 1.0).abs() < 0.02, "{line:?}");
        assert!((line.slope.value / 1e-4 - 1.0).abs() < 0.02, "{line:?}");
        assert!(line.slope.ci95[0] <= 1e-4 && 1e-4 <= line.slope.ci95[1]);
        assert!(Line::of(&times[..1], 1).is_none());
    }

    #[test]
    fn a_cost_without_bytes_and_one_without_a_constant_are_not_negative() {
        let flat: Vec<(f64, Vec<f64>)> =
            (1..6).map(|n| (f64::from(n), vec![9.0 - 0.1 * f64::from(n)])).collect();
        assert!(Line::of(&flat, 1).unwrap().slope.value.abs() < f64::EPSILON);
        let bytes_alone: Vec<(f64, Vec<f64>)> =
            (1..6).map(|n| (f64::from(n), vec![f64::from(n) - 0.2])).collect();
        assert!(Line::of(&bytes_alone, 1).unwrap().fixed.value.abs() < f64::EPSILON);
    }
}

//! Repeated measurements and their statistics: medians, confidence intervals, straight lines.
//!
//! Invariant: an interval always contains its value, as profiles require.

use coexec_sim::statistics::{VALUE_DIGITS, median, quantile, rounded};
use coexec_sim::{Picos, Quantity};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::{ProbeError, Result, TimeBudget};
use crate::statistics::median_interval;

/// Bootstrap samples for the confidence interval of a line.
const RESAMPLINGS: usize = 200;
/// Bytes per microsecond at 1 GB/s.
pub(super) const BYTES_PER_MICRO_OF_GBPS: f64 = 1e3;

/// A measured value.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Estimate {
    /// The median of the repetitions, or a value computed from several medians.
    pub(super) value: f64,
    /// 95 % confidence interval.
    pub(super) ci95: [f64; 2],
    /// Number of repetitions.
    pub(super) repetitions: usize,
}

/// For each size (bytes or rows), its repeated times in microseconds.
pub(super) type Times = Vec<(f64, Vec<f64>)>;

/// A cost that is linear in a size.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Line {
    /// The cost at size zero, in microseconds.
    pub(super) fixed: Estimate,
    /// The cost per byte or row, in microseconds.
    pub(super) slope: Estimate,
}

/// Converts times to microseconds.
pub(super) fn micros(times: &[Picos]) -> Vec<f64> {
    times.iter().map(|time| time.as_micros()).collect()
}

/// Calls `run` once to warm up, then `repetitions` times; for each of the N times that a call
/// returns, the repetitions in microseconds.
pub(super) fn repeated<const N: usize>(
    repetitions: usize,
    mut run: impl FnMut() -> Result<[Picos; N]>,
) -> Result<[Vec<f64>; N]> {
    run()?;
    let mut times = [const { Vec::new() }; N];
    for _ in 0..repetitions {
        for (times, time) in times.iter_mut().zip(run()?) {
            times.push(time.as_micros());
        }
    }
    Ok(times)
}

/// Measures at each of `sizes` until the budget is spent, but at `least` so many. For each of the N
/// series that `measure` returns, the sizes (bytes, rows) and repetitions in microseconds.
pub(super) fn over_sizes<S: Copy, const N: usize>(
    sizes: &[S],
    least: usize,
    budget: &TimeBudget<'_>,
    mut measure: impl FnMut(S) -> Result<[(f64, Vec<f64>); N]>,
) -> Result<[Times; N]> {
    let mut times = [const { Times::new() }; N];
    for (measured, &size) in sizes.iter().enumerate() {
        if budget.is_over() && measured >= least {
            break;
        }
        for (times, of_size) in times.iter_mut().zip(measure(size)?) {
            times.push(of_size);
        }
    }
    Ok(times)
}

/// Median absolute deviation, relative to the median; 0 if empty.
pub(super) fn relative_deviation(values: &[f64]) -> f64 {
    let Some(middle) = median(values).filter(|&middle| middle > 0.0) else { return 0.0 };
    let away: Vec<f64> = values.iter().map(|value| (value - middle).abs()).collect();
    median(&away).unwrap_or(0.0) / middle
}

impl Estimate {
    /// The median of `values` and its confidence interval. Without values, an error that names
    /// `what`.
    pub(super) fn of(values: &[f64], what: &'static str) -> Result<Self> {
        let value = median(values).ok_or(ProbeError::TooLittleTime { what })?;
        Ok(Self { value, ci95: interval_around(value, median_interval(values)), repetitions: values.len() })
    }

    /// The mean of two values; the ends of the intervals are averaged, too.
    pub(super) fn mean([first, second]: [&Self; 2]) -> Self {
        let mean = |of: fn(&Self) -> f64| f64::midpoint(of(first), of(second));
        Self {
            value: mean(|time| time.value),
            ci95: [mean(|time| time.ci95[0]), mean(|time| time.ci95[1])],
            repetitions: first.repetitions + second.repetitions,
        }
    }

    /// The value in another unit.
    pub(super) fn scaled(&self, factor: f64) -> Self {
        let ci95 = self.ci95.map(|end| end * factor);
        Self { value: self.value * factor, ci95: interval_around(self.value * factor, ci95), ..*self }
    }

    /// The bandwidth in GB/s at which `bytes` take this time in microseconds.
    pub(super) fn gbps(&self, bytes: f64) -> Self {
        let amount = bytes / BYTES_PER_MICRO_OF_GBPS;
        let [low, high] = self.ci95;
        let value = amount / self.value;
        Self {
            value,
            ci95: interval_around(value, [amount / high, amount / low.max(f64::MIN_POSITIVE)]),
            ..*self
        }
    }

    /// The value for a profile. `source` states how it was measured; the number of repetitions is
    /// added.
    pub(super) fn quantity(&self, source: &str) -> Quantity {
        let value = rounded(self.value, VALUE_DIGITS);
        let ci95 = interval_around(value, self.ci95.map(|end| rounded(end, VALUE_DIGITS)));
        let source = format!("{source}, {} repetitions", self.repetitions);
        Quantity { value, source: Some(source), ci95: Some(ci95) }
    }
}

fn interval_around(value: f64, [low, high]: [f64; 2]) -> [f64; 2] {
    [low.min(value), high.max(value)]
}

impl Line {
    /// The line through the medians of `times` at each size, by least squares of the relative
    /// errors; neither coefficient is negative. With fewer than two sizes, an error that names
    /// `what`.
    pub(super) fn of(times: &[(f64, Vec<f64>)], seed: u64, what: &'static str) -> Result<Self> {
        let line = |times: &[(f64, Vec<f64>)]| {
            line_through(&points(times)).ok_or(ProbeError::TooLittleTime { what })
        };
        let [fixed, slope] = line(times)?;
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut resampled: [Vec<f64>; 2] = [Vec::new(), Vec::new()];
        for _ in 0..RESAMPLINGS {
            let drawn: Times = times
                .iter()
                .map(|(bytes, times)| {
                    (*bytes, (0..times.len()).map(|_| times[random.random_range(0..times.len())]).collect())
                })
                .collect();
            for (part, value) in resampled.iter_mut().zip(line(&drawn)?) {
                part.push(value);
            }
        }
        let repetitions = times.iter().map(|(_, times)| times.len()).sum();
        let measured = |value: f64, resampled: &[f64]| {
            let mut ascending = resampled.to_vec();
            ascending.sort_by(f64::total_cmp);
            let ci95 = [0.025, 0.975].map(|part| quantile(&ascending, part));
            Estimate { value, ci95: interval_around(value, ci95), repetitions }
        };
        Ok(Self { fixed: measured(fixed, &resampled[0]), slope: measured(slope, &resampled[1]) })
    }
}

fn points(times: &[(f64, Vec<f64>)]) -> Vec<[f64; 2]> {
    times.iter().filter_map(|(bytes, times)| Some([*bytes, median(times)?])).collect()
}

/// Offset and slope with the least squares of relative errors.
fn line_through(points: &[[f64; 2]]) -> Option<[f64; 2]> {
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
    fn an_interval_holds_the_median_and_narrows_with_repetitions() {
        let values = |count: u32| (0..count).map(|n| 10.0 + f64::from(n * 7 % 10)).collect::<Vec<_>>();
        let width = |count| {
            let measured = Estimate::of(&values(count), "a test").unwrap();
            assert!(measured.ci95[0] <= measured.value && measured.value <= measured.ci95[1]);
            measured.ci95[1] - measured.ci95[0]
        };
        assert!(width(400) < width(10));
    }

    #[test]
    fn the_line_that_made_the_times_is_found() {
        // 20 us and 0.1 ns per byte, with errors of 2 %.
        let times: Vec<(f64, Vec<f64>)> = (10..25)
            .map(|power| {
                let bytes = f64::from(1_u32 << power);
                let error = |n: u32| 1.0 + 0.02 * (f64::from(n % 5) - 2.0) / 2.0;
                (bytes, (0..20).map(|n| (20.0 + 1e-4 * bytes) * error(n)).collect())
            })
            .collect();
        let line = Line::of(&times, 1, "a test").unwrap();
        assert!((line.fixed.value / 20.0 - 1.0).abs() < 0.02, "{line:?}");
        assert!((line.slope.value / 1e-4 - 1.0).abs() < 0.02, "{line:?}");
        assert!(line.slope.ci95[0] <= 1e-4 && 1e-4 <= line.slope.ci95[1]);
        assert!(Line::of(&times[..1], 1, "a test").is_err());
    }

    #[test]
    fn a_cost_without_bytes_and_one_without_a_constant_are_not_negative() {
        let flat: Vec<(f64, Vec<f64>)> =
            (1..6).map(|n| (f64::from(n), vec![9.0 - 0.1 * f64::from(n)])).collect();
        assert!(Line::of(&flat, 1, "a test").unwrap().slope.value.abs() < f64::EPSILON);
        let bytes_alone: Vec<(f64, Vec<f64>)> =
            (1..6).map(|n| (f64::from(n), vec![f64::from(n) - 0.2])).collect();
        assert!(Line::of(&bytes_alone, 1, "a test").unwrap().fixed.value.abs() < f64::EPSILON);
    }
}

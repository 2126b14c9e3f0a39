//! Kernel ridge regression on inducing points: the kernel's length scales and variances,
//! the choice of the points, and their weights.
//!
//! Length scales maximise the marginal likelihood of a Gaussian process with the same
//! kernel (Rasmussen and Williams 2006, section 5.4), under a prior that decides those
//! that the examples do not inform. Invariant: no randomness; equal examples give equal
//! results.

use nalgebra::{Cholesky, DMatrix, DVector};
use rayon::prelude::*;

use coexec_sim::device::gpu::{Feature, Features, similarity};

/// Number of features; each has a length scale.
const FEATURES: usize = Feature::ALL.len();
/// Hyperparameters: the length scales, the variance of the residual and the two of its noise.
const UNKNOWNS: usize = FEATURES + 3;

/// Centre of the prior of a length scale, in units of its feature: most features
/// are logarithms that span 10 to 15.
const LENGTH_SCALE: f64 = 5.0;
/// Centre of the prior of the residual's deviation: the equations err by 5 to 15 %.
const DEVIATION: f64 = 0.1;
/// Centre of the prior of both deviations of the noise: repeated runs differ by 0.7
/// to 3 %.
const NOISE_DEVIATION: f64 = 0.02;

/// Steps of the search for hyperparameters; more change no cross-validated error by a
/// tenth of a percentage point.
const STEPS: usize = 20;
/// First and largest step of a log hyperparameter.
const FIRST_STEP: f64 = 0.3;
const MAX_STEP: f64 = 1.0;
/// Factors on a step whose gradient kept or changed its sign (resilient propagation;
/// Riedmiller and Braun 1993 use 1.2 and 0.5, but few steps need a faster start).
const LONGER: f64 = 1.3;
const SHORTER: f64 = 0.5;

/// Largest matrix, in rows, that is inverted by one Cholesky factorisation instead of by blocks.
const COLUMN_BY_COLUMN: usize = 32;

/// Conditional variance of a candidate, relative to the prior variance, up to which it is redundant
/// to the points chosen before it.
const REPEATED: f64 = 1e-3;
/// Weight of information gain (spreading out) against the residual explained, in the choice of points.
const SPREADING: f64 = 0.5;
/// Addend to the diagonal of the normal equations, relative to its largest entry.
const JITTER: f64 = 1e-10;

/// Launches with the residuals of the equations.
#[derive(Clone, Debug, Default)]
pub(super) struct Examples {
    pub(super) features: Vec<Features>,
    /// Logarithm of measured over predicted time.
    pub(super) residuals: Vec<f64>,
    /// Number of runs, of which the residual is the median.
    pub(super) runs: Vec<f64>,
}

impl Examples {
    /// The examples at `indices`.
    pub(super) fn subset(&self, indices: &[usize]) -> Self {
        Self {
            features: indices.iter().map(|&index| self.features[index]).collect(),
            residuals: indices.iter().map(|&index| self.residuals[index]).collect(),
            runs: indices.iter().map(|&index| self.runs[index]).collect(),
        }
    }
}

/// Hyperparameters: how residuals vary from launch to launch.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Smoothness {
    /// Inverse length scale of each feature.
    pub(super) rates: Features,
    /// Variance of the residual.
    pub(super) variance: f64,
    /// Variance of the noise of one run.
    run_noise: f64,
    /// Variance between layers that no feature explains and no repetition lowers (nugget).
    layer_noise: f64,
}

impl Smoothness {
    fn of(logs: &[f64; UNKNOWNS]) -> Self {
        Self {
            rates: std::array::from_fn(|feature| logs[feature].exp()),
            variance: logs[FEATURES].exp(),
            run_noise: logs[FEATURES + 1].exp(),
            layer_noise: logs[FEATURES + 2].exp(),
        }
    }

    /// Noise variance of an example of this many runs.
    pub(super) fn noise(&self, runs: f64) -> f64 {
        self.run_noise / runs + self.layer_noise
    }

    /// Shrinkage factor: the expected part of the deviation of an example from the smooth
    /// correction that is the layer's own rather than noise of its runs.
    pub(super) fn shrinkage(&self, runs: f64) -> f64 {
        self.layer_noise / self.noise(runs)
    }

    /// Kernel matrix: similarity of each row's launch to each column's.
    pub(super) fn similarities(&self, rows: &[Features], columns: &[Features]) -> DMatrix<f64> {
        DMatrix::from_fn(rows.len(), columns.len(), |row, column| {
            let pairs = rows[row].iter().zip(&columns[column]).zip(&self.rates);
            similarity(pairs.map(|((a, b), rate)| ((a - b) * rate).powi(2)).sum())
        })
    }
}

/// The hyperparameters of `examples`: the geometric mean of the maximum a posteriori
/// estimates of `parts`, which partition them. It varies less than the estimate of one
/// part, and takes less time than one of all examples, which is cubic in their number.
pub(super) fn smoothness(examples: &Examples, parts: &[Vec<usize>]) -> Smoothness {
    let likeliest: Vec<[f64; UNKNOWNS]> =
        parts.par_iter().map(|part| most_likely(&examples.subset(part))).collect();
    let mean = |unknown: usize| likeliest.iter().map(|logs| logs[unknown] / likeliest.len() as f64).sum();
    Smoothness::of(&std::array::from_fn(mean))
}

/// Maximum a posteriori estimate of the log hyperparameters, by resilient propagation on
/// the gradient of the marginal likelihood and the prior.
fn most_likely(examples: &Examples) -> [f64; UNKNOWNS] {
    let mut centre = [-LENGTH_SCALE.ln(); UNKNOWNS];
    centre[FEATURES] = 2.0 * DEVIATION.ln();
    centre[FEATURES + 1] = 2.0 * NOISE_DEVIATION.ln();
    centre[FEATURES + 2] = 2.0 * NOISE_DEVIATION.ln();
    let (mut logs, mut steps, mut last) = (centre, [FIRST_STEP; UNKNOWNS], [0.0; UNKNOWNS]);
    for _ in 0..STEPS {
        let Some(mut slopes) = slopes(examples, &logs) else { break };
        for index in 0..UNKNOWNS {
            // The prior standard deviation of each logarithm is 1.
            slopes[index] += logs[index] - centre[index];
            let product = slopes[index] * last[index];
            if product > 0.0 {
                steps[index] = (steps[index] * LONGER).min(MAX_STEP);
            } else if product < 0.0 {
                steps[index] *= SHORTER;
                slopes[index] = 0.0;
            }
            if slopes[index] != 0.0 {
                logs[index] -= steps[index] * slopes[index].signum();
            }
        }
        last = slopes;
    }
    logs
}

/// Gradient of the negative log marginal likelihood by the log hyperparameters; none where
/// rounding has made the covariance indefinite.
fn slopes(examples: &Examples, logs: &[f64; UNKNOWNS]) -> Option<[f64; UNKNOWNS]> {
    let smoothness = Smoothness::of(logs);
    let count = examples.residuals.len();
    let alike = smoothness.similarities(&examples.features, &examples.features);
    let mut covariance = &alike * smoothness.variance;
    for index in 0..count {
        covariance[(index, index)] += smoothness.noise(examples.runs[index]);
    }
    let inverse = inverse(&covariance)?;
    let solved = &inverse * DVector::from_column_slice(&examples.residuals);
    let mut slopes = [0.0; UNKNOWNS];
    for column in 0..count {
        for row in 0..=column {
            let share = if row == column { 0.5 } else { 1.0 };
            let weight = share * (inverse[(row, column)] - solved[row] * solved[column]);
            let alike = alike[(row, column)];
            slopes[FEATURES] += weight * smoothness.variance * alike;
            let falling = -weight * smoothness.variance * alike * alike;
            let pair = examples.features[row].iter().zip(&examples.features[column]);
            for (slope, (a, b)) in slopes.iter_mut().zip(pair) {
                *slope += falling * (a - b) * (a - b);
            }
            if row == column {
                slopes[FEATURES + 1] += weight * smoothness.run_noise / examples.runs[row];
                slopes[FEATURES + 2] += weight * smoothness.layer_noise;
            }
        }
    }
    for (slope, rate) in slopes.iter_mut().zip(&smoothness.rates) {
        *slope *= rate * rate;
    }
    Some(slopes)
}

/// Block-wise inverse of a positive definite matrix: nearly all the work is matrix products, a fraction
/// of the time of a factorisation column by column. None where rounding has made the matrix indefinite.
fn inverse(matrix: &DMatrix<f64>) -> Option<DMatrix<f64>> {
    let size = matrix.nrows();
    if size <= COLUMN_BY_COLUMN {
        return Some(Cholesky::new(matrix.clone())?.inverse());
    }
    let (first, second) = (size / 2, size - size / 2);
    let of_first = inverse(&matrix.view((0, 0), (first, first)).into_owned())?;
    let off_diagonal = matrix.view((first, 0), (second, first));
    let solved = off_diagonal * &of_first;
    let left = matrix.view((first, first), (second, second)) - &solved * off_diagonal.transpose();
    let of_second = inverse(&left)?;
    let off = -&of_second * &solved;
    let mut whole = DMatrix::zeros(size, size);
    whole.view_mut((0, 0), (first, first)).copy_from(&(of_first - solved.transpose() * &off));
    whole.view_mut((0, first), (first, second)).copy_from(&off.transpose());
    whole.view_mut((first, 0), (second, first)).copy_from(&off);
    whole.view_mut((first, first), (second, second)).copy_from(&of_second);
    Some(whole)
}

/// Indices of at most `most` examples as inducing points, chosen greedily: each has the
/// largest [`merit`] given those before it.
pub(super) fn representatives(examples: &Examples, smoothness: &Smoothness, most: usize) -> Vec<usize> {
    let count = examples.residuals.len();
    let precision =
        DVector::from_iterator(count, examples.runs.iter().map(|&runs| smoothness.noise(runs).recip()));
    // Covariance conditional on the points chosen so far, and the residuals that they do not
    // explain, over their noise variance.
    let mut left = smoothness.similarities(&examples.features, &examples.features) * smoothness.variance;
    let mut unexplained = DVector::from_column_slice(&examples.residuals).component_mul(&precision);
    let mut explained: Vec<DVector<f64>> = Vec::new();
    let mut chosen = Vec::new();
    while chosen.len() < most.min(count) {
        let best = (0..count)
            .filter(|&candidate| left[(candidate, candidate)] > REPEATED * smoothness.variance)
            .map(|candidate| (candidate, merit(&left, candidate, &precision, &unexplained)))
            .max_by(|a, b| a.1.total_cmp(&b.1));
        let Some((best, _)) = best else { break };
        chosen.push(best);
        let direction = left.column(best) / left[(best, best)].sqrt();
        left.ger(-1.0, &direction, &direction, 1.0);
        let mut weighted = direction.component_mul(&precision);
        for earlier in &explained {
            weighted.axpy(-earlier.dot(&direction), earlier, 1.0);
        }
        let gain = 1.0 + direction.dot(&weighted);
        unexplained.axpy(-direction.dot(&unexplained) / gain, &weighted, 1.0);
        explained.push(weighted / gain.sqrt());
    }
    chosen
}

/// Merit of `candidate` as the next inducing point: the residual that it explains, plus its
/// information gain times [`SPREADING`].
fn merit(left: &DMatrix<f64>, candidate: usize, precision: &DVector<f64>, unexplained: &DVector<f64>) -> f64 {
    let column = left.column(candidate);
    let own = left[(candidate, candidate)];
    let informed: f64 =
        column.iter().zip(precision).map(|(value, precision)| value * value * precision).sum();
    let informed = informed / own;
    column.dot(unexplained).powi(2) / own / (1.0 + informed) + SPREADING * informed.ln_1p()
}

/// Normal equations of the weights of inducing points.
#[derive(Clone, Debug)]
pub(super) struct Normal {
    matrix: DMatrix<f64>,
    right: DVector<f64>,
}

impl Normal {
    /// Normal equations of `examples`; the columns of `alike` are their similarities to the points.
    pub(super) fn new(alike: &DMatrix<f64>, examples: &Examples, smoothness: &Smoothness) -> Self {
        let mut scaled = alike.clone();
        for (index, mut column) in scaled.column_iter_mut().enumerate() {
            column /= smoothness.noise(examples.runs[index]);
        }
        Self {
            matrix: &scaled * alike.transpose(),
            right: scaled * DVector::from_column_slice(&examples.residuals),
        }
    }

    /// The normal equations without the examples of `other`.
    pub(super) fn without(&self, other: &Self) -> Self {
        Self { matrix: &self.matrix - &other.matrix, right: &self.right - &other.right }
    }

    /// The weights of the inducing points, whose similarities to each other are `points`; none
    /// where rounding has made the equations indefinite.
    pub(super) fn weights(&self, points: &DMatrix<f64>, variance: f64) -> Option<DVector<f64>> {
        let mut matrix = points / variance + &self.matrix;
        let addend = JITTER * matrix.diagonal().max();
        for index in 0..matrix.nrows() {
            matrix[(index, index)] += addend;
        }
        Some(Cholesky::new(matrix)?.solve(&self.right))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Launches on a grid of two features, of which the residual depends on one.
    fn examples() -> Examples {
        let mut examples = Examples::default();
        for step in 0..12 {
            for other in 0..4 {
                let mut features = [0.0; FEATURES];
                features[Feature::OutputBytes as usize] = f64::from(step);
                features[Feature::InputBytes as usize] = 3.0 * f64::from(other);
                examples.features.push(features);
                examples.residuals.push(0.15 * f64::from(step).sin());
                examples.runs.push(1.0);
            }
        }
        examples
    }

    #[test]
    fn the_feature_that_decides_gets_the_shorter_length_scale() {
        let examples = examples();
        let smoothness = smoothness(&examples, &[(0..examples.runs.len()).collect()]);
        let rate = |feature: Feature| smoothness.rates[feature as usize];
        assert!(rate(Feature::OutputBytes) > 5.0 * rate(Feature::InputBytes), "{smoothness:?}");
    }

    #[test]
    fn the_slopes_are_those_of_the_likelihood() {
        let examples = examples();
        let mut logs = [-LENGTH_SCALE.ln(); UNKNOWNS];
        logs[FEATURES..].copy_from_slice(&[-4.0, -7.0, -6.5]);
        let cost = |logs: &[f64; UNKNOWNS]| {
            let smoothness = Smoothness::of(logs);
            let mut covariance =
                smoothness.similarities(&examples.features, &examples.features) * smoothness.variance;
            for (index, &runs) in examples.runs.iter().enumerate() {
                covariance[(index, index)] += smoothness.noise(runs);
            }
            let residuals = DVector::from_column_slice(&examples.residuals);
            let factor = Cholesky::new(covariance).unwrap();
            0.5 * residuals.dot(&factor.solve(&residuals)) + factor.l().diagonal().map(f64::ln).sum()
        };
        let slopes = slopes(&examples, &logs).unwrap();
        for index in [Feature::OutputBytes as usize, FEATURES, FEATURES + 1, FEATURES + 2] {
            let at = |step: f64| {
                let mut logs = logs;
                logs[index] += step;
                cost(&logs)
            };
            let numeric = (at(1e-5) - at(-1e-5)) / 2e-5;
            assert!((slopes[index] - numeric).abs() < 1e-4 * numeric.abs().max(1.0), "{index}: {numeric}");
        }
    }

    #[test]
    fn few_inducing_points_represent_all_examples() {
        let examples = examples();
        let smoothness = smoothness(&examples, &[(0..examples.runs.len()).collect()]);
        let chosen = representatives(&examples, &smoothness, 14);
        let points = examples.subset(&chosen);
        let alike = smoothness.similarities(&points.features, &examples.features);
        let among = smoothness.similarities(&points.features, &points.features);
        let weights = Normal::new(&alike, &examples, &smoothness).weights(&among, smoothness.variance);
        let smoothed = alike.transpose() * weights.unwrap();
        let worst = smoothed.iter().zip(&examples.residuals).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(worst < 0.03, "{worst}");
    }
}

//! Nonlinear least squares: Levenberg-Marquardt with a numerical Jacobian.
//!
//! The damping scales each parameter by its own curvature (Marquardt 1963); the rule
//! of Nielsen (1999) adapts it by the gain ratio after an accepted step and raises it after
//! a rejected one. For a robust loss, the caller transforms its residuals by
//! [`pseudo_huber`] or [`cauchy`]. Invariant: the cost never rises from one iteration to the next.

use nalgebra::{Cholesky, DMatrix, DVector};

use coexec_sim::statistics::{VALUE_DIGITS, rounded};

/// Relative step of the numerical derivative: near the cube root of the machine
/// epsilon, which balances truncation and rounding error of a central difference.
const DERIVATIVE_STEP: f64 = 6e-6;

/// Initial damping, relative to each parameter's curvature.
const FIRST_DAMPING: f64 = 1e-3;

/// Log error of a kernel, of an inference or of a slowdown from which the loss of a fit grows linearly: 10 %, a
/// few times the repeat noise.
pub const LOSS_SCALE: f64 = 0.1;

/// Half-width of the 95 % interval of a normal distribution, in standard deviations.
pub const DEVIATIONS_95: f64 = 1.96;

/// Standard deviation of the logarithm of a value with this 95 % interval.
pub fn log_deviation([low, high]: [f64; 2]) -> f64 {
    (high / low).ln() / (2.0 * DEVIATIONS_95)
}

/// Ratio of posterior to prior variance from which a parameter counts as not informed by the runs: at
/// one half, the runs weigh as much as the prior. A convention.
pub const UNINFORMED_VARIANCE_RATIO: f64 = 0.5;

/// Stopping criteria.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stop {
    /// Maximum number of iterations; each evaluates one Jacobian.
    pub iterations: usize,
    /// Relative decrease of the cost below which the fit has converged.
    pub relative_decrease: f64,
}

impl Default for Stop {
    fn default() -> Self {
        Self { iterations: 100, relative_decrease: 1e-9 }
    }
}

/// Result of a fit.
#[derive(Clone, Debug, PartialEq)]
pub struct Solution {
    /// The parameters.
    pub parameters: Vec<f64>,
    /// Half the sum of squared residuals.
    pub cost: f64,
    /// Inverse of the normal matrix of the last iteration, `(J' J)^-1`; none where the
    /// residuals do not determine the parameters.
    pub inverse_normal: Option<DMatrix<f64>>,
    /// Whether the cost stopped falling before the last allowed iteration.
    pub converged: bool,
}

/// Posterior of the logarithm of a parameter's ratio to its base.
#[derive(Clone, Copy, Debug)]
pub struct Posterior {
    /// Mode of the logarithm.
    pub log: f64,
    /// Standard deviation of the logarithm, at most the prior's.
    pub deviation: f64,
    /// Whether the runs inform the parameter; see [`UNINFORMED_VARIANCE_RATIO`].
    pub informed: bool,
}

impl Solution {
    /// Posterior of the parameter at `index`, which is searched as the logarithm of its ratio to the
    /// base. Besides those of the `runs`, the residuals must hold one row per parameter for its prior:
    /// that logarithm over the deviation `prior`, times the `expected` error of a run.
    pub fn posterior(&self, index: usize, (prior, expected): (f64, f64), runs: usize) -> Posterior {
        // The prior adds one row per parameter, so the degrees of freedom are the number of runs.
        let variance = 2.0 * self.cost / runs.max(1) as f64;
        let inverse = self.inverse_normal.as_ref().map(|inverse| inverse[(index, index)]);
        let prior_left = inverse.map_or(1.0, |inverse| inverse * (expected / prior).powi(2));
        let deviation = inverse.map_or(prior, |inverse| (inverse * variance).sqrt().min(prior));
        Posterior { log: self.parameters[index], deviation, informed: prior_left < UNINFORMED_VARIANCE_RATIO }
    }
}

impl Posterior {
    /// The value and its 95 % interval; a logarithm of 0 is the value `centre`.
    pub fn value(self, centre: f64) -> (f64, [f64; 2]) {
        let end =
            |deviations: f64| rounded(centre * (self.log + deviations * self.deviation).exp(), VALUE_DIGITS);
        let value = end(0.0);
        (value, [end(-DEVIATIONS_95).min(value), end(DEVIATIONS_95).max(value)])
    }
}

/// Transforms a residual so that half its square is the pseudo-Huber loss, which is
/// quadratic well below `scale` and linear well above. The sign is kept.
pub fn pseudo_huber(residual: f64, scale: f64) -> f64 {
    let ratio = residual / scale;
    // Equals hypot(ratio, 1) - 1, without its cancellation for small ratios.
    let loss = ratio * ratio / (1.0 + ratio.hypot(1.0));
    (2.0 * loss).sqrt() * scale * residual.signum()
}

/// Transforms a residual so that half its square is the Cauchy loss, which is quadratic well below `scale` and grows
/// with the logarithm well above: what is far off hardly counts. The sign is kept.
pub fn cauchy(residual: f64, scale: f64) -> f64 {
    (scale * (residual / scale).powi(2).ln_1p().sqrt()).copysign(residual)
}

/// Minimises half the sum of squares of `residuals`, a function of the parameters, from
/// `start`. It must always return equally many residuals; one that is not finite rejects the step.
pub fn minimise(start: Vec<f64>, stop: Stop, mut residuals: impl FnMut(&[f64]) -> Vec<f64>) -> Solution {
    let mut at = |parameters: &DVector<f64>| DVector::from_vec(residuals(parameters.as_slice()));
    let mut normal = DMatrix::zeros(start.len(), start.len());
    let mut parameters = DVector::from_vec(start);
    let mut values = at(&parameters);
    let mut cost = half_square(&values);
    let (mut damping, mut raise) = (FIRST_DAMPING, 2.0);
    let mut converged = false;
    for _ in 0..stop.iterations {
        let jacobian = jacobian(&parameters, values.len(), &mut at);
        normal = jacobian.tr_mul(&jacobian);
        let gradient = jacobian.tr_mul(&values);
        loop {
            let step = damped_step(&normal, &gradient, damping);
            if let Some(step) = &step {
                let candidate = &parameters + step;
                let candidate_values = at(&candidate);
                let candidate_cost = half_square(&candidate_values);
                if candidate_cost < cost {
                    let predicted = -step.dot(&gradient) - 0.5 * step.dot(&(&normal * step));
                    let gain = (cost - candidate_cost) / predicted.max(f64::MIN_POSITIVE);
                    damping *= (1.0 - (2.0 * gain - 1.0).powi(3)).max(1.0 / 3.0);
                    raise = 2.0;
                    converged = cost - candidate_cost <= stop.relative_decrease * cost;
                    parameters = candidate;
                    values = candidate_values;
                    cost = candidate_cost;
                    break;
                }
            }
            let least = f64::EPSILON.sqrt() * (parameters.norm() + f64::EPSILON.sqrt());
            let is_vanishing = step.is_some_and(|step| step.norm() <= least);
            damping *= raise;
            raise *= 2.0;
            if is_vanishing || !damping.is_finite() {
                converged = true;
                break;
            }
        }
        if converged {
            break;
        }
    }
    let inverse_normal = Cholesky::new(normal).map(|factor| factor.inverse());
    Solution { parameters: parameters.data.into(), cost, inverse_normal, converged }
}

fn half_square(values: &DVector<f64>) -> f64 {
    let cost = 0.5 * values.norm_squared();
    if cost.is_nan() { f64::INFINITY } else { cost }
}

fn jacobian(
    parameters: &DVector<f64>,
    count: usize,
    at: &mut impl FnMut(&DVector<f64>) -> DVector<f64>,
) -> DMatrix<f64> {
    let mut jacobian = DMatrix::zeros(count, parameters.len());
    for index in 0..parameters.len() {
        let step = DERIVATIVE_STEP * parameters[index].abs().max(1.0);
        let mut shifted_by = |shift: f64| {
            let mut shifted = parameters.clone();
            shifted[index] += shift;
            at(&shifted)
        };
        jacobian.set_column(index, &((shifted_by(step) - shifted_by(-step)) / (2.0 * step)));
    }
    jacobian
}

/// The step that solves the damped normal equations; none where their matrix is not
/// positive definite or the step is not finite.
fn damped_step(normal: &DMatrix<f64>, gradient: &DVector<f64>, damping: f64) -> Option<DVector<f64>> {
    let largest = normal.diagonal().max();
    let mut damped = normal.clone();
    for index in 0..damped.nrows() {
        // A parameter on which no residual depends would leave the matrix singular.
        let curvature = normal[(index, index)].max(largest * f64::EPSILON);
        damped[(index, index)] += damping * curvature;
    }
    let step = Cholesky::new(damped)?.solve(&-gradient);
    step.iter().all(|value| value.is_finite()).then_some(step)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_line_is_found_exactly() {
        let solution = minimise(vec![0.0, 0.0], Stop::default(), |p| {
            (0..4).map(f64::from).map(|x| p[0] + p[1] * x - (3.0 + 2.0 * x)).collect()
        });
        assert!((solution.parameters[0] - 3.0).abs() < 1e-8 && (solution.parameters[1] - 2.0).abs() < 1e-8);
        assert!(solution.converged);
    }

    #[test]
    fn the_banana_valley_is_followed_to_its_end() {
        // Rosenbrock (1960): minimum 0 at (1, 1), from the classic start.
        let solution =
            minimise(vec![-1.2, 1.0], Stop::default(), |p| vec![10.0 * (p[1] - p[0] * p[0]), 1.0 - p[0]]);
        assert!(solution.cost < 1e-18, "{solution:?}");
    }

    #[test]
    fn the_covariance_of_a_mean_is_one_over_the_count() {
        let solution =
            minimise(vec![0.0], Stop::default(), |p| (0..25).map(|index| p[0] - f64::from(index)).collect());
        let inverse = solution.inverse_normal.expect("a mean is determined");
        assert!((inverse[(0, 0)] - 1.0 / 25.0).abs() < 1e-6);
    }

    #[test]
    fn an_unused_parameter_keeps_its_value() {
        let solution = minimise(vec![5.0, 7.0], Stop::default(), |p| vec![p[0] - 1.0; 3]);
        assert!((solution.parameters[0] - 1.0).abs() < 1e-8);
        assert!((solution.parameters[1] - 7.0).abs() < 1e-8);
        assert!(solution.inverse_normal.is_none());
    }

    #[test]
    fn non_finite_values_end_the_fit_at_its_start() {
        let solution = minimise(vec![1.0], Stop::default(), |p| {
            vec![if (p[0] - 1.0).abs() < f64::EPSILON { 1.0 } else { f64::NAN }]
        });
        assert!((solution.parameters[0] - 1.0).abs() < 1e-12);
    }

    proptest! {
        #[test]
        fn bending_spares_small_residuals_and_tames_large_ones(residual in -1e3_f64..1e3) {
            for bent in [pseudo_huber(residual, 0.1), cauchy(residual, 0.1)] {
                prop_assert!(bent.abs() <= residual.abs() * (1.0 + 1e-12));
                prop_assert_eq!(bent.is_sign_negative(), residual.is_sign_negative());
                if residual.abs() < 1e-3 {
                    prop_assert!((bent - residual).abs() <= 1e-4 * residual.abs());
                }
            }
        }
    }
}

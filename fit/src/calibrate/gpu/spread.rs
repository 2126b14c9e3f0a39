//! Spread of the prediction errors of a calibrated GPU, from cross-validation: the near and
//! far deviation of each kernel table, and the conformal quantile of the errors in units of
//! them.

use std::collections::HashMap;

use super::fit::TableFit;
use crate::validate::interval::Uncertainty;
use crate::validate::point::Point;
use coexec_sim::device::gpu::TableSpread;
use coexec_sim::statistics::rounded;

/// Nominal coverage of an interval.
const COVERAGE: f64 = 0.9;

/// Candidate deviations of the log time: 0.5 to 50 %.
const DEVIATIONS: [f64; 14] =
    [0.005, 0.007, 0.01, 0.014, 0.02, 0.03, 0.04, 0.055, 0.08, 0.11, 0.15, 0.21, 0.3, 0.5];

/// Number of errors on unseen layers from which only these count; with fewer, the errors
/// on seen layers count too.
const MIN_UNSEEN: usize = 20;
/// Fewest errors for a spread.
const MIN_ERRORS: usize = 5;

/// Number of networks from which each layer counts as an independent error: the
/// differences between networks then average out.
const MIN_NETWORKS: usize = 12;
/// Tolerance on sums of weights, in networks.
const ROUNDING: f64 = 1e-6;

/// Significant digits of a covariance and of a quantile.
const DIGITS: i32 = 3;

/// A held-out run with its prediction.
#[derive(Clone, Debug)]
pub(super) struct HeldOut {
    pub(super) point: Point,
    pub(super) uncertainty: Uncertainty,
}

impl HeldOut {
    /// Absolute log error.
    fn error(&self) -> f64 {
        (self.point.measured_us / self.point.predicted_us).ln().abs()
    }
}

/// The spread of each table in `fits`, from cross-validated errors. A table with fewer than
/// [`MIN_ERRORS`] errors has none.
pub(super) fn spreads(fits: &[TableFit], held_out: &[&HeldOut]) -> Vec<TableSpread> {
    fits.iter().filter_map(|fit| spread(fit, held_out)).collect()
}

fn spread(fit: &TableFit, held_out: &[&HeldOut]) -> Option<TableSpread> {
    let is_of_table = |held: &&&HeldOut| held.uncertainty.table == fit.table;
    let of_table: Vec<&HeldOut> = held_out.iter().filter(is_of_table).copied().collect();
    let unseen: Vec<&HeldOut> = of_table.iter().filter(|held| held.point.unseen).copied().collect();
    let errors = if unseen.len() >= MIN_UNSEEN { unseen } else { of_table };
    if errors.len() < MIN_ERRORS {
        return None;
    }
    let candidates = DEVIATIONS.iter().flat_map(|&near| DEVIATIONS.iter().map(move |&far| (near, far)));
    let loss = |deviations| negative_log_likelihood(&errors, deviations);
    let (near, far) = candidates.min_by(|&a, &b| loss(a).total_cmp(&loss(b)))?;
    let quantile = rounded(quantile(&errors, near, far), DIGITS);
    Some(TableSpread { near, far, quantile, ..known(fit) })
}

/// The part of a spread that comes from the fit alone: the covariance of the parameters.
pub(super) fn known(fit: &TableFit) -> TableSpread {
    let row = |row: &Vec<f64>| row.iter().map(|&value| rounded(value, DIGITS)).collect();
    TableSpread {
        table: fit.table,
        near: 0.0,
        far: 0.0,
        quantile: 0.0,
        parameters: fit.parameters.iter().map(|parameter| parameter.key.to_owned()).collect(),
        covariance: fit.covariance.iter().map(row).collect(),
    }
}

/// Negative log-likelihood of Laplace distributed errors, up to a constant. Its heavy tails
/// keep outliers from setting the deviations, and it matches the absolute percentage error.
fn negative_log_likelihood(errors: &[&HeldOut], (near, far): (f64, f64)) -> f64 {
    errors
        .iter()
        .map(|held_out| {
            let scale = held_out.uncertainty.deviation(near, far) / std::f64::consts::SQRT_2;
            scale.ln() + held_out.error() / scale
        })
        .sum()
}

/// The smallest number of deviations that holds 90 % of the errors plus one that counts as
/// infinite: the finite-sample correction of conformal prediction.
///
/// The errors of a network's layers are dependent. Where there are few networks, networks
/// rather than layers are exchangeable: each has the same weight however many layers it
/// has, and so has the infinite error. With nine networks or fewer, this is the largest
/// error; fewer than nine cannot guarantee the coverage.
fn quantile(errors: &[&HeldOut], near: f64, far: f64) -> f64 {
    let mut layers: HashMap<&str, f64> = HashMap::new();
    for held_out in errors {
        *layers.entry(&held_out.point.network).or_default() += 1.0;
    }
    let few = layers.len() < MIN_NETWORKS;
    let drawn = if few { layers.len() } else { errors.len() } as f64;
    let mut scores: Vec<(f64, f64)> = errors
        .iter()
        .map(|held_out| {
            let score = held_out.error() / held_out.uncertainty.deviation(near, far);
            (score, if few { layers[held_out.point.network.as_str()].recip() } else { 1.0 })
        })
        .collect();
    scores.sort_by(|a, b| a.0.total_cmp(&b.0));
    // Weights such as 1/3 do not add up exactly.
    let wanted = COVERAGE * (drawn + 1.0) - ROUNDING;
    let mut held = 0.0;
    let reached = scores.iter().find(|(_, weight)| {
        held += weight;
        held >= wanted
    });
    reached.or(scores.last()).map_or(0.0, |(score, _)| *score)
}

#[cfg(test)]
mod tests {
    use super::*;
    use coexec_sim::device::gpu::KernelTable;

    fn fit() -> TableFit {
        TableFit {
            table: KernelTable::ConvGeneric,
            layers: 0,
            held_out: 0,
            converged: true,
            is_of_base: None,
            parameters: Vec::new(),
            trade_offs: Vec::new(),
            covariance: Vec::new(),
        }
    }

    /// A point with that log error.
    fn off(error: f64) -> Point {
        Point { measured_us: error.exp(), predicted_us: 1.0, ..Point::default() }
    }

    fn spreads(errors: &[HeldOut]) -> Vec<TableSpread> {
        super::spreads(&[fit()], &errors.iter().collect::<Vec<_>>())
    }

    fn quantile(errors: &[HeldOut], near: f64, far: f64) -> f64 {
        super::quantile(&errors.iter().collect::<Vec<_>>(), near, far)
    }

    /// Errors that are ten times as large far from the residual's points as next to them.
    fn errors(unseen: bool) -> Vec<HeldOut> {
        (0..200)
            .map(|index| {
                let similarity = f64::from(index % 2);
                let size = if similarity > 0.5 { 0.01 } else { 0.1 };
                HeldOut {
                    uncertainty: Uncertainty {
                        table: KernelTable::ConvGeneric,
                        similarity,
                        parameter_variance: 0.0,
                        physics_us: 1.0,
                    },
                    point: Point {
                        network: index.to_string(),
                        unseen,
                        ..off(size * f64::from(index) / 200.0)
                    },
                }
            })
            .collect()
    }

    #[test]
    fn nine_of_ten_errors_lie_within_and_the_far_ones_get_the_wider_interval() {
        let errors = errors(true);
        let spread = &spreads(&errors)[0];
        assert!(spread.far > 3.0 * spread.near, "{spread:?}");
        let within = |held_out: &&HeldOut| {
            held_out.error() <= spread.quantile * held_out.uncertainty.deviation(spread.near, spread.far)
        };
        let share = errors.iter().filter(within).count();
        assert!((180..=184).contains(&share), "{share}");
    }

    #[test]
    fn few_networks_leave_the_largest_error_and_count_alike_whatever_their_layers() {
        let mut errors = errors(true);
        for (index, held_out) in errors.iter_mut().enumerate() {
            held_out.point.network = (index % 5).to_string();
            held_out.uncertainty.similarity = 1.0;
            held_out.point.measured_us = 0.01_f64.exp();
        }
        errors[0].point.measured_us = 0.2_f64.exp();
        assert!((quantile(&errors, 0.1, 0.0) - 2.0).abs() < 1e-9);
        for (index, held_out) in errors.iter_mut().enumerate() {
            held_out.point.network = index.to_string();
        }
        assert!((quantile(&errors, 0.1, 0.0) - 0.1).abs() < 1e-9);
        // One layer of the eleventh network weighs as much as nineteen of each other.
        for (index, held_out) in errors.iter_mut().enumerate() {
            let network = if index == 0 { 10 } else { index % 10 };
            held_out.point = off(if network == 10 { 0.2 } else { 0.01 });
            held_out.point.network = network.to_string();
        }
        assert!((quantile(&errors, 0.1, 0.0) - 2.0).abs() < 1e-9);
    }

    #[test]
    fn seen_layers_count_only_where_too_few_are_unseen() {
        let mut some = errors(false);
        for held_out in &mut some {
            held_out.point.measured_us = held_out.point.measured_us.powi(10);
        }
        let mixed: Vec<HeldOut> = errors(true).into_iter().chain(some.clone()).collect();
        let unseen = &spreads(&errors(true))[0];
        assert_eq!(&spreads(&mixed)[0], unseen);
        assert!(spreads(&some)[0].near > unseen.near);
        assert_eq!(spreads(&some[..4]), []);
    }
}

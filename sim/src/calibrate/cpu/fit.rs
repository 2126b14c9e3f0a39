//! The fit of one table: the rates of one core type for one number format, over
//! all its core counts at once.

use nalgebra::DVector;
use serde::Serialize;

use super::rates::{COUNT, KINDS, Prior, RATES, free};
use super::terms::Terms;
use crate::calibrate::least_squares::{Solution, Stop, minimise, pseudo_huber};
use crate::device::cpu::RuyRates;
use crate::device::quantity::Quantity;
use crate::statistics::{VALUE_DIGITS, rounded};

/// Relative error expected of a prediction, and where the loss turns from
/// squares to absolute values: a corrupt run pulls no harder than one twice as far
/// off as expected. Cross-validated errors are flat from 1 to 2.5 %.
const EXPECTED_ERROR: f64 = 0.02;
/// Deviation of the logarithm of the fork cost (CPU model).
const FORK_DEVIATION: f64 = 1.0;
/// Expected contention and whole-cluster slowdown (CPU model).
const FACTOR: f64 = 0.03;
/// Their standard deviation (CPU model).
const FACTOR_DEVIATION: f64 = 0.1;
/// The profile's range of both; see `device::cpu`.
const FACTOR_RANGE: [f64; 2] = [-0.1, 10.0];

/// Indices in the parameter vector, after the rates.
const FORK: usize = COUNT;
const CONTENTION: usize = COUNT + 1;
const SLOWDOWN: usize = COUNT + 2;
const PARAMETERS: usize = COUNT + 3;
/// Index of what all rates have in common: how far off the prior they are
/// together. Behind it, the same of each kind. Neither is part of a table.
const COMMON: usize = PARAMETERS;
const FIRST_KIND: usize = PARAMETERS + 1;
const UNKNOWNS: usize = PARAMETERS + 1 + KINDS;

/// Standard normal quantile of a 95 % interval.
pub(super) const QUANTILE_95: f64 = 1.96;
/// A posterior deviation above this part of what is left where only the parameters
/// of its kind are known says that the runs tell little about the parameter.
const UNINFORMED: f64 = 0.5;

/// When a fit has converged: far below what two runs of one network differ by.
const STOP: Stop = Stop { iterations: 60, relative_decrease: 1e-6 };

/// What a table says.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Parameters {
    /// The rates, in nanoseconds per unit.
    pub(super) rates_ns: [f64; COUNT],
    /// Fork cost, in nanoseconds.
    pub(super) fork_ns: f64,
    /// Contention factor.
    pub(super) contention: f64,
    /// Whole-cluster slowdown factor.
    pub(super) slowdown: f64,
}

impl Parameters {
    fn of(vector: &DVector<f64>) -> Self {
        let factor = |index: usize| vector[index].clamp(FACTOR_RANGE[0], FACTOR_RANGE[1]);
        Self {
            rates_ns: std::array::from_fn(|index| vector[index].exp()),
            fork_ns: vector[FORK].exp(),
            contention: factor(CONTENTION),
            slowdown: factor(SLOWDOWN),
        }
    }
}

/// One run of a network on cores of the type.
#[derive(Clone, Debug)]
pub(super) struct Observation {
    /// Index of the network.
    pub(super) network: usize,
    /// Its time taken apart.
    pub(super) terms: Terms,
    /// Its measured time, in nanoseconds.
    pub(super) measured_ns: f64,
}

/// How well a parameter is known.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Known {
    /// Key in the profile: `tile_ns`.
    pub key: &'static str,
    /// Fitted value, in the key's unit.
    pub value: f64,
    /// 95 % interval; none where the fit does not determine the parameters.
    pub ci95: Option<[f64; 2]>,
    /// Whether the runs tell the parameter: its interval is less than half as
    /// wide as the others of its kind alone would leave it.
    pub informed: bool,
    /// The parameter it trades off against most, and their correlation.
    pub trades_with: Option<(&'static str, f64)>,
}

/// A fitted table.
#[derive(Clone, Debug)]
pub(super) struct Fit {
    solution: Solution,
    prior: Prior,
    /// Whether any run did work that the rate is for.
    used: [bool; COUNT],
    /// What the variances are scaled by: the mean square of the bent residuals, in
    /// squares of what is expected, where that is above 1.
    scale: f64,
}

/// Fits a table to `observations`.
pub(super) fn fit(observations: &[&Observation], prior: &Prior) -> Fit {
    let mut start = DVector::zeros(UNKNOWNS);
    start.as_mut_slice()[..COUNT].copy_from_slice(&prior.ln_rates);
    start[FORK] = prior.ln_fork;
    start[CONTENTION] = FACTOR;
    start[SLOWDOWN] = FACTOR;
    let expected = start.clone();
    let runs = observations.len();
    let solution = minimise(&start, runs + UNKNOWNS, STOP, |vector, residuals| {
        let parameters = Parameters::of(vector);
        for (residual, run) in residuals.iter_mut().zip(observations) {
            let error = (run.terms.nanos(&parameters) / run.measured_ns).ln();
            *residual = pseudo_huber(error / EXPECTED_ERROR, 1.0);
        }
        for (index, residual) in residuals[runs..].iter_mut().enumerate() {
            let shared =
                RATES.get(index).map_or(0.0, |rate| vector[COMMON] + vector[FIRST_KIND + rate.kind as usize]);
            let away = (vector[index] - expected[index] - shared) / spread(index, prior);
            *residual = pseudo_huber(away, 1.0);
        }
    });
    // As many priors as unknowns: what is left of the degrees of freedom are the
    // runs. Times better than expected may be luck, and say nothing of the priors.
    let scale = (2.0 * solution.cost / runs.max(1) as f64).max(1.0);
    let used = std::array::from_fn(|rate| observations.iter().any(|run| run.terms.use_rate(rate)));
    Fit { solution, prior: prior.clone(), used, scale }
}

/// Standard deviation of an unknown before any run: of a rate, given what it has in
/// common with others.
fn spread(index: usize, prior: &Prior) -> f64 {
    match index {
        FORK => FORK_DEVIATION,
        CONTENTION | SLOWDOWN => FACTOR_DEVIATION,
        COMMON => prior.deviations.common,
        FIRST_KIND.. => prior.deviations.kind,
        _ => prior.deviations.single,
    }
}

/// Key of a parameter in the profile.
fn key(index: usize) -> &'static str {
    match index {
        FORK => "fork_us",
        CONTENTION => "contention_factor",
        SLOWDOWN => "whole_cluster_slowdown_factor",
        rate => RATES[rate].key,
    }
}

impl Fit {
    /// What is known of each parameter of the table.
    pub(super) fn told(&self) -> Vec<Known> {
        let in_table =
            |index: usize| RATES.get(index).is_none_or(|rate| rate.take_out.is_none() || self.used[index]);
        let known = self.known().into_iter().enumerate();
        known.filter_map(|(index, known)| in_table(index).then_some(known)).collect()
    }

    /// What is known of each parameter, used or not.
    fn known(&self) -> Vec<Known> {
        let variance = self.solution.inverse_normal.as_ref();
        let vector = &self.solution.parameters;
        (0..PARAMETERS)
            .map(|index| {
                let deviation_now = variance.map(|v| (v[(index, index)] * self.scale).sqrt());
                let value_at = |away: f64| match index {
                    CONTENTION | SLOWDOWN => (vector[index] + away).clamp(FACTOR_RANGE[0], FACTOR_RANGE[1]),
                    FORK => (vector[index] + away).exp() * 1e-3,
                    _ => (vector[index] + away).exp(),
                };
                let correlations = variance.map(|v| {
                    let others = (0..PARAMETERS).filter(|&other| other != index);
                    let correlation =
                        |other| v[(index, other)] / (v[(index, index)] * v[(other, other)]).sqrt();
                    others.map(|other| (key(other), correlation(other))).collect::<Vec<_>>()
                });
                let value_at = |away: f64| rounded(value_at(away), VALUE_DIGITS);
                Known {
                    key: key(index),
                    value: value_at(0.0),
                    ci95: deviation_now.map(|d| [-d, d].map(|away| value_at(away * QUANTILE_95))),
                    informed: deviation_now.is_some_and(|now| now < UNINFORMED * spread(index, &self.prior)),
                    trades_with: correlations
                        .and_then(|all| all.into_iter().max_by(|a, b| a.1.abs().total_cmp(&b.1.abs()))),
                }
            })
            .collect()
    }

    /// The table, with that source.
    pub(super) fn table(&self, source: &str) -> RuyRates {
        let mut table = RuyRates { source: source.to_owned(), ..free() };
        let known = self.known();
        let quantity = |known: &Known| Quantity {
            value: known.value,
            source: Some(if known.informed { "fit" } else { "fit, mostly its prior" }.to_owned()),
            ci95: known.ci95,
        };
        for ((rate, known), used) in RATES.iter().zip(&known).zip(self.used) {
            *(rate.of)(&mut table) = quantity(known);
            if let Some(take_out) = rate.take_out.filter(|_| !used) {
                take_out(&mut table);
            }
        }
        table.fork_us = quantity(&known[FORK]);
        table.contention_factor = quantity(&known[CONTENTION]);
        table.whole_cluster_slowdown_factor = quantity(&known[SLOWDOWN]);
        table
    }
}

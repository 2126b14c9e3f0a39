//! The fit of one table of rates: of one core type and number format, over all its core
//! counts at once.
//!
//! Every parameter except factors is fitted as its logarithm; its prior is one more residual.
//! Invariant: a prior's parameters, their values and posteriors, and the model's rates have
//! one order.

use serde::Serialize;

use super::rates::quantity_of;
use super::xnnpack::Counts;
use super::{coexec, terms::Terms};
use crate::calibrate::KEYS;
use crate::calibrate::least_squares::{DEVIATIONS_95, Solution, Stop, minimise, pseudo_huber};
use coexec_sim::Quantity;
use coexec_sim::kernel::cpu::coexec::Work as CoexecWork;
use coexec_sim::statistics::{VALUE_DIGITS, rounded};
use coexec_sim::units::NANOS_PER_MICRO;

/// Ratio of a parameter's posterior deviation to its prior deviation given the shared offsets from which it
/// counts as not informed by the runs. A convention, stricter than that of the other fits: half the deviation
/// is a quarter of the variance.
const UNINFORMED_DEVIATION_RATIO: f64 = 0.5;

/// Prior deviations of log parameters around values that were measured on the device itself: of the
/// shared offsets, as clock and temperature change from day to day, and of each parameter alone.
const SAME_DEVICE_DEVIATIONS: [f64; 2] = [0.03, 0.02];
/// Relative error expected of predictions of one network from such values: held-out networks of a phone
/// are 2 to 5 % off (mobile-ml-benchmark), each by about the same on all its cores.
const EXPECTED_SAME_DEVICE_ERROR: f64 = 0.05;

/// The unit of a parameter in the search and in the profile.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Scale {
    /// The search uses the logarithm of the profile's value.
    Logarithm,
    /// The search uses the logarithm in nanoseconds, the profile microseconds.
    Nanoseconds,
    /// The search uses the factor itself, clamped to a range.
    Factor([f64; 2]),
}

impl Scale {
    /// The search coordinate of a profile's value.
    fn place(self, value: f64) -> f64 {
        match self {
            Self::Logarithm => value.ln(),
            Self::Nanoseconds => (value * NANOS_PER_MICRO).ln(),
            Self::Factor(_) => value,
        }
    }
}

/// A parameter of a table and its prior.
#[derive(Clone, Debug)]
pub(super) struct Parameter {
    /// Key in the profile.
    pub(super) key: &'static str,
    pub(super) scale: Scale,
    /// Prior mean, as a search coordinate; the search starts there.
    pub(super) expected: f64,
    /// Prior standard deviation around the mean plus the shared offsets.
    pub(super) deviation: f64,
    /// Standard deviation of the mean itself, as the base's interval states it; 0 for none.
    pub(super) of_base: f64,
    /// The offsets that it shares with other parameters, as indices into [`Prior::shared`].
    pub(super) shares: Vec<usize>,
}

impl Parameter {
    /// A parameter without shared offsets.
    pub(super) fn unshared(key: &'static str, scale: Scale, expected: f64, deviation: f64) -> Self {
        Self { key, scale, expected, deviation, of_base: 0.0, shares: Vec::new() }
    }

    /// The value at a search coordinate, in the model's unit.
    fn value(&self, place: f64) -> f64 {
        match self.scale {
            Scale::Logarithm | Scale::Nanoseconds => place.exp(),
            Scale::Factor([low, high]) => place.clamp(low, high),
        }
    }

    /// The same, rounded, in the profile's unit.
    fn written(&self, place: f64) -> f64 {
        let unit = if self.scale == Scale::Nanoseconds { 1e-3 } else { 1.0 };
        rounded(self.value(place) * unit, VALUE_DIGITS)
    }
}

/// The prior of a table.
#[derive(Clone, Debug)]
pub(super) struct Prior {
    pub(super) parameters: Vec<Parameter>,
    /// Standard deviations of the offsets that parameters share (a hierarchical prior).
    pub(super) shared: Vec<f64>,
    /// Relative error expected of a prediction, from which the loss grows linearly, so that a
    /// corrupt run has a bounded influence.
    pub(super) expected_error: f64,
    /// Whether all runs of a network share that error, so that together they weigh as much as one run.
    pub(super) errs_by_network: bool,
    pub(super) stop: Stop,
}

/// The work of a run, as its library's model counts it.
#[derive(Clone, Debug)]
pub(super) enum Work {
    /// With TFLite's kernels on ruy.
    Ruy(Box<Terms>),
    /// With coexec's own kernels; the time in nanoseconds that cold caches add.
    Coexec(Vec<CoexecWork>, f64),
    /// With XNNPACK.
    Xnnpack(Counts),
}

impl Work {
    /// Time in nanoseconds for these values of the parameters.
    fn nanos(&self, values: &[f64]) -> f64 {
        match self {
            Self::Ruy(terms) => terms.nanos(values),
            Self::Xnnpack(counts) => counts.nanos(values),
            Self::Coexec(works, cold_caches_ns) => {
                let costs = coexec::costs(values);
                works.iter().map(|work| costs.time(work)).sum::<f64>() + cold_caches_ns
            }
        }
    }

    /// Whether the time depends on a rate.
    pub(super) fn uses(&self, rate: usize) -> bool {
        match self {
            Self::Ruy(terms) => terms.uses(rate),
            Self::Coexec(..) | Self::Xnnpack(_) => true,
        }
    }
}

/// One run of a network on cores of the type.
#[derive(Clone, Debug)]
pub(super) struct Observation {
    /// Index of the network.
    pub(super) network: usize,
    pub(super) work: Work,
    /// Its measured time, in nanoseconds.
    pub(super) measured_ns: f64,
}

/// A fitted parameter and its uncertainty.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Known {
    /// Key in the profile, such as `tile_ns`; `times_factor` for a factor on all times of a table.
    pub key: &'static str,
    /// Fitted value, in the key's unit.
    pub value: f64,
    /// 95 % interval; none where the fit does not determine the parameters.
    pub ci95: Option<[f64; 2]>,
    /// Whether the runs inform the parameter: its posterior deviation is less than half of that
    /// which the other parameters of its kind alone would leave it.
    pub informed: bool,
    /// The parameter most correlated with it, and their correlation.
    pub trades_with: Option<(&'static str, f64)>,
}

impl Known {
    /// The value as a quantity of a profile.
    pub(super) fn quantity(&self) -> Quantity {
        let source = if self.informed { "fit" } else { "fit, mostly its prior" };
        Quantity { value: self.value, source: Some(source.to_owned()), ci95: self.ci95 }
    }
}

impl Prior {
    /// The prior moved to the values of a table that was measured on the device itself, if any:
    /// tight around each value, a little wider for the shared offsets.
    pub(super) fn around<T: Serialize>(mut self, measured: Option<&T>) -> Self {
        let Some(measured) = measured else { return self };
        let table = toml::Table::try_from(measured).expect(KEYS);
        let [common, single] = SAME_DEVICE_DEVIATIONS;
        for parameter in &mut self.parameters {
            let Some(quantity) = quantity_of(&table, parameter.key) else { continue };
            parameter.expected = parameter.scale.place(quantity.value);
            parameter.deviation = parameter.deviation.min(single);
            let ends = quantity.ci95.map(|ends| ends.map(|end| parameter.scale.place(end)));
            let of_base = ends.map_or(0.0, |[low, high]| (high - low) / (2.0 * DEVIATIONS_95));
            parameter.of_base = if of_base.is_finite() { of_base } else { 0.0 };
        }
        self.shared.fill(common);
        self.expected_error = EXPECTED_SAME_DEVICE_ERROR;
        self.errs_by_network = true;
        self
    }

    /// The posterior of each parameter given the runs.
    pub(super) fn fit(&self, runs: &[&Observation]) -> Vec<Known> {
        let count = self.parameters.len();
        let expected = self.parameters.iter().map(|parameter| parameter.expected);
        let start = expected.chain(self.shared.iter().map(|_| 0.0)).collect();
        let of_network =
            |run: &&Observation| runs.iter().filter(|other| other.network == run.network).count();
        let expected_error = |run| {
            let alike = if self.errs_by_network { of_network(run) } else { 1 };
            self.expected_error * (alike as f64).sqrt()
        };
        let expected_errors: Vec<f64> = runs.iter().map(expected_error).collect();
        let solution = minimise(start, self.stop, |places| {
            let (places, common) = places.split_at(count);
            let placed = || self.parameters.iter().zip(places);
            let values: Vec<f64> = placed().map(|(parameter, &place)| parameter.value(place)).collect();
            let error = |(run, expected): (&&Observation, &f64)| {
                (run.work.nanos(&values) / run.measured_ns).ln() / expected
            };
            let own = placed().map(|(parameter, place)| {
                let shared: f64 = parameter.shares.iter().map(|&share| common[share]).sum();
                (place - parameter.expected - shared) / parameter.deviation
            });
            let shared = common.iter().zip(&self.shared).map(|(place, deviation)| place / deviation);
            let residuals = runs.iter().zip(&expected_errors).map(error).chain(own).chain(shared);
            residuals.map(|residual| pseudo_huber(residual, 1.0)).collect()
        });
        // There are as many prior rows as unknowns, so the degrees of freedom are the number of
        // runs. A fit that is better than expected may be luck and does not narrow the intervals.
        let scale = (2.0 * solution.cost / runs.len().max(1) as f64).max(1.0);
        (0..count).map(|index| self.known(index, &solution, scale)).collect()
    }

    /// The posterior of a parameter, with the variances of `solution` multiplied by `scale`.
    fn known(&self, index: usize, solution: &Solution, scale: f64) -> Known {
        let parameter = &self.parameters[index];
        let variance = solution.inverse_normal.as_ref();
        let deviation = variance.map(|v| (v[(index, index)] * scale).sqrt());
        // As far as the runs leave the value the base's, it is as uncertain as the base's.
        let stated = |d: f64| d.hypot((d / parameter.deviation).powi(2).min(1.0) * parameter.of_base);
        let written = |away: f64| parameter.written(solution.parameters[index] + away);
        let correlation = |other: usize| {
            let v = variance?;
            let correlation = v[(index, other)] / (v[(index, index)] * v[(other, other)]).sqrt();
            Some((self.parameters[other].key, correlation))
        };
        let others = (0..self.parameters.len()).filter(|&other| other != index);
        Known {
            key: parameter.key,
            value: written(0.0),
            ci95: deviation.map(|d| [-1.0, 1.0].map(|sign| written(sign * DEVIATIONS_95 * stated(d)))),
            informed: deviation.is_some_and(|now| now < UNINFORMED_DEVIATION_RATIO * parameter.deviation),
            trades_with: others.filter_map(correlation).max_by(|a, b| a.1.abs().total_cmp(&b.1.abs())),
        }
    }
}

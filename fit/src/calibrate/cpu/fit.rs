//! The fit of one table of rates: of one core type for one number format, over all its
//! core counts at once.
//!
//! Every parameter but factors is fitted as its logarithm, with what is expected of it
//! before any run as one more residual. Invariant: the order of a prior's parameters is that
//! of the values, of what is known of them, and of the model's rates.

use serde::Serialize;

use super::rates::{KEYS, quantity_of};
use super::xnnpack::Counts;
use super::{coexec, terms::Terms};
use crate::calibrate::least_squares::{DEVIATIONS_95, Solution, Stop, minimise, pseudo_huber};
use coexec_sim::Quantity;
use coexec_sim::kernel::cpu::NANOS_PER_MICRO;
use coexec_sim::kernel::cpu::coexec::Work as CoexecWork;
use coexec_sim::statistics::{VALUE_DIGITS, rounded};

/// A posterior deviation above this part of what is left where only the parameters
/// of its kind are known says that the runs tell little about the parameter.
const UNINFORMED: f64 = 0.5;

/// Standard deviations of logarithms from what was measured on the device itself: of parameters together, as clocks and heat
/// change from one day to the next, and of each alone.
const SAME_DEVICE_DEVIATIONS: [f64; 2] = [0.03, 0.02];
/// Relative error expected of predictions of one network by such values: held-out networks are 2 to 5 % off
/// (mobile-ml-benchmark), each by about as much on any number of cores.
const EXPECTED_SAME_DEVICE_ERROR: f64 = 0.05;

/// How a parameter stands in the search and in the profile.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Scale {
    /// The search has the logarithm.
    Logarithm,
    /// The search has the logarithm of nanoseconds, the profile microseconds.
    Nanoseconds,
    /// The search has the factor itself, which is held within a range.
    Factor([f64; 2]),
}

impl Scale {
    /// The place in the search of a value of a profile.
    fn place(self, value: f64) -> f64 {
        match self {
            Self::Logarithm => value.ln(),
            Self::Nanoseconds => (value * NANOS_PER_MICRO).ln(),
            Self::Factor(_) => value,
        }
    }
}

/// A parameter of a table and what is expected of it before any run.
#[derive(Clone, Debug)]
pub(super) struct Parameter {
    /// Key in the profile.
    pub(super) key: &'static str,
    pub(super) scale: Scale,
    /// Where the search starts.
    pub(super) expected: f64,
    /// Standard deviation around that and what it shares with others.
    pub(super) deviation: f64,
    /// What it shares with others, as indices in [`Prior::shared`].
    pub(super) shares: Vec<usize>,
}

impl Parameter {
    /// One that shares nothing with others.
    pub(super) fn alone(key: &'static str, scale: Scale, expected: f64, deviation: f64) -> Self {
        Self { key, scale, expected, deviation, shares: Vec::new() }
    }

    /// The value at a place of the search, in the model's unit.
    fn value(&self, place: f64) -> f64 {
        match self.scale {
            Scale::Logarithm | Scale::Nanoseconds => place.exp(),
            Scale::Factor([low, high]) => place.clamp(low, high),
        }
    }

    /// The same in the profile's unit.
    fn written(&self, place: f64) -> f64 {
        let unit = if self.scale == Scale::Nanoseconds { 1e-3 } else { 1.0 };
        rounded(self.value(place) * unit, VALUE_DIGITS)
    }
}

/// What is expected of a table before any run.
#[derive(Clone, Debug)]
pub(super) struct Prior {
    pub(super) parameters: Vec<Parameter>,
    /// Standard deviations of what parameters share: how far off they are together.
    pub(super) shared: Vec<f64>,
    /// Relative error expected of a prediction, and where the loss turns from squares to
    /// absolute values: a corrupt run pulls no harder than one twice as far off.
    pub(super) expected_error: f64,
    /// Whether that error is common to all runs of a network, which then weigh as much as one run.
    pub(super) errs_by_network: bool,
    pub(super) stop: Stop,
}

/// The work of a run, which a model times.
#[derive(Clone, Debug)]
pub(super) enum Work {
    /// Of TFLite's kernels on ruy.
    Ruy(Box<Terms>),
    /// Of coexec's own.
    Coexec(Vec<CoexecWork>),
    /// Of XNNPACK.
    Xnnpack(Counts),
}

impl Work {
    /// Its time in nanoseconds, with those values of the parameters.
    fn nanos(&self, values: &[f64]) -> f64 {
        match self {
            Self::Ruy(terms) => terms.nanos(values),
            Self::Xnnpack(counts) => counts.nanos(values),
            Self::Coexec(works) => {
                let costs = coexec::costs(values);
                works.iter().map(|work| costs.time(work)).sum()
            }
        }
    }

    /// Whether any of it is what a rate is for.
    pub(super) fn uses(&self, rate: usize) -> bool {
        match self {
            Self::Ruy(terms) => terms.uses(rate),
            Self::Coexec(_) | Self::Xnnpack(_) => true,
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

/// How well a parameter is known.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Known {
    /// Key in the profile: `tile_ns`; `times_factor` of what all times of a table are multiplied by.
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

impl Known {
    /// The value as a profile has it.
    pub(super) fn quantity(&self) -> Quantity {
        let source = if self.informed { "fit" } else { "fit, mostly its prior" };
        Quantity { value: self.value, source: Some(source.to_owned()), ci95: self.ci95 }
    }
}

impl Prior {
    /// The prior of a table that was measured on the device itself, where it was: its values, which are off together if at all.
    pub(super) fn around<T: Serialize>(mut self, measured: Option<&T>) -> Self {
        let Some(measured) = measured else { return self };
        let table = toml::Table::try_from(measured).expect(KEYS);
        let [common, single] = SAME_DEVICE_DEVIATIONS;
        for parameter in &mut self.parameters {
            let Some(quantity) = quantity_of(&table, parameter.key) else { continue };
            parameter.expected = parameter.scale.place(quantity.value);
            parameter.deviation = parameter.deviation.min(single);
        }
        self.shared.fill(common);
        self.expected_error = EXPECTED_SAME_DEVICE_ERROR;
        self.errs_by_network = true;
        self
    }

    /// What the runs tell of each parameter.
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
        // As many priors as unknowns: what is left of the degrees of freedom are the
        // runs. Times better than expected may be luck, and say nothing of the priors.
        let scale = (2.0 * solution.cost / runs.len().max(1) as f64).max(1.0);
        (0..count).map(|index| self.known(index, &solution, scale)).collect()
    }

    /// What is known of a parameter, the variances of `solution` multiplied by `scale`.
    fn known(&self, index: usize, solution: &Solution, scale: f64) -> Known {
        let parameter = &self.parameters[index];
        let variance = solution.inverse_normal.as_ref();
        let deviation = variance.map(|v| (v[(index, index)] * scale).sqrt());
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
            ci95: deviation.map(|d| [-d, d].map(|away| written(away * DEVIATIONS_95))),
            informed: deviation.is_some_and(|now| now < UNINFORMED * parameter.deviation),
            trades_with: others.filter_map(correlation).max_by(|a, b| a.1.abs().total_cmp(&b.1.abs())),
        }
    }
}

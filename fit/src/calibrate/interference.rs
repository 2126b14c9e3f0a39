//! Fit of the slowdown of memory clients by each other's traffic, to co-run measurements.
//!
//! Responsible for: the parameters of `[[memory.interference]]`, and their errors on
//! held-out slowdowns compared with plain max-min sharing. Not for: measuring, or the
//! capacity that the clients share (`concurrent_bandwidth_gbps`). Invariants: a curve is
//! fitted to its own client's runs alone; a held-out prediction is the engine's, with
//! curves that have seen no run at that level of traffic.

mod predict;

use std::collections::{BTreeMap, BTreeSet};

use nalgebra::DVector;

use super::least_squares::{DEVIATIONS_95, LOSS_SCALE, Solution, Stop, minimise, pseudo_huber};
use coexec_sim::Quantity;
use coexec_sim::device::memory::{Interference, Memory};
use coexec_sim::simulate::memory::curve;
use coexec_sim::statistics::{VALUE_DIGITS, rounded};
use serde::Serialize;

/// The slowdown of one client by others' traffic.
#[derive(Clone, Debug, PartialEq)]
pub struct CoRun {
    /// The slowed client: `cpu`, `gpu`, `npu`, or a CPU cluster.
    pub client: String,
    /// Its bandwidth alone, in gigabytes per second.
    pub own_gbps: f64,
    /// Threads that share its traffic; 1 for an accelerator.
    pub streams: u32,
    /// The client that makes the other traffic.
    pub others: String,
    /// The others' bandwidth alone, in gigabytes per second.
    pub others_gbps: f64,
    /// Threads that share the others' traffic.
    pub others_streams: u32,
    /// Index of the setting of the others' traffic: runs of one level are held out
    /// together.
    pub level: u32,
    /// Time over time alone.
    pub slowdown: f64,
}

/// Errors of one client's held-out runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HeldOut {
    /// The client.
    pub client: String,
    /// Number of predicted runs.
    pub runs: usize,
    /// Mean absolute error of the curves, in percent of the slowdown.
    pub error_percent: f64,
    /// The same of max-min sharing alone.
    pub plain_error_percent: f64,
    /// The same of predicting no slowdown.
    pub idle_error_percent: f64,
}

/// Number of parameters of a curve.
const PARAMETERS: usize = 5;

/// Fewest runs of a client for a curve.
pub const MIN_RUNS: usize = 2 * PARAMETERS;

/// Error expected of a good fit, which weighs the prior against the runs: that of PCCS
/// (MICRO'21) on CPUs.
const EXPECTED_ERROR: f64 = 0.037;

/// Prior deviation of a coordinate: a factor of seven, wide enough that the prior decides
/// only parameters that the runs do not inform.
const PRIOR_DEVIATION: f64 = 2.0;

/// Step of the derivatives that propagate the coordinates' covariance to the values.
const DERIVATIVE_STEP: f64 = 1e-4;

/// Starting points: onset, and distance from onset to saturation, both as fractions of the
/// others' largest bandwidth. A curve's two kinks give the loss several local minima.
const STARTS: [[f64; 2]; 6] = [[0.02, 0.3], [0.02, 1.0], [0.2, 0.3], [0.2, 0.8], [0.5, 0.2], [0.5, 0.5]];

/// Fraction of its bandwidth that a crowded client keeps, and its further relative
/// slowdown, at every start.
const START_CROWDED: [f64; 2] = [0.5, 0.05];

/// Fits a curve to the runs of each client with at least [`MIN_RUNS`]; `source`
/// describes the runs.
pub fn fit(runs: &[CoRun], source: &str) -> Vec<Interference> {
    fit_each(&usable(runs), source)
}

/// Predicts the runs of each level by curves fitted to the other levels. The clients share
/// the capacity of `memory`.
pub fn held_out(memory: &Memory, runs: &[CoRun]) -> Vec<HeldOut> {
    let usable = usable(runs);
    let levels: BTreeSet<u32> = usable.iter().map(|run| run.level).collect();
    let plain = predict::Sharing::new(memory, &[]);
    let mut errors: BTreeMap<&str, Vec<[f64; 3]>> = BTreeMap::new();
    for level in levels {
        let (held_out, seen): (Vec<&CoRun>, Vec<&CoRun>) = usable.iter().partition(|run| run.level == level);
        let curves = fit_each(&seen, "a fold");
        let disturbed = predict::Sharing::new(memory, &curves);
        // A client with too few other runs has no curve to judge.
        for run in held_out.iter().filter(|run| curves.iter().any(|curve| curve.client == run.client)) {
            let predicted = [disturbed.slowdown(run), plain.slowdown(run), 1.0];
            let relative = predicted.map(|slowdown| (slowdown / run.slowdown - 1.0).abs());
            errors.entry(&run.client).or_default().push(relative);
        }
    }
    errors.into_iter().map(summary).collect()
}

fn summary((client, errors): (&str, Vec<[f64; 3]>)) -> HeldOut {
    let sum = |which: usize| errors.iter().map(|errors| errors[which]).sum::<f64>();
    let [error_percent, plain_error_percent, idle_error_percent] =
        [0, 1, 2].map(|which| 100.0 * sum(which) / errors.len() as f64);
    let (client, runs) = (client.to_owned(), errors.len());
    HeldOut { client, runs, error_percent, plain_error_percent, idle_error_percent }
}

/// The runs whose values are all possible.
fn usable(runs: &[CoRun]) -> Vec<&CoRun> {
    let is_rate = |rate: f64| rate.is_finite() && rate > 0.0;
    let is_usable = |run: &&CoRun| {
        is_rate(run.own_gbps)
            && run.others_gbps.is_finite()
            && run.others_gbps >= 0.0
            && is_rate(run.slowdown)
            && run.streams > 0
            && run.others_streams > 0
    };
    runs.iter().filter(is_usable).collect()
}

/// One curve per client.
fn fit_each(runs: &[&CoRun], source: &str) -> Vec<Interference> {
    let clients: BTreeSet<&str> = runs.iter().map(|run| run.client.as_str()).collect();
    clients
        .into_iter()
        .filter_map(|client| {
            let own: Vec<&CoRun> = runs.iter().copied().filter(|run| run.client == client).collect();
            let is_determined = own.len() >= MIN_RUNS && own.iter().any(|run| run.others_gbps > 0.0);
            is_determined.then(|| fit_one(client, &own, source))
        })
        .collect()
}

/// Units of a client's coordinates: its own largest bandwidth, and that of the others.
#[derive(Clone, Copy)]
struct Scale {
    own_gbps: f64,
    others_gbps: f64,
}

impl Scale {
    fn of(runs: &[&CoRun]) -> Self {
        let most = |rate: fn(&CoRun) -> f64| runs.iter().map(|run| rate(run)).fold(0.0, f64::max);
        Self { own_gbps: most(|run| run.own_gbps), others_gbps: most(|run| run.others_gbps) }
    }

    /// Onset, saturation, bandwidth alone, bandwidth crowded, and slowdown. Any coordinates
    /// map to a possible curve.
    fn values(self, coordinates: &[f64]) -> [f64; PARAMETERS] {
        let part = |coordinate: f64| 1.0 / (1.0 + (-coordinate).exp());
        let onset = self.others_gbps * part(coordinates[0]);
        let alone = self.own_gbps * coordinates[2].exp();
        [
            onset,
            onset + self.others_gbps * coordinates[1].exp(),
            alone,
            alone * part(coordinates[3]),
            1.0 + coordinates[4].exp(),
        ]
    }

    /// Coordinates of a starting point.
    fn start([onset, way]: [f64; 2]) -> [f64; PARAMETERS] {
        let logit = |part: f64| (part / (1.0 - part)).ln();
        let [crowded, slowdown] = START_CROWDED;
        [logit(onset), way.ln(), 0.0, logit(crowded), slowdown.ln()]
    }
}

/// The table of a client.
fn table(client: &str, values: [Quantity; PARAMETERS], source: &str) -> Interference {
    let [onset_gbps, saturation_gbps, alone_gbps, crowded_gbps, crowded_slowdown_factor] = values;
    Interference {
        client: client.to_owned(),
        source: source.to_owned(),
        onset_gbps,
        saturation_gbps,
        alone_gbps,
        crowded_gbps,
        crowded_slowdown_factor,
    }
}

fn fit_one(client: &str, runs: &[&CoRun], source: &str) -> Interference {
    let scale = Scale::of(runs);
    let solution = STARTS
        .iter()
        .map(|&start| search(runs, scale, Scale::start(start)))
        .reduce(|best, other| if other.cost < best.cost { other } else { best })
        .expect("there is more than one start");
    table(client, quantities(&solution, scale, runs.len(), source), source)
}

fn search(runs: &[&CoRun], scale: Scale, start: [f64; PARAMETERS]) -> Solution {
    minimise(start.to_vec(), Stop::default(), |coordinates| {
        let values = scale.values(coordinates);
        if !is_possible(values) {
            return vec![f64::NAN; runs.len() + PARAMETERS];
        }
        let fitted = curve(&table("", values.map(Quantity::plain), ""));
        let error =
            |run: &&CoRun| pseudo_huber((predict::by_curve(&fitted, run) / run.slowdown).ln(), LOSS_SCALE);
        let away = |(coordinate, start)| EXPECTED_ERROR * (coordinate - start) / PRIOR_DEVIATION;
        runs.iter().map(error).chain(coordinates.iter().zip(start).map(away)).collect()
    })
}

/// Whether the values are a curve despite the rounding and range of `f64`.
fn is_possible([onset, saturation, alone, crowded, slowdown]: [f64; PARAMETERS]) -> bool {
    let are_finite = saturation.is_finite() && alone.is_finite() && slowdown.is_finite();
    are_finite && onset < saturation && 0.0 < crowded && crowded <= alone
}

/// The values with their 95 % intervals, from the covariance of the coordinates (delta method).
fn quantities(solution: &Solution, scale: Scale, runs: usize, source: &str) -> [Quantity; PARAMETERS] {
    let values = scale.values(&solution.parameters);
    // The prior adds one row per parameter, so the degrees of freedom are the number of runs.
    let variance = 2.0 * solution.cost / runs as f64;
    let gradient = |parameter: usize| {
        DVector::from_fn(PARAMETERS, |coordinate, _| {
            let mut moved = solution.parameters.clone();
            moved[coordinate] += DERIVATIVE_STEP;
            (scale.values(&moved)[parameter] - values[parameter]) / DERIVATIVE_STEP
        })
    };
    std::array::from_fn(|parameter| {
        let value = rounded(values[parameter], VALUE_DIGITS);
        let ci95 = solution.inverse_normal.as_ref().map(|inverse| {
            let gradient = gradient(parameter);
            let deviation = (variance * (inverse * &gradient).dot(&gradient)).max(0.0).sqrt();
            [-DEVIATIONS_95, DEVIATIONS_95].map(|away| rounded(value + away * deviation, VALUE_DIGITS))
        });
        let ci95 = ci95.map(|[low, high]| [low.min(value), high.max(value)]);
        Quantity { value, source: Some(source.to_owned()), ci95 }
    })
}

#[cfg(test)]
mod tests;

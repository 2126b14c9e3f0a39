//! Fit of one kernel table: robust least squares on log times, over the log parameters,
//! with a Gaussian prior around the base.
//!
//! Invariant: every parameter stays positive, and one that the runs do not inform keeps
//! the base's value.

use nalgebra::DMatrix;
use serde::Serialize;

use crate::calibrate::least_squares::{
    DEVIATIONS_95, LOSS_SCALE, Posterior, Solution, Stop, UNINFORMED_VARIANCE_RATIO, log_deviation, minimise,
    pseudo_huber,
};
use crate::measure::{GpuRun, grouped};
use crate::validate::gpu::predict;
use coexec_sim::statistics::{VALUE_DIGITS, median, rounded};
use coexec_sim::{Basis, Gpu, KernelTable, Layer, Quantity};

/// Loss scales of the two successive fits. The first is nearly ordinary least squares,
/// which pulls a poor base into the right valley; the second is the loss itself.
const LOSS_STAGES: [f64; 2] = [1.0, LOSS_SCALE];

/// Stops the first fit, which only has to find the valley.
const ROUGH_STOP: Stop = Stop { iterations: 100, relative_decrease: 1e-3 };
/// Stops the last fit: further iterations change no prediction by a thousandth.
const FINE_STOP: Stop = Stop { iterations: 100, relative_decrease: 1e-6 };

/// Starting points of a table's fit: how far its log latencies lie above the prior's
/// centre and its log throughputs below it. Both explain part of the same times, so a
/// fit can end in a local minimum with too much of one.
const STARTS: [f64; 3] = [0.0, 2.0, -2.0];
/// Distinct layers from which a table is fitted from every start. Fewer layers cannot
/// distinguish the minima, and the prior's centre is then the better guide (reference
/// implementation of the GPU model).
const MANY_LAYERS: usize = 60;

/// Prefix of the keys of latencies.
const LATENCY: &str = "latency_";

/// A parameter that is searched on a grid too: only layers about as large as the cache
/// depend on it, so its gradient vanishes until it is nearly right.
const GRID_SEARCHED: &str = "cache_bytes";
/// Ratio of neighbouring grid values, and the number of steps either side of the centre.
const GRID_RATIO: f64 = 1.1;
const GRID_STEPS: i32 = 30;
/// Stops the fit from a grid value, in which the other parameters only have to follow.
const GRID_STOP: Stop = Stop { iterations: 2, relative_decrease: 1e-3 };

/// Units of the log parameter in one search coordinate. Predictions are whole
/// picoseconds; in this unit, the step of the numerical derivative changes a parameter
/// by 0.06 %, far above their rounding.
const COORDINATE: f64 = 100.0;

/// Range of a log parameter: what a profile may hold, less a margin.
const LOG_RANGE: [f64; 2] = [-40.0, 20.0];

/// Significant digits of the ends of an interval.
const INTERVAL_DIGITS: i32 = 3;

/// Absolute correlation from which two parameters count as trading off.
const TRADE_OFF_CORRELATION: f64 = 0.9;

/// A distinct layer with the median time of its runs.
pub(super) struct Sample<'a> {
    pub(super) layer: &'a Layer,
    pub(super) log_us: f64,
    /// Weight of its loss: the square root of the number of runs.
    weight: f64,
}

impl Sample<'_> {
    /// Number of runs of the layer.
    pub(super) fn runs(&self) -> f64 {
        self.weight * self.weight
    }
}

/// The distinct layers of `runs`, in the order in which they first occur.
pub(super) fn samples<'a>(runs: &[&'a GpuRun]) -> Vec<Sample<'a>> {
    grouped(runs.iter().map(|run| (&run.what, run.measured_us)))
        .into_iter()
        .map(|(layer, times)| {
            let middle = median(&times).expect("a layer is listed with its first time");
            Sample { layer, log_us: middle.ln(), weight: (times.len() as f64).sqrt() }
        })
        .collect()
}

/// A fitted parameter.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fitted {
    /// Key in its table.
    pub key: &'static str,
    /// Value in the base: the centre of the prior.
    pub base: f64,
    /// Fitted value.
    pub value: f64,
    /// 95 % interval.
    pub ci95: [f64; 2],
    /// Whether the runs inform it; otherwise its value is mostly the prior's.
    pub informed: bool,
}

impl Fitted {
    /// The parameter of that key, from the posterior of its log ratio to `base`.
    pub(in crate::calibrate) fn of(key: &'static str, base: f64, known: Posterior) -> Self {
        let (value, ci95) = known.value(base);
        Self { key, base, value, ci95, informed: known.informed }
    }

    /// The parameter and its interval, clamped to the range that its fit kept to.
    pub(in crate::calibrate) fn within(self, [least, most]: [f64; 2]) -> Self {
        let held = |value: f64| value.clamp(least, most);
        Self { value: held(self.value), ci95: self.ci95.map(held), ..self }
    }

    /// The parameter times `part` as a quantity of a profile; `source` describes the runs.
    pub(in crate::calibrate) fn quantity(&self, source: &str, part: f64) -> Quantity {
        let source = if self.informed {
            source.to_owned()
        } else {
            format!("prior {}, hardly informed by: {source}", rounded(self.base * part, VALUE_DIGITS))
        };
        let [value, low, high] =
            [self.value, self.ci95[0], self.ci95[1]].map(|value| rounded(value * part, VALUE_DIGITS));
        Quantity { value, source: Some(source), ci95: Some([low, high]) }
    }
}

/// Two parameters that the runs hardly distinguish: changes of one make up for changes of the other.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TradeOff {
    /// The parameters.
    pub keys: [&'static str; 2],
    /// Correlation of their logarithms.
    pub correlation: f64,
}

/// The fit of one table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TableFit {
    /// The table.
    pub table: KernelTable,
    /// Distinct layers.
    pub layers: usize,
    /// Number of runs predicted by a fit of this table that has not seen their network. Where it is 0, the
    /// error of the table is not known.
    #[serde(skip)]
    pub held_out: usize,
    /// Whether the optimiser ended at a minimum rather than at its last iteration.
    pub converged: bool,
    /// Whether the values were fitted close to the base's measured ones rather than from scratch; none
    /// where the base's were not measured.
    pub is_of_base: Option<bool>,
    /// The parameters, in the order of the table.
    pub parameters: Vec<Fitted>,
    /// Pairs of parameters that the runs hardly distinguish.
    pub trade_offs: Vec<TradeOff>,
    /// Covariance of the log parameters: rows of the lower triangle.
    #[serde(skip)]
    pub covariance: Vec<Vec<f64>>,
}

/// Fits `table` of `gpu` to `samples` and writes the fitted values into it. `deviation`
/// is the prior's standard deviation of a log parameter. With `keeps_intervals`, what the runs leave of a value's
/// interval in `gpu` adds to its interval.
pub(super) fn fit_table(
    gpu: &mut Gpu,
    table: KernelTable,
    samples: &[Sample<'_>],
    (deviation, keeps_intervals): (f64, bool),
    source: &str,
) -> TableFit {
    let centre = centre(gpu, table);
    let known = gpu.parameters_mut(table).filter(|_| keeps_intervals);
    let known: Vec<_> = known.into_iter().flat_map(|of| of.quantities).map(|(_, of)| of.ci95).collect();
    let count = centre.len();
    let solution = solve(gpu, table, samples, &centre, deviation);
    // The prior adds one row per parameter, so the degrees of freedom are the number of samples.
    let variance = 2.0 * solution.cost / samples.len().max(1) as f64;
    // Of the log parameters. The prior's rows make the normal matrix positive definite; where
    // rounding undoes that, the prior is all that is known.
    let inverse = solution.inverse_normal.as_ref().map_or_else(
        || DMatrix::from_diagonal_element(count, count, (deviation / LOSS_SCALE).powi(2)),
        |inverse| inverse * COORDINATE * COORDINATE,
    );
    let parameters: Vec<Fitted> = centre
        .iter()
        .enumerate()
        .map(|(position, &(index, key, base))| {
            let log = log_of(base, solution.parameters[position]);
            let of_it = inverse[(position, position)];
            let prior_left = of_it * (LOSS_SCALE / deviation).powi(2);
            let of_base = known.get(index).copied().flatten().map_or(0.0, log_deviation);
            let half = DEVIATIONS_95 * (of_it * variance).sqrt().min(deviation).hypot(prior_left * of_base);
            let value = rounded(log.exp(), VALUE_DIGITS);
            let [low, high] = [log - half, log + half]
                .map(|log| rounded(log.clamp(LOG_RANGE[0], LOG_RANGE[1]).exp(), INTERVAL_DIGITS));
            let ci95 = [low.min(value), high.max(value)];
            Fitted { key, base, value, ci95, informed: prior_left < UNINFORMED_VARIANCE_RATIO }
        })
        .collect();
    if let Some(written) = gpu.parameters_mut(table) {
        source.clone_into(written.source);
        // Runs that inform no parameter leave the basis of the prior's values.
        if parameters.iter().any(|fitted| fitted.informed) {
            *written.basis = Basis::Measured;
        }
        let mut quantities = written.quantities;
        for (&(index, ..), fitted) in centre.iter().zip(&parameters) {
            *quantities[index].1 = fitted.quantity(source, 1.0);
        }
    }
    TableFit {
        table,
        layers: samples.len(),
        held_out: 0,
        converged: solution.converged,
        is_of_base: None,
        parameters,
        trade_offs: trade_offs(&centre, &inverse),
        covariance: (0..count)
            .map(|row| (0..=row).map(|column| inverse[(row, column)] * variance).collect())
            .collect(),
    }
}

/// The parameters of `table` that are fitted: index in the table, key and value.
fn centre(gpu: &mut Gpu, table: KernelTable) -> Vec<(usize, &'static str, f64)> {
    // A core of a CPU device runs the threads of a group one after another, so a loop takes the sum of
    // their times. As most groups have equally many threads, a latency could not be distinguished from
    // it.
    let hides_latency = !gpu.family.rules().runs_threads_in_turn;
    // A parameter of 0 is switched off, and has no logarithm.
    gpu.parameters_mut(table)
        .map(|parameters| parameters.quantities)
        .unwrap_or_default()
        .into_iter()
        .enumerate()
        .filter(|(_, (_, quantity))| quantity.value > 0.0)
        .filter(|(_, (key, _))| hides_latency || !key.starts_with(LATENCY))
        .map(|(index, (key, quantity))| (index, key, quantity.value))
        .collect()
}

/// The log parameter at a coordinate of the search.
fn log_of(base: f64, coordinate: f64) -> f64 {
    (base.ln() + COORDINATE * coordinate).clamp(LOG_RANGE[0], LOG_RANGE[1])
}

/// Starting point that shifts log latencies up by `lean` and log throughputs down; see [`STARTS`].
fn start(centre: &[(usize, &'static str, f64)], lean: f64) -> Vec<f64> {
    let coordinate = |&(_, key, _): &(usize, &str, f64)| {
        let direction = match key {
            _ if key.starts_with(LATENCY) => 1.0,
            _ if key.starts_with("throughput") => -1.0,
            _ => 0.0,
        };
        direction * lean / COORDINATE
    };
    centre.iter().map(coordinate).collect()
}

/// Minimises the loss in stages from each start, and returns the best solution.
fn solve(
    gpu: &Gpu,
    table: KernelTable,
    samples: &[Sample<'_>],
    centre: &[(usize, &'static str, f64)],
    deviation: f64,
) -> Solution {
    let mut trial = gpu.clone();
    let mut stage = |start: Vec<f64>, scale: f64, stop: Stop| {
        minimise(start, stop, |coordinates| {
            if let Some(mut parameters) = trial.parameters_mut(table) {
                for (&(index, _, base), &coordinate) in centre.iter().zip(coordinates) {
                    parameters.quantities[index].1.value = log_of(base, coordinate).exp();
                }
            }
            let error = |sample: &Sample<'_>| {
                // A layer without a prediction makes the residual NaN, which rejects the step.
                let log_us = predict(sample.layer, &trial).map_or(f64::NAN, f64::ln);
                sample.weight.sqrt() * pseudo_huber(log_us - sample.log_us, scale)
            };
            let away = |coordinate: &f64| LOSS_SCALE * COORDINATE * coordinate / deviation;
            samples.iter().map(error).chain(coordinates.iter().map(away)).collect()
        })
    };
    let [first, last] = LOSS_STAGES;
    let mut from = |lean: f64| {
        let rough = stage(start(centre, lean), first, ROUGH_STOP);
        stage(rough.parameters, last, FINE_STOP)
    };
    let [middle, others @ ..] = STARTS;
    let mut best = from(middle);
    if samples.len() >= MANY_LAYERS {
        for lean in others {
            best = better(best, from(lean));
        }
        // Depthwise convolutions are of all sizes, so the gradient finds their cache size.
        let position =
            centre.iter().position(|&(_, key, _)| key == GRID_SEARCHED && table != KernelTable::Depthwise);
        if let Some(position) = position {
            let grid = (-GRID_STEPS..=GRID_STEPS).map(|step| {
                let mut at = best.parameters.clone();
                at[position] = f64::from(step) * GRID_RATIO.ln() / COORDINATE;
                stage(at, last, GRID_STOP)
            });
            if let Some(least) = grid.min_by(|a, b| a.cost.total_cmp(&b.cost)) {
                best = better(best, stage(least.parameters, last, FINE_STOP));
            }
        }
    }
    best
}

/// The one with the lower cost; the first of equals.
fn better(one: Solution, other: Solution) -> Solution {
    if other.cost < one.cost { other } else { one }
}

/// The pairs of parameters that trade off, from the inverse normal matrix of the log parameters.
fn trade_offs(centre: &[(usize, &'static str, f64)], inverse: &DMatrix<f64>) -> Vec<TradeOff> {
    let pairs = (0..centre.len()).flat_map(|row| (row + 1..centre.len()).map(move |column| (row, column)));
    let trade_off = |(row, column)| {
        let scale = (inverse[(row, row)] * inverse[(column, column)]).sqrt();
        TradeOff { keys: [row, column].map(|at| centre[at].1), correlation: inverse[(row, column)] / scale }
    };
    pairs.map(trade_off).filter(|pair| pair.correlation.abs() >= TRADE_OFF_CORRELATION).collect()
}

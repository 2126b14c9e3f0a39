//! Fit of the rates of an NPU's compiled graphs to the times of whole models.
//!
//! Responsible for: the rates of `[npu.compiled]`, their intervals, and the predictions of held-out
//! families of models. Not for: the equations (`coexec_sim::kernel::npu::compiled`), or reading
//! measurements. Invariant: a held-out prediction comes from a fit that has seen no model of its
//! family.
//!
//! Without known rates, every rate is a parameter, with a prior common to one maker's NPUs. From those of
//! another chip, a chip is treated as a faster or slower one of the same make: the parameters are five speeds
//! relative to it, which stay near each other where few models are measured. From its own, it hardly moves.

mod parameters;

use std::collections::{BTreeMap, BTreeSet};

use rayon::prelude::*;

use self::parameters::{Setting, expected};
use super::MAX_TIME_RATIO;
use super::conformal::factor_interval;
use super::gpu::Fitted;
use super::least_squares::{Posterior, Stop, cauchy, minimise, pseudo_huber};
use crate::measure::ai_hub::Times;
use crate::measure::{Inference, SkippedRow, usable};
use crate::validate::point::Point;
use coexec_sim::device::npu::compiled::CompiledGraphs;
use coexec_sim::kernel::npu::compiled::Graph;
use coexec_sim::statistics::median;
use coexec_sim::{DataType, ProcessorKind};

/// Error from which the loss grows linearly, also the expected error of a good fit: two versions of
/// the compiler differ by 5.6 % on the same model (`data/aihub`).
const LOSS_SCALE: f64 = 0.1;

/// Log error relative to another chip from which the loss flattens: few models are measured, and one may be wrong. Of
/// scales and expected errors of 0.1 to 0.2, these predict other families best from 3 models of which one takes five
/// times too long (20 draws on three Snapdragons relative to the 8 Gen 3, `data/aihub`: 19 % off, with Huber's loss
/// 35 %). With no wrong model they are as good, but up to 1.5 points worse relative to the 8 Gen 1.
const RELATIVE_LOSS_SCALE: f64 = 0.15;
/// Expected log error of a model by such a fit; see [`RELATIVE_LOSS_SCALE`].
const RELATIVE_ERROR: f64 = 0.17;

/// Spread of the log ratios of times on two chips, relative to that of predicted over measured times, below which the
/// times on the other chip replace its predictions. From 3 models, that predicts other families on the Snapdragon 8 Gen 2
/// and 8 Elite 1 and 3 points better relative to the 8 Gen 3 (`data/aihub`); without this limit, it would be up to 2
/// points worse relative to the 8 Gen 1.
const COMMON_SPREAD: f64 = 0.6;

/// Standard deviations of a median of errors on the other chip from which all its times count as longer or shorter:
/// by a slower runtime, for example, which this chip's times then share.
const COMMON_DEVIATIONS: f64 = 4.0;

/// Iterations after which a fit stops: more change no prediction by a tenth of a percent.
const ITERATIONS: usize = 30;

/// The rates known before the runs.
#[derive(Clone, Copy, Debug)]
pub enum Known<'a> {
    /// Only what is common to one maker's NPUs.
    Maker,
    /// Those of another chip of the same make.
    OtherChip(&'a CompiledGraphs),
    /// Those of this chip, fitted to other runs of it.
    ThisChip(&'a CompiledGraphs),
}

impl<'a> Known<'a> {
    fn rates(self) -> Option<&'a CompiledGraphs> {
        match self {
            Known::Maker => None,
            Known::OtherChip(rates) | Known::ThisChip(rates) => Some(rates),
        }
    }

    /// The expected error of a model, and the loss of an error.
    fn loss(self) -> (f64, fn(f64) -> f64) {
        match self {
            Known::OtherChip(_) => (RELATIVE_ERROR, |error| cauchy(error, RELATIVE_LOSS_SCALE)),
            Known::Maker | Known::ThisChip(_) => (LOSS_SCALE, |error| pseudo_huber(error, LOSS_SCALE)),
        }
    }
}

/// A whole model measured on an NPU.
#[derive(Clone, Debug)]
pub struct MeasuredGraph<'a> {
    /// The measurement.
    pub run: &'a Inference,
    /// The graph that was compiled, in the number format of the run.
    pub graph: Graph,
    /// The time of the same on the chip of the known rates, if it was measured there.
    pub known_us: Option<f64>,
}

impl MeasuredGraph<'_> {
    fn family(&self) -> &str {
        &self.run.what.family
    }

    fn data_type(&self) -> DataType {
        self.run.what.format.data_type(self.run.what.unit)
    }
}

/// The reference runs of models on an NPU with their graphs, and the runs that cannot be fitted: whose graph
/// cannot be compiled, or whose time is in another unit than most.
pub fn measured<'a>(known: Known<'_>, runs: &'a [Inference]) -> (Vec<MeasuredGraph<'a>>, Vec<SkippedRow>) {
    let expected = expected();
    let rates = known.rates().unwrap_or(&expected);
    let counts = |run: &&Inference| run.what.unit == ProcessorKind::Npu && run.what.is_reference;
    let (mut graphs, mut left_out) = usable(runs.iter().filter(counts).map(|run| {
        let graph = Graph::of_stages(&run.what.network.stages, rates.on_chip_bytes.value);
        (run.line, graph.map(|graph| MeasuredGraph { run, graph, known_us: None }))
    }));
    let ratio =
        |graph: &MeasuredGraph<'_>| graph.run.measured_us / graph.graph.micros(rates).unwrap_or(f64::NAN);
    let ratios: Vec<f64> = graphs.iter().map(ratio).filter(|ratio| ratio.is_finite()).collect();
    let Some(usual) = median(&ratios) else { return (graphs, left_out) };
    graphs.retain(|graph| {
        let times = ratio(graph) / usual;
        let is_far = times.max(times.recip()) > MAX_TIME_RATIO;
        if is_far {
            let reason = format!(
                "{} takes {times:.1e} times what the other models suggest: is its time in the same unit?",
                graph.run.network
            );
            left_out.push(SkippedRow { line: graph.run.line, reason });
        }
        !is_far
    });
    (graphs, left_out)
}

/// Adds the `times` of the same models on the chip of the known rates.
pub fn pair(graphs: &mut [MeasuredGraph<'_>], times: &Times) {
    for MeasuredGraph { run, known_us, .. } in graphs {
        *known_us = times.get(&(run.network.clone(), run.what.runtime, run.what.format)).copied();
    }
}

/// Fitted rates.
#[derive(Clone, Debug, PartialEq)]
pub struct NpuFit {
    /// The rates.
    pub compiled: CompiledGraphs,
    /// The fitted parameters: each rate, or the five speeds relative to a base.
    pub parameters: Vec<Fitted>,
}

/// Fits rates to `graphs`; `source` describes the runs. None without a run.
pub fn fit(known: Known<'_>, graphs: &[MeasuredGraph<'_>], source: &str) -> Option<NpuFit> {
    let references: Vec<&MeasuredGraph<'_>> = graphs.iter().collect();
    (!references.is_empty()).then(|| solve(known, &references, source))
}

/// Predictions of models by fits that have seen none of their family, in the order of `graphs`. The
/// 90 % interval of each comes from the errors of the other families in its number format.
pub fn held_out(known: Known<'_>, graphs: &[MeasuredGraph<'_>], source: &str) -> Vec<Point> {
    let families: BTreeSet<&str> = graphs.iter().map(MeasuredGraph::family).collect();
    let predict = |family: &str| -> Vec<(usize, f64)> {
        let seen: Vec<&MeasuredGraph<'_>> = graphs.iter().filter(|graph| graph.family() != family).collect();
        if seen.is_empty() {
            return Vec::new();
        }
        let compiled = solve(known, &seen, source).compiled;
        let members = graphs.iter().enumerate().filter(|(_, graph)| graph.family() == family);
        members.filter_map(|(index, graph)| Some((index, graph.graph.micros(&compiled).ok()?))).collect()
    };
    // By index of the graph.
    let predicted: BTreeMap<usize, f64> = families.into_par_iter().flat_map_iter(predict).collect();
    let point = |(&index, &predicted_us): (&usize, &f64)| {
        let graph = &graphs[index];
        let others = predicted.iter().map(|(&other, micros)| (&graphs[other], micros));
        let others = others.filter(|(other, _)| other.family() != graph.family());
        let alike = others.filter(|(other, _)| other.data_type() == graph.data_type());
        let factors = alike.map(|(other, micros)| other.run.measured_us / micros).collect();
        let point = Point::of(graph.run, graph.run.what.group(), graph.run.network.clone(), predicted_us);
        let interval = |predicted| Some(factor_interval(factors)?.map(|end| predicted * end));
        Point { unseen: true, ..point.within(interval) }
    };
    predicted.iter().map(point).collect()
}

/// The rates of a chip that is `times_faster` than that of `base` in multiply-accumulates with floats
/// and with integers, its vector unit, its memory, and its fixed costs. Sources and intervals stay the
/// base's.
pub fn at_speeds(base: &CompiledGraphs, times_faster: [f64; 5]) -> CompiledGraphs {
    Setting::of(Known::OtherChip(base), false, false).at(&times_faster.map(f64::ln))
}

fn solve(known: Known<'_>, graphs: &[&MeasuredGraph<'_>], source: &str) -> NpuFit {
    let has = |format: DataType| graphs.iter().any(|graph| graph.data_type() == format);
    let setting = Setting::of(known, has(DataType::I8), has(DataType::W8A16) || has(DataType::W4A16));
    let deviations = setting.deviations();
    let stop = Stop { iterations: ITERATIONS, ..Stop::default() };
    let (expected, loss) = known.loss();
    let mut start = setting.start();
    let mut measured_us: Vec<f64> = graphs.iter().map(|graph| graph.run.measured_us).collect();
    if let Known::OtherChip(rates) = known {
        let predicted_us: Vec<f64> =
            graphs.iter().map(|graph| graph.graph.micros(rates).unwrap_or(f64::NAN)).collect();
        without_common_errors(graphs, &predicted_us, &mut measured_us);
        // The loss has several minima: that of most models is sought.
        let speeds = predicted_us.iter().zip(&measured_us).map(|(predicted, measured)| predicted / measured);
        let speeds: Vec<f64> = speeds.map(f64::ln).collect();
        start.fill(median(&speeds).filter(|speed| speed.is_finite()).unwrap_or_default());
    }
    let solution = minimise(start, stop, |coordinates| {
        let compiled = setting.at(coordinates);
        let errors = graphs.iter().zip(&measured_us).map(|(graph, measured_us)| {
            loss((graph.graph.micros(&compiled).unwrap_or(f64::NAN) / measured_us).ln())
        });
        errors.chain(setting.away_from_prior(coordinates).into_iter().map(|away| expected * away)).collect()
    });
    let posteriors = deviations.iter().enumerate();
    let posteriors: Vec<Posterior> = posteriors
        .map(|(index, &deviation)| solution.posterior(index, (deviation, expected), graphs.len()))
        .collect();
    let compiled = setting.rounded_at(&solution.parameters, &posteriors, source);
    NpuFit { parameters: setting.fitted(&posteriors), compiled }
}

/// Divides `measured_us` by the errors of the known rates on their own chip, if models were measured on both chips and
/// these errors are most of those on this one: a rule that is wrong about a model says nothing about a chip. An error of
/// all models remains.
fn without_common_errors(graphs: &[&MeasuredGraph<'_>], predicted_us: &[f64], measured_us: &mut [f64]) {
    let paired = graphs.iter().zip(predicted_us).filter_map(|(graph, predicted_us)| {
        let known_us = graph.known_us?;
        Some(((predicted_us / graph.run.measured_us).ln(), (known_us / graph.run.measured_us).ln()))
    });
    let (by_rules, by_times): (Vec<f64>, Vec<f64>) = paired.unzip();
    if spread(&by_times) < COMMON_SPREAD * spread(&by_rules) {
        let errors: Vec<f64> = by_times.iter().zip(&by_rules).map(|(time, rule)| time - rule).collect();
        let of_all = median(&errors).unwrap_or_default();
        let paired = graphs.iter().filter(|graph| graph.known_us.is_some());
        let networks: BTreeSet<&str> = paired.map(|graph| graph.run.network.as_str()).collect();
        let chance = COMMON_DEVIATIONS * RELATIVE_ERROR / (networks.len() as f64).sqrt();
        let kept = if of_all.abs() > chance { of_all.exp() } else { 1.0 };
        for ((graph, predicted_us), measured_us) in graphs.iter().zip(predicted_us).zip(measured_us) {
            *measured_us *= graph.known_us.map_or(1.0, |known_us| kept * predicted_us / known_us);
        }
    }
}

/// Mean absolute deviation from the median; NaN for no values.
fn spread(values: &[f64]) -> f64 {
    let middle = median(values).unwrap_or_default();
    values.iter().map(|value| (value - middle).abs()).sum::<f64>() / values.len() as f64
}

#[cfg(test)]
mod tests;

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
use super::least_squares::{Posterior, Stop, minimise, pseudo_huber};
use crate::measure::{Inference, SkippedRow, usable};
use crate::validate::point::Point;
use coexec_sim::device::npu::compiled::CompiledGraphs;
use coexec_sim::kernel::npu::compiled::Graph;
use coexec_sim::statistics::median;
use coexec_sim::{DataType, ProcessorKind};

/// Error from which the loss grows linearly, also the expected error of a good fit: two versions of
/// the compiler differ by 5.6 % on the same model (`data/aihub`).
const LOSS_SCALE: f64 = 0.1;

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
}

/// A whole model measured on an NPU.
#[derive(Clone, Debug)]
pub struct MeasuredGraph<'a> {
    /// The measurement.
    pub run: &'a Inference,
    /// The graph that was compiled, in the number format of the run.
    pub graph: Graph,
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
        (run.line, graph.map(|graph| MeasuredGraph { run, graph }))
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
    let solution = minimise(setting.start(), stop, |coordinates| {
        let compiled = setting.at(coordinates);
        let error = |graph: &&MeasuredGraph<'_>| {
            let micros = graph.graph.micros(&compiled).unwrap_or(f64::NAN);
            pseudo_huber((micros / graph.run.measured_us).ln(), LOSS_SCALE)
        };
        let away = setting.away_from_prior(coordinates).into_iter().map(|away| LOSS_SCALE * away);
        graphs.iter().map(error).chain(away).collect()
    });
    let posteriors = deviations.iter().enumerate();
    let posteriors: Vec<Posterior> = posteriors
        .map(|(index, &deviation)| solution.posterior(index, (deviation, LOSS_SCALE), graphs.len()))
        .collect();
    let compiled = setting.rounded_at(&solution.parameters, &posteriors, source);
    NpuFit { parameters: setting.fitted(&posteriors), compiled }
}

#[cfg(test)]
mod tests;

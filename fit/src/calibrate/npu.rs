//! Fit of the rates of an NPU's compiled graphs to the times of whole models.
//!
//! Responsible for: the rates of `[npu.compiled]`, their intervals, and the predictions of held-out
//! families of models. Not for: the equations (`coexec_sim::kernel::npu::compiled`), or reading
//! measurements. Invariant: a held-out prediction comes from a fit that has seen no model of its
//! family.
//!
//! Without a base, every rate is a parameter, with a prior common to one maker's NPUs. With a base,
//! the chip is treated as a faster or slower one of the same make: the parameters are five speeds
//! relative to the base, which stay near each other where few models are measured.

mod parameters;

use std::collections::{BTreeMap, BTreeSet};

use rayon::prelude::*;

use self::parameters::{Setting, expected};
use super::conformal::factor_interval;
use super::gpu::Fitted;
use super::least_squares::{Posterior, Stop, minimise, pseudo_huber};
use crate::measure::{Inference, SkippedRow, usable};
use crate::validate::point::Point;
use coexec_sim::device::npu::compiled::CompiledGraphs;
use coexec_sim::kernel::npu::compiled::Graph;
use coexec_sim::{DataType, ProcessorKind};

/// Error from which the loss grows linearly, also the expected error of a good fit: two versions of
/// the compiler differ by 5.6 % on the same model (`data/aihub`).
const LOSS_SCALE: f64 = 0.1;

/// Iterations after which a fit stops: more change no prediction by a tenth of a percent.
const ITERATIONS: usize = 30;

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

/// The reference runs of models on an NPU with their graphs, and the runs whose graph cannot be
/// compiled.
pub fn measured<'a>(
    base: Option<&CompiledGraphs>,
    runs: &'a [Inference],
) -> (Vec<MeasuredGraph<'a>>, Vec<SkippedRow>) {
    let on_chip_bytes = base.map_or_else(|| expected().on_chip_bytes.value, |base| base.on_chip_bytes.value);
    let counts = |run: &&Inference| run.what.unit == ProcessorKind::Npu && run.what.is_reference;
    usable(runs.iter().filter(counts).map(|run| {
        let graph = Graph::of_stages(&run.what.network.stages, on_chip_bytes);
        (run.line, graph.map(|graph| MeasuredGraph { run, graph }))
    }))
}

/// Fitted rates.
#[derive(Clone, Debug, PartialEq)]
pub struct NpuFit {
    /// The rates.
    pub compiled: CompiledGraphs,
    /// The fitted parameters: each rate, or the five speeds relative to a base.
    pub parameters: Vec<Fitted>,
}

/// Fits rates to `graphs`, relative to those of `base` if any; `source` describes the runs. None
/// without a run.
pub fn fit(base: Option<&CompiledGraphs>, graphs: &[MeasuredGraph<'_>], source: &str) -> Option<NpuFit> {
    let references: Vec<&MeasuredGraph<'_>> = graphs.iter().collect();
    (!references.is_empty()).then(|| solve(base, &references, source))
}

/// Predictions of models by fits that have seen none of their family, in the order of `graphs`. The
/// 90 % interval of each comes from the errors of the other families in its number format.
pub fn held_out(base: Option<&CompiledGraphs>, graphs: &[MeasuredGraph<'_>], source: &str) -> Vec<Point> {
    let families: BTreeSet<&str> = graphs.iter().map(MeasuredGraph::family).collect();
    let predict = |family: &str| -> Vec<(usize, f64)> {
        let seen: Vec<&MeasuredGraph<'_>> = graphs.iter().filter(|graph| graph.family() != family).collect();
        if seen.is_empty() {
            return Vec::new();
        }
        let compiled = solve(base, &seen, source).compiled;
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
    Setting::of(Some(base), false, false).at(&times_faster.map(f64::ln))
}

fn solve(base: Option<&CompiledGraphs>, graphs: &[&MeasuredGraph<'_>], source: &str) -> NpuFit {
    let has = |format: DataType| graphs.iter().any(|graph| graph.data_type() == format);
    let setting = Setting::of(base, has(DataType::I8), has(DataType::W8A16) || has(DataType::W4A16));
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
    let known = deviations.iter().enumerate();
    let known: Vec<Posterior> = known
        .map(|(index, &deviation)| solution.posterior(index, (deviation, LOSS_SCALE), graphs.len()))
        .collect();
    let compiled = setting.rounded_at(&solution.parameters, &known, source);
    NpuFit { parameters: setting.fitted(&known), compiled }
}

#[cfg(test)]
mod tests;

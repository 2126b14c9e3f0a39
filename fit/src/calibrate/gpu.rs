//! Fit of a GPU's kernel tables to measured layers.
//!
//! Responsible for: which run belongs to which table, the order of the fits, and
//! cross-validation by network. Not for: the fit of one table (`fit`). Invariants:
//! cross-validated errors are of networks that the fit has not seen; a seed gives the
//! same result on any number of threads.

pub mod design;
mod deviations;
mod fit;
pub mod inferences;
mod kernel_ridge;
mod optional;
pub mod prior;
mod residual;
mod spread;

use std::collections::{BTreeSet, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;

use super::{Options, Progress, SAME_DEVICE_ERROR, mean_error};
use crate::measure::{GpuRun, SkippedRow, usable};
use crate::validate::gpu::{Predictor, deviations, predict};
use crate::validate::interval::around;
use crate::validate::point::Point;
use coexec_sim::device::gpu::{Gpu, KernelTable, Parameters, Residual, ResidualTable, TableSpread};
use coexec_sim::kernel::gpu::execute;
use coexec_sim::{Basis, Operator};

pub use fit::{Fitted, TableFit, TradeOff};
use optional::switch_on;
use spread::HeldOut;

/// Prior standard deviation of a log parameter around the base's value: one deviation
/// is a factor of 4.5.
const PRIOR_DEVIATION: f64 = 1.5;
/// The same around values that were measured on the device itself.
const SAME_DEVICE_DEVIATION: f64 = 0.1;
/// The same of grouped convolution around what was carried over to the device from measured ones, or else around
/// generic convolution, whose variant it is. Fitted to 3 or 10 networks of each of six phones, other networks' grouped
/// convolutions are 9.8 % off around the former and 12.5 % around the latter (`data/mobile-ml-benchmark`); around
/// another phone's own table, 16.4 % rather than 14.0 %.
const GROUPED_DEVIATION: f64 = 0.5;

/// A fitted GPU.
#[derive(Clone, Debug, PartialEq)]
pub struct Calibrated {
    /// The base with its fitted tables.
    pub gpu: Gpu,
    /// The fit of each table.
    pub tables: Vec<TableFit>,
    /// Each run with its prediction by the fit that has not seen its network, in the
    /// order of the folds; empty without folds, or where all runs are of one network.
    /// The 90 % interval is calibrated on the errors of the other folds. Without runs whose table no
    /// run of other networks informs: their prediction would be the base's.
    pub held_out: Vec<Point>,
    /// The fits of the cross-validation.
    pub folds: Vec<Fold>,
    /// Spread of the prediction errors of each table of `gpu`, from the cross-validated
    /// errors: the profile's `[calibration]`, from which intervals are made.
    pub spreads: Vec<TableSpread>,
    /// Benefit of each table's learned correction: the fraction by which it lowers the
    /// held-out error (mean absolute log error) of the equations alone, negative where it
    /// raises the error. Empty without folds.
    pub gains: Vec<(KernelTable, f64)>,
    /// Runs that no table of the base describes.
    pub left_out: Vec<SkippedRow>,
}

/// A fit that holds some networks out.
#[derive(Clone, Debug, PartialEq)]
pub struct Fold {
    /// The base with the tables of that fit.
    pub gpu: Gpu,
    /// Names of the held-out networks.
    pub held_out: HashSet<String>,
}

impl Fold {
    fn new(gpu: Gpu, networks: HashSet<&str>) -> Self {
        Self { gpu, held_out: networks.into_iter().map(str::to_owned).collect() }
    }
}

/// Folds of `networks` for a fit that keeps the kernels of `gpu`, which has seen none of them.
pub fn folds_of_unseen<'a>(
    gpu: &Gpu,
    networks: impl Iterator<Item = &'a str>,
    folds: usize,
    seed: u64,
) -> Vec<Fold> {
    deal(networks, folds, seed).into_iter().map(|fold| Fold::new(gpu.clone(), fold)).collect()
}

/// Fits the tables of `base` to `runs`. The values of `base` are the centre of the
/// prior; its counts and rules are not fitted. A parameter that is 0 in `base` stays 0.
/// Where `base` predicts the runs to within `SAME_DEVICE_ERROR`, they are treated as runs of the
/// device that it was measured on: a measured table then keeps a tight prior and its learned
/// correction, unless a refit from scratch has a lower error.
pub fn calibrate(base: &Gpu, runs: &[GpuRun], options: &Options<'_>, progress: Progress<'_>) -> Calibrated {
    let mut base = base.clone();
    base.grouped_conv.get_or_insert_with(|| base.conv_generic.clone());
    let (classified, left_out) = classify(&base, runs);
    let networks = classified.iter().map(|member| member.run.network.as_str());
    let folds = deal(networks, options.folds, options.seed);
    let done = AtomicUsize::new(0);
    let fit = |held_out: Option<&HashSet<&str>>| {
        let is_used = |member: &&Classified<'_>| {
            held_out.is_none_or(|networks| !networks.contains(member.run.network.as_str()))
        };
        let used: Vec<Classified<'_>> = classified.iter().filter(is_used).copied().collect();
        let fitted = fit_tables(&base, &used, options);
        progress(done.fetch_add(1, Ordering::Relaxed) + 1, folds.len() + 1);
        fitted
    };
    let ((gpu, mut tables), without_fold) =
        rayon::join(|| fit(None), || folds.par_iter().map(|fold| fit(Some(fold))).collect::<Vec<_>>());
    let held_out = held_out(&classified, &folds, &without_fold);
    for fit in &mut tables {
        fit.held_out = held_out.iter().flatten().filter(|held| held.uncertainty.table == fit.table).count();
    }
    let of_fold = |((gpu, _), networks): ((Gpu, Vec<TableFit>), HashSet<&str>)| Fold::new(gpu, networks);
    Calibrated {
        spreads: spread::spreads(&tables, &held_out.iter().flatten().collect::<Vec<_>>()),
        held_out: held_out_points(&held_out, &without_fold),
        gains: gains(&gpu, &held_out),
        folds: without_fold.into_iter().zip(folds).map(of_fold).collect(),
        gpu,
        tables,
        left_out,
    }
}

/// A run and the table that describes it.
#[derive(Clone, Copy)]
struct Classified<'a> {
    table: KernelTable,
    run: &'a GpuRun,
}

/// Finds the table of each run.
fn classify<'a>(base: &Gpu, runs: &'a [GpuRun]) -> (Vec<Classified<'a>>, Vec<SkippedRow>) {
    usable(runs.iter().map(|run| {
        let table = execute(&run.what, base).map(|execution| execution.detail.kernel.table());
        (run.line, table.map(|table| Classified { table, run }))
    }))
}

/// Fits every table that has runs. Grouped convolution comes after generic convolution,
/// whose fit may be the centre of its prior.
fn fit_tables(base: &Gpu, classified: &[Classified<'_>], options: &Options<'_>) -> (Gpu, Vec<TableFit>) {
    let mut gpu = base.without_residual();
    let mut fits = Vec::new();
    let (mut kept, mut learned) = (Vec::new(), Vec::new());
    let all: Vec<&GpuRun> = classified.iter().map(|member| member.run).collect();
    let is_same_device = !options.from_scratch && mean_error(&pairs(base, &all)) <= SAME_DEVICE_ERROR;
    for &table in KernelTable::ALL {
        let runs: Vec<&GpuRun> =
            classified.iter().filter(|member| member.table == table).map(|member| member.run).collect();
        let correction = base.residual.as_ref().and_then(|residual| residual.of(table));
        if runs.is_empty() {
            kept.extend(correction.cloned());
            continue;
        }
        let refit = Candidate::refit(&gpu, (table, &runs), options);
        let was_measured = gpu.parameters_mut(table).is_some_and(|of| *of.basis == Basis::Measured);
        let near_base = (was_measured && is_same_device)
            .then(|| Candidate::near_base(&gpu, correction, (table, &runs), options))
            .filter(|near_base| near_base.error.total_cmp(&refit.error).is_le());
        let is_of_base = was_measured.then_some(near_base.is_some());
        let (chosen, corrections) = match near_base {
            Some(near_base) => (near_base, &mut kept),
            None => (refit, &mut learned),
        };
        gpu = chosen.gpu;
        fits.push(TableFit { is_of_base, ..chosen.fit });
        corrections.extend(chosen.correction);
    }
    gpu.residual = Residual::of_tables([
        (base.residual.as_ref().map_or("", |residual| &residual.source), kept),
        (options.source, learned),
    ]);
    (gpu, fits)
}

/// A GPU with one table fitted to its runs.
struct Candidate {
    gpu: Gpu,
    fit: TableFit,
    correction: Option<ResidualTable>,
    /// Expected mean absolute log error on further runs of this kind.
    error: f64,
}

impl Candidate {
    /// Fitted from a wide prior, whichever device the base is of, with a correction learned from
    /// these runs alone.
    fn refit(gpu: &Gpu, (table, runs): (KernelTable, &[&GpuRun]), options: &Options<'_>) -> Self {
        let mut gpu = gpu.clone();
        let deviation = if table == KernelTable::GroupedConv {
            if gpu.grouped_conv.as_ref().is_none_or(|own| own.basis != Basis::Transferred) {
                gpu.grouped_conv = Some(gpu.conv_generic.clone());
            }
            GROUPED_DEVIATION
        } else {
            PRIOR_DEVIATION
        };
        switch_on(&mut gpu, table);
        let samples = fit::samples(runs);
        let fit = fit::fit_table(&mut gpu, table, &samples, (deviation, false), options.source);
        let is_correctable = options.correctable.contains(&table);
        let learned = is_correctable.then(|| residual::fit_table(&gpu, table, runs, options.seed)).flatten();
        let learned = learned.map(|(correction, error)| (Some(correction), error));
        let (correction, error) = learned.unwrap_or_else(|| {
            // Corrected for the degrees of freedom: as many parameters as layers meet all times,
            // however wrong the equations are.
            let free = samples.len().saturating_sub(fit.parameters.len());
            (None, mean_error(&pairs(&gpu, runs)) * samples.len() as f64 / free as f64)
        });
        Self { gpu, fit, correction, error }
    }

    /// Fitted from a tight prior around the base, which was measured on this device, with the
    /// `correction` that was learned then.
    fn near_base(
        gpu: &Gpu,
        correction: Option<&ResidualTable>,
        (table, runs): (KernelTable, &[&GpuRun]),
        options: &Options<'_>,
    ) -> Self {
        let mut gpu = gpu.clone();
        let moved = |of: Parameters<'_>| format!("{}; moved by the {}", of.source, options.source);
        let source = gpu.parameters_mut(table).map_or_else(String::new, moved);
        let correction = correction.filter(|_| options.correctable.contains(&table)).cloned();
        gpu.residual = Residual::of_tables([("", correction.iter().cloned().collect())]);
        let samples = fit::samples(runs);
        let fit = fit::fit_table(&mut gpu, table, &samples, (SAME_DEVICE_DEVIATION, true), &source);
        let error = mean_error(&pairs(&gpu, runs));
        Self { gpu: gpu.without_residual(), fit, correction, error }
    }
}

/// Predicted and measured times; NaN for a run without a prediction.
fn pairs(gpu: &Gpu, runs: &[&GpuRun]) -> Vec<(f64, f64)> {
    runs.iter().map(|run| (predict(&run.what, gpu).unwrap_or(f64::NAN), run.measured_us)).collect()
}

/// Deals networks into at most `folds` non-empty folds, shuffled by the seed; no folds
/// where there would be fewer than two.
fn deal<'a>(networks: impl Iterator<Item = &'a str>, folds: usize, seed: u64) -> Vec<HashSet<&'a str>> {
    let networks: BTreeSet<&str> = networks.collect();
    let folds = folds.min(networks.len());
    if folds < 2 {
        return Vec::new();
    }
    let mut dealt = vec![HashSet::new(); folds];
    for (network, fold) in networks.iter().zip(super::deal(networks.len(), folds, seed)) {
        dealt[fold].insert(*network);
    }
    dealt
}

/// The held-out runs of each fold, predicted by the fit that has not seen them.
fn held_out(
    classified: &[Classified<'_>],
    folds: &[HashSet<&str>],
    fits: &[(Gpu, Vec<TableFit>)],
) -> Vec<Vec<HeldOut>> {
    let deviation = deviations(classified.iter().map(|member| member.run));
    let predict = |(fold, (gpu, tables)): (&HashSet<&str>, &(Gpu, Vec<TableFit>))| {
        let (held_out, used): (Vec<&Classified<'_>>, Vec<_>) =
            classified.iter().partition(|member| fold.contains(member.run.network.as_str()));
        let known: Vec<TableSpread> = tables.iter().map(spread::known).collect();
        let mut predictor = Predictor::new(gpu, &known, used.iter().map(|member| member.run));
        let seen: HashSet<&Operator> = used.iter().map(|member| &member.run.what.operator).collect();
        let is_fitted = |member: &&Classified<'_>| tables.iter().any(|fit| fit.table == member.table);
        let predictions = held_out.into_iter().filter(is_fitted).filter_map(|member| {
            // A fold's fit has the tables of the base, which describe every classified run.
            let (point, uncertainty) = predictor.point(member.run).ok()?;
            let unseen = !seen.contains(&member.run.what.operator);
            let deviation_us = deviation(member.run);
            Some(HeldOut { point: Point { unseen, deviation_us, ..point }, uncertainty })
        });
        predictions.collect()
    };
    folds.par_iter().zip(fits).map(predict).collect()
}

/// Fraction of the held-out error that the correction of each corrected table of `gpu` removes.
fn gains(gpu: &Gpu, held_out: &[Vec<HeldOut>]) -> Vec<(KernelTable, f64)> {
    let corrected = gpu.residual.iter().flat_map(|residual| &residual.table);
    let gain = |table: KernelTable| {
        let of_table = held_out.iter().flatten().filter(|held| held.uncertainty.table == table);
        let points = of_table.map(|held| &held.point);
        let error = |predicted_us: fn(&Point) -> f64| -> f64 {
            points.clone().map(|point| (predicted_us(point) / point.measured_us).ln().abs()).sum()
        };
        let (with, without) = (error(|point| point.predicted_us), error(|point| point.physics_us));
        (without > 0.0).then(|| (table, 1.0 - with / without))
    };
    corrected.filter_map(|corrected| gain(corrected.table)).collect()
}

/// The held-out points with their intervals.
fn held_out_points(held_out: &[Vec<HeldOut>], fits: &[(Gpu, Vec<TableFit>)]) -> Vec<Point> {
    let mut points = Vec::new();
    for (fold, (members, (_, tables))) in held_out.iter().zip(fits).enumerate() {
        let others = held_out.iter().enumerate().filter(|(other, _)| *other != fold);
        let others: Vec<&HeldOut> = others.flat_map(|(_, others)| others).collect();
        let spreads = spread::spreads(tables, &others);
        points.extend(members.iter().map(|HeldOut { point, uncertainty }| {
            point.clone().within(|predicted| around(predicted, uncertainty, &spreads))
        }));
    }
    points
}

#[cfg(test)]
mod tests;

//! Fit of the rates of TFLite's CPU kernels, of XNNPACK's, or of coexec's own, to times of
//! networks or single layers.
//!
//! Responsible for: one table per core type and number format, from the runs on all its core counts
//! at once, or one factor where its cores never ran alone; the overheads of mixed core sets; the
//! errors on held-out networks, and the intervals from them. Not for: the kernel model, whose
//! equations are only evaluated. Invariants: a held-out prediction comes from a fit that has seen
//! no run of its network; the result depends only on the base, the runs and the options.

mod coexec;
mod cold_caches;
mod common_factor;
mod evidence;
mod fit;
mod mixed;
mod rates;
mod terms;
mod transfer;
mod xnnpack;

use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;
use serde::Serialize;

use super::{Options, Progress};
use crate::measure::{CpuRun, SkippedRow, grouped, usable};
use crate::validate::cpu::{Baselines, point, predict, within};
use crate::validate::point::Point;
use coexec_sim::device::cpu::{CoreSetSpread, Cpu};
use coexec_sim::{DataType, Library};

use crate::calibrate::conformal::factor_interval;
pub use cold_caches::{InNetwork, cold_caches};
use evidence::{Evidence, Usable};
pub use fit::Known;
pub use transfer::{transfer, width};

/// One fitted table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FittedTable {
    /// Name of the cluster.
    pub cluster: String,
    /// Number format: [`DataType::F32`] or [`DataType::I8`].
    pub data_type: DataType,
    /// The library whose kernels' rates it holds.
    pub library: Library,
    /// Number of runs in the fit.
    pub runs: usize,
    /// The fitted parameters.
    pub parameters: Vec<Known>,
}

/// A calibrated CPU.
#[derive(Clone, Debug, PartialEq)]
pub struct Calibration {
    /// The CPU with the tables fitted to all networks.
    pub cpu: Cpu,
    /// The tables that were fitted.
    pub tables: Vec<FittedTable>,
    /// Each run, predicted by a fit that has not seen its network, with an interval from the errors
    /// on the networks of the other folds.
    pub held_out: Vec<Point>,
    /// Interval of the prediction error on each core set, from all `held_out`.
    pub spreads: Vec<CoreSetSpread>,
    /// Runs that were not used, with the reason.
    pub left_out: Vec<SkippedRow>,
}

/// Fits `cpu` to `runs`. The table of a cluster that ran only together with others is scaled by one
/// factor; with TFLite's own kernels it keeps its values, and the overheads of mixed core sets are
/// fitted instead. A cluster that did not run keeps its tables.
pub fn calibrate(cpu: &Cpu, runs: &[CpuRun], options: &Options<'_>, progress: Progress<'_>) -> Calibration {
    let evidence = Evidence::of(cpu, runs, options);
    let folds = options.folds.max(2);
    let fold_of = super::deal(evidence.networks.len(), folds, options.seed);
    let done = AtomicUsize::new(0);
    let fit = |held_out: Option<usize>| {
        let seen = |network: usize| held_out != Some(fold_of[network]);
        let fitted = evidence.fit(cpu, &seen, options);
        progress(done.fetch_add(1, Ordering::Relaxed) + 1, folds + 1);
        fitted
    };
    // The fits are independent of each other.
    let ((cpu, tables), without_fold): (_, Vec<Cpu>) =
        rayon::join(|| fit(None), || (0..folds).into_par_iter().map(|fold| fit(Some(fold)).0).collect());
    let held_out = held_out(&evidence, &fold_of, &without_fold);
    let predicted = evidence.runs.iter().map(|usable| predict(usable.run, &cpu, options.library));
    let (_, unpredicted) = usable(evidence.runs.iter().map(|usable| usable.run.line).zip(predicted));
    let spreads = spreads(held_out.iter());
    let without_fold: Vec<Vec<CoreSetSpread>> = (0..folds)
        .map(|fold| self::spreads(held_out.iter().filter(|(usable, _)| fold_of[usable.network] != fold)))
        .collect();
    let held_out = held_out
        .into_iter()
        .map(|(usable, point)| within(point, usable.run, &without_fold[fold_of[usable.network]]))
        .collect();
    let left_out = evidence.left_out.into_iter().chain(unpredicted).collect();
    Calibration { cpu, tables, held_out, spreads, left_out }
}

/// Each usable run, predicted by the fit that holds its network out, if that fit has seen runs in its
/// number format.
fn held_out<'a>(
    evidence: &Evidence<'a>,
    fold_of: &[usize],
    without_fold: &[Cpu],
) -> Vec<(Usable<'a>, Point)> {
    let fit = |fold: usize| {
        let seen = evidence.runs.iter().filter(|run| fold_of[run.network] != fold);
        Baselines::fit(&without_fold[fold], evidence.library, seen.map(|run| run.run))
    };
    let baselines: Vec<Baselines<'_>> = (0..without_fold.len()).into_par_iter().map(fit).collect();
    let predicted = |usable: &Usable<'a>| {
        let Usable { run, network, .. } = *usable;
        let fold = fold_of[network];
        let informs = |other: &Usable<'_>| {
            fold_of[other.network] != fold && other.run.what.data_type == run.what.data_type
        };
        if !evidence.runs.iter().any(informs) {
            // That fit is the base.
            return None;
        }
        // Only a mixed core set can lack a table: that of a cluster that never ran alone.
        let predicted_us = predict(run, &without_fold[fold], evidence.library).ok()?;
        let point = Point { unseen: true, ..point(run, predicted_us) };
        Some((*usable, baselines[fold].compare(run, point)))
    };
    evidence.runs.iter().filter_map(predicted).collect()
}

/// The intervals of core sets with enough networks, in the order of the held-out runs.
fn spreads<'a>(held_out: impl Iterator<Item = &'a (Usable<'a>, Point)>) -> Vec<CoreSetSpread> {
    let of_cores = |(usable, point): &'a (Usable<'a>, Point)| {
        let what = &usable.run.what;
        ((&what.core_set, what.data_type), point.measured_us / point.predicted_us)
    };
    let spread = |((core_set, data_type), factors): ((&String, DataType), Vec<f64>)| {
        let networks = factors.len() as u32;
        let [low_factor, high_factor] = factor_interval(factors)?;
        Some(CoreSetSpread { core_set: core_set.clone(), data_type, networks, low_factor, high_factor })
    };
    grouped(held_out.map(of_cores)).into_iter().filter_map(spread).collect()
}

#[cfg(test)]
mod tests;

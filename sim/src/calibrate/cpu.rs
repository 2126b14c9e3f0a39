//! Fits the rates of TFLite's CPU kernels to end-to-end times of networks.
//!
//! Responsible for: one table per core type and number format, each from the
//! runs on all its core counts at once; the factor of mixed core sets; and the
//! errors on networks kept out of the fit. Not for: the kernel model, whose
//! equations are only evaluated. Invariant: a held-out prediction comes from a
//! fit that saw no run of its network; the result depends on the runs, the
//! options and nothing else.

mod fit;
mod rates;
mod terms;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use serde::Serialize;

use crate::device::cpu::Cpu;
use crate::device::quantity::Quantity;
use crate::kernel::cpu::CoreSet;
use crate::measure::LeftOut;
use crate::measure::benchmark_cpu::CpuTable;
use crate::validate::cpu::{Layers, Predicted, layers, predict};
use crate::workload::DataType;

pub use fit::Known;
use fit::{Fit, Observation, fit};
use rates::{Prior, table_mut};
use terms::Terms;

/// Nanoseconds in a microsecond.
const NANOS_PER_MICRO: f64 = 1e3;

/// How to calibrate.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// Parts the networks are divided into; each is predicted by a fit on the
    /// others. At least 2.
    pub folds: usize,
    /// Seed of the division.
    pub seed: u64,
    /// CPUs of other devices, whose tables say what to expect of a core type
    /// before any run; generic figures of its class do where there are none.
    pub others: &'a [Cpu],
    /// What the tables' `source` says.
    pub source: &'a str,
}

/// One fitted table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FittedTable {
    /// Name of the cluster.
    pub cluster: String,
    /// Number format: [`DataType::F32`] or [`DataType::I8`].
    pub data_type: DataType,
    /// Runs it was fitted to.
    pub runs: usize,
    /// How well its parameters are known.
    pub parameters: Vec<Known>,
}

/// A calibrated CPU.
#[derive(Clone, Debug, PartialEq)]
pub struct Calibration {
    /// The CPU with the fitted tables, from all networks.
    pub cpu: Cpu,
    /// The tables that were fitted.
    pub tables: Vec<FittedTable>,
    /// Each run, predicted by a fit that did not see its network.
    pub held_out: Vec<Predicted>,
    /// Runs that were not used, and why.
    pub left_out: Vec<LeftOut>,
}

/// Fits `cpu` to the runs of `table`. Tables of clusters that did not run alone,
/// and the factor of mixed core sets where none ran, stay as they are.
/// `progress` is told how many fits of the CPU are done, and of how many.
pub fn calibrate(
    cpu: &Cpu,
    table: &CpuTable,
    options: &Options<'_>,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Calibration {
    let evidence = Evidence::of(cpu, table, options.others);
    let folds = options.folds.max(2);
    let fold_of = folds_of(evidence.networks.len(), folds, options.seed);
    let done = AtomicUsize::new(0);
    let fit = |held_out: Option<usize>| {
        let seen = |network: usize| held_out != Some(fold_of[network]);
        let fitted = evidence.fit(cpu, &seen, options.source);
        progress(done.fetch_add(1, Ordering::Relaxed) + 1, folds + 1);
        fitted
    };
    // The fits are independent of each other.
    let ((cpu, tables), without_fold): (_, Vec<Cpu>) =
        rayon::join(|| fit(None), || (0..folds).into_par_iter().map(|fold| fit(Some(fold)).0).collect());
    let held_out = evidence.runs.iter().filter_map(|usable| {
        let run = &table.runs[usable.index];
        let fitted = &without_fold[fold_of[usable.network]];
        // Only a mixed core set can lack a table: of a cluster that never ran alone.
        let predicted_us = predict(run, fitted, &evidence.layers).ok()?;
        Some(Predicted { run: run.clone(), predicted_us })
    });
    Calibration { cpu, tables, held_out: held_out.collect(), left_out: evidence.left_out }
}

/// The part that each of `networks` is in, in random order but of equal sizes.
fn folds_of(networks: usize, folds: usize, seed: u64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..networks).collect();
    order.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
    let mut fold_of = vec![0; networks];
    for (place, network) in order.into_iter().enumerate() {
        fold_of[network] = place % folds;
    }
    fold_of
}

/// A run that can be used.
struct Usable {
    /// Index in the table's runs.
    index: usize,
    /// Index of its network.
    network: usize,
    /// Whether cores of two or more clusters worked together.
    mixed: bool,
}

/// The runs on one cluster in one number format.
struct TableRuns {
    cluster: usize,
    data_type: DataType,
    prior: Prior,
    observations: Vec<Observation>,
}

/// What there is to fit to.
struct Evidence<'a> {
    table: &'a CpuTable,
    networks: Vec<&'a str>,
    layers: Layers<'a>,
    runs: Vec<Usable>,
    tables: Vec<TableRuns>,
    left_out: Vec<LeftOut>,
}

impl<'a> Evidence<'a> {
    fn of(cpu: &Cpu, table: &'a CpuTable, others: &[Cpu]) -> Self {
        let names: BTreeSet<&str> = table.runs.iter().map(|run| run.network.as_str()).collect();
        let mut evidence = Self {
            table,
            networks: names.into_iter().collect(),
            layers: layers(&table.networks),
            runs: Vec::new(),
            tables: Vec::new(),
            left_out: Vec::new(),
        };
        for index in 0..table.runs.len() {
            if let Err(reason) = evidence.add(cpu, index, others) {
                evidence.left_out.push(LeftOut { line: table.runs[index].line, reason });
            }
        }
        evidence
    }

    /// Adds the run of that index.
    fn add(&mut self, cpu: &Cpu, index: usize, others: &[Cpu]) -> Result<(), String> {
        let run = &self.table.runs[index];
        let network = self
            .networks
            .binary_search(&run.network.as_str())
            .map_err(|_| format!("the network {} is not listed", run.network))?;
        let layers = self
            .layers
            .get(&(run.network.as_str(), run.data_type))
            .ok_or_else(|| format!("the operators of {} are not known", run.network))?;
        let cores = CoreSet::parse(&run.core_set, cpu).map_err(|error| error.to_string())?;
        let mut groups = cores.groups();
        let (Some(group), None) = (groups.next(), groups.next()) else {
            self.runs.push(Usable { index, network, mixed: true });
            return Ok(());
        };
        let terms = Terms::of(layers, cpu, &cores, group).map_err(|error| error.to_string())?;
        let measured_ns = run.measured_us * NANOS_PER_MICRO;
        let data_type = run.data_type;
        let observation = Observation { network, terms, measured_ns };
        let place = |runs: &&mut TableRuns| runs.cluster == group.cluster && runs.data_type == data_type;
        match self.tables.iter_mut().find(place) {
            Some(runs) => runs.observations.push(observation),
            None => self.tables.push(TableRuns {
                cluster: group.cluster,
                data_type,
                prior: Prior::of(cpu, group.cluster, data_type, others),
                observations: vec![observation],
            }),
        }
        self.runs.push(Usable { index, network, mixed: false });
        Ok(())
    }

    /// `cpu` with every table fitted to the runs of the networks that were `seen`.
    fn fit(&self, cpu: &Cpu, seen: &dyn Fn(usize) -> bool, source: &str) -> (Cpu, Vec<FittedTable>) {
        let mut cpu = cpu.clone();
        let mut tables = Vec::new();
        for runs in &self.tables {
            let observations: Vec<&Observation> =
                runs.observations.iter().filter(|run| seen(run.network)).collect();
            let fitted: Fit = fit(&observations, &runs.prior);
            let cluster = &mut cpu.clusters[runs.cluster];
            tables.push(FittedTable {
                cluster: cluster.name.as_str().to_owned(),
                data_type: runs.data_type,
                runs: observations.len(),
                parameters: fitted.known(),
            });
            *table_mut(cluster, runs.data_type) = Some(fitted.table(source));
        }
        if let Some(factor) = self.mixed_factor(&cpu, seen) {
            cpu.mixed_cluster_factor = factor;
        }
        (cpu, tables)
    }

    /// The median, over the runs of mixed core sets, of measured time over what
    /// `cpu` says without a factor.
    fn mixed_factor(&self, cpu: &Cpu, seen: &dyn Fn(usize) -> bool) -> Option<Quantity> {
        let plain = Cpu { mixed_cluster_factor: Quantity::plain(1.0), ..cpu.clone() };
        let ratio = |usable: &Usable| {
            let run = &self.table.runs[usable.index];
            predict(run, &plain, &self.layers).ok().map(|predicted_us| run.measured_us / predicted_us)
        };
        let mixed = self.runs.iter().filter(|run| run.mixed && seen(run.network));
        median(mixed.filter_map(ratio).collect()).map(|value| Quantity {
            value,
            source: Some("fit: median of measured over predicted times of mixed core sets".to_owned()),
            ci95: None,
        })
    }
}

/// Middle value; none where there is none.
fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(values[middle]),
        _ => Some(f64::midpoint(values[middle - 1], values[middle])),
    }
}

#[cfg(test)]
mod tests;

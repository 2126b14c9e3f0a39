//! Clusters that ran only together with others: one factor on all times of their tables.
//!
//! Times of whole networks on several clusters do not identify single rates, nor even the cluster that
//! is slower than expected; they determine one common factor (six-phone study). With
//! TFLite's own kernels, whose rates come from measured cores, the error on several clusters is
//! attributed to mixed core sets instead (`mixed`).
//!
//! Responsible for: that factor, one per number format. Not for: clusters that ran alone, whose tables
//! are fitted. Invariant: a table keeps the proportions of its times.

use std::collections::BTreeSet;

use super::FittedTable;
use super::fit::Known;
use crate::calibrate::least_squares::{Stop, minimise, pseudo_huber};
use crate::calibrate::{KEYS, Options, change};
use crate::measure::CpuRun;
use crate::validate::cpu::{cores, predict};
use coexec_sim::kernel::cpu::rate_table;
use coexec_sim::statistics::{VALUE_DIGITS, rounded};
use coexec_sim::{Cpu, DataType, Quantity};

/// Key under which the factor is reported.
const FACTOR: &str = "times_factor";
/// Prior deviation of its logarithm: that of all rates of a table together where the base may be
/// another class of core (`xnnpack`).
const DEVIATION: f64 = 0.7;
/// Relative error expected of a prediction, from which the loss grows linearly.
const EXPECTED_ERROR: f64 = 0.05;
/// Stopping criteria: far below the difference of two runs of one network.
const STOP: Stop = Stop { iterations: 30, relative_decrease: 1e-6 };

/// Scales tables of `cpu` to `runs` on several clusters at once, except those of a cluster and number
/// format that are `alone`: fitted to runs on that cluster alone. Returns the scaled tables.
pub(super) fn fit(
    cpu: &mut Cpu,
    runs: &[&CpuRun],
    Options { library, source, .. }: &Options<'_>,
    alone: &dyn Fn(usize, DataType) -> bool,
) -> Vec<FittedTable> {
    let mut moved = Vec::new();
    for &data_type in DataType::ALL {
        let Some(key) = rate_table(*library, data_type) else { continue };
        let is_usable =
            |run: &&&CpuRun| run.what.data_type == data_type && predict(run, cpu, *library).is_ok();
        let runs: Vec<&CpuRun> = runs.iter().filter(is_usable).copied().collect();
        let busy = runs.iter().filter_map(|run| cores(run, cpu).ok());
        let busy = busy.flat_map(|cores| cores.groups().map(|group| group.cluster).collect::<Vec<_>>());
        let clusters: BTreeSet<usize> = busy.filter(|&cluster| !alone(cluster, data_type)).collect();
        if clusters.is_empty() {
            continue;
        }
        let tables = (key, &clusters);
        let solution = minimise(vec![0.0], STOP, |logarithm| {
            let cpu = changed(cpu, tables, |micros| micros * logarithm[0].exp(), "");
            let error = |run: &&CpuRun| {
                let predicted_us = predict(run, &cpu, *library).unwrap_or(f64::NAN);
                pseudo_huber((predicted_us / run.measured_us).ln() / EXPECTED_ERROR, 1.0)
            };
            runs.iter().map(error).chain([logarithm[0] / DEVIATION]).collect()
        });
        let known = solution.posterior(0, (DEVIATION, 1.0), runs.len());
        let (value, ci95) = known.value(1.0);
        let factor =
            Known { key: FACTOR, value, ci95: Some(ci95), informed: known.informed, trades_with: None };
        moved.extend(clusters.iter().map(|&cluster| FittedTable {
            cluster: cpu.clusters[cluster].name.as_str().to_owned(),
            data_type,
            library: *library,
            runs: runs.len(),
            parameters: vec![factor.clone()],
        }));
        let remark = format!("; all times x {value}: {source}");
        *cpu = changed(cpu, tables, |micros| rounded(micros * value, VALUE_DIGITS), &remark);
    }
    moved
}

/// The CPU with `to` applied to all times of the table `key` of `clusters`, and `remark` appended to
/// its source.
fn changed(
    cpu: &Cpu,
    (key, clusters): (&str, &BTreeSet<usize>),
    to: impl Fn(f64) -> f64,
    remark: &str,
) -> Cpu {
    let mut changed = cpu.clone();
    for &index in clusters {
        let cluster = &mut changed.clusters[index];
        let mut written = toml::Table::try_from(&*cluster).expect(KEYS);
        let table = written.get_mut(key).and_then(toml::Value::as_table_mut);
        for (key, entry) in table.into_iter().flatten() {
            if let (true, toml::Value::String(source)) = (key == "source", &mut *entry) {
                source.push_str(remark);
            } else if key.ends_with("_ns") || key.ends_with("_us") {
                let mut quantity: Quantity = entry.clone().try_into().expect(KEYS);
                change(&mut quantity, &to);
                *entry = toml::Value::try_from(quantity).expect(KEYS);
            }
        }
        *cluster = written.try_into().expect(KEYS);
    }
    changed
}

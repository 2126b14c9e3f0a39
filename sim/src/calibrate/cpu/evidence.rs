//! What there is to fit to: the usable runs, sorted by the table they tell of.

use std::collections::BTreeSet;

use super::FittedTable;
use super::fit::{Observation, fit};
use super::mixed;
use super::rates::{Prior, table_mut};
use super::terms::Terms;
use crate::device::cpu::Cpu;
use crate::kernel::cpu::CoreSet;
use crate::measure::LeftOut;
use crate::measure::benchmark_cpu::{CpuRun, CpuTable};
use crate::validate::cpu::{Layers, layers};
use crate::workload::DataType;

/// Nanoseconds in a microsecond.
const NANOS_PER_MICRO: f64 = 1e3;

/// A run that can be used.
#[derive(Clone, Copy)]
pub(super) struct Usable<'a> {
    /// The run.
    pub(super) run: &'a CpuRun,
    /// Index of its network.
    pub(super) network: usize,
    /// Whether cores of two or more clusters worked together.
    pub(super) mixed: bool,
}

/// The runs on one cluster in one number format.
struct TableRuns {
    cluster: usize,
    data_type: DataType,
    prior: Prior,
    observations: Vec<Observation>,
}

/// All that can be used of a table of runs.
pub(super) struct Evidence<'a> {
    /// Names of the networks, in order.
    pub(super) networks: Vec<&'a str>,
    /// Their layers.
    pub(super) layers: Layers<'a>,
    /// The runs, in the order of the table.
    pub(super) runs: Vec<Usable<'a>>,
    tables: Vec<TableRuns>,
    /// Runs that cannot be used, and why.
    pub(super) left_out: Vec<LeftOut>,
}

impl<'a> Evidence<'a> {
    /// Of `table` for a fit of `cpu`, with what the CPUs of `others` let expect.
    pub(super) fn of(cpu: &Cpu, table: &'a CpuTable, others: &[Cpu]) -> Self {
        let names: BTreeSet<&str> = table.runs.iter().map(|run| run.network.as_str()).collect();
        let mut evidence = Self {
            networks: names.into_iter().collect(),
            layers: layers(&table.networks),
            runs: Vec::new(),
            tables: Vec::new(),
            left_out: Vec::new(),
        };
        for run in &table.runs {
            if let Err(reason) = evidence.add(cpu, run, others) {
                evidence.left_out.push(LeftOut { line: run.line, reason });
            }
        }
        evidence
    }

    fn add(&mut self, cpu: &Cpu, run: &'a CpuRun, others: &[Cpu]) -> Result<(), String> {
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
            self.runs.push(Usable { run, network, mixed: true });
            return Ok(());
        };
        let terms = Terms::of(layers, cpu, &cores, group).map_err(|error| error.to_string())?;
        let data_type = run.data_type;
        let observation = Observation { network, terms, measured_ns: run.measured_us * NANOS_PER_MICRO };
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
        self.runs.push(Usable { run, network, mixed: false });
        Ok(())
    }

    /// `cpu` with every table fitted to the runs of the networks that were `seen`.
    pub(super) fn fit(
        &self,
        cpu: &Cpu,
        seen: &dyn Fn(usize) -> bool,
        source: &str,
    ) -> (Cpu, Vec<FittedTable>) {
        let mut cpu = cpu.clone();
        let mut tables = Vec::new();
        for runs in &self.tables {
            let observations: Vec<&Observation> =
                runs.observations.iter().filter(|run| seen(run.network)).collect();
            let fitted = fit(&observations, &runs.prior);
            let cluster = &mut cpu.clusters[runs.cluster];
            tables.push(FittedTable {
                cluster: cluster.name.as_str().to_owned(),
                data_type: runs.data_type,
                runs: observations.len(),
                parameters: fitted.told(),
            });
            *table_mut(cluster, runs.data_type) = Some(fitted.table(source));
        }
        let together: Vec<&CpuRun> =
            self.runs.iter().filter(|run| run.mixed && seen(run.network)).map(|run| run.run).collect();
        mixed::fit(&mut cpu, &together, &self.layers, source);
        (cpu, tables)
    }
}

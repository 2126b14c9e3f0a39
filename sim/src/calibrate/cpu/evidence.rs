//! What there is to fit to: the usable runs, sorted by the table they tell of.

use std::collections::BTreeSet;

use super::fit::{Observation, fit};
use super::mixed;
use super::rates::{Prior, table_mut};
use super::terms::Terms;
use super::{FittedTable, Options, coexec};
use crate::device::cpu::Cpu;
use crate::kernel::cpu::{CoreSet, Group, Library, NANOS_PER_MICRO};
use crate::measure::LeftOut;
use crate::measure::benchmark_cpu::{CpuRun, CpuTable};
use crate::validate::cpu::{Layers, layers};
use crate::workload::DataType;

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

/// The runs of TFLite's kernels on one cluster in one number format.
struct TableRuns {
    cluster: usize,
    data_type: DataType,
    prior: Prior,
    observations: Vec<Observation>,
}

/// The runs of coexec's own kernels on one cluster.
struct OwnRuns {
    cluster: usize,
    prior: coexec::Prior,
    observations: Vec<coexec::Observation>,
}

/// All that can be used of a table of runs.
pub(super) struct Evidence<'a> {
    /// Names of the networks, in order.
    pub(super) networks: Vec<&'a str>,
    /// Their layers.
    pub(super) layers: Layers<'a>,
    /// The runs, in the order of the table.
    pub(super) runs: Vec<Usable<'a>>,
    /// The kernels that ran.
    pub(super) library: Library,
    tables: Vec<TableRuns>,
    own: Vec<OwnRuns>,
    /// Runs that cannot be used, and why.
    pub(super) left_out: Vec<LeftOut>,
}

impl<'a> Evidence<'a> {
    /// Of `table` for a fit of `cpu`, with what the CPUs of other devices let expect.
    pub(super) fn of(cpu: &Cpu, table: &'a CpuTable, options: &Options<'_>) -> Self {
        let names: BTreeSet<&str> = table.runs.iter().map(|run| run.network.as_str()).collect();
        let mut evidence = Self {
            networks: names.into_iter().collect(),
            layers: layers(&table.networks),
            runs: Vec::new(),
            library: options.library,
            tables: Vec::new(),
            own: Vec::new(),
            left_out: Vec::new(),
        };
        for run in &table.runs {
            if let Err(reason) = evidence.add(cpu, run, options.others) {
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
        let measured_ns = run.measured_us * NANOS_PER_MICRO;
        match self.library {
            Library::Ruy => {}
            Library::Coexec if run.data_type == DataType::F32 => {
                let cluster = &cpu.clusters[group.cluster];
                let seen = coexec::Observation::new(network, layers, cluster, &cores, measured_ns);
                self.add_own(cpu, group, seen);
                self.runs.push(Usable { run, network, mixed: false });
                return Ok(());
            }
            other => return Err(format!("there is no fit of {other} in {}", run.data_type)),
        }
        let terms = Terms::of(layers, cpu, &cores, group).map_err(|error| error.to_string())?;
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
        self.runs.push(Usable { run, network, mixed: false });
        Ok(())
    }

    fn add_own(&mut self, cpu: &Cpu, group: Group, observation: coexec::Observation) {
        match self.own.iter_mut().find(|runs| runs.cluster == group.cluster) {
            Some(runs) => runs.observations.push(observation),
            None => self.own.push(OwnRuns {
                cluster: group.cluster,
                prior: coexec::Prior::of(cpu, group.cluster),
                observations: vec![observation],
            }),
        }
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
                library: Library::Ruy,
                runs: observations.len(),
                parameters: fitted.told(),
            });
            *table_mut(cluster, runs.data_type) = Some(fitted.table(source));
        }
        for runs in &self.own {
            let observations: Vec<&coexec::Observation> =
                runs.observations.iter().filter(|run| seen(run.network)).collect();
            let fitted = coexec::fit(&observations, &runs.prior);
            let cluster = &mut cpu.clusters[runs.cluster];
            tables.push(FittedTable {
                cluster: cluster.name.as_str().to_owned(),
                data_type: DataType::F32,
                library: Library::Coexec,
                runs: observations.len(),
                parameters: fitted.told(),
            });
            cluster.coexec_f32 = Some(fitted.table(source));
        }
        if self.library != Library::Ruy {
            return (cpu, tables);
        }
        let together: Vec<&CpuRun> =
            self.runs.iter().filter(|run| run.mixed && seen(run.network)).map(|run| run.run).collect();
        mixed::fit(&mut cpu, &together, &self.layers, source);
        (cpu, tables)
    }
}

//! The usable runs, sorted by the table that they inform.

use std::collections::BTreeSet;

use super::fit::{Observation, Prior, Work};
use super::rates::table_mut;
use super::terms::Terms;
use super::xnnpack::Counts;
use super::{FittedTable, coexec, common_factor, mixed, rates, xnnpack};
use crate::calibrate::{Options, SAME_DEVICE_ERROR, mean_error};
use crate::measure::{CpuRun, SkippedRow};
use crate::validate::cpu::{cores, predict};
use coexec_sim::kernel::cpu::Library;
use coexec_sim::kernel::cpu::coexec::{Caches, Work as CoexecWork};
use coexec_sim::units::NANOS_PER_MICRO;
use coexec_sim::{Basis, Cpu, DataType};

/// A run that can be used.
#[derive(Clone, Copy)]
pub(super) struct Usable<'a> {
    /// The run.
    pub(super) run: &'a CpuRun,
    /// Index of its network.
    pub(super) network: usize,
    /// Whether it used cores of two or more clusters.
    pub(super) mixed: bool,
}

/// The runs on one cluster in one number format.
struct TableRuns {
    cluster: usize,
    data_type: DataType,
    prior: Prior,
    observations: Vec<Observation>,
}

/// The usable runs of a calibration.
pub(super) struct Evidence<'a> {
    /// Names of the networks, in order.
    pub(super) networks: Vec<&'a str>,
    /// The runs, in the order of the table.
    pub(super) runs: Vec<Usable<'a>>,
    /// The library whose kernels ran.
    pub(super) library: Library,
    tables: Vec<TableRuns>,
    /// Runs that cannot be used, with the reason.
    pub(super) left_out: Vec<SkippedRow>,
}

impl<'a> Evidence<'a> {
    /// The evidence of `runs` for a fit of `cpu`, with priors from the CPUs of other devices.
    pub(super) fn of(cpu: &Cpu, runs: &'a [CpuRun], options: &Options<'_>) -> Self {
        let names: BTreeSet<&str> = runs.iter().map(|run| run.network.as_str()).collect();
        let mut evidence = Self {
            networks: names.into_iter().collect(),
            runs: Vec::new(),
            library: options.library,
            tables: Vec::new(),
            left_out: Vec::new(),
        };
        let pair = |run: &CpuRun| Some((predict(run, cpu, options.library).ok()?, run.measured_us));
        let pairs: Vec<(f64, f64)> = runs.iter().filter_map(pair).collect();
        let is_same_device = !options.from_scratch && mean_error(&pairs) <= SAME_DEVICE_ERROR;
        for run in runs {
            if let Err(reason) = evidence.add(cpu, run, options.others, is_same_device) {
                evidence.left_out.push(SkippedRow { line: run.line, reason });
            }
        }
        evidence
    }

    fn add(
        &mut self,
        cpu: &Cpu,
        run: &'a CpuRun,
        others: &[Cpu],
        is_same_device: bool,
    ) -> Result<(), String> {
        let network = self.networks.partition_point(|name| *name < run.network.as_str());
        let (layers, data_type) = (&run.what.layers, run.what.data_type);
        let cores = cores(run, cpu)?;
        let mut groups = cores.groups();
        let (Some(group), None) = (groups.next(), groups.next()) else {
            self.runs.push(Usable { run, network, mixed: true });
            return Ok(());
        };
        let work = match (self.library, data_type) {
            (Library::Ruy, _) => {
                Work::Ruy(Box::new(Terms::of(layers, cpu, &cores, group).map_err(|error| error.to_string())?))
            }
            (Library::Coexec, DataType::F32) => {
                let (caches, threads) = (Caches::of(&cpu.clusters[group.cluster]), cores.threads() as usize);
                let works = layers.iter().flat_map(|layer| CoexecWork::of_layer(layer, &caches, threads));
                Work::Coexec(works.collect(), cold_caches_ns(run, cpu))
            }
            (Library::Xnnpack, _) => Work::Xnnpack(Counts::of(run, cpu, group)?),
            (library @ Library::Coexec, data_type) => {
                return Err(format!("there is no fit of {library} in {data_type}"));
            }
        };
        let cluster = group.cluster;
        let is_here = |runs: &TableRuns| runs.cluster == cluster && runs.data_type == data_type;
        let table = self.tables.iter().position(is_here).unwrap_or(self.tables.len());
        if table == self.tables.len() {
            let prior = match work {
                Work::Ruy(_) => {
                    let measured = rates::table_of(&cpu.clusters[cluster], data_type)
                        .filter(|table| is_same_device && table.basis == Basis::Measured);
                    rates::prior(cpu, cluster, data_type, others).around(measured)
                }
                Work::Coexec(..) => {
                    let measured = cpu.clusters[cluster].coexec_f32.as_ref();
                    coexec::prior(cpu, cluster)
                        .around(measured.filter(|table| is_same_device && table.basis == Basis::Measured))
                }
                Work::Xnnpack(_) => xnnpack::prior(&cpu.clusters[cluster], data_type)?,
            };
            self.tables.push(TableRuns { cluster, data_type, prior, observations: Vec::new() });
        }
        let measured_ns = run.measured_us * NANOS_PER_MICRO;
        self.tables[table].observations.push(Observation { network, work, measured_ns });
        self.runs.push(Usable { run, network, mixed: false });
        Ok(())
    }

    /// `cpu` with every table fitted to the runs of the networks that are `seen`.
    pub(super) fn fit(
        &self,
        cpu: &Cpu,
        seen: &dyn Fn(usize) -> bool,
        options: &Options<'_>,
    ) -> (Cpu, Vec<FittedTable>) {
        let source = options.source;
        let mut cpu = cpu.clone();
        let mut tables = Vec::new();
        for TableRuns { cluster, data_type, prior, observations } in &self.tables {
            let observations: Vec<&Observation> =
                observations.iter().filter(|run| seen(run.network)).collect();
            let mut parameters = prior.fit(&observations);
            let cluster = &mut cpu.clusters[*cluster];
            match self.library {
                Library::Coexec => cluster.coexec_f32 = Some(coexec::table(&parameters, source)),
                Library::Xnnpack => xnnpack::write(cluster, *data_type, &parameters, source),
                Library::Ruy => {
                    let is_used = |rate| observations.iter().any(|run| run.work.uses(rate));
                    let base = rates::table_of(cluster, *data_type);
                    let table = rates::table(&mut parameters, base, is_used, source);
                    *table_mut(cluster, *data_type) = Some(table);
                }
            }
            tables.push(FittedTable {
                cluster: cluster.name.as_str().to_owned(),
                data_type: *data_type,
                library: self.library,
                runs: observations.len(),
                parameters,
            });
        }
        let mixed_runs = self.runs.iter().filter(|run| run.mixed && seen(run.network));
        let mixed_runs: Vec<&CpuRun> = mixed_runs.map(|run| run.run).collect();
        let ran_alone = |cluster, data_type| {
            self.tables.iter().any(|runs| (runs.cluster, runs.data_type) == (cluster, data_type))
        };
        match self.library {
            Library::Ruy => mixed::fit(&mut cpu, &mixed_runs, source),
            Library::Xnnpack | Library::Coexec => {
                tables.extend(common_factor::fit(&mut cpu, &mixed_runs, options, &ran_alone));
            }
        }
        (cpu, tables)
    }
}

/// What cold caches add to a run of coexec's own kernels, in nanoseconds: given, not fitted with the rates.
fn cold_caches_ns(run: &CpuRun, cpu: &Cpu) -> f64 {
    let warm = Cpu { cold_caches: None, ..cpu.clone() };
    let [inside, repeated] = [cpu, &warm].map(|cpu| predict(run, cpu, Library::Coexec).unwrap_or(0.0));
    (inside - repeated) * NANOS_PER_MICRO
}

//! What a CPU's predictions are compared with, fitted to the same runs: models linear in
//! FLOPs, and `CoDL`'s predictor, of single operators as it is defined, of whole networks as
//! the sum over their operators.

use std::collections::HashMap;

use super::{Layers, group_name};
use crate::measure::benchmark_cpu::CpuRun;
use crate::predictor::networks::NetworkPredictor;
use crate::predictor::{CodlPredictor, Job};
use crate::validate::flops_linear::FlopsLinear;
use crate::validate::point::Point;
use coexec_sim::device::cpu::Cpu;
use coexec_sim::kernel::cpu::{CoreSet, Library};

/// What the baselines are told of runs.
#[derive(Clone, Copy)]
pub(crate) struct Jobs<'a> {
    pub(crate) cpu: &'a Cpu,
    /// The kernels that ran.
    pub(crate) library: Library,
    /// Of the runs' networks.
    pub(crate) layers: &'a Layers<'a>,
}

impl Jobs<'_> {
    /// The jobs of a run, one an operator; none where one has no kernel.
    fn of(self, run: &CpuRun) -> Option<Vec<Job>> {
        let layers = self.layers.get(&(run.network.as_str(), run.data_type))?;
        let cores = CoreSet::parse(&run.core_set, self.cpu).ok()?;
        layers.iter().map(|layer| Job::on_cpu(layer, self.cpu, &cores, self.library).ok()).collect()
    }

    /// Multiply-adds of the network of a run.
    fn operations(self, run: &CpuRun) -> Option<f64> {
        let network = self.layers.get(&(run.network.as_str(), run.data_type))?;
        Some(network.iter().map(|layer| layer.operator.macs() as f64).sum())
    }
}

/// The baselines; those of networks for each core set and number format.
pub(crate) struct Baselines {
    flops_linear: HashMap<String, FlopsLinear>,
    operators: CodlPredictor,
    networks: HashMap<String, NetworkPredictor>,
}

impl Baselines {
    /// Fitted to `runs`.
    pub(crate) fn fit<'b>(jobs: Jobs<'_>, runs: impl IntoIterator<Item = &'b CpuRun>) -> Self {
        let mut pairs: HashMap<String, Vec<(f64, f64)>> = HashMap::new();
        let mut operators = Vec::new();
        let mut networks: HashMap<String, Vec<(Vec<Job>, f64)>> = HashMap::new();
        for run in runs {
            let group = group_name(run);
            if let Some(operations) = jobs.operations(run) {
                pairs.entry(group.clone()).or_default().push((operations, run.measured_us));
            }
            match jobs.of(run).map(<[Job; 1]>::try_from) {
                Some(Ok([job])) => operators.push((job, run.measured_us)),
                Some(Err(network)) => networks.entry(group).or_default().push((network, run.measured_us)),
                None => {}
            }
        }
        let linear = |(group, pairs): (String, Vec<_>)| Some((group, FlopsLinear::fit(pairs.into_iter())?));
        let summed = |(group, runs): (String, Vec<_>)| Some((group, NetworkPredictor::fit(&runs)?));
        Self {
            flops_linear: pairs.into_iter().filter_map(linear).collect(),
            operators: CodlPredictor::fit(operators),
            networks: networks.into_iter().filter_map(summed).collect(),
        }
    }

    /// The point of `run` with what the baselines predict; nothing where nothing like it was
    /// fitted.
    pub(crate) fn beside(&self, jobs: Jobs<'_>, run: &CpuRun, point: Point) -> Point {
        let group = group_name(run);
        let linear = self.flops_linear.get(&group).zip(jobs.operations(run));
        let codl_us = match jobs.of(run).as_deref() {
            None => None,
            Some([job]) => self.operators.predict(job),
            Some(network) => self.networks.get(&group).map(|fitted| fitted.predict(network)),
        };
        let flops_linear_us = linear.map(|(fitted, operations)| fitted.predict(operations));
        Point { flops_linear_us, codl_us, ..point }
    }
}

//! `CoDL`'s predictor beside CPU runs: of single operators as it is defined, of whole
//! networks as the sum over their operators.

use std::collections::HashMap;

use super::{Layers, group_name};
use crate::device::cpu::Cpu;
use crate::kernel::cpu::{CoreSet, Library};
use crate::measure::benchmark_cpu::CpuRun;
use crate::predictor::networks::NetworkPredictor;
use crate::predictor::{CodlPredictor, Job};

/// What the predictor is told of runs.
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
}

/// The predictor of single operators, and that of networks on each core set and in each
/// number format.
pub(crate) struct Codl {
    operators: CodlPredictor,
    networks: HashMap<String, NetworkPredictor>,
}

impl Codl {
    /// Fitted to `runs`.
    pub(crate) fn fit<'b>(jobs: Jobs<'_>, runs: impl IntoIterator<Item = &'b CpuRun>) -> Self {
        let mut operators = Vec::new();
        let mut networks: HashMap<String, Vec<(Vec<Job>, f64)>> = HashMap::new();
        for run in runs {
            let Some(of_run) = jobs.of(run) else { continue };
            match <[Job; 1]>::try_from(of_run) {
                Ok([job]) => operators.push((job, run.measured_us)),
                Err(of_run) => networks.entry(group_name(run)).or_default().push((of_run, run.measured_us)),
            }
        }
        let fit = |(group, runs): (String, Vec<_>)| Some((group, NetworkPredictor::fit(&runs)?));
        Self {
            operators: CodlPredictor::fit(operators),
            networks: networks.into_iter().filter_map(fit).collect(),
        }
    }

    /// Time of a run, in microseconds; none where nothing like it was fitted.
    pub(crate) fn predict(&self, jobs: Jobs<'_>, run: &CpuRun) -> Option<f64> {
        match jobs.of(run)?.as_slice() {
            [job] => self.operators.predict(job),
            network => self.networks.get(&group_name(run)).map(|fitted| fitted.predict(network)),
        }
    }
}

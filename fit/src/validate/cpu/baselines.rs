//! Baselines of a CPU's predictions, fitted to the same runs: models linear in FLOPs, and
//! `CoDL`'s predictor, for single operators as published, for whole networks as the sum over
//! their operators.

use std::collections::HashMap;

use super::{cores, group};
use crate::measure::{CpuRun, grouped};
use crate::predictor::{CodlPredictor, Job, Launch, Regression};
use crate::validate::flops_linear;
use crate::validate::point::Point;
use coexec_sim::device::calibration::ErrorGroup;
use coexec_sim::{Cpu, Library};

/// The baselines. Those of networks are fitted per core set and number format.
pub(crate) struct Baselines<'a> {
    cpu: &'a Cpu,
    /// The library whose kernels ran.
    library: Library,
    flops_linear: flops_linear::ByGroup,
    operators: CodlPredictor,
    networks: HashMap<ErrorGroup, Regression>,
}

impl<'a> Baselines<'a> {
    /// Fits the baselines to `runs`.
    pub(crate) fn fit<'b>(
        cpu: &'a Cpu,
        library: Library,
        runs: impl IntoIterator<Item = &'b CpuRun, IntoIter: Clone>,
    ) -> Self {
        let runs = runs.into_iter();
        let (mut operators, mut networks) = (Vec::new(), Vec::new());
        for run in runs.clone() {
            match jobs(run, cpu, library).map(<[Job; 1]>::try_from) {
                Some(Ok([job])) => operators.push((job, run.measured_us)),
                Some(Err(network)) => networks.push((group(run), (network, run.measured_us))),
                None => {}
            }
        }
        let known = runs.filter(|run| !run.what.layers.is_empty());
        let totals = known.map(|run| (group(run), (operations(run), run.measured_us)));
        let summed = |(group, runs): (ErrorGroup, Vec<_>)| Some((group, Regression::of_networks(&runs)?));
        Self {
            cpu,
            library,
            flops_linear: flops_linear::ByGroup::fit(totals),
            operators: CodlPredictor::fit(Launch::None, operators),
            networks: grouped(networks.into_iter()).into_iter().filter_map(summed).collect(),
        }
    }

    /// The point of `run` with the baselines' predictions, where similar runs were fitted.
    pub(crate) fn compare(&self, run: &CpuRun, point: Point) -> Point {
        let codl_us = match jobs(run, self.cpu, self.library).as_deref() {
            None => None,
            Some([job]) => self.operators.predict(job),
            Some(network) => self.networks.get(&point.group).map(|fitted| fitted.predict(network)),
        };
        let flops_linear_us = self.flops_linear.predict(&point.group, operations(run));
        Point { flops_linear_us, codl_us, ..point }
    }
}

/// The jobs of a run, one per operator; none where an operator has no kernel.
fn jobs(run: &CpuRun, cpu: &Cpu, library: Library) -> Option<Vec<Job>> {
    let cores = cores(run, cpu).ok()?;
    run.what.layers.iter().map(|layer| Job::on_cpu(layer, cpu, &cores, library).ok()).collect()
}

/// Multiply-adds of the network of a run.
fn operations(run: &CpuRun) -> f64 {
    run.what.layers.iter().map(|layer| layer.operator.macs() as f64).sum()
}

//! Predictions of a profile as points: with physics, baselines and interval.

use std::collections::HashMap;

use crate::measure::{Family, GpuRun};
use crate::predictor::{CodlPredictor, Job, Launch};
use crate::validate::flops_linear::{FlopsLinear, operations};
use crate::validate::interval::{Uncertainties, Uncertainty, around};
use crate::validate::point::Point;
use coexec_sim::device::gpu::{Gpu, TableSpread};
use coexec_sim::kernel::Unsupported;
use coexec_sim::kernel::gpu::execute;
use coexec_sim::workload::Layer;

/// A GPU's predictions, prepared once for many runs.
pub(crate) struct Predictor<'a> {
    gpu: &'a Gpu,
    uncertainties: Uncertainties<'a>,
    baselines: HashMap<Family, FlopsLinear>,
    codl: CodlPredictor,
    codl_launch: CodlPredictor,
}

impl<'a> Predictor<'a> {
    /// Of `gpu`, whose parameters spread as `spreads` say and which was fitted on
    /// `seen`.
    pub(crate) fn new<'b>(
        gpu: &'a Gpu,
        spreads: &[TableSpread],
        seen: impl IntoIterator<Item = &'b GpuRun>,
    ) -> Self {
        let mut by_family: HashMap<Family, Vec<&GpuRun>> = HashMap::new();
        let mut jobs = Vec::new();
        for run in seen {
            jobs.extend(Job::on_gpu(&run.layer, gpu).ok().map(|job| (job, run.measured_us)));
            by_family.entry(run.family).or_default().push(run);
        }
        let fit = |(family, runs): (Family, Vec<&GpuRun>)| {
            let pairs = runs.into_iter().map(|run| (operations(&run.layer), run.measured_us));
            Some((family, FlopsLinear::fit(pairs)?))
        };
        Self {
            gpu,
            uncertainties: Uncertainties::new(gpu, spreads.iter()),
            baselines: by_family.into_iter().filter_map(fit).collect(),
            codl: CodlPredictor::fit(jobs.iter().cloned()),
            codl_launch: CodlPredictor::fit_with(Launch::Fitted, jobs),
        }
    }

    /// The prediction beside `run`, without its interval and as if the run were seen,
    /// and what its interval depends on.
    pub(crate) fn point(&mut self, run: &GpuRun) -> Result<(Point, Uncertainty), Unsupported> {
        let GpuRun { layer, family, measured_us, .. } = run;
        let execution = execute(layer, self.gpu)?;
        let uncertainty = self.uncertainties.of(layer)?;
        let launch = &execution.detail;
        let job = Job::on_gpu(layer, self.gpu)?;
        let units = launch.groups.div_ceil(self.gpu.compute_units);
        let point = Point {
            group: format!("gpu/{}", family.name()),
            network: run.network.clone(),
            what: described(layer),
            measured_us: *measured_us,
            predicted_us: execution.phases.duration().as_micros(),
            physics_us: uncertainty.physics_us,
            flops_linear_us: self.baselines.get(family).map(|baseline| baseline.predict(operations(layer))),
            codl_us: self.codl.predict(&job),
            codl_launch_us: self.codl_launch.predict(&job),
            kernel: Some(launch.kernel.to_string()),
            groups: Some(launch.groups),
            waves_per_unit: Some(f64::from(units) * f64::from(launch.waves_per_group)),
            iterations: Some(launch.iterations),
            tile_size: Some(launch.tile.iter().product()),
            bytes: Some(execution.phases.bytes().0),
            ..Point::default()
        };
        Ok((point, uncertainty))
    }
}

impl Point {
    /// The point with its 90 % interval, where `spreads` tell one.
    pub(crate) fn within(self, uncertainty: &Uncertainty, spreads: &[TableSpread]) -> Self {
        let interval = around(self.predicted_us, uncertainty, spreads);
        Self { low_us: interval.map(|[low, _]| low), high_us: interval.map(|[_, high]| high), ..self }
    }
}

/// A layer in words: the operator and what is linked behind it.
fn described(layer: &Layer) -> String {
    let mut text = layer.operator.to_string();
    for function in layer.linked.functions() {
        text += &format!(" + {function:?}").to_lowercase();
    }
    text
}

//! A GPU's predictions as points, with those of the equations alone and of the baselines.

use crate::measure::{GpuRun, family};
use crate::predictor::{CodlPredictor, Job, Launch};
use crate::validate::flops_linear::{ByGroup, operations};
use crate::validate::interval::{Uncertainties, Uncertainty};
use crate::validate::point::Point;
use coexec_sim::device::calibration::{Computed, ErrorGroup};
use coexec_sim::device::gpu::{Gpu, TableSpread};
use coexec_sim::kernel::gpu::execute;
use coexec_sim::{Layer, ProcessorKind, Unsupported};

/// A GPU's predictions, prepared once for many runs.
pub(crate) struct Predictor<'a> {
    gpu: &'a Gpu,
    uncertainties: Uncertainties<'a>,
    flops_linear: ByGroup,
    codl: CodlPredictor,
    codl_launch: CodlPredictor,
}

impl<'a> Predictor<'a> {
    /// A predictor for `gpu`, whose parameters have the covariances of `spreads`; the
    /// baselines are fitted to `seen`.
    pub(crate) fn new<'b>(
        gpu: &'a Gpu,
        spreads: &[TableSpread],
        seen: impl IntoIterator<Item = &'b GpuRun, IntoIter: Clone>,
    ) -> Self {
        let seen = seen.into_iter();
        let job = |run: &GpuRun| Some((Job::on_gpu(&run.what, gpu).ok()?, run.measured_us));
        let jobs: Vec<(Job, f64)> = seen.clone().filter_map(job).collect();
        let totals = seen.map(|run| (group(&run.what), (operations(&run.what), run.measured_us)));
        Self {
            gpu,
            uncertainties: Uncertainties::new(gpu, spreads.iter()),
            flops_linear: ByGroup::fit(totals),
            codl: CodlPredictor::fit(Launch::None, jobs.clone()),
            codl_launch: CodlPredictor::fit(Launch::Fitted, jobs),
        }
    }

    /// The prediction of `run`, without an interval and marked as seen, and its
    /// uncertainty, from which the interval is made.
    pub(crate) fn point(&mut self, run: &GpuRun) -> Result<(Point, Uncertainty), Unsupported> {
        let layer = &run.what;
        let execution = execute(layer, self.gpu)?;
        let uncertainty = self.uncertainties.of(layer)?;
        let launch = &execution.detail;
        let job = Job::on_gpu(layer, self.gpu)?;
        let units = launch.groups.div_ceil(self.gpu.compute_units);
        let group = group(layer);
        let point = Point {
            physics_us: uncertainty.physics_us,
            flops_linear_us: self.flops_linear.predict(&group, operations(layer)),
            codl_us: self.codl.predict(&job),
            codl_launch_us: self.codl_launch.predict(&job),
            kernel: Some(launch.kernel.to_string()),
            groups: Some(launch.groups),
            waves_per_unit: Some(f64::from(units) * f64::from(launch.waves_per_group)),
            iterations: Some(launch.iterations),
            tile_size: Some(launch.tile.iter().product()),
            bytes: Some(execution.phases.bytes().0),
            ..Point::of(run, group, described(layer), execution.phases.duration().as_micros())
        };
        Ok((point, uncertainty))
    }
}

/// The group of a layer, such as `gpu/conv2d`; a layer of no family is grouped by its operator's name.
fn group(layer: &Layer) -> ErrorGroup {
    let family = family(&layer.operator).unwrap_or(layer.operator.name());
    ErrorGroup::On { processor: ProcessorKind::Gpu, what: Computed::Kind(family.to_owned()), runs: None }
}

/// Description of a layer: the operator and the functions linked to it.
fn described(layer: &Layer) -> String {
    let mut text = layer.operator.to_string();
    for function in layer.linked.functions() {
        text += &format!(" + {function:?}").to_lowercase();
    }
    text
}

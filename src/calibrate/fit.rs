//! The fit of a profile's processors to the runs there are on them.

use coexec_fit::calibrate::cpu::{self, FittedTable};
use coexec_fit::calibrate::gpu::{self, Calibrated, Fitted as Known, Fold, TableFit, few};
use coexec_fit::calibrate::{host, npu};
use coexec_fit::measure::{CpuRun, GpuNetwork, GpuRun, Inference, SkippedRow};
use coexec_fit::validate::point::Point;
use coexec_sim::device::npu::Npu;
use coexec_sim::{Basis, Calibration, KernelTable, Library, Profile};

use crate::{Chosen, Measured, Progress, Result};

/// Folds of the cross-validation.
const FOLDS: usize = 5;

/// How to fit.
pub(crate) struct Options<'a> {
    /// What the source of each fitted value says.
    pub(crate) source: &'a str,
    /// What to expect before any run.
    pub(crate) prior: &'a Chosen,
    /// Whether to learn what the equations leave.
    pub(crate) residual: bool,
    /// The CPU kernels that ran.
    pub(crate) library: Library,
    /// Seed of the cross-validation's folds.
    pub(crate) seed: u64,
}

/// What was fitted, besides the profile's values.
#[derive(Default)]
pub(crate) struct Fitted {
    pub(crate) tables: Vec<TableFit>,
    pub(crate) cpu_tables: Vec<FittedTable>,
    /// What a whole inference on the GPU takes beside its launches.
    pub(crate) host: Vec<Known>,
    /// The rates of the NPU's compiled graphs, or how much faster than the base's they are.
    pub(crate) npu: Vec<Known>,
    /// How far predictions may be off; it does not say what was fitted.
    pub(crate) spreads: Calibration,
    /// Each run, predicted by a fit that had not seen its network.
    pub(crate) held_out: Vec<Point>,
    /// Runs that nothing in the base describes.
    pub(crate) left_out: Vec<SkippedRow>,
}

/// Fits the processors of `profile` to what was measured on them.
pub(crate) fn fit(
    profile: &mut Profile,
    measured: &Measured,
    options: &Options<'_>,
    progress: &Progress,
) -> Result<Fitted> {
    let mut fitted = Fitted::default();
    let runs = &measured.runs;
    let folds = fit_gpu(profile, &runs.gpu, options, progress, &mut fitted)?;
    fit_host(profile, &runs.gpu_networks, &folds, options, &mut fitted);
    if !runs.cpu.is_empty() {
        fit_cpu(profile, &runs.cpu, options, progress, &mut fitted);
    }
    fit_npu(profile, &runs.inferences, options, progress, &mut fitted);
    Ok(fitted)
}

/// Fits the GPU's tables; the fits of the cross-validation.
fn fit_gpu(
    profile: &mut Profile,
    runs: &[GpuRun],
    options: &Options<'_>,
    progress: &Progress,
    fitted: &mut Fitted,
) -> Result<Vec<Fold>> {
    let Some(gpu) = profile.gpu.as_ref().filter(|_| !runs.is_empty()) else { return Ok(Vec::new()) };
    let base = options.prior.centre(gpu, &profile.memory, runs)?;
    let fit = gpu::Options {
        source: options.source.to_owned(),
        folds: FOLDS,
        seed: options.seed,
        correctable: if options.residual { KernelTable::ALL.to_vec() } else { Vec::new() },
    };
    let calibrated = gpu::calibrate(&base, runs, &fit, &|done, of| {
        progress.tell(&format!("GPU: {done} of {of} fits"));
    });
    let Calibrated { gpu: calibrated, tables, folds, held_out, spreads, left_out, .. } = calibrated;
    profile.gpu = Some(calibrated);
    fitted.tables = tables;
    fitted.spreads.gpu_table = spreads;
    fitted.held_out.extend(held_out);
    fitted.left_out.extend(left_out);
    Ok(folds)
}

/// Fits what a whole inference on the GPU takes beside its launches.
fn fit_host(
    profile: &mut Profile,
    networks: &[GpuNetwork],
    folds: &[Fold],
    options: &Options<'_>,
    fitted: &mut Fitted,
) {
    let Some(gpu) = &mut profile.gpu else { return };
    if folds.is_empty() && gpu.conv_generic.basis == Basis::Transferred {
        // Nothing was measured of its kernels either.
        fitted.held_out.extend(few::held_out(gpu, networks, options.source));
        *gpu = few::fit(gpu, networks, options.source).unwrap_or_else(|| gpu.clone());
        return;
    }
    let Some(fit) = host::fit(gpu, networks, options.source) else { return };
    gpu.host = Some(fit.host);
    fitted.host = fit.parameters;
    let held_out = host::held_out(folds, networks, options.source);
    fitted.spreads.gpu_inference = held_out.spread;
    fitted.held_out.extend(held_out.points);
    fitted.left_out.extend(fit.left_out);
}

/// Fits the rates of graphs that the NPU's compiler takes as a whole.
fn fit_npu(
    profile: &mut Profile,
    inferences: &[Inference],
    options: &Options<'_>,
    progress: &Progress,
    fitted: &mut Fitted,
) {
    let base = options.prior.compiled(profile);
    let (graphs, left_out) = npu::measured(base.as_ref(), inferences);
    let source = format!("{}; {} of them models on the NPU", options.source, graphs.len());
    let Some(fit) = npu::fit(base.as_ref(), &graphs, &source) else { return };
    progress.tell("NPU: each family of models, kept out of a fit of its own");
    fitted.held_out.extend(npu::held_out(base.as_ref(), &graphs, &source));
    fitted.left_out.extend(left_out);
    fitted.npu = fit.parameters;
    let unit =
        profile.npu.get_or_insert_with(|| Npu { name: "NPU".to_owned(), systolic: None, compiled: None });
    unit.compiled = Some(fit.compiled);
}

/// Fits the rate tables of the CPU's clusters.
fn fit_cpu(
    profile: &mut Profile,
    runs: &[CpuRun],
    options: &Options<'_>,
    progress: &Progress,
    fitted: &mut Fitted,
) {
    let others = options.prior.cpus();
    let fit = cpu::Options {
        folds: FOLDS,
        seed: options.seed,
        others: &others,
        library: options.library,
        source: options.source,
    };
    let calibrated = cpu::calibrate(&profile.cpu, runs, &fit, &|done, of| {
        progress.tell(&format!("CPU: {done} of {of} fits"));
    });
    fitted.held_out.extend(calibrated.held_out);
    fitted.spreads.cpu_core_set = calibrated.spreads;
    profile.cpu = calibrated.cpu;
    fitted.cpu_tables = calibrated.tables;
    fitted.left_out.extend(calibrated.left_out);
}

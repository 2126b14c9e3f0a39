//! Fits a profile's processors to the runs measured on them.

use coexec_fit::calibrate::cpu::{self, FittedTable};
use coexec_fit::calibrate::gpu::{self, Calibrated, Fitted as Known, Fold, TableFit, inferences};
use coexec_fit::calibrate::{FOLDS, Options, host, npu};
use coexec_fit::measure::{CpuRun, GpuNetwork, GpuRun, Inference, SkippedRow, ai_hub};
use coexec_fit::validate::point::Point;
use coexec_sim::device::cpu::CoreSetSpread;
use coexec_sim::device::gpu::{HostPath, TableSpread};
use coexec_sim::device::npu::Npu;
use coexec_sim::device::npu::compiled::CompiledGraphs;
use coexec_sim::{Basis, Calibration, Profile};

use crate::{Chosen, DeviceRuns, Failure, Progress, Result};

/// Result of a fit, in addition to the profile's values.
#[derive(Default)]
pub(crate) struct Fitted {
    pub(crate) tables: Vec<TableFit>,
    pub(crate) cpu_tables: Vec<FittedTable>,
    /// Parameters of the host's part of a whole inference on the GPU.
    pub(crate) host: Vec<Known>,
    /// Rates of the NPU's compiled graphs, or their speedup over the base's.
    pub(crate) npu: Vec<Known>,
    /// Whether inferences on the GPU differ from its measured kernels by more than a host path
    /// explains.
    pub(crate) contradicts_kernels: bool,
    /// Spreads of the prediction errors; its source, date and digest are those of the base.
    pub(crate) spreads: Calibration,
    /// Each run, predicted by a fit that held out its network.
    pub(crate) held_out: Vec<Point>,
    /// Runs that the base cannot describe.
    pub(crate) left_out: Vec<SkippedRow>,
}

/// Fits the processors of `profile` to the runs measured on them; `prior` is that of the parameters.
pub(crate) fn fit(
    profile: &mut Profile,
    measured: &DeviceRuns,
    (prior, options): (&Chosen, Options<'_>),
    progress: &Progress,
) -> Result<Fitted> {
    let spreads = profile.calibration.clone().unwrap_or_default();
    let fitted = Fitted { spreads, ..Fitted::default() };
    let mut fit = Fit { profile, prior, options: Options { folds: FOLDS, ..options }, progress, fitted };
    let runs = &measured.runs;
    let folds = fit.gpu(&runs.gpu)?;
    fit.host(&runs.gpu_networks, &folds);
    if !runs.cpu.is_empty() {
        fit.cpu(&runs.cpu);
    }
    fit.npu(&runs.inferences, measured)?;
    Ok(fit.fitted)
}

/// State of a fit, which proceeds from processor to processor.
struct Fit<'a> {
    profile: &'a mut Profile,
    prior: &'a Chosen,
    options: Options<'a>,
    progress: &'a Progress,
    fitted: Fitted,
}

impl Fit<'_> {
    /// Fits the GPU's tables; the fits of the cross-validation.
    fn gpu(&mut self, runs: &[GpuRun]) -> Result<Vec<Fold>> {
        let Some(gpu) = self.profile.gpu.as_ref().filter(|_| !runs.is_empty()) else { return Ok(Vec::new()) };
        let base = self.prior.centre(gpu, &self.profile.memory, runs)?;
        let calibrated = gpu::calibrate(&base, runs, &self.options, &|done, of| {
            self.progress.report(&format!("GPU: {done} of {of} fits"));
        });
        let Calibrated { gpu: calibrated, tables, folds, held_out, spreads, left_out, .. } = calibrated;
        self.profile.gpu = Some(calibrated);
        // A table that stays near the base's keeps its interval where too few runs give a new one.
        let is_refuted = |kept: &TableSpread| {
            tables.iter().any(|fit| fit.table == kept.table && fit.is_of_base != Some(true))
                || spreads.iter().any(|new| new.table == kept.table)
        };
        self.fitted.spreads.gpu_table.retain(|kept| !is_refuted(kept));
        self.fitted.spreads.gpu_table.extend(spreads);
        self.fitted.tables = tables;
        self.fitted.spreads.gpu_inference = None;
        self.fitted.held_out.extend(held_out);
        self.fitted.left_out.extend(left_out);
        Ok(folds)
    }

    /// Fits the host's part of a whole inference on the GPU. The kernels are refitted too if no run
    /// measured them and they were transferred from other devices, or inferences contradict them.
    fn host(&mut self, networks: &[GpuNetwork], folds: &[Fold]) {
        let Some(gpu) = &mut self.profile.gpu else { return };
        let options = &self.options;
        let Some(fit) = host::fit(gpu, networks, options) else { return };
        let is_transferred = gpu.conv_generic.basis == Basis::Transferred;
        self.fitted.contradicts_kernels =
            !is_transferred && HostPath::KERNEL_FACTORS.contains(&fit.host.kernel_factor.value);
        if folds.is_empty()
            && (is_transferred || self.fitted.contradicts_kernels)
            && let Some(moved) = inferences::fit(gpu, networks, options.source)
        {
            let held_out = inferences::held_out(gpu, networks, options.source);
            *gpu = moved;
            self.fitted.spreads.gpu_table = Vec::new();
            self.fitted.spreads.gpu_inference = host::spread(&held_out);
            self.fitted.held_out.extend(held_out);
            return;
        }
        // A base that predicts these runs well keeps the errors that it states; one that was fitted to them has
        // seen every network.
        let own = if folds.is_empty() && !fit.is_of_base && !options.from_scratch {
            let names = networks.iter().map(|network| network.network.as_str());
            gpu::folds_of_unseen(gpu, names, FOLDS, options.seed)
        } else {
            Vec::new()
        };
        gpu.host = Some(fit.host);
        self.fitted.host = fit.parameters;
        let held_out = host::held_out(if own.is_empty() { folds } else { &own }, networks, options);
        let of_base = self.fitted.spreads.gpu_inference.take().filter(|_| fit.is_of_base);
        self.fitted.spreads.gpu_inference = held_out.spread.or(of_base);
        self.fitted.held_out.extend(held_out.points);
        self.fitted.left_out.extend(fit.left_out);
    }

    /// Fits the rates of graphs that the NPU's compiler compiles as a whole.
    fn npu(&mut self, inferences: &[Inference], measured: &DeviceRuns) -> Result<()> {
        let rates = self.prior.compiled(self.profile);
        let known = match &rates {
            Some(rates) if self.prior.is_base() && rates.measured_on.as_ref() == Some(&measured.device) => {
                npu::Known::ThisChip(rates)
            }
            Some(rates) => npu::Known::OtherChip(rates),
            None => npu::Known::Maker,
        };
        let (mut graphs, left_out) = npu::measured(known, inferences);
        let other = rates.as_ref().and_then(|rates| rates.measured_on.as_ref());
        // Without that chip in the data set, there are no times to compare.
        if let Some(chip) = other.filter(|chip| **chip != measured.device)
            && let Some(path) = &measured.path
            && let Ok(times) = ai_hub::times_on_npu(path, chip)
        {
            npu::pair(&mut graphs, &times);
        }
        let source = format!("{}; {} of them models on the NPU", self.options.source, graphs.len());
        self.fitted.left_out.extend(left_out);
        let Some(fit) = npu::fit(known, &graphs, &source) else { return Ok(()) };
        if self.profile.power.as_ref().is_some_and(|power| power.npu.is_none()) {
            return Err(Failure::usage(
                format!("the profile {} has no [npu], and no watts of one", self.profile.name),
                "add [power.npu] to it, remove [power], or give a --base that has an NPU",
            ));
        }
        self.progress.report("NPU: one fit for each held-out family of models");
        self.fitted.held_out.extend(npu::held_out(known, &graphs, &source));
        self.fitted.npu = fit.parameters;
        let unknown = Npu { name: "NPU".to_owned(), systolic: None, compiled: None, language: None };
        let measured_on = Some(measured.device.clone());
        self.profile.npu.get_or_insert(unknown).compiled =
            Some(CompiledGraphs { measured_on, ..fit.compiled });
        Ok(())
    }

    /// Fits the rate tables of the CPU's clusters.
    fn cpu(&mut self, runs: &[CpuRun]) {
        let from_scratch = self.options.from_scratch || !self.prior.is_base();
        let options = Options { others: &self.prior.cpus(), from_scratch, ..self.options };
        let calibrated = cpu::calibrate(&self.profile.cpu, runs, &options, &|done, of| {
            self.progress.report(&format!("CPU: {done} of {of} fits"));
        });
        self.fitted.held_out.extend(calibrated.held_out);
        // The base's intervals are of other rates, even where too few networks ran for new ones.
        let is_refitted = |kept: &CoreSetSpread| runs.iter().any(|run| run.what.data_type == kept.data_type);
        self.fitted.spreads.cpu_core_set.retain(|kept| !is_refitted(kept));
        self.fitted.spreads.cpu_core_set.extend(calibrated.spreads);
        self.profile.cpu = calibrated.cpu;
        self.fitted.cpu_tables = calibrated.tables;
        self.fitted.left_out.extend(calibrated.left_out);
    }
}

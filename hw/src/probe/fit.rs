//! From timed layers to the tables of a profile.
//!
//! Responsible for: the prior, the order of the fits, and the assumed tables of kernels without
//! timed layers. Not for: the fits themselves (`calibrate`).

use coexec_fit::calibrate::gpu::prior::{Phone, Prior};
use coexec_fit::calibrate::gpu::{self, Calibrated};
use coexec_fit::calibrate::{FOLDS, Options, cpu};
use coexec_fit::measure::GpuRun;
use coexec_fit::measure::runs::{ExecutedOn, Measurement, RunTable};
use coexec_sim::device::memory::Memory;
use coexec_sim::kernel::gpu::execute;
use coexec_sim::statistics::{VALUE_DIGITS, rounded};
use coexec_sim::{Basis, Cpu, Gpu, KernelTable, Layer, Library, Operator, Quantity};

use super::layers::sweep;
use super::{ProbeError, Result, TimeBudget};

/// Fewest layers on a processor from which its tables are fitted.
pub(super) const MIN_LAYERS: usize = 12;

/// A GPU whose tables hold the hardware prior, without those that its family does not use.
/// `macs_per_us` is the highest measured rate.
pub(super) fn expected(mut gpu: Gpu, memory: &Memory, macs_per_us: f64, seed: u64) -> Result<Gpu> {
    let cycles = gpu.clock_mhz.as_ref().map_or(1.0, |clock| clock.value);
    gpu.multiply_accumulates_per_cycle = Some(Quantity::of(
        rounded((macs_per_us / cycles).max(f64::MIN_POSITIVE), VALUE_DIGITS),
        "probe: the greatest rate of any layer over the clock",
    ));
    // Layers of every kind show which tables this family uses.
    let any: Vec<GpuRun> =
        sweep(false, seed, u64::MAX).into_iter().map(|(name, layer)| run(&name, layer, 1.0)).collect();
    let uses = |table: KernelTable| {
        let kernel = |run: &GpuRun| Some(execute(&run.what, &gpu).ok()?.detail.kernel.table());
        any.iter().any(|run| kernel(run) == Some(table))
    };
    let [winograd, constants] = [KernelTable::Winograd, KernelTable::ConvConstants].map(uses);
    let mut centred = Prior::Hardware
        .centre(Phone { gpu: &gpu, memory }, &any)
        .map_err(|missing| ProbeError::Prior(missing.to_string()))?;
    centred.winograd = centred.winograd.filter(|_| winograd);
    centred.conv_constants = centred.conv_constants.filter(|_| constants);
    for &table in KernelTable::ALL {
        if let Some(parameters) = centred.parameters_mut(table) {
            *parameters.source = format!("assumed, {}; no layer was timed", parameters.source);
            *parameters.basis = Basis::Assumed;
        }
    }
    Ok(centred)
}

/// One time of a layer, in microseconds.
fn run(network: &str, layer: Layer, measured_us: f64) -> GpuRun {
    GpuRun { network: network.to_owned(), what: layer, measured_us, deviation_us: None, line: 0 }
}

/// Fits the tables of a GPU that holds the prior; with `learns`, also the residuals of the
/// equations.
pub(super) fn gpu(
    base: &Gpu,
    measurements: &[Measurement],
    (source, seed, learns): (&str, u64, bool),
    budget: &TimeBudget<'_>,
) -> Result<Calibrated> {
    let table = RunTable { measurements: measurements.to_vec(), ..RunTable::default() };
    let runs = table.by_processor().gpu;
    if runs.len() < MIN_LAYERS {
        return Err(ProbeError::TooLittleTime { what: "layers on the GPU" });
    }
    let plain = Options { seed, from_scratch: true, ..Options::of(source) };
    let how = |correctable| Options { folds: FOLDS, correctable, ..plain };
    let all = if learns { KernelTable::ALL } else { &[] };
    // Error groups do not cover element-wise functions, so their table is fitted before the others,
    // without cross-validation.
    let functions: Vec<GpuRun> = measurements.iter().filter_map(element_wise).collect();
    let base = gpu::calibrate(base, &functions, &plain, &|_, _| {}).gpu;
    budget.report("fitting the kernels of the GPU");
    let fitted = gpu::calibrate(&base, &runs, &how(all), &|_, _| {});
    // Cross-validation shows for which tables learned residuals reduce the held-out error; the
    // others keep the equations alone.
    let gaining = |table: &KernelTable| fitted.gains.iter().all(|(of, gain)| of != table || *gain > 0.0);
    let correctable: Vec<KernelTable> = KernelTable::ALL.iter().copied().filter(gaining).collect();
    if correctable.len() == KernelTable::ALL.len() {
        return Ok(fitted);
    }
    budget.report(
        "the residuals of some kernels cannot be learned from these runs: fitting again without them",
    );
    Ok(gpu::calibrate(&base, &runs, &how(&correctable), &|_, _| {}))
}

/// The median run of an element-wise function on the GPU.
fn element_wise(measurement: &Measurement) -> Option<GpuRun> {
    let (_, layer) = measurement.operator.as_ref()?;
    if measurement.processor != ExecutedOn::Gpu || !matches!(layer.operator, Operator::Elementwise(_)) {
        return None;
    }
    Some(run(&measurement.network, layer.clone(), measurement.median_us()?))
}

/// Fits the rates of the CPU's clusters.
pub(super) fn cpu(
    base: &Cpu,
    measurements: &[Measurement],
    (source, seed): (&str, u64),
    budget: &TimeBudget<'_>,
) -> Result<cpu::Calibration> {
    let table = RunTable { measurements: measurements.to_vec(), ..RunTable::default() };
    let sorted = table.by_processor();
    if sorted.cpu.len() < MIN_LAYERS {
        return Err(ProbeError::TooLittleTime { what: "layers on the CPU" });
    }
    budget.report("fitting the kernels of the CPU");
    let plain = Options::of(source);
    let how = Options { folds: FOLDS, seed, from_scratch: true, library: Library::Coexec, ..plain };
    Ok(cpu::calibrate(base, &sorted.cpu, &how, &|_, _| {}))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use coexec_fit::measure::runs::Repetition;
    use coexec_fit::validate::point::Point;
    use coexec_sim::device::gpu::GpuFamily;
    use coexec_sim::device::profile::Profile;
    use coexec_sim::kernel::cpu::{CoreSet, execute as execute_on_cpu};
    use coexec_sim::statistics::median;

    use super::*;

    /// The Pixel 4's GPU and memory without fitted kernels.
    fn untimed(family: GpuFamily) -> (Gpu, Memory) {
        let profile = Profile::load("pixel4").unwrap();
        let gpu = Gpu { family, residual: None, residency: Vec::new(), ..profile.gpu.unwrap() };
        (expected(gpu, &profile.memory, 100_000.0, 1).unwrap(), profile.memory)
    }

    /// Layers with times given by `time_us`.
    fn measured(processor: &ExecutedOn, time_us: impl Fn(&Layer) -> f64) -> Vec<Measurement> {
        let layers = sweep(true, 3, u64::MAX).into_iter();
        let measured = layers.map(|(name, layer)| Measurement {
            repetitions: vec![Repetition { number: 0, measured_us: time_us(&layer), outlier: false }],
            operator: Some((name.clone(), layer.clone())),
            ..Measurement::new(name.clone(), &name, layer.data_type, processor.clone())
        });
        measured.collect()
    }

    const FIT_ARGUMENTS: (&str, u64, bool) = ("made up", 1, false);

    fn with_a_minute(fit: impl FnOnce(&TimeBudget<'_>)) {
        fit(&TimeBudget { end: Instant::now() + Duration::from_mins(1), progress: &|_| {} });
    }

    #[test]
    fn a_family_has_the_tables_it_uses_and_all_say_they_are_assumed() {
        let (generic, _) = untimed(GpuFamily::Generic);
        assert!(generic.winograd.is_some() && generic.conv_constants.is_none());
        assert!(generic.conv_generic.source.starts_with("assumed, prior from"), "{:?}", generic.conv_generic);
        let (nvidia, _) = untimed(GpuFamily::Nvidia);
        assert!(nvidia.conv_constants.is_some());
    }

    #[test]
    fn kernels_that_made_the_times_are_found_again() {
        let (base, _) = untimed(GpuFamily::Generic);
        let mut truth = base.clone();
        for &table in KernelTable::ALL {
            for (_, quantity) in truth.parameters_mut(table).into_iter().flat_map(|table| table.quantities) {
                quantity.value *= 2.5;
            }
        }
        let time = |layer: &Layer| execute(layer, &truth).unwrap().phases.duration().as_micros();
        with_a_minute(|budget| {
            let fitted = gpu(&base, &measured(&ExecutedOn::Gpu, time), FIT_ARGUMENTS, budget).unwrap();
            let error = |point: &Point| (point.predicted_us / point.measured_us - 1.0).abs();
            let errors: Vec<f64> = fitted.held_out.iter().map(error).collect();
            assert!(median(&errors).unwrap() < 0.05, "{errors:?}");
            let layer = sweep(true, 4, u64::MAX).into_iter().map(|(_, layer)| layer);
            let function = layer.into_iter().find(|layer| matches!(layer.operator, Operator::Elementwise(_)));
            let function = function.unwrap();
            let predicted = execute(&function, &fitted.gpu).unwrap().phases.duration().as_micros();
            assert!((predicted / time(&function) - 1.0).abs() < 0.1, "functions of elements are fitted too");
        });
    }

    #[test]
    fn rates_that_made_the_times_are_found_again() {
        let mut phone = Profile::load("pixel4").unwrap().cpu;
        for cluster in &mut phone.clusters {
            (cluster.ruy_f32, cluster.xnnpack_f32) = (None, None);
        }
        let mut truth = phone.clone();
        truth.clusters[0].coexec_f32 = Some(
            coexec_sim::input::from_toml(include_str!("../../../sim/tests/golden/coexec_rates.toml"))
                .unwrap(),
        );
        let cores = CoreSet::parse("1large", &truth).unwrap();
        let time = |layer: &Layer| {
            execute_on_cpu(layer, &truth, &cores, Library::Coexec).unwrap().phases.duration().as_micros()
        };
        with_a_minute(|budget| {
            let runs = measured(&ExecutedOn::Cpu("1large".to_owned()), time);
            let fitted = cpu(&phone, &runs, (FIT_ARGUMENTS.0, FIT_ARGUMENTS.1), budget).unwrap();
            let error = |point: &Point| (point.predicted_us / point.measured_us - 1.0).abs();
            let errors: Vec<f64> = fitted.held_out.iter().map(error).collect();
            assert!(median(&errors).unwrap() < 0.05, "{errors:?}");
            assert!(fitted.cpu.clusters[1].coexec_f32.is_none(), "nothing ran there");
        });
    }

    #[test]
    fn few_layers_are_too_few_for_a_fit() {
        let (base, _) = untimed(GpuFamily::Generic);
        with_a_minute(|budget| {
            let error = gpu(&base, &[], FIT_ARGUMENTS, budget).unwrap_err();
            assert!(matches!(error, ProbeError::TooLittleTime { .. }), "{error}");
        });
    }
}

//! `CoDL`'s predictor and the FLOPs-linear one: Tables 3 and 4.
//!
//! The paper trains both on 70 % of the operators of its models, cut along both dimensions by
//! tenths, and counts how many of the others are predicted within 10 %. Here the samples are
//! noise-free times of the simulator: the comparison shows how well a predictor's form follows
//! kernels that behave like the simulator's. The FLOPs model minimises squared microseconds, as
//! gradient descent on times does; `validate` compares all of them on measured runs.

use std::collections::HashSet;

use super::THREADS;
use super::runs::{MODELS, Runs};
use crate::{Comparison, Result, fastest, mean};
use coexec_fit::predictor::{CodlPredictor, Job, KernelName, Launch};
use coexec_fit::validate::flops_linear::{FlopsLinear, operations};
use coexec_sim::kernel::cpu::{self, Library};
use coexec_sim::kernel::gpu;
use coexec_sim::simulate::{SimulateError, execute};
use coexec_sim::{Axis, Layer, Operator, Processor, ProcessorKind, Profile};

/// Tenths of the samples that the predictors are trained on.
const TRAINING_TENTHS: usize = 7;
/// Largest relative error of a prediction that counts as accurate.
const ACCURATE_ERROR: f64 = 0.10;
/// The phones of the tables: index among the phones, and name in the ids of facts.
const PHONES: [(usize, &str); 3] = [(0, "xiaomi-9"), (1, "redmi-k30"), (2, "xiaomi-11")];
/// Kernels of Table 4.
const KERNELS: [&str; 4] = ["cpu-direct", "gpu-direct", "gemm", "winograd"];

/// A part of an operator on a processor, with its simulated time.
struct Sample {
    job: Job,
    operations: f64,
    micros: f64,
}

/// Whether each predictor is within 10 % on one sample.
struct Outcome {
    processor: ProcessorKind,
    kernel: Option<&'static str>,
    codl: bool,
    flops: bool,
}

/// Compares ours with the published accuracies.
pub(super) fn compare(comparison: &mut Comparison, runs: &Runs) -> Result {
    let mut all = Vec::new();
    for (phone, name) in PHONES {
        let outcomes = outcomes(runs.profile(phone), runs)?;
        let of = |what: &str| format!("{name}/ops/{what}-predictor-plus-10percent-accuracy");
        comparison.row(of("flops"), percent(outcomes.iter().map(|one| one.flops)));
        comparison.row(of("codl"), percent(outcomes.iter().map(|one| one.codl)));
        for kernel in KERNELS {
            let of_kernel = outcomes.iter().filter(|one| one.kernel == Some(kernel)).map(|one| one.codl);
            let id = format!("{name}/{kernel}/plus-10percent-prediction-accuracy");
            comparison.row(id, percent(of_kernel));
        }
        all.extend(outcomes);
    }
    let of = |processor| percent(all.iter().filter(|one| one.processor == processor).map(|one| one.codl));
    comparison.row("3-phones/cpu-ops/predictor-accuracy-cpu", of(ProcessorKind::Cpu));
    comparison.row("3-phones/gpu-ops/predictor-accuracy-gpu", of(ProcessorKind::Gpu));
    let flops = percent(all.iter().map(|one| one.flops));
    comparison.row("3-phones/ops/flops-predictor-mean-accuracy", flops);
    let fact = "all/flops-predictor/plus-10percent-accuracy-upper-bound";
    comparison.finding(fact, format!("{flops:.0} %"), flops < 20.0);
    Ok(())
}

fn percent(hits: impl Iterator<Item = bool>) -> f64 {
    mean(&hits.map(|hit| if hit { 100.0 } else { 0.0 }).collect::<Vec<_>>())
}

/// The sampled parts: convolutions and linear layers of the models, cut by tenths.
fn parts(runs: &Runs) -> Vec<Layer> {
    let (mut seen, mut parts) = (HashSet::new(), Vec::new());
    for stage in (0..MODELS.len()).flat_map(|model| runs.stages(model)) {
        let layer = &stage.layer;
        if !matches!(layer.operator, Operator::Conv2d(_) | Operator::Linear(_)) {
            continue;
        }
        for axis in [Axis::Height, Axis::Channels] {
            let Some(all) = axis.extent(&layer.operator) else { continue };
            for tenths in 1..=10 {
                let extent = (all * tenths / 10).max(1);
                let part = match axis {
                    Axis::Height => layer.with_output_rows(0..extent),
                    Axis::Channels => layer.with_output_channels(extent),
                };
                if seen.insert(part.clone()) {
                    parts.push(part);
                }
            }
        }
    }
    parts
}

fn outcomes(profile: &Profile, runs: &Runs) -> Result<Vec<Outcome>> {
    let cores = fastest(profile, THREADS)?;
    let layers = parts(runs);
    let mut outcomes = Vec::new();
    for by in [Processor::Cpu(cores), Processor::Gpu] {
        let mut samples = Vec::new();
        for layer in &layers {
            let (phases, _) = execute(layer, profile, Library::Xnnpack, by)?;
            let job = match (by.cores(), &profile.gpu) {
                (Some(cores), _) => Job::on_cpu(layer, &profile.cpu, &cores, Library::Xnnpack),
                (None, Some(gpu)) => Job::on_gpu(layer, gpu),
                (None, None) => continue,
            };
            samples.push(Sample {
                job: job.map_err(SimulateError::from)?,
                operations: operations(layer),
                micros: phases.duration().as_micros(),
            });
        }
        let (trained, tested): (Vec<_>, Vec<_>) =
            samples.iter().enumerate().partition(|(index, _)| index * 3 % 10 < TRAINING_TENTHS);
        let codl =
            CodlPredictor::fit(Launch::None, trained.iter().map(|(_, one)| (one.job.clone(), one.micros)));
        let flops = FlopsLinear::fit_absolute(trained.iter().map(|(_, one)| (one.operations, one.micros)));
        for (_, sample) in tested {
            let close = |predicted: f64| (predicted / sample.micros - 1.0).abs() <= ACCURATE_ERROR;
            outcomes.push(Outcome {
                processor: by.kind(),
                kernel: kernel(&sample.job),
                codl: codl.predict(&sample.job).is_some_and(close),
                flops: flops.is_some_and(|model| close(model.predict(sample.operations))),
            });
        }
    }
    Ok(outcomes)
}

/// The column of Table 4 that a job belongs to.
fn kernel(job: &Job) -> Option<&'static str> {
    use cpu::Kernel::{Gemm, Im2colGemm, IndirectGemm};
    use gpu::Kernel::{ConvConstants, ConvGeneric, Winograd};
    let columns: [&[KernelName]; 4] = [
        &[KernelName::Cpu(IndirectGemm), KernelName::Cpu(Im2colGemm)],
        &[KernelName::Gpu(ConvGeneric), KernelName::Gpu(ConvConstants)],
        &[KernelName::Cpu(Gemm)],
        &[KernelName::Gpu(Winograd)],
    ];
    let column = columns.iter().position(|kernels| kernels.contains(&job.implementation.kernel))?;
    Some(KERNELS[column])
}

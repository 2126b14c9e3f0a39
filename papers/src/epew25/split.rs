//! Sections 1 and 3: one linear layer on one phone, cut by cut.

use super::{DATA_TYPE, MAX_THREADS, STEP, fastest, options};
use crate::{Comparison, Inputs, Result};
use coexec_sim::explore::split_search;
use coexec_sim::simulate::{Simulator, execute};
use coexec_sim::workload::{Layer, Linear, Operator, Stage};
use coexec_sim::{Axis, Library, Mechanism, Placement, Plan, Processor, Profile};

/// The phone of these sections.
const PHONE: &str = "oneplus11";

/// CPU threads of the cuts of section 3, which does not state them: its 128 GFLOP/s match one Cortex-X3
/// in 16 bits, a third of the rate of three cores in Table 2 and figure 2.
const THREADS_OF_CUTS: u32 = 1;

/// Rows of every linear layer of ViT-B/32.
const ROWS: u32 = 50;
/// Input and output features of the first linear layer of its MLP; the second layer has them the other
/// way round.
const NARROW: u32 = 768;
const WIDE: u32 = 3_072;

/// The cuts that sections 3.1 and 3.2 measure: output channels of the GPU, and the name in ids of
/// facts.
const CUTS: [(u32, &str); 2] = [(2_378, "plain"), (2_480, "augmented")];

/// Output channels at the top of and after the spike of figure 5.
const SPIKE: [u32; 2] = [2_500, 2_520];

/// A linear layer of ViT-B/32.
fn layer(input_features: u32, output_features: u32) -> Stage {
    let linear = Linear { rows: ROWS, input_features, output_features, bias: true };
    Stage::single("linear".to_owned(), Layer::new(Operator::Linear(linear), DATA_TYPE))
}

/// Time of a layer on one processor, in microseconds.
fn alone(device: &Profile, stage: &Stage, by: Processor) -> Result<f64> {
    Ok(execute(&stage.layer, device, Library::Xnnpack, by)?.0.duration().as_micros())
}

/// Compares ours with the numbers of sections 1 and 3.
pub(super) fn compare(comparison: &mut Comparison, inputs: &Inputs) -> Result {
    let device = inputs.profile(PHONE)?;
    let (one, three) = (fastest(device, THREADS_OF_CUTS)?, fastest(device, MAX_THREADS)?);
    let mut simulator = Simulator::new(device, Library::Xnnpack);
    let on_gpu = |stage: &Stage| alone(device, stage, Processor::Gpu);
    let whole = layer(NARROW, WIDE);
    let gpu_only = on_gpu(&whole)?;
    for (gpu_channels, key) in CUTS {
        let cpu_channels = WIDE - gpu_channels;
        let placement = Placement::cpu_and_gpu(Axis::Channels, one, [cpu_channels, gpu_channels]);
        let plan = Plan::new(Mechanism::SvmPolling, vec![placement]);
        let together = simulator.latency(&[whole.isolated()], &plan)?.as_micros();
        let cpu = alone(device, &layer(NARROW, cpu_channels), Processor::Cpu(one))?;
        comparison.row(format!("split/{key}/gpu-us"), on_gpu(&layer(NARROW, gpu_channels))?);
        comparison.row(format!("split/{key}/cpu-us"), cpu);
        comparison.row(format!("split/{key}/latency-us"), together);
        comparison.row(format!("split/{key}/speedup"), gpu_only / together);
    }
    let search = split_search(&simulator, &whole, &options(one))?;
    if let Some((Axis::Channels, [cpu, gpu])) =
        search.split.and_then(|split| split.placement.cpu_and_gpu_extents())
    {
        comparison.row("split/augmented/gpu-channels", f64::from(gpu));
        comparison.row("split/augmented/cpu-channels", f64::from(cpu));
    }
    let [high, low] = SPIKE.map(|channels| on_gpu(&layer(NARROW, channels)));
    comparison.row("spike/ratio", high? / low?);
    comparison.row("vit/longest-linear-us", gpu_only.max(on_gpu(&layer(WIDE, NARROW))?));
    // Where the CPU with three threads stops being faster than the GPU on 50x3072 (figure 2).
    let mut last = 0;
    for channels in (STEP..=NARROW).step_by(STEP as usize) {
        let stage = layer(WIDE, channels);
        if alone(device, &stage, Processor::Cpu(three))? < on_gpu(&stage)? {
            last = channels;
        }
    }
    comparison.row("crossover/channels", f64::from(last));
    Ok(())
}

//! EPEW'25: the runs behind its published numbers.
//!
//! Co-execution hands the same tensors to both processors, in memory that both see, and
//! the GPU computes in 16 bits: so does the CPU here. In 32 bits it could not have done
//! what the paper's Table 3 says it did: of `ResNet`-18 on the Pixel 5, the CPU computes 1.6
//! GFLOP in 18.2 ms, 90 GFLOP/s, where its two fast cores and a slow one have 88 at most.

mod networks;
mod operators;
mod split;

use super::{Comparison, Inputs, ReproduceError, curves, fastest, line};
use coexec_sim::explore::{Effort, Objective, SearchOptions, Strategy};
use coexec_sim::kernel::gpu;
use coexec_sim::simulate::{Detail, execute};
use coexec_sim::workload::{Conv2d, DataType, Layer, Operator, Shape, Window};
use coexec_sim::{CoreSet, Library, Mechanism, Processor};

/// Number format of both processors.
const DATA_TYPE: DataType = DataType::F16;

/// Grid of the paper's search, in output channels (section 5.3).
const STEP: u32 = 8;

/// Most CPU threads of the paper's runs.
const MOST_THREADS: u32 = 3;

/// The phone of Table 4, in ids of facts.
const MOTO: &str = "moto";

/// The paper's phones: in ids of facts, and the name of the profile.
const PHONES: [(&str, &str); 4] =
    [("pixel4", "pixel4"), ("pixel5", "pixel5"), (MOTO, "moto-edge-plus-2022"), ("oneplus11", "oneplus11")];

/// Sets ours beside the published numbers.
pub(super) fn compare(comparison: &mut Comparison, inputs: &Inputs) -> Result<(), ReproduceError> {
    operators::compare(comparison, inputs)?;
    networks::compare(comparison, inputs)?;
    split::compare(comparison, inputs)?;
    kernels(comparison, inputs)?;
    comparison.row("dataset/conv", crate::operators("epew-conv")?.len() as f64);
    Ok(())
}

/// What the paper's search may use: a core set and the GPU.
fn options(cores: CoreSet) -> SearchOptions {
    SearchOptions {
        strategy: Strategy::ChannelSplit,
        objective: Objective::Latency,
        synchronisation: Mechanism::SvmPolling,
        core_sets: vec![cores],
        step: STEP,
        effort: Effort::default(),
    }
}

/// Section 3.1's convolution, 3x3 over 64x64x128, with each number of output channels that
/// its figure 6b shows: time, and the switch to Winograd.
fn kernels(comparison: &mut Comparison, inputs: &Inputs) -> Result<(), ReproduceError> {
    const MOST_CHANNELS: u32 = 256;
    const PLOTTED_STEP: usize = 4;
    let device = inputs.profile("oneplus11")?;
    let mut of_kernel = [Vec::new(), Vec::new()];
    for channels in (PLOTTED_STEP as u32..=MOST_CHANNELS).step_by(PLOTTED_STEP) {
        let input = Shape::image(64, 64, 128);
        let conv = Conv2d::new(input, channels, Window::same(3));
        let layer = Layer::new(Operator::Conv2d(conv), DATA_TYPE);
        let (phases, detail) = execute(&layer, device, Library::Xnnpack, Processor::Gpu)?;
        let is_winograd = matches!(&detail, Detail::Gpu(launch) if launch.kernel == gpu::Kernel::Winograd);
        of_kernel[usize::from(is_winograd)].push((f64::from(channels), phases.duration().as_micros()));
    }
    let [generic, winograd] = of_kernel;
    let switch = winograd.first().map_or(f64::INFINITY, |first| first.0);
    let last = generic.iter().take_while(|point| point.0 < switch).last();
    comparison.row("winograd/above-channels", last.map_or(0.0, |last| last.0));
    comparison.figure(curves(
        "kernel-switch",
        "3x3 convolutions of 64x64x128 on the GPU of the OnePlus 11",
        "the paper's switch to Winograd above 128 channels (EPEW'25, figure 6b)",
        ["output channels", "time (us)"],
        vec![line("generic convolution", generic), line("Winograd", winograd)],
    ));
    Ok(())
}

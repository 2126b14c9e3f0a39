//! EPEW'25: the runs behind its published numbers.
//!
//! In co-execution both processors use the same tensors in shared memory, and the GPU computes
//! in 16 bits: so does the CPU here. In 32 bits it could not reach the paper's Table 3: for
//! `ResNet`-18 on the Pixel 5, the CPU computes 1.6 GFLOP in 18.2 ms, 90 GFLOP/s, but its two
//! fast cores and a slow one have at most 88.

mod networks;
mod operators;
mod split;

use super::{Comparison, Inputs, Result, fastest};
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
const MAX_THREADS: u32 = 3;

/// Name of the phone of Table 4 in ids of facts.
const MOTO: &str = "moto";

/// The paper's phones: the name in ids of facts, and the name of the profile.
const PHONES: [(&str, &str); 4] =
    [("pixel4", "pixel4"), ("pixel5", "pixel5"), (MOTO, "moto-edge-plus-2022"), ("oneplus11", "oneplus11")];

/// Compares ours with the published numbers.
pub(super) fn compare(comparison: &mut Comparison, inputs: &Inputs) -> Result {
    operators::compare(comparison, inputs)?;
    networks::compare(comparison, inputs)?;
    split::compare(comparison, inputs)?;
    kernels(comparison, inputs)?;
    comparison.row("dataset/conv", crate::operators("epew-conv")?.len() as f64);
    Ok(())
}

/// The options of the paper's search: one core set and the GPU.
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

/// Section 3.1's convolution, 3x3 over 64x64x128: the most output channels before the switch to
/// Winograd, in the range of its figure 6b.
fn kernels(comparison: &mut Comparison, inputs: &Inputs) -> Result {
    const MAX_CHANNELS: u32 = 256;
    const STEP: u32 = 4;
    let device = inputs.profile("oneplus11")?;
    let mut most = 0;
    for channels in (STEP..=MAX_CHANNELS).step_by(STEP as usize) {
        let input = Shape::image(64, 64, 128);
        let conv = Conv2d::new(input, channels, Window::same(3));
        let layer = Layer::new(Operator::Conv2d(conv), DATA_TYPE);
        let (_, detail) = execute(&layer, device, Library::Xnnpack, Processor::Gpu)?;
        if matches!(&detail, Detail::Gpu(launch) if launch.kernel == gpu::Kernel::Winograd) {
            break;
        }
        most = channels;
    }
    comparison.row("winograd/above-channels", f64::from(most));
    Ok(())
}

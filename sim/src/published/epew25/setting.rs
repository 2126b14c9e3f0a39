//! What the paper says of its operators and kernels, and what no simulation can say.

use super::DATA_TYPE;
use crate::kernel::cpu::Library;
use crate::kernel::gpu;
use crate::published::{Comparison, Inputs, Limit, ReproduceError};
use crate::simulate::{Detail, Processor, SimulateError, Simulator};
use crate::workload::{Conv2d, Layer, Operator, Padding, Shape, operator_set};

/// Sets ours beside the paper's setting, and names what is not predicted.
pub(super) fn compare(comparison: &mut Comparison, inputs: &Inputs) -> Result<(), ReproduceError> {
    comparison.group("Setting: kernels and operators", Limit::default());
    let profile = inputs.profile("oneplus11")?;
    let simulator = Simulator::new(profile, Library::Xnnpack);
    comparison.row("winograd/above-channels", f64::from(last_before_winograd(&simulator)?));
    comparison.finding("kernels/conv", "constant memory, Winograd, generic, each by TFLite's rules", true);
    comparison.finding("spike/cause", "work-groups come in rounds of the compute units", true);
    comparison.finding("overhead/model", "one delay where both compute, none where one does", true);
    let convolutions = operator_set("epew-conv").map_or(0, |operators| operators.len());
    comparison.row("dataset/conv", convolutions as f64);
    let setting = "a setting of the paper's, not a result";
    for id in ["dataset/threads", "dataset/flop-low", "dataset/flop-high", "training/configurations"] {
        comparison.not_reproduced(id, setting);
    }
    comparison.not_reproduced(
        "dataset/linear",
        "the printed text gives 8,610 operations; a sample of 2,039 of them is run",
    );
    for id in ["cited/notification-us", "cited/codl-gpu-ms", "cited/codl-shared-ms"] {
        comparison.not_reproduced(id, "cited from another paper, where it is compared");
    }
    for id in ["planning/ms-low", "planning/ms-high"] {
        comparison.not_reproduced(id, "time of the paper's own predictors on its own computer");
    }
    let own =
        "a choice or an error of the paper's own predictors, which the rows of its choices take as given";
    comparison.rest_not_reproduced(own, |fact| {
        fact.id.starts_with("mape/")
            || fact.id.starts_with("augmentation/")
            || fact.id.starts_with("split/plain/")
            || fact.id == "split/augmented/predicted-us"
    });
    Ok(())
}

/// The most output channels of section 3.1's convolution that are not computed by Winograd.
fn last_before_winograd(simulator: &Simulator<'_>) -> Result<u32, SimulateError> {
    const MOST_CHANNELS: u32 = 512;
    for channels in 1..=MOST_CHANNELS {
        let conv = Conv2d {
            input: Shape::image(64, 64, 128),
            output_channels: channels,
            kernel: [3, 3],
            stride: [1, 1],
            dilation: [1, 1],
            padding: Padding { top: 1, bottom: 1, left: 1, right: 1 },
            groups: 1,
            bias: true,
        };
        let layer = Layer::new(Operator::Conv2d(conv), DATA_TYPE);
        let (_, detail) = simulator.layer(&layer, Processor::Gpu, None)?;
        if matches!(&detail, Detail::Gpu(launch) if launch.kernel == gpu::Kernel::Winograd) {
            return Ok(channels - 1);
        }
    }
    Ok(MOST_CHANNELS)
}

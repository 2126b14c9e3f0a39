//! What the paper says of its operators and kernels, and what no simulation can say.

use super::DATA_TYPE;
use crate::kernel::cpu::Library;
use crate::kernel::gpu;
use crate::published::{Comparison, Curves, Drawing, Inputs, Limit, Line, Picture, ReproduceError};
use crate::simulate::{Detail, Processor, SimulateError, Simulator};
use crate::workload::{Conv2d, Layer, Operator, Padding, Shape, operator_set};

/// Sets ours beside the paper's setting, and names what is not predicted.
pub(super) fn compare(comparison: &mut Comparison, inputs: &Inputs) -> Result<(), ReproduceError> {
    comparison.group("Setting: kernels and operators", Limit::default());
    let profile = inputs.profile("oneplus11")?;
    let simulator = Simulator::new(profile, Library::Xnnpack);
    let times = kernel_times(&simulator)?;
    let last = times.iter().take_while(|time| !time.is_winograd).last();
    comparison.row("winograd/above-channels", last.map_or(0.0, |time| f64::from(time.channels)));
    comparison.figure(switch(&times));
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

/// Time of a convolution on the GPU.
struct KernelTime {
    channels: u32,
    micros: f64,
    is_winograd: bool,
}

/// Section 3.1's convolution, 3x3 over 64x64x128, with each number of output channels that
/// its figure 6b shows.
fn kernel_times(simulator: &Simulator<'_>) -> Result<Vec<KernelTime>, SimulateError> {
    const MOST_CHANNELS: u32 = 256;
    const STEP: usize = 4;
    let time = |channels| {
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
        let (phases, detail) = simulator.layer(&layer, Processor::Gpu, None)?;
        let is_winograd = matches!(&detail, Detail::Gpu(launch) if launch.kernel == gpu::Kernel::Winograd);
        Ok(KernelTime { channels, micros: phases.duration().as_micros(), is_winograd })
    };
    (STEP as u32..=MOST_CHANNELS).step_by(STEP).map(time).collect()
}

/// The times over output channels, as the paper's figure 6b.
fn switch(times: &[KernelTime]) -> Picture {
    let line = |name: &str, is_winograd: bool| Line {
        name: name.to_owned(),
        is_published: false,
        points: times
            .iter()
            .filter(|time| time.is_winograd == is_winograd)
            .map(|time| (f64::from(time.channels), time.micros))
            .collect(),
    };
    Picture {
        name: "kernel-switch".to_owned(),
        title: "3x3 convolutions of 64x64x128 on the GPU of the OnePlus 11".to_owned(),
        subtitle: "the paper's switch to Winograd above 128 channels (EPEW'25, figure 6b)".to_owned(),
        drawing: Drawing::Curves(Curves {
            x: "output channels".to_owned(),
            y: "time (us)".to_owned(),
            lines: vec![line("generic convolution", false), line("Winograd", true)],
        }),
    }
}

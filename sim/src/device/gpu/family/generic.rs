//! What the delegate does on a GPU that it does not recognise, and how a CPU runs such kernels.

use super::{ConvGrid, ConvMapping, Family, Linearisation, Tile, TileTask, WinogradThresholds};
use crate::workload::Layout;

/// Launch of a kernel, in microseconds (hardware prior of the GPU model, from the mobile-ml-benchmark data
/// set).
const LAUNCH_US: f64 = 6.0;

/// The delegate on a GPU without rules of its own. `LiteRT` also tries constant weights there; they are
/// left out, as such GPUs' constant memory is not known.
pub(super) const UNRECOGNISED: Family = Family {
    maker: "",
    recognises: |_| false,
    wave_threads: 1,
    layout: Layout::Image,
    tile,
    map_convolution,
    convolution_group_slices: 16,
    work_group: None,
    most_group_threads: None,
    fully_connected_slices: 16,
    winograd: WinogradThresholds { source_slices: 16, output_slices: 16, tiles: 32 },
    constant_bytes: 0,
    has_depthwise_3x3: true,
    has_depthwise_stride_h2: false,
    reduction_threads: [64, 256],
    softmax_passes: 3,
    softmax_threads: 128,
    norm_threads: Some(64),
    norms_few_slices_alone: false,
    runs_threads_in_turn: false,
    has_last_level_cache: false,
    hides_wave_start: false,
    expected_launch_us: LAUNCH_US,
};

/// Any other `OpenCL` device: cores of a CPU under `PoCL`. A device of its kind has thousands of threads to
/// a group, which one core would run while the others wait.
pub(super) static GENERIC: Family = Family {
    layout: Layout::SlicedBuffer,
    most_group_threads: Some(256),
    norm_threads: None,
    runs_threads_in_turn: true,
    ..UNRECOGNISED
};

fn tile(task: &TileTask) -> (Tile, u32) {
    let slices = task.slices_up_to_four();
    (Tile::new(1, 1, slices), task.unroll_by_slices(slices))
}

fn map_convolution(_: &ConvGrid) -> ConvMapping {
    ConvMapping { linearisation: Linearisation::None, fixed_group: None }
}

//! The delegate's rules for a GPU that it does not recognise, and for a CPU as `OpenCL` device.

use super::{ConvGrid, ConvMapping, Family, Linearisation, Tile, TileTask, WinogradThresholds};
use crate::workload::Layout;

/// Launch overhead in microseconds (hardware prior of the GPU model, from the mobile-ml-benchmark data
/// set).
const LAUNCH_US: f64 = 6.0;

/// A GPU without rules of its own. `LiteRT` also tries `conv_constants` there; that is not modelled, as
/// the constant memory of such GPUs is unknown.
pub(super) const UNRECOGNISED: Family = Family {
    maker: "",
    recognises: |_| false,
    wave_threads: 1,
    layout: Layout::Image,
    tile,
    map_convolution,
    convolution_group_slices: 16,
    work_group: None,
    max_group_threads: None,
    fully_connected_slices: 16,
    waited_weight_blocks: f64::INFINITY,
    winograd: WinogradThresholds { source_slices: 16, output_slices: 16, tiles: 32 },
    constant_bytes: 0,
    has_depthwise_3x3: true,
    has_depthwise_stride_h2: false,
    reduction_threads: [64, 256],
    softmax_passes: 3,
    softmax_threads: 128,
    norm_threads: Some(64),
    norm_skips_group_for_few_slices: false,
    runs_threads_in_turn: false,
    has_last_level_cache: false,
    hides_wave_start: false,
    expected_launch_us: LAUNCH_US,
};

/// Any other `OpenCL` device: the cores of a CPU under `PoCL`. Such a device allows thousands of
/// threads per work-group, which a single core would run while the others idle; hence the limit of 256.
pub(super) static GENERIC: Family = Family {
    layout: Layout::SlicedBuffer,
    max_group_threads: Some(256),
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

//! Imagination `PowerVR`.

use super::{Family, Tile, TileTask, UNRECOGNISED, linear_groups};

/// Launch of a kernel by a driver that is slow to start one, in microseconds (hardware prior of the GPU
/// model, from the mobile-ml-benchmark data set).
const SLOW_LAUNCH_US: f64 = 45.0;

/// A driver of `OpenCL` 3.0 would get its preferred multiple as group size, not 32. `LiteRT` allows 32
/// threads in a reducing group; TFLite up to 2.15 has no such limit, and the means that a GE8320 was
/// measured on agree: 7x7 ones are summed by lone threads, and a 56x56 one takes a thread 14 reads, not 112
/// (mobile-ml-benchmark data set).
pub(super) static POWERVR: Family = Family {
    maker: "Imagination",
    recognises: |words| words.contains("powervr") || words.contains("imagination"),
    wave_threads: 32,
    tile,
    map_convolution: linear_groups,
    fully_connected_slices: 8,
    expected_launch_us: SLOW_LAUNCH_US,
    ..UNRECOGNISED
};

fn tile(task: &TileTask) -> (Tile, u32) {
    // The rule starts from up to eight slices, which 16-bit kernels cut to four.
    let slices = task.slices_up_to_four();
    let unroll = match slices {
        1 if task.source_slices <= 8 => task.source_slices.max(1),
        _ => task.unroll_by_slices(slices),
    };
    (Tile::new(2, 1, slices), unroll)
}

//! Imagination `PowerVR`.

use super::{Family, Tile, TileTask, UNRECOGNISED, linear_groups};

/// Launch overhead of a slow driver, in microseconds (hardware prior of the GPU model, from the
/// mobile-ml-benchmark data set).
const SLOW_LAUNCH_US: f64 = 45.0;

/// Under `OpenCL` 3.0 the group size would be the driver's preferred multiple, not 32. `LiteRT` limits
/// a reducing group to 32 threads; TFLite up to 2.15 has no such limit, and the means measured on a
/// GE8320 agree: 7x7 means run on lone threads, and a 56x56 mean takes 14 reads per thread, not 112
/// (mobile-ml-benchmark data set).
pub(super) static POWERVR: Family = Family {
    maker: "Imagination",
    recognises: |words| words.contains("powervr") || words.contains("imagination"),
    wave_threads: 32,
    tile,
    map_convolution: linear_groups,
    fully_connected_slices: 8,
    // In all runs of the mobile-ml-benchmark data set.
    waited_weight_blocks: 1.0,
    expected_launch_us: SLOW_LAUNCH_US,
    ..UNRECOGNISED
};

fn tile(task: &TileTask) -> (Tile, u32) {
    // The delegate's rule yields up to eight slices, which it limits to four in 16-bit kernels.
    let slices = task.slices_up_to_four();
    let unroll = match slices {
        1 if task.source_slices <= 8 => task.source_slices.max(1),
        _ => task.unroll_by_slices(slices),
    };
    (Tile::new(2, 1, slices), unroll)
}

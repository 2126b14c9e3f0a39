//! NVIDIA.

use super::{Family, Tile, TileTask, UNRECOGNISED, linear_groups};
use crate::workload::Layout;

/// Threads of a warp.
const WARP: u32 = 32;

/// The delegate takes the maximum work-group size from the driver, per compiled kernel: NVIDIA's
/// (driver 580) returns 256 for every kernel not compiled for a larger one, whatever its registers.
pub(super) static NVIDIA: Family = Family {
    maker: "NVIDIA",
    recognises: |words| words.contains("nvidia"),
    wave_threads: WARP,
    layout: Layout::SlicedBuffer,
    tile,
    map_convolution: linear_groups,
    max_group_threads: Some(256),
    fully_connected_slices: 8,
    constant_bytes: 1024,
    has_last_level_cache: true,
    hides_wave_start: true,
    ..UNRECOGNISED
};

fn tile(task: &TileTask) -> (Tile, u32) {
    let mut tile = Tile::new(2, 1, task.slices_up_to_four());
    let waves = task.per_unit() / f64::from(tile.texels()) / f64::from(WARP);
    if waves < 8.0 {
        tile.x = 1;
    }
    if waves < 4.0 && tile.slices >= 4 {
        tile.slices /= 2;
    }
    if waves < 2.0 && tile.slices >= 2 {
        tile.slices /= 2;
    }
    (tile, task.unroll_by_slices(tile.slices))
}

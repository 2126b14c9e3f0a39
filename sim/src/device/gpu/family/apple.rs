//! Apple.

use super::{
    ConvGrid, ConvMapping, Extent, Family, LINEAR_GROUP, Linearisation, Tile, TileTask, UNRECOGNISED,
};
use crate::workload::Layout;

/// A9 and A10. `linear_all` if `linear_spatial` has more than 1.04 times its groups.
pub(super) static A9: Family = A9_RULES;

const A9_RULES: Family = Family {
    maker: "Apple",
    wave_threads: 32,
    layout: Layout::SlicedBuffer,
    tile: |task| tile(task, budget(task), Tile::new(1, 1, 1)),
    map_convolution: |grid| map(grid, 1.04),
    work_group: Some(work_group),
    fully_connected_slices: 8,
    has_depthwise_stride_h2: true,
    reduction_threads: [16, 256],
    softmax_passes: 2,
    ..UNRECOGNISED
};

/// A11 and later. `linear_all` if it saves any group over `linear_spatial`.
pub(super) static BIONIC: Family = Family {
    recognises: |words| words.contains("apple"),
    tile: bionic_tile,
    map_convolution: |grid| map(grid, 1.0),
    ..A9_RULES
};

/// Texels that a thread may compute, by the groups per compute unit.
fn budget(task: &TileTask) -> u32 {
    let groups = task.shape.texels().div_ceil(u64::from(LINEAR_GROUP));
    match groups / u64::from(task.compute_units) {
        64.. => 8,
        32.. => 4,
        16.. => 2,
        _ => 1,
    }
}

fn bionic_tile(task: &TileTask) -> (Tile, u32) {
    let Extent { width, height, .. } = task.shape;
    match budget(task) {
        1 => tile(task, 1, Tile::new(1, 1, 1)),
        budget if height % 2 != 0 && width % 2 == 0 => tile(task, budget / 2, Tile::new(2, 1, 1)),
        budget => tile(task, budget / 2, Tile::new(1, 2, 1)),
    }
}

/// `tile` with as many slices as the `budget` of texels and the tensor allow, plus the source unroll.
fn tile(task: &TileTask, budget: u32, mut tile: Tile) -> (Tile, u32) {
    let slices = task.shape.slices;
    if budget >= 4 && slices == 3 {
        tile.slices = 3;
    } else if budget >= 4 && (slices.is_multiple_of(4) || slices >= 16) {
        tile.slices = 4;
    } else if budget >= 2 && (slices.is_multiple_of(2) || slices >= 4) {
        tile.slices = 2;
    }
    (tile, task.unroll_by_texels(tile.texels()))
}

/// The linearisation with the fewest groups; `linear_all` only if `linear_spatial` has more than
/// `linear_all_ratio` times its groups.
fn map(grid: &ConvGrid, linear_all_ratio: f64) -> ConvMapping {
    let [columns, rows, slices] = grid.threads.map(u64::from);
    let group = u64::from(LINEAR_GROUP);
    let by_axis = columns.div_ceil(8) * rows.div_ceil(4) * slices;
    let by_plane = (columns * rows).div_ceil(group) * slices;
    let by_all = (columns * rows * slices).div_ceil(group);
    let linear = [LINEAR_GROUP, 1, 1];
    let (linearisation, group) = if by_plane as f64 / by_all as f64 > linear_all_ratio {
        (Linearisation::All, linear)
    } else if by_plane < by_axis {
        (Linearisation::Spatial, linear)
    } else {
        (Linearisation::None, if grid.folded { linear } else { [8, 4, 1] })
    };
    ConvMapping { linearisation, fixed_group: Some(group) }
}

fn work_group(grid: [u32; 3]) -> [u32; 3] {
    let size = |threads: u32| match threads {
        n if n % 8 == 0 || n % 8 >= 4 || n >= 16 => 8,
        n if n % 4 == 0 || n % 4 >= 2 || n >= 8 => 4,
        n if n % 2 == 0 || n >= 4 => 2,
        _ => 1,
    };
    let (x, y) = (size(grid[0]), size(grid[1]));
    let z = (LINEAR_GROUP / (x * y)).max(1).min(grid[2]);
    [x, y, z]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_have_32_threads_if_the_grid_allows() {
        assert_eq!(work_group([56, 56, 16]), [8, 8, 1]);
        assert_eq!(work_group([7, 7, 40]), [8, 8, 1]);
        assert_eq!(work_group([3, 3, 40]), [4, 4, 2]);
        assert_eq!(work_group([1, 1, 40]), [1, 1, 32]);
    }

    #[test]
    fn axes_are_flattened_only_if_that_saves_groups() {
        let map = |threads, family: &Family| {
            (family.map_convolution)(&ConvGrid { threads, folded: false, row_weights: false }).linearisation
        };
        assert_eq!(map([32, 32, 8], &BIONIC), Linearisation::None);
        assert_eq!(map([28, 28, 32], &A9), Linearisation::Spatial);
        assert_eq!(map([7, 7, 32], &A9), Linearisation::All);
    }
}

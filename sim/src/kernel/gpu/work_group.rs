//! Grid and work-group of a launch: how the delegate cuts threads into groups
//! when it does not time candidates (its "fast" tuning, the default).

use super::select::Kernel;
use super::tile::Tile;
use super::{Extent, saturated};
use crate::device::gpu::{Gpu, GpuFamily};

/// Most threads of a convolution's group, whatever the driver allows.
const MOST_CONV_THREADS: u32 = 256;
/// Most threads of a group on the families of [`small_groups`].
const MOST_SMALL_GROUP_THREADS: u32 = 256;
/// Threads of a group with a fixed, linear size.
const LINEAR_GROUP: u32 = 32;

/// How the axes of a convolution's grid are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Linearisation {
    /// Three axes: columns, rows, slices.
    None,
    /// Columns and rows joined, slices apart (`linear_spatial`).
    Spatial,
    /// All axes joined (`linear_all`).
    All,
}

/// A kernel with its launch dimensions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Dispatch {
    pub(super) kernel: Kernel,
    pub(super) tile: Tile,
    pub(super) grid: [u32; 3],
    pub(super) work_group: [u32; 3],
    pub(super) groups: u32,
    pub(super) iterations: u32,
}

impl Dispatch {
    /// A launch of `grid` threads in groups of `work_group`.
    pub(super) fn new(
        kernel: Kernel,
        tile: Tile,
        grid: [u32; 3],
        work_group: [u32; 3],
        iterations: u32,
    ) -> Self {
        let count = |axis: usize| u64::from(grid[axis].div_ceil(work_group[axis]));
        let groups = saturated(count(0).saturating_mul(count(1)).saturating_mul(count(2)));
        Self { kernel, tile, grid, work_group, groups, iterations }
    }

    /// Threads of one work-group.
    pub(super) fn threads(&self) -> u32 {
        self.work_group.iter().product()
    }

    /// Waves of one work-group.
    pub(super) fn waves(&self, gpu: &Gpu) -> u32 {
        self.threads().div_ceil(gpu.simd_width)
    }

    /// Waves on the compute unit that gets the most of `groups` of the launch.
    ///
    /// A CPU device (the generic family) runs the threads of a group one after another,
    /// and one beyond the grid returns at once: there only the first group of a core
    /// counts as full, the others as the average.
    pub(super) fn waves_per_unit(&self, groups: u32, gpu: &Gpu) -> f64 {
        let of_unit = f64::from(groups.div_ceil(gpu.compute_units));
        let full = f64::from(self.waves(gpu));
        if gpu.family != GpuFamily::Generic || groups == 0 {
            return of_unit * full;
        }
        let threads: f64 = self.grid.iter().map(|&threads| f64::from(threads)).product();
        let needed = threads / f64::from(gpu.simd_width);
        full.min(needed) + (of_unit - 1.0) * (needed / f64::from(self.groups)).min(full)
    }
}

/// One thread per tile of `output`.
pub(super) fn grid(output: Extent, tile: Tile) -> [u32; 3] {
    [output.width.div_ceil(tile.x), output.height.div_ceil(tile.y), output.slices.div_ceil(tile.slices)]
        .map(|threads| threads.max(1))
}

/// How a convolution is launched: its tile choice mapped onto a grid.
pub(super) struct ConvMapping {
    pub(super) linearisation: Linearisation,
    /// A group size that does not depend on the grid.
    fixed: Option<[u32; 3]>,
}

/// The mapping of a convolution whose rule saw `shape` and chose `tile`, before
/// a `folded` tile is laid along the width. Different weights per row
/// (`row_weights`) forbid joining rows on the families that share weights through
/// local memory.
pub(super) fn conv_mapping(
    shape: Extent,
    tile: Tile,
    folded: bool,
    row_weights: bool,
    family: GpuFamily,
) -> ConvMapping {
    let linear = Some([LINEAR_GROUP, 1, 1]);
    match family {
        GpuFamily::PowerVr | GpuFamily::Nvidia if row_weights => {
            ConvMapping { linearisation: Linearisation::None, fixed: linear }
        }
        // A PowerVR driver of OpenCL 3.0 would get its preferred multiple, not 32.
        GpuFamily::PowerVr | GpuFamily::Nvidia => {
            ConvMapping { linearisation: Linearisation::Spatial, fixed: linear }
        }
        GpuFamily::AppleA9 | GpuFamily::AppleBionic => apple_mapping(shape, tile, folded, family),
        _ => ConvMapping { linearisation: Linearisation::None, fixed: None },
    }
}

/// Apple joins axes where that saves groups: more than 4 % of them on A9 and
/// A10, any on later chips.
fn apple_mapping(shape: Extent, tile: Tile, folded: bool, family: GpuFamily) -> ConvMapping {
    let [columns, rows, slices] = grid(shape, tile).map(u64::from);
    let group = u64::from(LINEAR_GROUP);
    let by_axis = columns.div_ceil(8) * rows.div_ceil(4) * slices;
    let by_plane = (columns * rows).div_ceil(group) * slices;
    let by_all = (columns * rows * slices).div_ceil(group);
    let worth_joining_all = if family == GpuFamily::AppleBionic { 1.0 } else { 1.04 };
    if by_plane as f64 / by_all as f64 > worth_joining_all {
        ConvMapping { linearisation: Linearisation::All, fixed: Some([LINEAR_GROUP, 1, 1]) }
    } else if by_plane < by_axis {
        ConvMapping { linearisation: Linearisation::Spatial, fixed: Some([LINEAR_GROUP, 1, 1]) }
    } else {
        let size = if folded { [LINEAR_GROUP, 1, 1] } else { [8, 4, 1] };
        ConvMapping { linearisation: Linearisation::None, fixed: Some(size) }
    }
}

impl ConvMapping {
    /// The launched grid of `threads` (columns, rows, slices).
    pub(super) fn grid(&self, threads: [u32; 3]) -> [u32; 3] {
        let [columns, rows, slices] = threads;
        match self.linearisation {
            Linearisation::None => threads,
            Linearisation::Spatial => [columns.saturating_mul(rows), slices, 1],
            Linearisation::All => [columns.saturating_mul(rows).saturating_mul(slices), 1, 1],
        }
    }

    /// The work-group for that grid.
    pub(super) fn work_group(&self, grid: [u32; 3], gpu: &Gpu) -> [u32; 3] {
        self.fixed.unwrap_or_else(|| conv_work_group(grid, gpu))
    }
}

/// As many slices as divide the grid's, then columns, then rows. On Adreno up to
/// 64 slices share a group, so that lanes of a wave work on different weights.
fn conv_work_group(grid: [u32; 3], gpu: &Gpu) -> [u32; 3] {
    let most_slices = match gpu.family {
        GpuFamily::Adreno3xx => 16,
        family if family.is_adreno() => 64,
        _ => 16,
    };
    let z = largest_divisor(grid[2], most_slices.min(gpu.max_work_group_size));
    let plane = (MOST_CONV_THREADS.min(gpu.max_work_group_size) / z).max(1);
    let x = grid[0].min(plane);
    let mut y = (plane / x).min(grid[1]);
    if y == grid[1] && grid[1].is_multiple_of(2) {
        y /= 2;
    }
    [x, y, z]
}

/// The work-group of every kernel that is no convolution and fixes no size.
pub(super) fn generic_work_group(grid: [u32; 3], gpu: &Gpu) -> [u32; 3] {
    if gpu.family.is_apple() {
        return apple_work_group(grid);
    }
    let z = slices_of_group(grid[2]);
    let most = if small_groups(gpu.family) {
        gpu.max_work_group_size.min(MOST_SMALL_GROUP_THREADS)
    } else {
        gpu.max_work_group_size
    };
    let plane = (most / z).max(1);
    let x = grid[0].div_ceil(2).min(plane);
    let y = (plane / x).min(grid[1]);
    [x, y, z]
}

/// Families whose drivers let a group of the device's size be asked for, but not had or
/// not used. The delegate asks for what the driver answers for the compiled kernel;
/// NVIDIA's (driver 580) answers 256 for every kernel that was not compiled for a larger
/// group, whatever its registers. A CPU device (the generic family) has thousands of
/// threads to a group, which one core would then run while the others wait.
fn small_groups(family: GpuFamily) -> bool {
    matches!(family, GpuFamily::Nvidia | GpuFamily::Generic)
}

/// 8, 4 or 2 where they divide the grid's `slices`, else the largest divisor up
/// to 8: a prime count of slices leaves one.
pub(super) fn slices_of_group(slices: u32) -> u32 {
    match slices {
        n if n % 8 == 0 => 8,
        n if n % 4 == 0 => 4,
        n if n % 2 == 0 => 2,
        n => largest_divisor(n, 8),
    }
}

fn apple_work_group(grid: [u32; 3]) -> [u32; 3] {
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

/// The largest divisor of `n` that is at most `most`.
fn largest_divisor(n: u32, most: u32) -> u32 {
    (1..=most.min(n)).rev().find(|&divisor| n.is_multiple_of(divisor)).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prime_count_of_slices_cannot_share_a_group() {
        assert_eq!(largest_divisor(313, 64), 1);
        assert_eq!(largest_divisor(315, 64), 63);
        assert_eq!(slices_of_group(140), 4);
        assert_eq!(slices_of_group(7), 7);
        assert_eq!(slices_of_group(11), 1);
    }

    fn gpu(family: GpuFamily) -> Gpu {
        let gpu: Gpu = toml::from_str(include_str!("../../../tests/golden/gpu_pixel4.toml")).unwrap();
        Gpu { family, compute_units: 8, simd_width: 1, max_work_group_size: 1_024, ..gpu }
    }

    #[test]
    fn groups_stay_small_where_a_driver_answers_so_or_a_core_would_run_them_alone() {
        let group = |family| generic_work_group([14, 14, 144], &gpu(family));
        assert_eq!(group(GpuFamily::Nvidia), [7, 4, 8]);
        assert_eq!(group(GpuFamily::Generic), [7, 4, 8]);
        assert_eq!(group(GpuFamily::Adreno6xx), [7, 14, 8]);
    }

    #[test]
    fn a_thread_beyond_the_grid_costs_a_core_nothing() {
        let waves = |columns, family| {
            let dispatch = Dispatch::new(Kernel::Pool, Tile::new(1, 1, 1), [columns, 1, 1], [10, 1, 1], 1);
            dispatch.waves_per_unit(dispatch.groups, &gpu(family))
        };
        // Two groups for each of eight cores, the last of 16 with a single thread.
        let [cores, lanes] = [GpuFamily::Generic, GpuFamily::Adreno6xx].map(|family| waves(151, family));
        assert!((cores - (10.0 + 151.0 / 16.0)).abs() < 1e-9 && (lanes - 20.0).abs() < 1e-9);
        assert!((waves(4, GpuFamily::Generic) - 4.0).abs() < 1e-9);
    }

    #[test]
    fn apple_groups_hold_thirty_two_threads_where_the_grid_lets_them() {
        assert_eq!(apple_work_group([56, 56, 16]), [8, 8, 1]);
        assert_eq!(apple_work_group([7, 7, 40]), [8, 8, 1]);
        assert_eq!(apple_work_group([3, 3, 40]), [4, 4, 2]);
        assert_eq!(apple_work_group([1, 1, 40]), [1, 1, 32]);
    }

    #[test]
    fn apple_joins_axes_only_where_that_saves_groups() {
        let map = |width, height, slices, family| {
            let shape = Extent { width, height, slices };
            apple_mapping(shape, Tile::new(1, 1, 1), false, family).linearisation
        };
        assert_eq!(map(32, 32, 8, GpuFamily::AppleBionic), Linearisation::None);
        assert_eq!(map(28, 28, 32, GpuFamily::AppleA9), Linearisation::Spatial);
        assert_eq!(map(7, 7, 32, GpuFamily::AppleA9), Linearisation::All);
    }
}

//! Grid and work-group of a launch, as the delegate chooses them without timing
//! candidates (its "fast" tuning, the default).

use super::{Kernel, saturated};
use crate::device::{Extent, Gpu, Linearisation, Tile};

/// Maximum threads of a convolution's work-group, even if the driver allows more.
const MAX_CONV_THREADS: u32 = 256;

/// A kernel with its launch dimensions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Dispatch {
    pub(super) kernel: Kernel,
    pub(super) tile: Tile,
    pub(super) grid: [u32; 3],
    pub(super) work_group: [u32; 3],
    /// How the three axes were flattened into the grid.
    pub(super) linearisation: Linearisation,
    pub(super) groups: u32,
    pub(super) iterations: u32,
}

impl Dispatch {
    /// A launch of `grid` threads in groups of `work_group` threads, not linearised.
    pub(super) fn new(
        kernel: Kernel,
        tile: Tile,
        grid: [u32; 3],
        work_group: [u32; 3],
        iterations: u32,
    ) -> Self {
        let count = |axis: usize| u64::from(grid[axis].div_ceil(work_group[axis]));
        let groups = saturated(count(0).saturating_mul(count(1)).saturating_mul(count(2)));
        let linearisation = Linearisation::None;
        Self { kernel, tile, grid, work_group, linearisation, groups, iterations }
    }

    /// One thread per tile of `output`, with the generic work-group of non-convolution kernels.
    pub(super) fn over(kernel: Kernel, output: Extent, tile: Tile, iterations: u32, gpu: &Gpu) -> Self {
        let grid = grid(output, tile);
        Self::new(kernel, tile, grid, generic_work_group(grid, gpu), iterations)
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
    /// A CPU device runs the threads of a group one after another, and a thread beyond the
    /// grid returns immediately: there only the first group of a core counts as full, the
    /// others as average.
    pub(super) fn waves_per_unit(&self, groups: u32, gpu: &Gpu) -> f64 {
        let of_unit = f64::from(groups.div_ceil(gpu.compute_units));
        let full = f64::from(self.waves(gpu));
        if !gpu.family.rules().runs_threads_in_turn || groups == 0 {
            return of_unit * full;
        }
        let threads: f64 = self.grid.iter().map(|&threads| f64::from(threads)).product();
        let needed = threads / f64::from(gpu.simd_width);
        full.min(needed) + (of_unit - 1.0) * (needed / f64::from(self.groups)).min(full)
    }
}

/// One thread per tile of `output`. A tile never spans two images of a batch.
pub(super) fn grid(output: Extent, tile: Tile) -> [u32; 3] {
    let columns = output.width.div_ceil(tile.x).saturating_mul(output.batch);
    [columns, output.height.div_ceil(tile.y), output.slices.div_ceil(tile.slices)]
        .map(|threads| threads.max(1))
}

/// The work-group of a convolution without a fixed one: the largest divisor of the grid's slices, then
/// columns, then rows. A deep group makes the lanes of a wave read different weights.
pub(super) fn conv_work_group(grid: [u32; 3], gpu: &Gpu) -> [u32; 3] {
    let most_slices = gpu.family.rules().convolution_group_slices;
    let z = largest_divisor(grid[2], most_slices.min(gpu.max_work_group_size));
    let plane = (MAX_CONV_THREADS.min(gpu.max_work_group_size) / z).max(1);
    let x = grid[0].min(plane);
    let mut y = (plane / x).min(grid[1]);
    if y == grid[1] && grid[1].is_multiple_of(2) {
        y /= 2;
    }
    [x, y, z]
}

/// The work-group of every kernel that is not a convolution and has no fixed one.
fn generic_work_group(grid: [u32; 3], gpu: &Gpu) -> [u32; 3] {
    let rules = gpu.family.rules();
    if let Some(work_group) = rules.work_group {
        return work_group(grid);
    }
    let z = slices_of_group(grid[2]);
    let most =
        rules.max_group_threads.map_or(gpu.max_work_group_size, |most| most.min(gpu.max_work_group_size));
    let plane = (most / z).max(1);
    let x = grid[0].div_ceil(2).min(plane);
    let y = (plane / x).min(grid[1]);
    [x, y, z]
}

/// 8, 4 or 2 if they divide the grid's `slices`, else the largest divisor up to 8: a prime
/// count above 8 leaves one slice per group.
fn slices_of_group(slices: u32) -> u32 {
    match slices {
        n if n % 8 == 0 => 8,
        n if n % 4 == 0 => 4,
        n if n % 2 == 0 => 2,
        n => largest_divisor(n, 8),
    }
}

/// The largest divisor of `n` that is at most `most`.
fn largest_divisor(n: u32, most: u32) -> u32 {
    (1..=most.min(n)).rev().find(|&divisor| n.is_multiple_of(divisor)).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::gpu::GpuFamily;

    #[test]
    fn a_prime_count_of_slices_cannot_share_a_group() {
        assert_eq!(largest_divisor(313, 64), 1);
        assert_eq!(largest_divisor(315, 64), 63);
        assert_eq!(slices_of_group(140), 4);
        assert_eq!(slices_of_group(7), 7);
        assert_eq!(slices_of_group(11), 1);
    }

    fn gpu(family: GpuFamily) -> Gpu {
        let gpu: Gpu =
            crate::input::from_toml(include_str!("../../../tests/golden/gpu_pixel4.toml")).unwrap();
        Gpu { family, compute_units: 8, simd_width: 1, max_work_group_size: 1_024, ..gpu }
    }

    #[test]
    fn groups_stay_small_if_the_driver_limits_them_or_one_core_runs_each() {
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
        // Two groups on each of eight cores; the last of the 16 has a single thread.
        let [cores, lanes] = [GpuFamily::Generic, GpuFamily::Adreno6xx].map(|family| waves(151, family));
        assert!((cores - (10.0 + 151.0 / 16.0)).abs() < 1e-9 && (lanes - 20.0).abs() < 1e-9);
        assert!((waves(4, GpuFamily::Generic) - 4.0).abs() < 1e-9);
    }
}

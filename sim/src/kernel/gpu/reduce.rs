//! Kernels that reduce over pixels: windowed pooling and the mean of a whole image.

use super::{Cost, Dispatch, Kernel, Modelled, extent, lanes, saturated};
use crate::device::{Extent, Gpu, Quantity, Tile};
use crate::workload::{Pool, PoolKind, Shape};

/// Pooling over a window: one thread computes one slice of one pixel.
pub(super) fn pool(pool: &Pool, gpu: &Gpu) -> Modelled {
    let table = &gpu.pool;
    let (input, output) = (extent(pool.input), extent(pool.output()));
    let tile = Tile::new(1, 1, 1);
    let window = saturated(pool.window.taps());
    let bytes = input.bytes() + output.bytes();
    let kind_factor = match pool.kind {
        PoolKind::Max => 1.0,
        PoolKind::Average => 1.0 + table.average_factor.value,
    };
    let lines = lanes::relative_cache_lines(pool.window.stride[1]);
    let dispatch = Dispatch::over(Kernel::Pool, output, tile, window, gpu);
    let waves = dispatch.waves_per_unit(dispatch.groups, gpu);
    let cost = Cost {
        latency_us: table.latency_us.value,
        throughput_us: table.throughput_us.value + table.throughput_stride_us.value * lines,
        loop_factor: kind_factor,
        epilogue_us: Quantity::or_zero(table.wave_us.as_ref()) * waves * kind_factor,
        ..Cost::new(table.common(), bytes, bytes as f64)
    };
    Modelled { dispatch, cost }
}

/// Mean over the pixels of each channel.
///
/// A work-group reduces one slice together if the image is large enough to fill it;
/// else each thread sums a whole slice by itself, and the generic rule groups as many
/// slices as their count's divisibility allows: on Adreno a 7x7 mean of 512 channels
/// takes a third of the time of 840.
pub(super) fn mean(input: Shape, gpu: &Gpu) -> Modelled {
    let table = &gpu.mean;
    let batch = input.batch;
    let extent = extent(Shape { batch: 1, ..input });
    let tile = Tile::new(1, 1, 1);
    let reduction = reduction_group([extent.width, extent.height], gpu.family.rules().reduction_threads);
    let dispatch = if let Some([width, height]) = reduction {
        let reads = extent.width.div_ceil(width).saturating_mul(extent.height.div_ceil(height));
        // One group per image and slice.
        let grid = [width.saturating_mul(batch), height, extent.slices.max(1)];
        Dispatch::new(Kernel::Mean, tile, grid, [width, height, 1], reads)
    } else {
        let reads = extent.width.saturating_mul(extent.height);
        let means = Extent { batch, width: 1, height: 1, ..extent };
        Dispatch::over(Kernel::Mean, means, tile, reads, gpu)
    };
    let steps = reduction.map_or(0, |[width, height]| reduction_steps(width * height));
    let wave_us =
        table.wave_us.value + Quantity::or_zero(table.reduction_step_us.as_ref()) * f64::from(steps);
    let lone_reads = if reduction.is_some() { 0.0 } else { f64::from(dispatch.iterations) };
    let waves = dispatch.waves_per_unit(dispatch.groups, gpu);
    let bytes = u64::from(batch) * (extent.bytes() + Extent { width: 1, height: 1, ..extent }.bytes());
    let cost = Cost {
        latency_us: table.latency_us.value,
        throughput_us: table.throughput_us.value,
        epilogue_us: wave_us * waves + table.lone_read_us.value * lone_reads,
        ..Cost::new(table.common(), bytes, bytes as f64)
    };
    Modelled { dispatch, cost }
}

/// Threads of the work-group that reduces texels together, along each of two axes of `sizes`: each
/// doubles while the axis is at least twice as long and the group stays within `most` threads. `None`
/// below `least` threads: every thread then sums by itself.
///
/// This is TFLite 2.15's rule, as inferred from measurements: `LiteRT` also requires
/// four reads per thread before it grows a group, which 14x14 means on Adreno
/// contradict (mobile-ml-benchmark data set).
fn reduction_group(sizes: [u32; 2], [least, most]: [u32; 2]) -> Option<[u32; 2]> {
    let mut group = [1_u32; 2];
    'grow: for (axis, size) in sizes.into_iter().enumerate() {
        while size >= group[axis] * 2 {
            if group[0] * group[1] * 2 > most {
                break 'grow;
            }
            group[axis] *= 2;
        }
    }
    (group[0] * group[1] >= least).then_some(group)
}

/// Threads of the work-group that reduces one output texel over any axes, from `reads`
/// texels; `None` if a single thread does.
pub(super) fn sharing_threads(reads: u32, limits: [u32; 2]) -> Option<u32> {
    reduction_group([reads, 1], limits).map(|[threads, _]| threads)
}

/// Steps of the reduction tree through local memory for a group of `threads`: each leaves a
/// quarter of the partial sums, as long as at least eight remain. Every thread then adds up
/// the rest itself.
fn reduction_steps(threads: u32) -> u32 {
    std::iter::successors(Some(threads / 4), |left| Some(left / 4)).take_while(|&left| left >= 8).count()
        as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::gpu::GpuFamily;

    fn group(side: u32, family: GpuFamily) -> Option<[u32; 2]> {
        reduction_group([side, side], family.rules().reduction_threads)
    }

    #[test]
    fn a_group_shares_the_reads_of_a_long_reduction_and_no_short_one() {
        let of = |reads: u32| sharing_threads(reads, GpuFamily::Adreno6xx.rules().reduction_threads);
        assert_eq!([0, 48, 192, 256, 36_000].map(of), [None, None, Some(128), Some(256), Some(256)]);
    }

    #[test]
    fn a_seven_by_seven_mean_shares_a_slice_on_mali_but_not_on_adreno() {
        assert_eq!(group(7, GpuFamily::MaliBifrost3), Some([4, 4]));
        assert_eq!(group(7, GpuFamily::AppleA9), Some([4, 4]));
        assert_eq!(group(7, GpuFamily::Adreno6xx), None);
        assert_eq!(group(14, GpuFamily::Adreno6xx), Some([8, 8]));
        assert_eq!(group(7, GpuFamily::PowerVr), None);
        assert_eq!(group(56, GpuFamily::PowerVr), Some([32, 8]));
    }

    #[test]
    fn threads_that_sum_alone_are_grouped_as_any_kernel() {
        let gpu = crate::device::profile::Profile::load("iphone-xs").unwrap().gpu.unwrap();
        assert_eq!(mean(Shape::image(3, 3, 512), &gpu).dispatch.work_group, [1, 1, 32]);
    }

    #[test]
    fn a_larger_group_adds_up_its_sums_in_more_steps() {
        assert_eq!([16, 32, 64, 128, 256].map(reduction_steps), [0, 1, 1, 2, 2]);
    }
}

//! Memory accesses that the lanes of a wave share, as the number of distinct pixel
//! blocks and output-slice blocks per wave.
//!
//! Lanes that differ only in their output slice read the same source texels but
//! different weights; lanes that differ only in their pixels, the reverse.

use crate::device::SLICE_BYTES;

/// Bytes of a cache line: what Adreno and Mali GPUs report (`CL_DEVICE_GLOBAL_MEM_CACHELINE_SIZE`).
const CACHE_LINE_BYTES: u64 = 64;

/// Distinct accesses per wave, averaged over the waves of a work-group.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Lanes {
    /// Distinct pixel blocks of a wave.
    pub(super) pixels: f64,
    /// Distinct output-slice blocks of a wave.
    pub(super) weights: f64,
}

/// The lanes of a three-dimensional work-group, whose threads are numbered along
/// x, then y, then z and cut into waves of `simd_width`.
pub(super) fn of_group(work_group: [u32; 3], simd_width: u32) -> Lanes {
    let [x, y, z] = work_group;
    let plane = x * y;
    let threads = plane * z;
    let waves = threads.div_ceil(simd_width);
    let last = threads - (waves - 1) * simd_width;
    let pixels = (waves - 1) * plane.min(simd_width) + plane.min(last);
    // A wave covers one slice block more than it contains boundaries between planes. There are
    // z - 1 boundaries; one that coincides with the start of a wave lies inside no wave.
    let aligned_every = simd_width / greatest_common_divisor(plane, simd_width);
    let inside = (z - 1) - (z - 1) / aligned_every;
    Lanes {
        pixels: f64::from(pixels) / f64::from(waves),
        weights: f64::from(waves + inside) / f64::from(waves),
    }
}

/// Cache lines that adjacent lanes touch at a horizontal `stride`, relative to a stride
/// of 1. Bounded by the pixels of a line: pixels at least a line apart share none,
/// however large the stride.
pub(super) fn relative_cache_lines(stride: u32) -> f64 {
    f64::from(stride).min((CACHE_LINE_BYTES / SLICE_BYTES) as f64)
}

/// The lanes of a linearised group of `threads` over planes of `plane` pixel blocks;
/// `across_slices` if a group may continue into the next slice block (`linear_all`).
pub(super) fn of_linear(threads: u32, plane: u64, across_slices: bool) -> Lanes {
    let pixels = u64::from(threads).min(plane) as f64;
    let steps = f64::from(threads - 1) / plane as f64;
    Lanes { pixels, weights: if across_slices { 1.0 + steps } else { 1.0 } }
}

fn greatest_common_divisor(mut a: u32, mut b: u32) -> u32 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pixels_at_least_a_line_apart_share_no_line() {
        for (stride, lines) in [(1, 1.0), (2, 2.0), (8, 8.0), (9, 8.0), (256, 8.0)] {
            assert!((relative_cache_lines(stride) - lines).abs() < f64::EPSILON, "{stride}");
        }
    }

    /// Brute-force reference for [`of_group`].
    fn counted([x, y, z]: [u32; 3], simd_width: u32) -> Lanes {
        let plane = x * y;
        let threads: Vec<u32> = (0..plane * z).collect();
        let waves: Vec<_> = threads.chunks(simd_width as usize).collect();
        let mean = |count: &dyn Fn(&[u32]) -> u32| {
            f64::from(waves.iter().map(|wave| count(wave)).sum::<u32>()) / waves.len() as f64
        };
        Lanes {
            pixels: mean(&|wave| plane.min(wave.len() as u32)),
            weights: mean(&|wave| wave[wave.len() - 1] / plane - wave[0] / plane + 1),
        }
    }

    #[test]
    fn the_closed_form_agrees_with_counting_threads() {
        for group in [[4, 1, 64], [7, 1, 32], [14, 4, 4], [28, 9, 1], [3, 5, 13], [256, 1, 1], [1, 1, 61]] {
            for simd_width in [4, 8, 16, 32, 64, 128, 48] {
                assert_eq!(of_group(group, simd_width), counted(group, simd_width), "{group:?} {simd_width}");
            }
        }
    }

    #[test]
    fn a_narrow_plane_spreads_a_wave_over_many_weights() {
        // 4 pixel blocks x 64 slices: each 64-lane wave holds 16 slice blocks.
        assert_eq!(of_group([4, 1, 64], 64), Lanes { pixels: 4.0, weights: 16.0 });
        assert_eq!(of_group([64, 4, 1], 64), Lanes { pixels: 64.0, weights: 1.0 });
    }
}

//! Micro-kernels for AVX-512: 14 pixels by 32 channels, 28 of the 32 registers
//! accumulate.

use std::arch::x86_64::{
    __m512, _mm512_add_ps, _mm512_fmadd_ps, _mm512_loadu_ps, _mm512_max_ps, _mm512_min_ps, _mm512_set1_ps,
    _mm512_setzero_ps, _mm512_storeu_ps,
};

use super::micro_kernel::{MicroKernel, TileCall};

/// Pixels of a tile.
const PIXELS: usize = 14;
/// Numbers in a vector.
const LANES: usize = 16;
/// Vectors of output channels of a tile.
const VECTORS: usize = 2;
/// Steps along the depth with sums of their own in the product with a vector:
/// with [`VECTORS`], as many sums as two pipes of latency four keep in flight.
const VECTOR_STEPS: usize = 4;

pub(super) const MICRO_KERNEL: MicroKernel<f32> =
    MicroKernel { pixels: PIXELS, channels: VECTORS * LANES, tile, vector };

/// # Safety
/// As [`super::micro_kernel::Tile`] says.
#[target_feature(enable = "avx512f")]
unsafe fn tile(call: &TileCall<f32>) {
    let mut sums = [[_mm512_setzero_ps(); VECTORS]; PIXELS];
    // SAFETY: every pointer is valid for what the call's formula reads and writes,
    // and the offsets below are those of the formula.
    unsafe {
        for (pixel, sums) in sums.iter_mut().enumerate() {
            *sums = load(call.start.add(pixel * call.start_stride));
        }
        let mut weights = call.weights;
        for segment in 0..call.segments {
            let rows: &[*const f32; PIXELS] = &*call.rows.add(segment * PIXELS).cast();
            for k in 0..call.depth {
                let column = load(weights);
                for (sums, row) in sums.iter_mut().zip(rows) {
                    let input = _mm512_set1_ps(*row.add(k));
                    for (sum, weight) in sums.iter_mut().zip(column) {
                        *sum = _mm512_fmadd_ps(input, weight, *sum);
                    }
                }
                weights = weights.add(VECTORS * LANES);
            }
        }
        for (pixel, sums) in sums.into_iter().enumerate() {
            store(sums, call.clamp, call.output.add(pixel * call.output_stride));
        }
    }
}

/// # Safety
/// As [`super::micro_kernel::Tile`] says, for a tile of one pixel.
#[target_feature(enable = "avx512f")]
unsafe fn vector(call: &TileCall<f32>) {
    let mut sums = [[_mm512_setzero_ps(); VECTORS]; VECTOR_STEPS];
    // SAFETY: every pointer is valid for what the call's formula reads and writes,
    // and the offsets below are those of the formula.
    unsafe {
        sums[0] = load(call.start);
        let mut weights = call.weights;
        for segment in 0..call.segments {
            let row = *call.rows.add(segment);
            for k in 0..call.depth / VECTOR_STEPS {
                for (step, sums) in sums.iter_mut().enumerate() {
                    let input = _mm512_set1_ps(*row.add(k * VECTOR_STEPS + step));
                    let column = load(weights.add(step * VECTORS * LANES));
                    for (sum, weight) in sums.iter_mut().zip(column) {
                        *sum = _mm512_fmadd_ps(input, weight, *sum);
                    }
                }
                weights = weights.add(VECTOR_STEPS * VECTORS * LANES);
            }
            for k in call.depth / VECTOR_STEPS * VECTOR_STEPS..call.depth {
                let input = _mm512_set1_ps(*row.add(k));
                for (sum, weight) in sums[0].iter_mut().zip(load(weights)) {
                    *sum = _mm512_fmadd_ps(input, weight, *sum);
                }
                weights = weights.add(VECTORS * LANES);
            }
        }
        let [mut total, others @ ..] = sums;
        for other in others {
            for (total, sum) in total.iter_mut().zip(other) {
                *total = _mm512_add_ps(*total, sum);
            }
        }
        store(total, call.clamp, call.output);
    }
}

/// # Safety
/// `from` is valid for as many reads as a tile has channels.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn load(from: *const f32) -> [__m512; VECTORS] {
    // SAFETY: the caller vouches for both vectors.
    unsafe { [_mm512_loadu_ps(from), _mm512_loadu_ps(from.add(LANES))] }
}

/// # Safety
/// `to` is valid for as many writes as a tile has channels.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn store(sums: [__m512; VECTORS], [low, high]: [f32; 2], to: *mut f32) {
    for (vector, sum) in sums.into_iter().enumerate() {
        let sum = _mm512_min_ps(_mm512_max_ps(sum, _mm512_set1_ps(low)), _mm512_set1_ps(high));
        // SAFETY: the caller vouches for all vectors of the tile's channels.
        unsafe { _mm512_storeu_ps(to.add(vector * LANES), sum) };
    }
}

//! Micro-kernels for AVX-512: 14 pixels by 32 channels, 28 of the 32 registers
//! accumulate.

#![expect(
    clippy::needless_range_loop,
    reason = "iterators are calls that stay calls among vector instructions"
)]

use std::arch::x86_64::{
    __m512, _mm512_add_ps, _mm512_fmadd_ps, _mm512_loadu_ps, _mm512_max_ps, _mm512_min_ps, _mm512_mul_ps,
    _mm512_set1_ps, _mm512_setzero_ps, _mm512_storeu_ps,
};

use coexec_sim::device::cpu::InstructionSet;

use super::micro_kernel::{MicroKernel, TileCall};
use super::vector::{Plain, Vector};

/// Pixels of a tile.
const PIXELS: usize = InstructionSet::Avx512.tile().pixels;
/// Numbers in a vector.
const LANES: usize = InstructionSet::Avx512.lanes();
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
        for pixel in 0..PIXELS {
            sums[pixel] = load(call.start.add(pixel * call.start_stride));
        }
        let mut weights = call.weights;
        for segment in 0..call.segments {
            let rows: &[*const f32; PIXELS] = &*call.rows.add(segment * PIXELS).cast();
            for k in 0..call.depth {
                let column = load(weights);
                for pixel in 0..PIXELS {
                    let input = _mm512_set1_ps(*rows[pixel].add(k));
                    for vector in 0..VECTORS {
                        sums[pixel][vector] = _mm512_fmadd_ps(input, column[vector], sums[pixel][vector]);
                    }
                }
                weights = weights.add(VECTORS * LANES);
            }
        }
        for pixel in 0..PIXELS {
            store(sums[pixel], call.clamp, call.output.add(pixel * call.output_stride));
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
                for step in 0..VECTOR_STEPS {
                    let input = _mm512_set1_ps(*row.add(k * VECTOR_STEPS + step));
                    let column = load(weights.add(step * VECTORS * LANES));
                    for vector in 0..VECTORS {
                        sums[step][vector] = _mm512_fmadd_ps(input, column[vector], sums[step][vector]);
                    }
                }
                weights = weights.add(VECTOR_STEPS * VECTORS * LANES);
            }
            for k in call.depth / VECTOR_STEPS * VECTOR_STEPS..call.depth {
                let input = _mm512_set1_ps(*row.add(k));
                let column = load(weights);
                for vector in 0..VECTORS {
                    sums[0][vector] = _mm512_fmadd_ps(input, column[vector], sums[0][vector]);
                }
                weights = weights.add(VECTORS * LANES);
            }
        }
        for step in 1..VECTOR_STEPS {
            for vector in 0..VECTORS {
                sums[0][vector] = _mm512_add_ps(sums[0][vector], sums[step][vector]);
            }
        }
        store(sums[0], call.clamp, call.output);
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
    for vector in 0..VECTORS {
        let sum = _mm512_min_ps(_mm512_max_ps(sums[vector], _mm512_set1_ps(low)), _mm512_set1_ps(high));
        // SAFETY: the caller vouches for all vectors of the tile's channels.
        unsafe { _mm512_storeu_ps(to.add(vector * LANES), sum) };
    }
}

// SAFETY: the register is 16 consecutive numbers.
unsafe impl Vector<f32> for __m512 {
    type Lane = Plain<1, true>;
    const LANES: usize = LANES;

    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        // SAFETY: the caller vouches for the instructions.
        unsafe { _mm512_set1_ps(value) }
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the caller vouches for the instructions and all lanes.
        unsafe { _mm512_loadu_ps(from) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: the caller vouches for the instructions and all lanes.
        unsafe { _mm512_storeu_ps(to, self) }
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        // SAFETY: the caller vouches for the instructions.
        unsafe { _mm512_add_ps(self, other) }
    }

    #[inline(always)]
    unsafe fn multiply(self, other: Self) -> Self {
        // SAFETY: the caller vouches for the instructions.
        unsafe { _mm512_mul_ps(self, other) }
    }

    #[inline(always)]
    unsafe fn add_product(self, a: Self, b: Self) -> Self {
        // SAFETY: the caller vouches for the instructions.
        unsafe { _mm512_fmadd_ps(a, b, self) }
    }

    #[inline(always)]
    unsafe fn maximum(self, other: Self) -> Self {
        // SAFETY: the caller vouches for the instructions.
        unsafe { _mm512_max_ps(self, other) }
    }
}

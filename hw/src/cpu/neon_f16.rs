//! Micro-kernels for NEON in half precision: 8 pixels by 8 channels, sums kept
//! in half precision as XNNPACK's f16 kernels keep them. The numbers travel as
//! `u16` bits, since Rust has no stable scalar type for them.

#![expect(
    clippy::needless_range_loop,
    reason = "iterators are calls that stay calls among vector instructions"
)]

use std::arch::aarch64::{
    float16x8_t, float32x4_t, vaddq_f16, vaddq_f32, vcvt_f16_f32, vcvt_f32_f16, vdupq_n_f32, vdupq_n_u16,
    vfmaq_f16, vfmaq_f32, vfmaq_laneq_f16, vld1_u16, vld1q_u16, vmaxq_f16, vmaxq_f32, vminq_f16, vmulq_f32,
    vreinterpret_f16_u16, vreinterpret_u16_f16, vreinterpretq_f16_u16, vreinterpretq_u16_f16, vst1_u16,
    vst1q_u16,
};

use half::f16;

use super::micro_kernel::{MicroKernel, TileCall};
use super::vector::{Plain, Vector};

/// Pixels of a tile.
const PIXELS: usize = 8;
/// Numbers in a vector, output channels of a tile, and steps along the depth
/// taken at once.
const LANES: usize = 8;
/// Steps along the depth with sums of their own in the product with a vector:
/// as many as two pipes of latency four keep in flight.
const VECTOR_STEPS: usize = 8;

pub(super) const MICRO_KERNEL: MicroKernel<f16> =
    MicroKernel { pixels: PIXELS, channels: LANES, tile, vector };

/// # Safety
/// As [`super::micro_kernel::Tile`] says.
#[target_feature(enable = "neon,fp16")]
unsafe fn tile(call: &TileCall<f16>) {
    let mut sums = [broadcast(f16::ZERO); PIXELS];
    // SAFETY: every pointer is valid for what the call's formula reads and writes,
    // and the offsets below are those of the formula.
    unsafe {
        for pixel in 0..PIXELS {
            sums[pixel] = load(call.start.add(pixel * call.start_stride));
        }
        let mut weights = call.weights;
        for segment in 0..call.segments {
            let rows: &[*const f16; PIXELS] = &*call.rows.add(segment * PIXELS).cast();
            let whole = call.depth / LANES * LANES;
            for k in (0..whole).step_by(LANES) {
                let mut inputs = [broadcast(f16::ZERO); PIXELS];
                for pixel in 0..PIXELS {
                    inputs[pixel] = load(rows[pixel].add(k));
                }
                step::<0>(&mut sums, &inputs, weights);
                step::<1>(&mut sums, &inputs, weights.add(LANES));
                step::<2>(&mut sums, &inputs, weights.add(2 * LANES));
                step::<3>(&mut sums, &inputs, weights.add(3 * LANES));
                step::<4>(&mut sums, &inputs, weights.add(4 * LANES));
                step::<5>(&mut sums, &inputs, weights.add(5 * LANES));
                step::<6>(&mut sums, &inputs, weights.add(6 * LANES));
                step::<7>(&mut sums, &inputs, weights.add(7 * LANES));
                weights = weights.add(LANES * LANES);
            }
            for k in whole..call.depth {
                let column = load(weights);
                for pixel in 0..PIXELS {
                    sums[pixel] = vfmaq_f16(sums[pixel], column, broadcast(*rows[pixel].add(k)));
                }
                weights = weights.add(LANES);
            }
        }
        for pixel in 0..PIXELS {
            store(sums[pixel], call.clamp, call.output.add(pixel * call.output_stride));
        }
    }
}

/// Adds the products of lane `LANE` of each pixel's inputs.
///
/// # Safety
/// `weights` is valid for as many reads as a tile has channels.
#[inline]
#[target_feature(enable = "neon,fp16")]
unsafe fn step<const LANE: i32>(
    sums: &mut [float16x8_t; PIXELS],
    inputs: &[float16x8_t; PIXELS],
    weights: *const f16,
) {
    // SAFETY: the caller vouches for the weights.
    let column = unsafe { load(weights) };
    for pixel in 0..PIXELS {
        sums[pixel] = vfmaq_laneq_f16::<LANE>(sums[pixel], column, inputs[pixel]);
    }
}

/// # Safety
/// As [`super::micro_kernel::Tile`] says, for a tile of one pixel.
#[target_feature(enable = "neon,fp16")]
unsafe fn vector(call: &TileCall<f16>) {
    let mut sums = [broadcast(f16::ZERO); VECTOR_STEPS];
    // SAFETY: every pointer is valid for what the call's formula reads and writes,
    // and the offsets below are those of the formula.
    unsafe {
        sums[0] = load(call.start);
        let mut weights = call.weights;
        for segment in 0..call.segments {
            let row = *call.rows.add(segment);
            let whole = call.depth / VECTOR_STEPS * VECTOR_STEPS;
            for k in (0..whole).step_by(VECTOR_STEPS) {
                for step in 0..VECTOR_STEPS {
                    let column = load(weights.add(step * LANES));
                    sums[step] = vfmaq_f16(sums[step], column, broadcast(*row.add(k + step)));
                }
                weights = weights.add(VECTOR_STEPS * LANES);
            }
            for k in whole..call.depth {
                sums[0] = vfmaq_f16(sums[0], load(weights), broadcast(*row.add(k)));
                weights = weights.add(LANES);
            }
        }
        for step in 1..VECTOR_STEPS {
            sums[0] = vaddq_f16(sums[0], sums[step]);
        }
        store(sums[0], call.clamp, call.output);
    }
}

#[inline]
#[target_feature(enable = "neon,fp16")]
fn broadcast(value: f16) -> float16x8_t {
    vreinterpretq_f16_u16(vdupq_n_u16(value.to_bits()))
}

/// # Safety
/// `from` is valid for as many reads as a vector has lanes.
#[inline]
#[target_feature(enable = "neon,fp16")]
unsafe fn load(from: *const f16) -> float16x8_t {
    // SAFETY: the caller vouches for the vector; `f16` is its bits.
    vreinterpretq_f16_u16(unsafe { vld1q_u16(from.cast()) })
}

/// # Safety
/// `to` is valid for as many writes as a vector has lanes.
#[inline]
#[target_feature(enable = "neon,fp16")]
unsafe fn store(sum: float16x8_t, [low, high]: [f16; 2], to: *mut f16) {
    let sum = vminq_f16(vmaxq_f16(sum, broadcast(low)), broadcast(high));
    // SAFETY: the caller vouches for the vector; `f16` is its bits.
    unsafe { vst1q_u16(to.cast(), vreinterpretq_u16_f16(sum)) };
}

// The operators that are no products compute in single precision in either format.
// SAFETY: the register is 4 consecutive numbers.
unsafe impl Vector<f16> for float32x4_t {
    type Lane = Plain<1, true>;
    const LANES: usize = 4;

    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        // SAFETY: the caller vouches for the instructions.
        unsafe { vdupq_n_f32(value) }
    }

    #[inline(always)]
    unsafe fn load(from: *const f16) -> Self {
        // SAFETY: the caller vouches for the instructions and all lanes.
        unsafe { vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(from.cast()))) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f16) {
        // SAFETY: the caller vouches for the instructions and all lanes.
        unsafe { vst1_u16(to.cast(), vreinterpret_u16_f16(vcvt_f16_f32(self))) }
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        // SAFETY: the caller vouches for the instructions.
        unsafe { vaddq_f32(self, other) }
    }

    #[inline(always)]
    unsafe fn multiply(self, other: Self) -> Self {
        // SAFETY: the caller vouches for the instructions.
        unsafe { vmulq_f32(self, other) }
    }

    #[inline(always)]
    unsafe fn add_product(self, a: Self, b: Self) -> Self {
        // SAFETY: the caller vouches for the instructions.
        unsafe { vfmaq_f32(self, a, b) }
    }

    #[inline(always)]
    unsafe fn maximum(self, other: Self) -> Self {
        // SAFETY: the caller vouches for the instructions.
        unsafe { vmaxq_f32(self, other) }
    }
}

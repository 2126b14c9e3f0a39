//! Micro-kernels for NEON in half precision: 8 pixels by 8 channels, sums kept
//! in half precision as XNNPACK's f16 kernels keep them. The numbers travel as
//! `u16` bits, since Rust has no stable scalar type for them.

use std::arch::aarch64::{
    float16x8_t, vaddq_f16, vdupq_n_u16, vfmaq_f16, vfmaq_laneq_f16, vld1q_u16, vmaxq_f16, vminq_f16,
    vreinterpretq_f16_u16, vreinterpretq_u16_f16, vst1q_u16,
};

use half::f16;

use super::micro_kernel::{MicroKernel, TileCall};

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
        for (pixel, sum) in sums.iter_mut().enumerate() {
            *sum = load(call.start.add(pixel * call.start_stride));
        }
        let mut weights = call.weights;
        for segment in 0..call.segments {
            let rows: &[*const f16; PIXELS] = &*call.rows.add(segment * PIXELS).cast();
            let whole = call.depth / LANES * LANES;
            for k in (0..whole).step_by(LANES) {
                let mut inputs = [broadcast(f16::ZERO); PIXELS];
                for (input, row) in inputs.iter_mut().zip(rows) {
                    *input = load(row.add(k));
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
                for (sum, row) in sums.iter_mut().zip(rows) {
                    *sum = vfmaq_f16(*sum, column, broadcast(*row.add(k)));
                }
                weights = weights.add(LANES);
            }
        }
        for (pixel, sum) in sums.into_iter().enumerate() {
            store(sum, call.clamp, call.output.add(pixel * call.output_stride));
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
    for (sum, input) in sums.iter_mut().zip(inputs) {
        *sum = vfmaq_laneq_f16::<LANE>(*sum, column, *input);
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
            for k in 0..call.depth {
                let sum = &mut sums[k % VECTOR_STEPS];
                *sum = vfmaq_f16(*sum, load(weights), broadcast(*row.add(k)));
                weights = weights.add(LANES);
            }
        }
        let [mut total, others @ ..] = sums;
        for other in others {
            total = vaddq_f16(total, other);
        }
        store(total, call.clamp, call.output);
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

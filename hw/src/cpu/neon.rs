//! Micro-kernels for NEON in single precision: 8 pixels by 8 channels, sixteen of
//! the 32 registers accumulate; inputs are read four steps of the depth at once
//! and multiplied lane by lane.

#![expect(
    clippy::needless_range_loop,
    reason = "iterators are calls that stay calls among vector instructions"
)]

use std::arch::aarch64::{
    float32x4_t, vaddq_f32, vdupq_n_f32, vfmaq_f32, vfmaq_laneq_f32, vfmaq_n_f32, vld1q_f32, vmaxq_f32,
    vminq_f32, vmulq_f32, vst1q_f32,
};

use coexec_sim::device::cpu::InstructionSet;

use super::micro_kernel::{MicroKernel, TileCall};
use super::vector::{Plain, Vector};

/// Pixels of a tile.
const PIXELS: usize = InstructionSet::Neon.tile().pixels;
/// Numbers in a vector, and steps along the depth taken at once.
const LANES: usize = InstructionSet::Neon.lanes();
/// Vectors of output channels of a tile.
const VECTORS: usize = 2;
/// Output channels of a tile.
const CHANNELS: usize = VECTORS * LANES;

pub(super) const MICRO_KERNEL: MicroKernel<f32> =
    MicroKernel { pixels: PIXELS, channels: CHANNELS, tile, vector };

/// # Safety
/// As [`super::micro_kernel::Tile`] says.
#[target_feature(enable = "neon")]
unsafe fn tile(call: &TileCall<f32>) {
    let mut sums = [[vdupq_n_f32(0.0); VECTORS]; PIXELS];
    // SAFETY: every pointer is valid for what the call's formula reads and writes,
    // and the offsets below are those of the formula.
    unsafe {
        for pixel in 0..PIXELS {
            sums[pixel] = load(call.start.add(pixel * call.start_stride));
        }
        let mut weights = call.weights;
        for segment in 0..call.segments {
            let rows: &[*const f32; PIXELS] = &*call.rows.add(segment * PIXELS).cast();
            let whole = call.depth / LANES * LANES;
            for k in (0..whole).step_by(LANES) {
                let mut inputs = [vdupq_n_f32(0.0); PIXELS];
                for pixel in 0..PIXELS {
                    inputs[pixel] = vld1q_f32(rows[pixel].add(k));
                }
                step::<0>(&mut sums, &inputs, weights);
                step::<1>(&mut sums, &inputs, weights.add(CHANNELS));
                step::<2>(&mut sums, &inputs, weights.add(2 * CHANNELS));
                step::<3>(&mut sums, &inputs, weights.add(3 * CHANNELS));
                weights = weights.add(LANES * CHANNELS);
            }
            for k in whole..call.depth {
                let column = load(weights);
                for pixel in 0..PIXELS {
                    for vector in 0..VECTORS {
                        let input = *rows[pixel].add(k);
                        sums[pixel][vector] = vfmaq_n_f32(sums[pixel][vector], column[vector], input);
                    }
                }
                weights = weights.add(CHANNELS);
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
#[target_feature(enable = "neon")]
unsafe fn step<const LANE: i32>(
    sums: &mut [[float32x4_t; VECTORS]; PIXELS],
    inputs: &[float32x4_t; PIXELS],
    weights: *const f32,
) {
    // SAFETY: the caller vouches for the weights.
    let column = unsafe { load(weights) };
    for pixel in 0..PIXELS {
        for vector in 0..VECTORS {
            sums[pixel][vector] = vfmaq_laneq_f32::<LANE>(sums[pixel][vector], column[vector], inputs[pixel]);
        }
    }
}

/// # Safety
/// As [`super::micro_kernel::Tile`] says, for a tile of one pixel.
#[target_feature(enable = "neon")]
unsafe fn vector(call: &TileCall<f32>) {
    let mut sums = [[vdupq_n_f32(0.0); VECTORS]; LANES];
    // SAFETY: every pointer is valid for what the call's formula reads and writes,
    // and the offsets below are those of the formula.
    unsafe {
        sums[0] = load(call.start);
        let mut weights = call.weights;
        for segment in 0..call.segments {
            let row = *call.rows.add(segment);
            let whole = call.depth / LANES * LANES;
            for k in (0..whole).step_by(LANES) {
                for step in 0..LANES {
                    let column = load(weights.add(step * CHANNELS));
                    for vector in 0..VECTORS {
                        let input = *row.add(k + step);
                        sums[step][vector] = vfmaq_n_f32(sums[step][vector], column[vector], input);
                    }
                }
                weights = weights.add(LANES * CHANNELS);
            }
            for k in whole..call.depth {
                let column = load(weights);
                for vector in 0..VECTORS {
                    sums[0][vector] = vfmaq_n_f32(sums[0][vector], column[vector], *row.add(k));
                }
                weights = weights.add(CHANNELS);
            }
        }
        for step in 1..LANES {
            for vector in 0..VECTORS {
                sums[0][vector] = vaddq_f32(sums[0][vector], sums[step][vector]);
            }
        }
        store(sums[0], call.clamp, call.output);
    }
}

/// # Safety
/// `from` is valid for as many reads as a tile has channels.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn load(from: *const f32) -> [float32x4_t; VECTORS] {
    // SAFETY: the caller vouches for both vectors.
    unsafe { [vld1q_f32(from), vld1q_f32(from.add(LANES))] }
}

/// # Safety
/// `to` is valid for as many writes as a tile has channels.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn store(sums: [float32x4_t; VECTORS], [low, high]: [f32; 2], to: *mut f32) {
    for vector in 0..VECTORS {
        let sum = vminq_f32(vmaxq_f32(sums[vector], vdupq_n_f32(low)), vdupq_n_f32(high));
        // SAFETY: the caller vouches for all vectors of the tile's channels.
        unsafe { vst1q_f32(to.add(vector * LANES), sum) };
    }
}

// SAFETY: the register is 4 consecutive numbers.
unsafe impl Vector<f32> for float32x4_t {
    type Lane = Plain<1, true>;
    const LANES: usize = LANES;

    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        // SAFETY: the caller vouches for the instructions.
        unsafe { vdupq_n_f32(value) }
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the caller vouches for the instructions and all lanes.
        unsafe { vld1q_f32(from) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: the caller vouches for the instructions and all lanes.
        unsafe { vst1q_f32(to, self) }
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

//! NEON registers and micro-kernels with tiles of 8 pixels by 8 channels. A register of inputs
//! holds consecutive depth steps, which are multiplied by lane (`fmla` by element).
//!
//! In half precision the sums stay in half precision, as in `XNNPACK`'s f16 kernels. Values are
//! passed as `u16` bits, since Rust has no stable scalar `f16`.

#![allow(
    unknown_lints,
    inline_always_mismatching_target_features,
    reason = "the callers of the intrinsics are inlined into functions that enable their target features"
)]

use std::arch::aarch64::{
    float16x8_t, float32x4_t, vaddq_f16, vaddq_f32, vcvt_f16_f32, vcvt_f32_f16, vdupq_n_f32, vdupq_n_u16,
    vfmaq_f16, vfmaq_f32, vfmaq_laneq_f16, vfmaq_laneq_f32, vld1_u16, vld1q_f32, vld1q_u16, vmaxq_f16,
    vmaxq_f32, vminq_f16, vminq_f32, vreinterpret_f16_u16, vreinterpret_u16_f16, vreinterpretq_f16_u16,
    vreinterpretq_u16_f16, vst1_u16, vst1q_f32, vst1q_u16,
};

use coexec_sim::InstructionSet;
use half::f16;

use super::micro_kernel::micro_kernel;
use super::vector::{register, vector};
use super::{MicroKernel, Plain, Register, TileCall, Vector, micro_kernel};

/// Pixels of a tile.
const PIXELS: usize = InstructionSet::Neon.tile().pixels;
/// Lanes per register in single and in half precision.
const LANES: usize = InstructionSet::Neon.lanes();
const HALF_LANES: usize = 2 * LANES;
/// Registers of output channels per tile in single precision; half precision needs half as many for
/// the same channels.
const VECTORS: usize = 2;

// The last argument is the number of depth steps with accumulators of their own in the
// matrix-vector product: as many sums as two pipes of latency four keep in flight.
pub(super) const F32: MicroKernel<f32> = micro_kernel!("neon", f32, float32x4_t, PIXELS, VECTORS, 4);
pub(super) const F16: MicroKernel<f16> = micro_kernel!("neon,fp16", f16, float16x8_t, PIXELS, 1, 8);

/// Takes as many depth steps at once as a register has lanes, multiplying by one lane at a time.
macro_rules! lane_by_lane {
    ($element:ty, $add_product:ident, $($lane:literal)*) => {
        const STEPS: usize = <Self as Register<$element>>::LANES;

        #[inline(always)]
        unsafe fn add_steps<const P: usize, const N: usize>(
            sums: &mut [[Self; N]; P],
            rows: &[*const $element; P],
            k: usize,
            weights: *const $element,
        ) {
            // SAFETY: the caller vouches for the instructions, the inputs and the columns.
            unsafe {
                let mut inputs = [<Self as Register<$element>>::load(rows[0].add(k)); P];
                for pixel in 1..P {
                    inputs[pixel] = <Self as Register<$element>>::load(rows[pixel].add(k));
                }
                $(
                    let column = <Self as Register<$element>>::load_all::<N>(weights.add($lane * N * <Self as Register<$element>>::LANES));
                    for pixel in 0..P {
                        for vector in 0..N {
                            let sum = &mut sums[pixel][vector];
                            *sum = $add_product::<$lane>(*sum, column[vector], inputs[pixel]);
                        }
                    }
                )*
            }
        }
    };
}

register! {
    float32x4_t, f32, LANES;
    broadcast(value) = vdupq_n_f32(value);
    load(from) = vld1q_f32(from);
    store(to, stored) = vst1q_f32(to, stored);
    add_product(sum, a, b) = vfmaq_f32(sum, a, b);
    add = vaddq_f32, maximum = vmaxq_f32, minimum = vminq_f32;
    lane_by_lane!(f32, vfmaq_laneq_f32, 0 1 2 3);
}
vector!(float32x4_t, f32, vdupq_n_f32);

register! {
    float16x8_t, f16, HALF_LANES;
    broadcast(value) = vreinterpretq_f16_u16(vdupq_n_u16(value.to_bits()));
    load(from) = vreinterpretq_f16_u16(vld1q_u16(from.cast()));
    store(to, stored) = vst1q_u16(to.cast(), vreinterpretq_u16_f16(stored));
    add_product(sum, a, b) = vfmaq_f16(sum, a, b);
    add = vaddq_f16, maximum = vmaxq_f16, minimum = vminq_f16;
    lane_by_lane!(f16, vfmaq_laneq_f16, 0 1 2 3 4 5 6 7);
}

// Operators other than products compute in single precision in both formats.
register! {
    float32x4_t, f16, LANES;
    broadcast(value) = vdupq_n_f32(value.to_f32());
    load(from) = vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(from.cast())));
    store(to, stored) = vst1_u16(to.cast(), vreinterpret_u16_f16(vcvt_f16_f32(stored)));
    add_product(sum, a, b) = vfmaq_f32(sum, a, b);
    add = vaddq_f32, maximum = vmaxq_f32, minimum = vminq_f32;
}
vector!(float32x4_t, f16, vdupq_n_f32);

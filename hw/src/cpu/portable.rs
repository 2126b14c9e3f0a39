//! Micro-kernels in plain loops, for processors without others and as the
//! yardstick of the others. Sums are kept in `f32` for either format.

use coexec_sim::device::cpu::InstructionSet;
use half::f16;

use super::element::Element;
use super::micro_kernel::{MicroKernel, TileCall};

/// Pixels of a tile: with [`CHANNELS`], eight 128-bit accumulators.
const PIXELS: usize = InstructionSet::Portable.tile().pixels;
/// Output channels of a tile.
const CHANNELS: usize = InstructionSet::Portable.tile().channels;

pub(super) const F32_MICRO_KERNEL: MicroKernel<f32> =
    MicroKernel { pixels: PIXELS, channels: CHANNELS, tile: tile::<f32, PIXELS>, vector: tile::<f32, 1> };

pub(super) const F16_MICRO_KERNEL: MicroKernel<f16> =
    MicroKernel { pixels: PIXELS, channels: CHANNELS, tile: tile::<f16, PIXELS>, vector: tile::<f16, 1> };

/// # Safety
/// As [`super::micro_kernel::Tile`] says.
unsafe fn tile<T: Element, const P: usize>(call: &TileCall<T>) {
    let mut sums = [[0.0_f32; CHANNELS]; P];
    // SAFETY: every pointer is valid for what the call's formula reads and writes,
    // and the offsets below are those of the formula.
    unsafe {
        for (pixel, sums) in sums.iter_mut().enumerate() {
            for (channel, sum) in sums.iter_mut().enumerate() {
                *sum = (*call.start.add(pixel * call.start_stride + channel)).to_f32();
            }
        }
        let mut weights = call.weights;
        for segment in 0..call.segments {
            let rows = call.rows.add(segment * P);
            for k in 0..call.depth {
                let mut column = [0.0_f32; CHANNELS];
                for (channel, weight) in column.iter_mut().enumerate() {
                    *weight = (*weights.add(channel)).to_f32();
                }
                for (pixel, sums) in sums.iter_mut().enumerate() {
                    let input = (*(*rows.add(pixel)).add(k)).to_f32();
                    for (sum, weight) in sums.iter_mut().zip(column) {
                        *sum += input * weight;
                    }
                }
                weights = weights.add(CHANNELS);
            }
        }
        let [low, high] = call.clamp.map(Element::to_f32);
        for (pixel, sums) in sums.iter().enumerate() {
            for (channel, sum) in sums.iter().enumerate() {
                *call.output.add(pixel * call.output_stride + channel) = T::from_f32(sum.max(low).min(high));
            }
        }
    }
}

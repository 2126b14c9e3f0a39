//! XNNPACK's micro-kernel selection, by the device's first core and the data type.

use crate::device::{Cluster, Core, InstructionSet};
use crate::kernel::cpu::ruy::Tile;
use crate::workload::{Conv2d, DataType};

/// A tile of `pixels` (MR) by `channels` (NR), with the depth padded to a multiple of `depth`.
const fn tile(pixels: u64, channels: u64, depth: u64) -> Tile {
    Tile { channels, pixels, depth }
}

/// Maximum MR of a convolution's tile in 32-bit floating point on Arm.
const MAX_WINDOW_PIXELS: u64 = 6;
/// NR of a convolution's tile under AVX-512 if the convolution has that many output channels; matrix
/// products use half.
const AVX512_WINDOW_CHANNELS: u64 = 32;
/// Channels per step of a depthwise micro-kernel on x86-64, and the tap counts for which there is one
/// (XNNPACK, `dwconv-config.c`).
const X86_DEPTHWISE_CHANNELS: u64 = 16;
const X86_DEPTHWISE_TAPS: [u64; 4] = [3, 4, 9, 25];

/// Taps of a pooling micro-kernel's first pass and of each further pass, padded to whole passes
/// (XNNPACK's `9p8x` kernels).
const X86_POOL_TAPS: [u64; 2] = [9, 8];
/// Slowdown of a multiply-accumulate in tiles of one pixel, which transposed convolutions use, by the
/// tile's output channels: the accumulations form a dependency chain, of which a wider tile has two in
/// flight (LiteRT 2.3.0 on Zen 4, relative to tiles of 7 pixels).
const X86_ONE_PIXEL_SLOWDOWN: [(u64, f64); 2] = [(16, 3.0), (AVX512_WINDOW_CHANNELS, 1.85)];

/// Whether a device whose first cluster is `cluster` runs XNNPACK's x86-64 kernels.
pub(super) fn is_x86(cluster: &Cluster) -> bool {
    x86(cluster).is_some()
}

/// The cluster's x86-64 vector extension with XNNPACK f32 micro-kernels; `None` on other processors.
fn x86(cluster: &Cluster) -> Option<InstructionSet> {
    cluster.instruction_set.filter(|set| set.is_x86())
}

/// Tile that XNNPACK (at 75db3c0) selects for `conv` on a device whose first cluster is `cluster`, and
/// the slowdown of a multiply-accumulate in it. The table for convolutions (igemm) differs from that
/// for products: on Arm, f32 tiles are at most 6 pixels tall; under AVX-512 they are 32 channels wide,
/// except for pointwise convolutions, which run as matrix products (LiteRT 2.3.0: times rise with every
/// 7th pixel and 32nd channel, those of matrix products with every 16th).
pub(super) fn window_micro_kernel(cluster: &Cluster, data_type: DataType, conv: &Conv2d) -> (Tile, f64) {
    let tile = micro_kernel(cluster, data_type);
    let channels = u64::from(conv.output_channels / conv.groups).div_ceil(u64::from(conv.phases));
    match x86(cluster).filter(|_| data_type == DataType::F32) {
        Some(set) if conv.phases > 1 => {
            let is_wide = set == InstructionSet::Avx512 && channels >= AVX512_WINDOW_CHANNELS;
            let (channels, latency_factor) = X86_ONE_PIXEL_SLOWDOWN[usize::from(is_wide)];
            (Tile { channels, pixels: 1, ..tile }, latency_factor)
        }
        Some(InstructionSet::Avx512) if channels >= AVX512_WINDOW_CHANNELS && !conv.window.is_pointwise() => {
            (Tile { channels: AVX512_WINDOW_CHANNELS, ..tile }, 1.0)
        }
        Some(_) => (tile, 1.0),
        None => (Tile { pixels: tile.pixels.min(MAX_WINDOW_PIXELS), ..tile }, 1.0),
    }
}

/// Taps that a pooling kernel computes for windows of `taps` on a device whose first cluster is
/// `cluster`: padded to whole passes on x86-64; unpadded on Arm, where the rates are per tap of the
/// window.
pub(super) fn pool_taps(cluster: &Cluster, taps: u64) -> u64 {
    let [first, further] = X86_POOL_TAPS;
    if is_x86(cluster) { first + taps.saturating_sub(first).next_multiple_of(further) } else { taps }
}

/// Cost of an element-wise kernel with `reads` input tensors and one output, relative to one input:
/// x86-64 is bound by loads and stores (LiteRT 2.3.0 on Zen 4: an addition takes 1.5 times as long as a
/// clamp). On Arm the rates are per pass, so always 1. A mean reads without writing, so its `reads` is
/// 0.
pub(super) fn passes_of(cluster: &Cluster, reads: f64) -> f64 {
    if is_x86(cluster) { 0.5 + 0.5 * reads } else { 1.0 }
}

/// Multiply-accumulates per pixel of a depthwise convolution on a device whose first cluster is
/// `cluster`: on x86-64, with channels padded to whole vectors and taps to the next kernel's; unpadded
/// on Arm, where the rates are per tap of the window.
pub(super) fn depthwise_multiply_accumulates(cluster: &Cluster, channels: u64, taps: u64) -> u64 {
    if !is_x86(cluster) {
        return channels * taps;
    }
    let computed = X86_DEPTHWISE_TAPS.into_iter().find(|&unrolled| unrolled >= taps).unwrap_or(taps);
    channels.next_multiple_of(X86_DEPTHWISE_CHANNELS) * computed
}

/// Tile that XNNPACK (at 75db3c0) selects for matrix products on a device whose first cluster is
/// `cluster`, whichever cores the threads run on.
pub(super) fn micro_kernel(cluster: &Cluster, data_type: DataType) -> Tile {
    match data_type {
        DataType::F16 if cluster.core == Core::ExynosM5 => tile(4, 16, 1),
        DataType::F16 => tile(6, 16, 1),
        DataType::I8 if cluster.int8_matrix_product => tile(4, 16, 8),
        DataType::I8 if cluster.dot_product => tile(4, 16, 4),
        DataType::I8 if matches!(cluster.core, Core::CortexA53 | Core::CortexA55 | Core::Kryo) => {
            tile(4, 16, 1)
        }
        DataType::I8 => tile(2, 8, 8),
        DataType::F32 | DataType::I8Dynamic | DataType::I4Dynamic | DataType::W4A16 | DataType::W8A16 => {
            match x86(cluster) {
                Some(InstructionSet::Avx512) => tile(7, 16, 1),
                Some(_) => tile(5, 16, 1),
                None => f32_micro_kernel(cluster.core),
            }
        }
    }
}

fn f32_micro_kernel(core: Core) -> Tile {
    match core {
        Core::CortexA53
        | Core::CortexA55
        | Core::CortexA57
        | Core::CortexA73
        | Core::CortexA75
        | Core::CortexA76
        | Core::NeoverseN1
        | Core::ExynosM1
        | Core::ExynosM2
        | Core::ExynosM3
        | Core::ExynosM4
        | Core::Apple => tile(6, 8, 1),
        Core::CortexA72 | Core::CortexA77 | Core::ExynosM5 => tile(4, 8, 1),
        Core::CortexX3 | Core::NeoverseV2 => tile(8, 8, 1),
        Core::CortexX4 | Core::Oryon => tile(4, 16, 1),
        Core::CortexA78
        | Core::CortexA510
        | Core::CortexA520
        | Core::CortexA710
        | Core::CortexA715
        | Core::CortexA720
        | Core::CortexX1
        | Core::CortexX2
        | Core::NeoverseN2
        | Core::NeoverseV1
        | Core::Kryo
        | Core::Other => tile(7, 8, 1),
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::tests::pixel4;
    use super::*;
    use crate::workload::{Shape, Window};

    fn of(core: Core, data_type: DataType, dot_product: bool, int8_matrix_product: bool) -> [u64; 3] {
        let base = pixel4().clusters.remove(0);
        let cluster = Cluster { core, dot_product, int8_matrix_product, ..base };
        let tile = micro_kernel(&cluster, data_type);
        [tile.pixels, tile.channels, tile.depth]
    }

    #[test]
    fn float_tiles_follow_the_core() {
        let f32_tile = |core| of(core, DataType::F32, true, false);
        assert_eq!(f32_tile(Core::CortexA76), [6, 8, 1]);
        assert_eq!(f32_tile(Core::CortexA77), [4, 8, 1]);
        assert_eq!(f32_tile(Core::CortexX1), [7, 8, 1]);
        assert_eq!(f32_tile(Core::CortexX3), [8, 8, 1]);
        assert_eq!(f32_tile(Core::Oryon), [4, 16, 1]);
        assert_eq!(f32_tile(Core::Apple), [6, 8, 1]);
        assert_eq!(f32_tile(Core::Other), [7, 8, 1]);
        assert_eq!(of(Core::CortexA76, DataType::F16, true, false), [6, 16, 1]);
        assert_eq!(of(Core::ExynosM5, DataType::F16, true, false), [4, 16, 1]);
    }

    #[test]
    fn x86_has_taller_and_wider_tiles_and_computes_whole_vectors() {
        let base = pixel4().clusters.remove(0);
        let of = |set| Cluster { core: Core::Other, instruction_set: Some(set), ..base.clone() };
        let (wide, narrow) = (of(InstructionSet::Avx512), of(InstructionSet::Avx2));
        let product = |cluster| micro_kernel(cluster, DataType::F32);
        assert_eq!((product(&wide), product(&narrow)), (tile(7, 16, 1), tile(5, 16, 1)));
        let window = |channels, window| {
            let conv = Conv2d::new(Shape::image(14, 14, 64), channels, window);
            window_micro_kernel(&wide, DataType::F32, &conv).0
        };
        assert_eq!(window(24, Window::same(3)), tile(7, 16, 1));
        assert_eq!(window(40, Window::same(3)), tile(7, 32, 1));
        assert_eq!(window(40, Window::valid(1)), tile(7, 16, 1));
        assert_eq!(depthwise_multiply_accumulates(&wide, 24, 9), 32 * 9);
        assert_eq!(depthwise_multiply_accumulates(&wide, 16, 1), 16 * 3);
        assert_eq!(depthwise_multiply_accumulates(&base, 24, 1), 24);
        assert_eq!([1, 9, 10, 49].map(|taps| pool_taps(&wide, taps)), [9, 9, 17, 49]);
        assert_eq!(pool_taps(&base, 4), 4);
        let halves = |reads| (2.0 * passes_of(&wide, reads)) as u32;
        assert_eq!([0.0, 1.0, 2.0].map(halves), [1, 2, 3]);
    }

    #[test]
    fn on_x86_a_transposed_convolution_has_tiles_of_one_pixel() {
        let base = pixel4().clusters.remove(0);
        let wide =
            Cluster { core: Core::Other, instruction_set: Some(InstructionSet::Avx512), ..base.clone() };
        let conv = Conv2d::new(Shape::image(8, 8, 16), 4, Window::valid(1)).phases(4);
        let (of_wide, latency_factor) = window_micro_kernel(&wide, DataType::F32, &conv);
        assert!(of_wide == tile(1, 16, 1) && latency_factor > 1.0);
        assert_ne!(window_micro_kernel(&base, DataType::F32, &conv).0.pixels, 1);
    }

    #[test]
    fn integer_tiles_follow_the_instructions() {
        assert_eq!(of(Core::CortexA710, DataType::I8, true, true), [4, 16, 8]);
        assert_eq!(of(Core::CortexA76, DataType::I8, true, false), [4, 16, 4]);
        assert_eq!(of(Core::CortexA53, DataType::I8, false, false), [4, 16, 1]);
        assert_eq!(of(Core::CortexA73, DataType::I8, false, false), [2, 8, 8]);
    }
}

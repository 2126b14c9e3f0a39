//! Micro-kernels XNNPACK selects by the device's first core and the data type.

use crate::device::{Cluster, Core, InstructionSet};
use crate::kernel::cpu::ruy::Tile;
use crate::workload::{Conv2d, DataType};

/// A tile of MR pixels and NR output channels.
const fn tile(pixels: u64, channels: u64, depth: u64) -> Tile {
    Tile { channels, pixels, depth }
}

/// Most pixels of a tile of a convolution in 32-bit floating point on Arm.
const MOST_WINDOW_PIXELS: u64 = 6;
/// Output channels of a tile of a convolution under AVX-512, where there are so many; the tile of products has half.
const AVX512_WINDOW_CHANNELS: u64 = 32;
/// Channels that a depthwise micro-kernel takes at once on x86-64, and the window positions that there is one for
/// (XNNPACK, `dwconv-config.c`).
const X86_DEPTHWISE_CHANNELS: u64 = 16;
const X86_DEPTHWISE_TAPS: [u64; 4] = [3, 4, 9, 25];

/// Window positions that a pooling micro-kernel takes at first, whether the window has them or not, and at a time of those
/// left (XNNPACK's `9p8x` kernels).
const X86_POOL_TAPS: [u64; 2] = [9, 8];
/// How many times as long a multiply-accumulate takes in tiles of one pixel, as transposed convolutions have them, by the
/// output channels of a tile: each waits for the one before it, and a wider tile has two under way (LiteRT 2.3.0 on Zen 4,
/// against tiles of 7 pixels).
const X86_ALONE: [(u64, f64); 2] = [(16, 3.0), (AVX512_WINDOW_CHANNELS, 1.85)];

/// Whether XNNPACK's kernels are those of x86-64 where `cluster` is the device's first.
pub(super) fn is_x86(cluster: &Cluster) -> bool {
    x86(cluster).is_some()
}

/// The vectors of x86-64 for which XNNPACK has micro-kernels of 32-bit floating point.
fn x86(cluster: &Cluster) -> Option<InstructionSet> {
    cluster.instruction_set.filter(|set| set.is_x86())
}

/// Micro-kernel XNNPACK (at 75db3c0) selects for `conv` where `cluster` is the device's first: its table for them has no
/// taller tiles of 32-bit floating point on Arm, and wider ones under AVX-512, save that one pixel's window makes a
/// matrix product (as LiteRT 2.3.0 runs them: times of convolutions rise with every 7th pixel and 32nd channel, of matrix
/// products with every 16th). The second is how many times as long a multiply-accumulate takes in it.
pub(super) fn window_micro_kernel(cluster: &Cluster, data_type: DataType, conv: &Conv2d) -> (Tile, f64) {
    let tile = micro_kernel(cluster, data_type);
    let channels = u64::from(conv.output_channels / conv.groups).div_ceil(u64::from(conv.phases));
    match x86(cluster).filter(|_| data_type == DataType::F32) {
        Some(set) if conv.phases > 1 => {
            let is_wide = set == InstructionSet::Avx512 && channels >= AVX512_WINDOW_CHANNELS;
            let (channels, waiting_factor) = X86_ALONE[usize::from(is_wide)];
            (Tile { channels, pixels: 1, ..tile }, waiting_factor)
        }
        Some(InstructionSet::Avx512) if channels >= AVX512_WINDOW_CHANNELS && !conv.window.is_pointwise() => {
            (Tile { channels: AVX512_WINDOW_CHANNELS, ..tile }, 1.0)
        }
        Some(_) => (tile, 1.0),
        None => (Tile { pixels: tile.pixels.min(MOST_WINDOW_PIXELS), ..tile }, 1.0),
    }
}

/// Window positions that a pooling kernel computes for windows of `taps` where `cluster` is the device's first. The rates of
/// Arm's cores are of those that are asked for.
pub(super) fn pool_taps(cluster: &Cluster, taps: u64) -> u64 {
    let [first, further] = X86_POOL_TAPS;
    if is_x86(cluster) { first + taps.saturating_sub(first).next_multiple_of(further) } else { taps }
}

/// Passes of an element-wise kernel that reads so many tensors and writes one, by those of one that reads one: x86-64 is as
/// fast as its loads and stores (LiteRT 2.3.0 on Zen 4: a sum takes 1.5 times what a bound does). The rates of Arm's cores
/// are of passes. A mean reads without writing: `reads` is 0.
pub(super) fn passes_of(cluster: &Cluster, reads: u32) -> f64 {
    if is_x86(cluster) { f64::from(1 + reads) / 2.0 } else { 1.0 }
}

/// Multiply-accumulates a pixel that a depthwise convolution of `channels` under windows of `taps` computes where
/// `cluster` is the device's first: whole vectors, and positions up to those of the next kernel. The rates of Arm's cores
/// are of those that are asked for.
pub(super) fn depthwise_multiply_accumulates(cluster: &Cluster, channels: u64, taps: u64) -> u64 {
    if !is_x86(cluster) {
        return channels * taps;
    }
    let computed = X86_DEPTHWISE_TAPS.into_iter().find(|&unrolled| unrolled >= taps).unwrap_or(taps);
    channels.next_multiple_of(X86_DEPTHWISE_CHANNELS) * computed
}

/// Micro-kernel XNNPACK (at 75db3c0) selects for matrix products where `cluster` is the device's
/// first, whichever cores the threads run on.
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
        assert_eq!([0, 1, 2].map(halves), [1, 2, 3]);
    }

    #[test]
    fn a_pixel_of_a_transposed_convolution_is_a_tile_of_its_own_on_x86() {
        let base = pixel4().clusters.remove(0);
        let wide =
            Cluster { core: Core::Other, instruction_set: Some(InstructionSet::Avx512), ..base.clone() };
        let conv = Conv2d::new(Shape::image(8, 8, 16), 4, Window::valid(1)).phases(4);
        let (of_wide, waiting_factor) = window_micro_kernel(&wide, DataType::F32, &conv);
        assert!(of_wide == tile(1, 16, 1) && waiting_factor > 1.0);
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

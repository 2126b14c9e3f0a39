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

/// The vectors of x86-64 for which XNNPACK has micro-kernels of 32-bit floating point.
fn x86(cluster: &Cluster) -> Option<InstructionSet> {
    cluster.instruction_set.filter(|set| matches!(set, InstructionSet::Avx2 | InstructionSet::Avx512))
}

/// Micro-kernel XNNPACK (at 75db3c0) selects for `conv` where `cluster` is the device's first: its table for them has no
/// taller tiles of 32-bit floating point on Arm, and wider ones under AVX-512, save that one pixel's window makes a
/// matrix product (as LiteRT 2.3.0 runs them: times of convolutions rise with every 7th pixel and 32nd channel, of matrix
/// products with every 16th).
pub(super) fn window_micro_kernel(cluster: &Cluster, data_type: DataType, conv: &Conv2d) -> Tile {
    let tile = micro_kernel(cluster, data_type);
    let channels = u64::from(conv.output_channels / conv.groups);
    match x86(cluster).filter(|_| data_type == DataType::F32) {
        Some(InstructionSet::Avx512) if channels >= AVX512_WINDOW_CHANNELS && !conv.window.is_pointwise() => {
            Tile { channels: AVX512_WINDOW_CHANNELS, ..tile }
        }
        Some(_) => tile,
        None => Tile { pixels: tile.pixels.min(MOST_WINDOW_PIXELS), ..tile },
    }
}

/// Multiply-accumulates a pixel that a depthwise convolution of `channels` under windows of `taps` computes where
/// `cluster` is the device's first: whole vectors, and positions up to those of the next kernel. The rates of Arm's cores
/// are of those that are asked for.
pub(super) fn depthwise_multiply_accumulates(cluster: &Cluster, channels: u64, taps: u64) -> u64 {
    if x86(cluster).is_none() {
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
            window_micro_kernel(&wide, DataType::F32, &conv)
        };
        assert_eq!(window(24, Window::same(3)), tile(7, 16, 1));
        assert_eq!(window(40, Window::same(3)), tile(7, 32, 1));
        assert_eq!(window(40, Window::valid(1)), tile(7, 16, 1));
        assert_eq!(depthwise_multiply_accumulates(&wide, 24, 9), 32 * 9);
        assert_eq!(depthwise_multiply_accumulates(&wide, 16, 1), 16 * 3);
        assert_eq!(depthwise_multiply_accumulates(&base, 24, 1), 24);
    }

    #[test]
    fn integer_tiles_follow_the_instructions() {
        assert_eq!(of(Core::CortexA710, DataType::I8, true, true), [4, 16, 8]);
        assert_eq!(of(Core::CortexA76, DataType::I8, true, false), [4, 16, 4]);
        assert_eq!(of(Core::CortexA53, DataType::I8, false, false), [4, 16, 1]);
        assert_eq!(of(Core::CortexA73, DataType::I8, false, false), [2, 8, 8]);
    }
}

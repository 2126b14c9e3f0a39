//! Micro-kernels XNNPACK selects by the device's first core and the data type.

use crate::device::cpu::{Cluster, Core};
use crate::kernel::cpu::ruy::Tile;
use crate::workload::DataType;

/// A tile of MR pixels and NR output channels.
const fn tile(pixels: u64, channels: u64, depth: u64) -> Tile {
    Tile { channels, pixels, depth }
}

/// Most pixels of a tile of a convolution in 32-bit floating point.
const MOST_WINDOW_PIXELS: u64 = 6;

/// Micro-kernel XNNPACK (at 75db3c0) selects for convolutions where `cluster` is the device's
/// first: its table for them has no taller tiles of 32-bit floating point.
pub(super) fn window_micro_kernel(cluster: &Cluster, data_type: DataType) -> Tile {
    let tile = micro_kernel(cluster, data_type);
    Tile { pixels: tile.pixels.min(MOST_WINDOW_PIXELS), ..tile }
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
        DataType::F32 | DataType::I8Dynamic | DataType::W4A16 | DataType::W8A16 => {
            f32_micro_kernel(cluster.core)
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
    fn integer_tiles_follow_the_instructions() {
        assert_eq!(of(Core::CortexA710, DataType::I8, true, true), [4, 16, 8]);
        assert_eq!(of(Core::CortexA76, DataType::I8, true, false), [4, 16, 4]);
        assert_eq!(of(Core::CortexA53, DataType::I8, false, false), [4, 16, 1]);
        assert_eq!(of(Core::CortexA73, DataType::I8, false, false), [2, 8, 8]);
    }
}

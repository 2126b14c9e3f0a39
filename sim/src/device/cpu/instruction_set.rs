//! Vector instruction sets for which coexec's own CPU kernels are written.
//!
//! Responsible for: the vector and tile extents of each set, which the kernels and their
//! time model share. Not for: detecting which sets a processor has.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{Display, VariantArray};

/// A set of vector instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[derive(Serialize, Deserialize, JsonSchema, VariantArray, Display)]
#[serde(rename_all = "kebab-case")]
pub enum InstructionSet {
    /// Plain loops, as the compiler vectorises them.
    #[strum(serialize = "portable")]
    Portable,
    /// x86-64 with AVX2 and fused multiply-add.
    #[strum(serialize = "AVX2")]
    Avx2,
    /// x86-64 with AVX-512 (foundation).
    #[strum(serialize = "AVX-512")]
    Avx512,
    /// 64-bit Arm with NEON.
    #[strum(serialize = "NEON")]
    Neon,
    /// 64-bit Arm with NEON and half-precision arithmetic.
    #[strum(serialize = "NEON f16")]
    NeonF16,
}

/// Extents of a micro-kernel's tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TileExtent {
    /// Output pixels.
    pub pixels: usize,
    /// Output channels.
    pub channels: usize,
}

impl InstructionSet {
    /// All sets, narrower vectors first.
    pub const ALL: &[Self] = Self::VARIANTS;

    /// Whether this is an x86-64 set.
    pub const fn is_x86(self) -> bool {
        matches!(self, Self::Avx2 | Self::Avx512)
    }

    /// 32-bit lanes of a vector; for portable code, of the 128 bits that most processors'
    /// baselines have.
    pub const fn lanes(self) -> usize {
        match self {
            Self::Avx512 => 16,
            Self::Avx2 => 8,
            Self::Portable | Self::Neon | Self::NeonF16 => 4,
        }
    }

    /// The micro-kernel's tile for 32-bit floating point: as many accumulators as the registers
    /// hold next to a column of weights and an input.
    pub const fn tile(self) -> TileExtent {
        match self {
            Self::Avx512 => TileExtent { pixels: 14, channels: 2 * 16 },
            Self::Avx2 => TileExtent { pixels: 6, channels: 2 * 8 },
            Self::Neon | Self::NeonF16 => TileExtent { pixels: 8, channels: 2 * 4 },
            Self::Portable => TileExtent { pixels: 4, channels: 2 * 4 },
        }
    }
}

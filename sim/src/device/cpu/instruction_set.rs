//! Vector instructions that coexec's own CPU kernels are written for.
//!
//! Responsible for: the extents that follow from each set, which the kernels and the
//! model of their time share. Not for: which sets a processor has.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{Display, VariantArray};

/// A set of vector instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[derive(Serialize, Deserialize, JsonSchema, VariantArray, Display)]
#[serde(rename_all = "kebab-case")]
pub enum InstructionSet {
    /// Whatever the compiler makes of plain loops.
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

/// Extents of a micro-kernel's tile of a matrix product.
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

    /// Whether it is one of x86-64's.
    pub const fn is_x86(self) -> bool {
        matches!(self, Self::Avx2 | Self::Avx512)
    }

    /// 32-bit numbers in a vector; in plain code, in the 128 bits that the baselines
    /// of most processors have.
    pub const fn lanes(self) -> usize {
        match self {
            Self::Avx512 => 16,
            Self::Avx2 => 8,
            Self::Portable | Self::Neon | Self::NeonF16 => 4,
        }
    }

    /// The tile of the micro-kernel for 32-bit floating point: as many sums as the
    /// registers hold beside a column of weights and an input.
    pub const fn tile(self) -> TileExtent {
        match self {
            Self::Avx512 => TileExtent { pixels: 14, channels: 2 * 16 },
            Self::Avx2 => TileExtent { pixels: 6, channels: 2 * 8 },
            Self::Neon | Self::NeonF16 => TileExtent { pixels: 8, channels: 2 * 4 },
            Self::Portable => TileExtent { pixels: 4, channels: 2 * 4 },
        }
    }
}

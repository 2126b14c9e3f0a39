//! Number formats that the kernels compute with.

use std::fmt::Debug;

use coexec_sim::{DataType, InstructionSet};
use half::f16;

use super::micro_kernel::micro_kernel;
use super::{MicroKernel, Plain, Register, TileCall, Vector, micro_kernel};

/// Lanes of a register in portable code.
const PLAIN_LANES: usize = InstructionSet::Portable.lanes();
/// Tile of the portable micro-kernel, in pixels and in registers of channels: eight registers of
/// sums, which are kept in `f32` for both formats.
const PLAIN_PIXELS: usize = InstructionSet::Portable.tile().pixels;
const PLAIN_VECTORS: usize = InstructionSet::Portable.tile().channels / PLAIN_LANES;
/// Portable register for targets where fused multiply-add may be slow or absent.
pub(super) type PlainRegister = Plain<PLAIN_LANES, false>;

/// A number format of tensors in memory: [`f32`] or [`half::f16`]; implemented in this crate only.
pub trait Element: Copy + Debug + Default + PartialOrd + Send + Sync + 'static {
    /// The workload's name of the format.
    const DATA_TYPE: DataType;
    /// Unit roundoff: the largest relative error of rounding to the format.
    const UNIT_ROUNDOFF: f64;
    /// AVX2 registers; portable code for `f16`, which AVX2 alone cannot convert.
    #[cfg(target_arch = "x86_64")]
    type Avx2: Vector<Self>;
    /// AVX-512 registers; portable code for `f16`.
    #[cfg(target_arch = "x86_64")]
    type Avx512: Vector<Self>;
    /// NEON registers.
    #[cfg(target_arch = "aarch64")]
    type Neon: Vector<Self>;

    /// Rounds to the nearest number of the format.
    fn from_f32(value: f32) -> Self;
    /// Converts to `f32`, which is exact.
    fn to_f32(self) -> f32;
    /// The micro-kernels for `set`, which the processor must have.
    fn micro_kernel(set: InstructionSet) -> MicroKernel<Self>;
}

impl Element for f32 {
    const DATA_TYPE: DataType = DataType::F32;
    // IEEE 754 binary32: 24 significant bits, rounding to nearest.
    const UNIT_ROUNDOFF: f64 = 1.0 / (1_u64 << 24) as f64;
    #[cfg(target_arch = "x86_64")]
    type Avx2 = std::arch::x86_64::__m256;
    #[cfg(target_arch = "x86_64")]
    type Avx512 = std::arch::x86_64::__m512;
    #[cfg(target_arch = "aarch64")]
    type Neon = std::arch::aarch64::float32x4_t;

    #[inline(always)]
    fn from_f32(value: f32) -> Self {
        value
    }

    #[inline(always)]
    fn to_f32(self) -> f32 {
        self
    }

    fn micro_kernel(set: InstructionSet) -> MicroKernel<Self> {
        match set {
            #[cfg(target_arch = "x86_64")]
            InstructionSet::Avx2 => super::x86::AVX2,
            #[cfg(target_arch = "x86_64")]
            InstructionSet::Avx512 => super::x86::AVX512,
            #[cfg(target_arch = "aarch64")]
            InstructionSet::Neon | InstructionSet::NeonF16 => super::neon::F32,
            _ => micro_kernel!(f32, PlainRegister, PLAIN_PIXELS, PLAIN_VECTORS, 1),
        }
    }
}

impl Element for f16 {
    const DATA_TYPE: DataType = DataType::F16;
    // IEEE 754 binary16: 11 significant bits, rounding to nearest.
    const UNIT_ROUNDOFF: f64 = 1.0 / (1_u64 << 11) as f64;
    #[cfg(target_arch = "x86_64")]
    type Avx2 = Plain<PLAIN_LANES, true>;
    #[cfg(target_arch = "x86_64")]
    type Avx512 = Plain<PLAIN_LANES, true>;
    #[cfg(target_arch = "aarch64")]
    type Neon = std::arch::aarch64::float32x4_t;

    #[inline(always)]
    fn from_f32(value: f32) -> Self {
        f16::from_f32(value)
    }

    #[inline(always)]
    fn to_f32(self) -> f32 {
        f16::to_f32(self)
    }

    fn micro_kernel(set: InstructionSet) -> MicroKernel<Self> {
        match set {
            #[cfg(target_arch = "aarch64")]
            InstructionSet::NeonF16 => super::neon::F16,
            _ => micro_kernel!(f16, PlainRegister, PLAIN_PIXELS, PLAIN_VECTORS, 1),
        }
    }
}

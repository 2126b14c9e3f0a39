//! Numbers the kernels compute with.

use std::fmt::Debug;

use coexec_sim::{DataType, InstructionSet};
use half::f16;

use super::{MicroKernel, Vector};

/// A number format of tensors in memory: [`f32`] or [`half::f16`].
pub trait Element: Copy + Debug + Default + PartialOrd + Send + Sync + Kernels + 'static {
    /// The format's name in a workload.
    const DATA_TYPE: DataType;
    /// Largest relative error of rounding to the format.
    const UNIT_ROUNDOFF: f64;
    /// The nearest number of the format.
    fn from_f32(value: f32) -> Self;
    /// The same number, which `f32` holds exactly.
    fn to_f32(self) -> f32;
}

/// What the formats differ in; not implemented outside this crate.
pub trait Kernels: Copy {
    /// Registers of AVX2, or what does for a format that it cannot convert.
    #[cfg(target_arch = "x86_64")]
    type Avx2: Vector<Self>;
    /// Registers of AVX-512.
    #[cfg(target_arch = "x86_64")]
    type Avx512: Vector<Self>;
    /// Registers of NEON.
    #[cfg(target_arch = "aarch64")]
    type Neon: Vector<Self>;

    /// The micro-kernel for `set`, which the processor must have.
    fn micro_kernel(set: InstructionSet) -> MicroKernel<Self>;
}

impl Element for f32 {
    const DATA_TYPE: DataType = DataType::F32;
    // IEEE 754 binary32: 24 significant bits, rounding to nearest.
    const UNIT_ROUNDOFF: f64 = 1.0 / (1_u64 << 24) as f64;

    #[inline(always)]
    fn from_f32(value: f32) -> Self {
        value
    }

    #[inline(always)]
    fn to_f32(self) -> f32 {
        self
    }
}

impl Element for f16 {
    const DATA_TYPE: DataType = DataType::F16;
    // IEEE 754 binary16: 11 significant bits, rounding to nearest.
    const UNIT_ROUNDOFF: f64 = 1.0 / (1_u64 << 11) as f64;

    #[inline(always)]
    fn from_f32(value: f32) -> Self {
        f16::from_f32(value)
    }

    #[inline(always)]
    fn to_f32(self) -> f32 {
        f16::to_f32(self)
    }
}

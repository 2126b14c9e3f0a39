//! Vector instructions: which the processor has, which kernels use them.

use coexec_sim::InstructionSet;
use half::f16;

use super::micro_kernel::micro_kernel;
use super::{Element, Kernels, MicroKernel, Plain, Register, TileCall, Vector, micro_kernel};

/// Numbers in a register of plain code.
const PLAIN_LANES: usize = InstructionSet::Portable.lanes();
/// Pixels of a tile of plain code, and registers of channels of one: eight of sums, kept in
/// `f32` for either format.
const PLAIN_PIXELS: usize = InstructionSet::Portable.tile().pixels;
const PLAIN_VECTORS: usize = InstructionSet::Portable.tile().channels / PLAIN_LANES;
/// A register of plain code where no fused multiply-add can be relied on.
type PlainRegister = Plain<PLAIN_LANES, false>;

/// Which sets this processor has.
pub trait Available: Sized {
    /// Whether this processor has the instructions.
    fn is_available(&self) -> bool;

    /// The widest set this processor has.
    fn detect() -> Self;

    /// The sets this processor has, narrower vectors first.
    fn available() -> impl Iterator<Item = Self>;
}

impl Available for InstructionSet {
    fn is_available(&self) -> bool {
        match self {
            Self::Portable => true,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma"),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => Self::Avx2.is_available() && is_x86_feature_detected!("avx512f"),
            #[cfg(target_arch = "aarch64")]
            Self::Neon => std::arch::is_aarch64_feature_detected!("neon"),
            #[cfg(target_arch = "aarch64")]
            Self::NeonF16 => Self::Neon.is_available() && std::arch::is_aarch64_feature_detected!("fp16"),
            #[allow(unreachable_patterns, reason = "which sets remain depends on the architecture")]
            _ => false,
        }
    }

    fn detect() -> Self {
        Self::available().last().unwrap_or(Self::Portable)
    }

    fn available() -> impl Iterator<Item = Self> {
        Self::ALL.iter().copied().filter(Available::is_available)
    }
}

impl Kernels for f32 {
    #[cfg(target_arch = "x86_64")]
    type Avx2 = std::arch::x86_64::__m256;
    #[cfg(target_arch = "x86_64")]
    type Avx512 = std::arch::x86_64::__m512;
    #[cfg(target_arch = "aarch64")]
    type Neon = std::arch::aarch64::float32x4_t;

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

impl Kernels for f16 {
    #[cfg(target_arch = "x86_64")]
    type Avx2 = Plain<PLAIN_LANES, true>;
    #[cfg(target_arch = "x86_64")]
    type Avx512 = Plain<PLAIN_LANES, true>;
    #[cfg(target_arch = "aarch64")]
    type Neon = std::arch::aarch64::float32x4_t;

    fn micro_kernel(set: InstructionSet) -> MicroKernel<Self> {
        match set {
            #[cfg(target_arch = "aarch64")]
            InstructionSet::NeonF16 => super::neon::F16,
            _ => micro_kernel!(f16, PlainRegister, PLAIN_PIXELS, PLAIN_VECTORS, 1),
        }
    }
}

/// Loops that are compiled once for each instruction set.
pub(super) trait Loops<T: Element> {
    /// Runs them over registers `V`; to be inlined, with all it calls.
    ///
    /// # Safety
    /// The processor has the instructions of `V`.
    unsafe fn run<V: Vector<T>>(self);
}

/// Runs `loops` compiled with the instructions of `set`, so that they become
/// loops over that set's vectors.
///
/// # Safety
/// The processor has `set`.
pub(super) unsafe fn run_compiled_for<T: Element>(set: InstructionSet, loops: impl Loops<T>) {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx2,fma")]
        fn with_avx2<T: Element>(loops: impl Loops<T>) {
            // SAFETY: this is run where there are these instructions.
            unsafe { loops.run::<T::Avx2>() };
        }
        #[target_feature(enable = "avx512f,avx2,fma")]
        fn with_avx512<T: Element>(loops: impl Loops<T>) {
            // SAFETY: this is run where there are these instructions.
            unsafe { loops.run::<T::Avx512>() };
        }
        match set {
            // SAFETY: the caller vouches for the instructions.
            InstructionSet::Avx2 => return unsafe { with_avx2(loops) },
            // SAFETY: the caller vouches for the instructions.
            InstructionSet::Avx512 => return unsafe { with_avx512(loops) },
            _ => {}
        }
    }
    #[cfg(target_arch = "aarch64")]
    if matches!(set, InstructionSet::Neon | InstructionSet::NeonF16) {
        // SAFETY: the caller vouches for NEON, which belongs to the baseline of every
        // 64-bit Arm target.
        return unsafe { loops.run::<T::Neon>() };
    }
    // SAFETY: every processor has what plain code needs.
    unsafe { loops.run::<PlainRegister>() };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_processor_runs_the_portable_kernels() {
        assert_eq!(InstructionSet::available().next(), Some(InstructionSet::Portable));
    }

    #[test]
    fn tiles_are_those_that_the_model_counts() {
        for set in InstructionSet::available() {
            let kernel = <f32 as Kernels>::micro_kernel(set);
            assert_eq!([kernel.pixels, kernel.channels], [set.tile().pixels, set.tile().channels], "{set}");
        }
    }

    #[test]
    fn no_processor_has_the_vectors_of_two_architectures() {
        let has = |set: InstructionSet| set.is_available();
        assert!(!(has(InstructionSet::Avx2) && has(InstructionSet::Neon)));
        assert!(has(InstructionSet::detect()));
    }
}

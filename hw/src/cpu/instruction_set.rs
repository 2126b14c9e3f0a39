//! Detection of the processor's vector instructions.

use coexec_sim::InstructionSet;

/// Whether this processor has the instructions of `set`.
pub fn is_available(set: InstructionSet) -> bool {
    match set {
        InstructionSet::Portable => true,
        #[cfg(target_arch = "x86_64")]
        InstructionSet::Avx2 => is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma"),
        #[cfg(target_arch = "x86_64")]
        InstructionSet::Avx512 => is_available(InstructionSet::Avx2) && is_x86_feature_detected!("avx512f"),
        #[cfg(target_arch = "aarch64")]
        InstructionSet::Neon => std::arch::is_aarch64_feature_detected!("neon"),
        #[cfg(target_arch = "aarch64")]
        InstructionSet::NeonF16 => {
            is_available(InstructionSet::Neon) && std::arch::is_aarch64_feature_detected!("fp16")
        }
        #[allow(unreachable_patterns, reason = "the remaining sets depend on the architecture")]
        _ => false,
    }
}

/// The instruction sets of this processor, narrower vectors first.
pub fn available_sets() -> impl Iterator<Item = InstructionSet> {
    InstructionSet::ALL.iter().copied().filter(|&set| is_available(set))
}

/// The widest instruction set of this processor.
pub fn widest_set() -> InstructionSet {
    available_sets().last().unwrap_or(InstructionSet::Portable)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::Element;

    #[test]
    fn every_processor_runs_the_portable_kernels() {
        assert_eq!(available_sets().next(), Some(InstructionSet::Portable));
    }

    #[test]
    fn tiles_are_those_that_the_model_counts() {
        for set in available_sets() {
            let kernel = f32::micro_kernel(set);
            assert_eq!([kernel.pixels, kernel.channels], [set.tile().pixels, set.tile().channels], "{set}");
        }
    }

    #[test]
    fn no_processor_has_the_vectors_of_two_architectures() {
        assert!(!(is_available(InstructionSet::Avx2) && is_available(InstructionSet::Neon)));
        assert!(is_available(widest_set()));
    }
}

//! An operator on the processors that compute it: kernels and parts.

use coexec_sim::Region;
use coexec_sim::kernel::gpu::Launch;
use coexec_sim::workload::{Layer, Layout};

use super::Team;
use crate::cpu::Element;
use crate::operands::Weights;
use crate::{cpu, opencl};

/// What the CPU needs to compute parts of an operator.
pub(super) struct CpuKernel<T: Element> {
    pub(super) prepared: cpu::Prepared<T>,
    pub(super) team: Team,
}

/// What the GPU needs to compute a part of an operator.
pub(super) struct GpuKernel<T: Element> {
    pub(super) prepared: opencl::Prepared<T>,
    pub(super) launch: Launch,
}

/// A part of an operator.
pub(super) struct OperationPart<T: Element> {
    /// What is computed, the halo of its chain included.
    pub(super) computed: Region,
    /// What others have of it.
    pub(super) owned: Region,
    /// The kernel, where the GPU computes it; the CPU otherwise.
    pub(super) gpu: Option<GpuKernel<T>>,
}

/// One operator.
pub(super) struct Operation<T: Element> {
    pub(super) layer: Layer,
    /// Numbers of the tensors it reads.
    pub(super) reads: Vec<usize>,
    /// The chain it belongs to.
    pub(super) chain: Option<u32>,
    /// Where the CPU computes some of it.
    pub(super) cpu: Option<CpuKernel<T>>,
    /// Layout in which the GPU is given what it reads.
    pub(super) layout: Layout,
    /// As the plan places them.
    pub(super) parts: Vec<OperationPart<T>>,
}

impl<T: Element> Operation<T> {
    /// The GPU's kernels.
    pub(super) fn gpu(&self) -> impl Iterator<Item = &GpuKernel<T>> {
        self.parts.iter().filter_map(|part| part.gpu.as_ref())
    }

    /// Whether processors compute some of the result each for itself.
    pub(super) fn overlaps(&self) -> bool {
        self.parts.iter().any(|part| part.computed != part.owned)
    }
}

/// Weights as kernels take them.
pub(super) fn borrowed(weights: &[Vec<f32>; 2]) -> Weights<'_> {
    Weights { kernel: &weights[0], bias: &weights[1] }
}

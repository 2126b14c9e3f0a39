//! Who computes.

use super::GraphCover;
use crate::device::ProcessorKind;
use crate::kernel::CoreSet;

/// Who computes a part of an operator, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Processor {
    /// A set of CPU cores.
    Cpu(CoreSet),
    /// The GPU.
    Gpu,
    /// The NPU, in graphs of the shapes that it was given beforehand.
    Npu(GraphCover),
}

impl Processor {
    /// The NPU, whose graphs are padded.
    pub const NPU: Self = Self::Npu(GraphCover::Padded);

    /// Which processor it is.
    pub fn kind(self) -> ProcessorKind {
        match self {
            Self::Cpu(_) => ProcessorKind::Cpu,
            Self::Gpu => ProcessorKind::Gpu,
            Self::Npu(_) => ProcessorKind::Npu,
        }
    }

    /// How the NPU's graphs cover its rows; as usual where it is another processor.
    pub fn graphs(self) -> GraphCover {
        match self {
            Self::Npu(graphs) => graphs,
            Self::Cpu(_) | Self::Gpu => GraphCover::default(),
        }
    }

    /// The CPU cores.
    pub fn cores(self) -> Option<CoreSet> {
        match self {
            Self::Cpu(cores) => Some(cores),
            Self::Gpu | Self::Npu(_) => None,
        }
    }
}

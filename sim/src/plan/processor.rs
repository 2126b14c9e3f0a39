//! The processor of a part.

use super::GraphCover;
use crate::device::ProcessorKind;
use crate::kernel::CoreSet;

/// The processor that computes a part of an operator, with its core set or graphs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Processor {
    /// A set of CPU cores.
    Cpu(CoreSet),
    /// The GPU.
    Gpu,
    /// The NPU, in static graphs of the shapes compiled beforehand.
    Npu(GraphCover),
}

impl Processor {
    /// The NPU with padded graphs.
    pub const NPU: Self = Self::Npu(GraphCover::Padded);

    /// The kind of processor.
    pub fn kind(self) -> ProcessorKind {
        match self {
            Self::Cpu(_) => ProcessorKind::Cpu,
            Self::Gpu => ProcessorKind::Gpu,
            Self::Npu(_) => ProcessorKind::Npu,
        }
    }

    /// How the NPU's graphs cover its rows; the default for other processors.
    pub fn graphs(self) -> GraphCover {
        match self {
            Self::Npu(graphs) => graphs,
            Self::Cpu(_) | Self::Gpu => GraphCover::default(),
        }
    }

    /// The CPU's core set; `None` for other processors.
    pub fn cores(self) -> Option<CoreSet> {
        match self {
            Self::Cpu(cores) => Some(cores),
            Self::Gpu | Self::Npu(_) => None,
        }
    }
}

//! Who computes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{Display, IntoStaticStr};

use super::graph_cover::GraphCover;
use crate::kernel::cpu::CoreSet;

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

/// The processors that a plan may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[derive(Serialize, Deserialize, JsonSchema, Display, IntoStaticStr)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "UPPERCASE")]
pub enum ProcessorKind {
    /// A set of CPU cores.
    Cpu,
    /// The GPU.
    Gpu,
    /// The NPU.
    Npu,
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

    /// The CPU cores.
    pub fn cores(self) -> Option<CoreSet> {
        match self {
            Self::Cpu(cores) => Some(cores),
            Self::Gpu | Self::Npu(_) => None,
        }
    }
}

impl ProcessorKind {
    /// All of them, in the order they are reported.
    pub const ALL: [Self; 3] = [Self::Cpu, Self::Gpu, Self::Npu];

    /// The name in tables and sentences.
    pub fn label(self) -> &'static str {
        self.into()
    }

    /// The name in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Gpu => "gpu",
            Self::Npu => "npu",
        }
    }
}

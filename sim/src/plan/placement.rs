//! Who computes an operator.

use std::fmt;

use serde::Serialize;

use super::accelerators::AcceleratorSplit;
use super::cut::Cut;
use super::synchronisation::Mechanism;
use crate::kernel::cpu::CoreSet;
use crate::workload::Layer;

/// Who computes one operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Placement {
    /// A set of CPU cores.
    Cpu(CoreSet),
    /// The GPU.
    Gpu,
    /// The NPU.
    Npu,
    /// CPU cores and GPU, cut along output channels: the CPU computes the first
    /// `cpu_channels`, the GPU the rest.
    Split {
        /// The CPU cores.
        cores: CoreSet,
        /// Output channels the CPU computes.
        cpu_channels: u32,
        /// Output channels the GPU computes.
        gpu_channels: u32,
    },
    /// CPU cores and GPU, cut along the output's height (the tokens of a linear layer):
    /// the CPU computes the first `cpu_rows` of each image, the GPU the rest, both with all
    /// weights and the rows of the input that their windows reach.
    HeightSplit {
        /// The CPU cores.
        cores: CoreSet,
        /// Rows the CPU computes.
        cpu_rows: u32,
        /// Rows the GPU computes.
        gpu_rows: u32,
    },
    /// GPU and NPU, of a product of activations and trained weights; or the NPU alone, in
    /// several graphs.
    Accelerators(AcceleratorSplit),
}

/// How much of a cut operator a processor computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ShareOf {
    /// Output channels.
    Channels(u32),
    /// Rows of the output.
    Rows(u32),
}

impl ShareOf {
    /// Output channels, where these are what is shared.
    pub fn channels(self) -> Option<u32> {
        if let Self::Channels(count) = self { Some(count) } else { None }
    }

    /// Rows, where these are.
    pub fn rows(self) -> Option<u32> {
        if let Self::Rows(count) = self { Some(count) } else { None }
    }
}

impl fmt::Display for ShareOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Channels(count) => write!(f, "{count} channels"),
            Self::Rows(count) => write!(f, "{count} rows"),
        }
    }
}

impl Placement {
    /// The CPU cores that take part, if any.
    pub fn cores(&self) -> Option<CoreSet> {
        match self {
            Self::Cpu(cores) | Self::Split { cores, .. } | Self::HeightSplit { cores, .. } => Some(*cores),
            Self::Gpu | Self::Npu | Self::Accelerators(_) => None,
        }
    }

    /// How much of the operator CPU and GPU compute, where it is cut.
    pub fn shares(&self) -> Option<[ShareOf; 2]> {
        match *self {
            Self::Split { cpu_channels, gpu_channels, .. } => {
                Some([cpu_channels, gpu_channels].map(ShareOf::Channels))
            }
            Self::HeightSplit { cpu_rows, gpu_rows, .. } => Some([cpu_rows, gpu_rows].map(ShareOf::Rows)),
            Self::Cpu(_) | Self::Gpu | Self::Npu | Self::Accelerators(_) => None,
        }
    }

    /// Whether CPU and GPU compute parts.
    pub fn is_cut(&self) -> bool {
        matches!(self, Self::Split { .. } | Self::HeightSplit { .. })
    }

    /// The CPU's and the GPU's part of `layer`, where it is cut.
    pub fn parts(&self, layer: &Layer) -> Option<[Layer; 2]> {
        let cut = Cut::of(self)?;
        Some([cut.part(layer, 0), cut.part(layer, 1)])
    }
}

/// Who computes each operator of a workload, and how processors synchronise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Synchronisation mechanism.
    pub synchronisation: Mechanism,
    /// One placement a stage of the workload, in its order.
    pub placements: Vec<Placement>,
    /// The chain each stage belongs to, by its number; empty where there is none.
    pub chains: Vec<Option<u32>>,
}

impl Plan {
    /// A plan without chains.
    pub fn new(synchronisation: Mechanism, placements: Vec<Placement>) -> Self {
        Self { synchronisation, placements, chains: Vec::new() }
    }

    /// The same plan with the chain of each stage.
    #[must_use]
    pub fn chained(self, chains: Vec<Option<u32>>) -> Self {
        let has_any = chains.iter().any(Option::is_some);
        Self { chains: if has_any { chains } else { Vec::new() }, ..self }
    }

    /// The chain of a stage.
    pub fn chain(&self, stage: usize) -> Option<u32> {
        self.chains.get(stage).copied().flatten()
    }
}

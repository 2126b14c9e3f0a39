//! Search over plans: who should compute what.
//!
//! Responsible for: the strategies, one file each. Not for: any cost of its
//! own; every candidate is priced by the kernel models and the engine, so the
//! latency a search reports is the latency `simulate` replays.
//! Invariant: a search returns the same plan for any number of threads.

mod channel_split;
mod codl;
mod epew;
mod explorer;
mod grid;
pub mod language;
pub(crate) mod layer_wise;
mod optimal;
mod prices;
mod proportional;
mod rule;
pub mod side_by_side;
mod split;

pub use channel_split::{Candidate, CurvePoint, Lead, Search, latency_curve, split_search};
pub use codl::{CodlParts, Whole};
pub use explorer::{Answer, Baseline, Explorer, Found, explore, explore_stream};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::kernel::cpu::CoreSet;
use crate::plan::Axis;
use crate::plan::synchronisation::Mechanism;
use crate::units::{Joules, Picos};

/// A way to find a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Strategy {
    /// Every operator on the CPU cores.
    CpuOnly,
    /// Every operator on the GPU.
    GpuOnly,
    /// Every operator on the NPU.
    NpuOnly,
    /// Each operator on CPU cores, on the GPU, or cut along its output channels
    /// between both (EPEW'25, section 2).
    #[default]
    ChannelSplit,
    /// The same, cut along the output's height (`CoDL`, MobiSys'22, names both).
    HeightSplit,
    /// The same, cut along whichever is better.
    AnySplit,
    /// Each operator as is best for it alone, cut along its output channels after a few
    /// questions to the kernel models (EPEW'25, section 2).
    Epew,
    /// Each operator cut along its height or its output channels by tenths, then chained
    /// (`CoDL`, MobiSys'22, sections 4 and 5).
    Codl,
    /// Placements, cuts and chains planned together over the whole graph; never worse
    /// than any other strategy.
    Optimal,
    /// Every operator cut along its output channels in proportion to what the processors
    /// compute in a second (muLayer, `EuroSys`'19).
    FlopsProportional,
    /// Whole layers: kinds of operator that gain little from the GPU on CPU cores
    /// (Unified Splitting).
    LayerWise,
}

impl Strategy {
    /// All strategies.
    pub const ALL: [Self; 11] = [
        Self::CpuOnly,
        Self::GpuOnly,
        Self::NpuOnly,
        Self::ChannelSplit,
        Self::HeightSplit,
        Self::AnySplit,
        Self::FlopsProportional,
        Self::LayerWise,
        Self::Epew,
        Self::Codl,
        Self::Optimal,
    ];

    /// Whether everything runs on one processor.
    pub fn is_single(self) -> bool {
        matches!(self, Self::CpuOnly | Self::GpuOnly | Self::NpuOnly)
    }

    /// What the strategy searches the best cut of each operator along, between CPU and GPU.
    pub fn axes(self) -> &'static [Axis] {
        match self {
            Self::CpuOnly | Self::GpuOnly | Self::NpuOnly | Self::FlopsProportional | Self::LayerWise => &[],
            Self::ChannelSplit | Self::Epew => &[Axis::Channels],
            Self::HeightSplit => &[Axis::Height],
            Self::AnySplit | Self::Codl | Self::Optimal => &[Axis::Channels, Axis::Height],
        }
    }

    /// The name used in files and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::CpuOnly => "cpu-only",
            Self::GpuOnly => "gpu-only",
            Self::NpuOnly => "npu-only",
            Self::ChannelSplit => "channel-split",
            Self::HeightSplit => "height-split",
            Self::AnySplit => "any-split",
            Self::Epew => "epew",
            Self::Codl => "codl",
            Self::Optimal => "optimal",
            Self::FlopsProportional => "flops-proportional",
            Self::LayerWise => "layer-wise",
        }
    }
}

/// What a search minimises.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Objective {
    /// Time.
    #[default]
    Latency,
    /// Energy.
    Energy,
    /// Energy-delay product.
    Edp,
}

impl Objective {
    /// The name used in files and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Latency => "latency",
            Self::Energy => "energy",
            Self::Edp => "edp",
        }
    }

    /// The cost of a run, lower is better; latency where energy is not known.
    pub fn cost(self, latency: Picos, energy: Option<Joules>) -> f64 {
        let seconds = latency.as_seconds();
        match (self, energy) {
            (Self::Energy, Some(energy)) => energy.0,
            (Self::Edp, Some(energy)) => energy.0 * seconds,
            (Self::Latency, _) | (_, None) => seconds,
        }
    }
}

/// What a search may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// How to find the plan.
    pub strategy: Strategy,
    /// What to minimise.
    pub objective: Objective,
    /// Synchronisation between processors.
    pub synchronisation: Mechanism,
    /// CPU core sets that may be used.
    pub core_sets: Vec<CoreSet>,
    /// Grid of output channels; at least 1.
    pub step: u32,
}

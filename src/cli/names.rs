//! Names of things as they are typed: the values of options.

use clap::ValueEnum;
use coexec_sim::explore::language::LanguageStrategy;
use coexec_sim::explore::{Objective, Strategy};
use coexec_sim::kernel::cpu::Library;
use coexec_sim::plan::synchronisation::Mechanism;
use coexec_sim::published::Paper;

/// Format of measured runs, as typed.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum RunFormat {
    /// One row a repetition, with a table of fingerprints beside it
    Coexec,
    /// The tables of the mobile-ml-benchmark data set
    MobileMlBenchmark,
}

/// A file format with a schema.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum SchemaName {
    /// Device profiles
    Profile,
    /// Scenarios
    Scenario,
    /// Plans
    Plan,
    /// A row of measured runs, cell by cell
    Runs,
}

/// CPU kernels, as typed.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum LibraryName {
    /// TFLite's own kernels on ruy
    Ruy,
    /// XNNPACK
    Xnnpack,
    /// coexec's own, which `run` and `probe` run
    Coexec,
}

impl From<LibraryName> for Library {
    fn from(name: LibraryName) -> Self {
        match name {
            LibraryName::Ruy => Self::Ruy,
            LibraryName::Xnnpack => Self::Xnnpack,
            LibraryName::Coexec => Self::Coexec,
        }
    }
}

/// A synchronisation mechanism, as typed.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum MechanismName {
    /// clFinish, then map
    BlockingFinish,
    /// clWaitForEvents, then map
    EventWait,
    /// Flags in fine-grained shared virtual memory, both sides polling
    SvmPolling,
    /// Sleep for the predicted time, then poll
    SleepThenPoll,
}

impl From<MechanismName> for Mechanism {
    fn from(name: MechanismName) -> Self {
        match name {
            MechanismName::BlockingFinish => Self::BlockingFinish,
            MechanismName::EventWait => Self::EventWait,
            MechanismName::SvmPolling => Self::SvmPolling,
            MechanismName::SleepThenPoll => Self::SleepThenPoll,
        }
    }
}

/// A strategy, as typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StrategyName {
    /// Every operator on the CPU cores
    CpuOnly,
    /// Every operator on the GPU
    GpuOnly,
    /// Every operator on the NPU
    NpuOnly,
    /// Each operator on CPU, GPU, or cut along its output channels between both
    ChannelSplit,
    /// The same, cut along its output's height
    HeightSplit,
    /// The same, cut along whichever is better
    AnySplit,
    /// Each operator as is best for it alone, cut along its output channels (EPEW'25)
    Epew,
    /// Cut along height or channels by tenths, then chained (CoDL, MobiSys'22)
    Codl,
    /// Planned together over the whole graph: never worse than any other
    Optimal,
    /// Each operator cut in proportion to what the processors compute in a second
    FlopsProportional,
    /// Whole layers: kinds of operator that gain little from the GPU on the CPU cores
    LayerWise,
    /// Language models: products on the NPU, padded to the next static graph
    NpuPadding,
    /// Language models: products on the NPU, in filled graphs one after another
    NpuPipe,
    /// Language models: products on the NPU, in graphs of one size
    NpuChunked,
    /// Language models: products on the NPU, in graphs made for each prompt
    NpuOnline,
    /// Language models: the same, with the weights in the arrays
    NpuNaive,
    /// Language models: each product on GPU or NPU, whichever is faster
    HeteroLayer,
    /// Language models: each product's channels between GPU and NPU
    WeightCentric,
    /// Language models: each product's rows between GPU and NPU
    ActivationCentric,
    /// Language models: rows and channels between GPU and NPU
    Hybrid,
    /// Language models: the fastest of all for each product and length
    HeteroTensor,
    /// All of the workload's, compared
    All,
}

impl StrategyName {
    /// The strategy that finds the plan of operators: comparing all of them starts from the
    /// one that uses every processor. None for one of language models alone.
    pub(crate) fn planned(self) -> Option<Strategy> {
        Some(match self {
            Self::CpuOnly => Strategy::CpuOnly,
            Self::GpuOnly => Strategy::GpuOnly,
            Self::NpuOnly => Strategy::NpuOnly,
            Self::ChannelSplit | Self::All => Strategy::ChannelSplit,
            Self::HeightSplit => Strategy::HeightSplit,
            Self::AnySplit => Strategy::AnySplit,
            Self::Epew => Strategy::Epew,
            Self::Codl => Strategy::Codl,
            Self::Optimal => Strategy::Optimal,
            Self::FlopsProportional => Strategy::FlopsProportional,
            Self::LayerWise => Strategy::LayerWise,
            _ => return None,
        })
    }

    /// The strategy that finds the plan of a language model, likewise.
    pub(super) fn of_language(self) -> Option<LanguageStrategy> {
        Some(match self {
            Self::GpuOnly => LanguageStrategy::GpuOnly,
            Self::NpuOnly | Self::NpuPadding => LanguageStrategy::NpuPadding,
            Self::NpuPipe => LanguageStrategy::NpuPipe,
            Self::NpuChunked => LanguageStrategy::NpuChunked,
            Self::NpuOnline => LanguageStrategy::NpuOnline,
            Self::NpuNaive => LanguageStrategy::NpuNaive,
            Self::HeteroLayer => LanguageStrategy::HeteroLayer,
            Self::WeightCentric => LanguageStrategy::WeightCentric,
            Self::ActivationCentric => LanguageStrategy::ActivationCentric,
            Self::Hybrid => LanguageStrategy::Hybrid,
            Self::HeteroTensor | Self::All => LanguageStrategy::HeteroTensor,
            _ => return None,
        })
    }
}

/// An objective, as typed.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum ObjectiveName {
    /// Time
    Latency,
    /// Energy
    Energy,
    /// Energy-delay product
    Edp,
}

impl From<ObjectiveName> for Objective {
    fn from(name: ObjectiveName) -> Self {
        match name {
            ObjectiveName::Latency => Self::Latency,
            ObjectiveName::Energy => Self::Energy,
            ObjectiveName::Edp => Self::Edp,
        }
    }
}

/// A figure, as typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Figure {
    /// Points: predicted against measured time
    Scatter,
    /// Points: how many predictions are how far off, beside the baselines
    ErrorCdf,
    /// Points: error against waves a compute unit
    ResidualWaves,
    /// Points: error against bytes moved
    ResidualBytes,
    /// Points of a GPU: time an iteration against work-groups, for one kernel and tile
    Staircase,
    /// Learning curve: error against number of measured runs
    LearningCurve,
    /// Device profile: time of matrix products over each extent on its NPU
    NpuStages,
    /// Device profile: rate of matrix products in either order of operands on its NPU
    NpuOrder,
}

impl Figure {
    /// Whether it shows points, which have groups.
    pub(crate) fn is_of_points(self) -> bool {
        !matches!(self, Self::LearningCurve | Self::NpuStages | Self::NpuOrder)
    }
}

/// A paper, as typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PaperName {
    /// EPEW'25: fine-grained CPU-GPU co-execution
    #[value(name = "EPEW25")]
    Epew25,
    /// CoDL, MobiSys'22: hybrid dimensions and chains
    #[value(name = "CoDL")]
    Codl,
    /// Layer-wise splitting with a pipelined queue
    #[value(name = "UnifiedSplitting")]
    UnifiedSplitting,
    /// EdgeSys'24: the benchmark of phones
    #[value(name = "EdgeSys24")]
    EdgeSys24,
    /// SOSP'25: GPU-NPU execution of language models
    #[value(name = "HeteroInfer")]
    HeteroInfer,
    /// All of these
    All,
}

impl PaperName {
    /// The papers it stands for.
    pub(crate) fn papers(self) -> Vec<Paper> {
        match self {
            Self::Epew25 => vec![Paper::Epew25],
            Self::Codl => vec![Paper::Codl],
            Self::UnifiedSplitting => vec![Paper::UnifiedSplitting],
            Self::EdgeSys24 => vec![Paper::EdgeSys24],
            Self::HeteroInfer => vec![Paper::HeteroInfer],
            Self::All => Paper::ALL.to_vec(),
        }
    }
}

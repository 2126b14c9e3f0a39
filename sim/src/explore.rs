//! Search over plans: which processor should compute what.
//!
//! Responsible for: the strategies, one file each. Not for: a cost model of its
//! own; every candidate is priced by the kernel models and the engine, so the
//! latency that a search reports is the one that `simulate` replays.
//! Invariant: a search returns the same plan for any number of threads.

pub mod advice;
pub mod applications;
mod codl;
pub mod comparison;
mod cut;
pub mod delegates;
mod epew;
mod explorer;
mod grid;
pub mod language;
pub mod layer_wise;
mod optimal;
mod prices;
mod proportional;
mod random;
mod split;

pub use applications::{Application, Applications, Job, LanguageJob, ModelJob};
pub use codl::{CodlParts, WholeOperators};
pub use cut::{Candidate, CurvePoint, Search, latency_curve, split_search};
use cut::{StartDelays, search_grid};
pub use explorer::{Answer, Explorer, Found, explore, explore_stream};
use grid::{Grid, MAX_CUTS};
pub use language::{explore_language, plan_language};
pub use optimal::has_branches;
use prices::{CoRunCache, Price, Prices, price};
pub use random::{Choices, RandomSearch, choices};
use split::on_one_processor;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

use crate::device::{Cpu, Order, Profile};
use crate::kernel::CoreSet;
use crate::plan::{Axis, GraphCover, Mechanism, Placement, Processor};
use crate::simulate::{Result, SimulateError, Simulator, execute};
use crate::units::{Joules, Picos};
use crate::workload::Stage;
use language::{Role, Steps, products};

/// A way to find a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[derive(Serialize, Deserialize, JsonSchema, VariantArray, IntoStaticStr)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Strategy {
    /// Every operator on the CPU cores.
    CpuOnly,
    /// Every operator on the GPU.
    GpuOnly,
    /// Every operator on the NPU; of a language model, its matrix products.
    NpuOnly,
    /// Each operator on the CPU, on the GPU, or cut along its output channels between both (EPEW'25,
    /// section 2).
    ChannelSplit,
    /// The same, cut along the output's height (CoDL, MobiSys'22, names both).
    HeightSplit,
    /// The same, cut along whichever is better.
    AnySplit,
    /// Each operator cut along its output channels in proportion to the processors' throughput (muLayer,
    /// EuroSys'19).
    FlopsProportional,
    /// Whole layers: the kinds of operator that gain little from the GPU run on the CPU (Unified
    /// Splitting).
    LayerWise,
    /// Each operator placed as is best for it alone, cut along its output channels after a few queries
    /// of the kernel models (EPEW'25, section 2).
    Epew,
    /// Each operator cut along its height or its output channels in tenths, then chained (CoDL,
    /// MobiSys'22, sections 4 and 5).
    Codl,
    /// The best plan found for the whole graph, on all processors, with cuts and chains between CPU and
    /// GPU, and an upper bound of its optimality gap.
    Optimal,
    /// As TFLite's GPU delegate: its largest partition on the GPU, the rest on the CPU, one after
    /// another.
    DelegateGpu,
    /// As TFLite's XNNPACK delegate: everything on the CPU, partitioned by whether XNNPACK takes the
    /// operators.
    DelegateXnnpack,
    /// As an NPU's compiler or delegate: the partitions that it takes on the NPU, the rest on the CPU,
    /// one after another.
    DelegateNpu,
    /// The best of plans drawn at random: a baseline for searches, not part of a comparison of all
    /// strategies.
    Random,
    /// Language models: products on the NPU, their rows padded to the next static graph (`Padding`).
    NpuPadding,
    /// Language models: products on the NPU, cut into static graphs that are full, one after another
    /// (`NPU-pipe`).
    NpuPipe,
    /// Language models: products on the NPU, in graphs of one fixed size (`Chunked-prefill`, llm.npu).
    NpuChunked,
    /// Language models: products on the NPU, in graphs compiled for the prompt's length when the prompt
    /// arrives (`Online-prepare`).
    NpuOnline,
    /// Language models: as `npu-online`, with the operands in the model's order, so that the weights
    /// stay in the systolic arrays.
    NpuNaive,
    /// Language models: everything on the NPU, each step compiled as graphs over a context of fixed
    /// length.
    NpuGraphs,
    /// Language models: everything on the NPU, one kernel per operator (llama.cpp's Hexagon backend).
    NpuKernels,
    /// Language models: prefill on the NPU, compiled as graphs; decode on the CPU cores or the GPU,
    /// whichever is faster, with a second copy of the weights in its layout (MNN, mllm).
    NpuPrefill,
    /// Language models: each product on the GPU or the NPU, whichever is faster (`Hetero-layer`).
    HeteroLayer,
    /// Language models: each product's output channels divided between GPU and NPU.
    WeightCentric,
    /// Language models: each product's rows divided between GPU and NPU so that the NPU's static graphs
    /// are full.
    ActivationCentric,
    /// Language models: rows and channels of each product divided between GPU and NPU.
    Hybrid,
    /// Language models: the fastest of all these for each product and length, or for a whole prompt or
    /// all generated tokens where that is faster (`Hetero-tensor`).
    HeteroTensor,
}

type FindPlan = fn(&mut Explorer<'_, '_>, Strategy) -> Result<Found>;

/// How a strategy plans.
struct Rules {
    /// Axes along which it searches each operator's best cut between CPU and GPU.
    axes: &'static [Axis],
    /// Its search of a graph of operators; `None` if it plans none.
    search: Option<FindPlan>,
    /// Its rules for a language model; `None` if it plans none.
    language: Option<language::Rules>,
}

impl Strategy {
    /// All strategies.
    pub const ALL: &[Self] = Self::VARIANTS;

    /// The strategies that reproduce today's delegates: GPU, XNNPACK, NPU.
    pub const DELEGATES: [Self; 3] = [Self::DelegateGpu, Self::DelegateXnnpack, Self::DelegateNpu];

    /// The strategies for graphs of operators that are compared with each other, simpler ones first.
    pub fn of_operators() -> impl Iterator<Item = Self> {
        let is_apart = |strategy: &Self| *strategy == Self::Random || Self::DELEGATES.contains(strategy);
        Self::ALL.iter().copied().filter(move |strategy| strategy.plans_operators() && !is_apart(strategy))
    }

    /// The strategies for language models, simpler ones first; without `npu-only`, which is
    /// `npu-padding` there.
    pub fn of_language_models() -> impl Iterator<Item = Self> {
        let differs = |strategy: &Self| strategy.plans_language_models() && *strategy != Self::NpuOnly;
        Self::ALL.iter().copied().filter(differs)
    }

    /// The strategies of existing engines: the baselines of a language model.
    pub fn engines() -> impl Iterator<Item = Self> {
        Self::of_language_models().filter(|strategy| strategy.role() == Some(Role::Engine))
    }

    /// The rules of every strategy, in one place.
    fn rules(self) -> Rules {
        let search = |axes, search| Rules { axes, search: Some(search), language: None };
        let language = |place, steps, role| Rules {
            axes: &[],
            search: None,
            language: Some(language::Rules { place, steps, role }),
        };
        let engine = |place, steps| language(place, steps, Role::Engine);
        let offered = |place| language(place, Steps::Standard, Role::Offered);
        let compared = |place| language(place, Steps::Standard, Role::Compared);
        let padded: language::Place = |_, stage| Ok(products::on_npu(stage, GraphCover::Padded));
        match self {
            Self::CpuOnly => Rules {
                search: Some(|explorer, strategy| {
                    let core_sets: Vec<_> =
                        explorer.options.core_sets.iter().copied().map(Placement::cpu).collect();
                    on_one_processor(explorer, strategy, &core_sets)
                }),
                ..engine(language::on_all_cores, Steps::OnCores)
            },
            Self::GpuOnly => Rules {
                search: Some(|explorer, strategy| on_one_processor(explorer, strategy, &[Placement::GPU])),
                ..engine(|_, _| Ok(Placement::GPU), Steps::Standard)
            },
            Self::NpuOnly => Rules {
                search: Some(|explorer, strategy| on_one_processor(explorer, strategy, &[Placement::NPU])),
                ..compared(padded)
            },
            Self::ChannelSplit => search(&[Axis::Channels], split::find),
            Self::HeightSplit => search(&[Axis::Height], split::find),
            Self::AnySplit => search(&[Axis::Channels, Axis::Height], split::find),
            Self::FlopsProportional => search(&[], proportional::find),
            Self::LayerWise => search(&[], layer_wise::find),
            Self::Epew => search(&[Axis::Channels], epew::find),
            Self::Codl => {
                search(&[Axis::Channels, Axis::Height], |explorer, _| explorer.codl(CodlParts::ALL))
            }
            Self::Optimal => search(&[Axis::Channels, Axis::Height], |explorer, _| optimal::find(explorer)),
            Self::DelegateGpu | Self::DelegateXnnpack | Self::DelegateNpu => search(&[], delegates::find),
            Self::Random => {
                search(&[], |explorer, _| explorer.random(RandomSearch { plans: 1_000, seed: 0 }))
            }
            Self::NpuPadding => compared(padded),
            Self::NpuPipe => offered(|_, stage| Ok(products::on_npu(stage, GraphCover::Pieces))),
            Self::NpuChunked => compared(|_, stage| Ok(products::on_npu(stage, products::CHUNKS))),
            Self::NpuOnline => language(padded, Steps::Online(None), Role::Compared),
            Self::NpuNaive => language(padded, Steps::Online(Some(Order::WeightsStationary)), Role::Compared),
            Self::NpuGraphs | Self::NpuPrefill => engine(|_, _| Ok(Placement::NPU), Steps::Compiled),
            Self::NpuKernels => engine(|_, _| Ok(Placement::NPU), Steps::Kernels),
            Self::HeteroLayer => engine(products::layer_level, Steps::Standard),
            Self::WeightCentric => compared(products::weight_centric),
            Self::ActivationCentric => compared(products::activation_centric),
            Self::Hybrid => compared(products::hybrid),
            Self::HeteroTensor => offered(products::solver),
        }
    }

    /// Whether it plans graphs of operators.
    pub fn plans_operators(self) -> bool {
        self.rules().search.is_some()
    }

    /// Whether it plans language models.
    pub fn plans_language_models(self) -> bool {
        self.rules().language.is_some()
    }

    /// Whether everything runs on one processor.
    pub fn is_single(self) -> bool {
        matches!(self, Self::CpuOnly | Self::GpuOnly | Self::NpuOnly)
    }

    /// Axes along which it searches each operator's best cut between CPU and GPU; empty if it searches
    /// none.
    pub fn axes(self) -> &'static [Axis] {
        self.rules().axes
    }

    /// The name used in files and on the command line.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// This strategy's plan of a graph of operators.
    fn find(self, explorer: &mut Explorer<'_, '_>) -> Result<Found> {
        match self.rules().search {
            Some(search) => search(explorer, self),
            None => Err(self.of_other_workloads("language models")),
        }
    }

    fn of_other_workloads(self, plans: &'static str) -> SimulateError {
        SimulateError::OtherWorkload { strategy: self.name(), plans }
    }
}

/// What a search minimises.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema, IntoStaticStr)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
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
        self.into()
    }

    /// The cost of a run, in seconds, joules or joule-seconds; latency where energy is unknown.
    pub fn cost(self, latency: Picos, energy: Option<Joules>) -> f64 {
        let seconds = latency.as_seconds();
        match (self, energy) {
            (Self::Energy, Some(energy)) => energy.0,
            (Self::Edp, Some(energy)) => energy.0 * seconds,
            (Self::Latency, _) | (_, None) => seconds,
        }
    }
}

/// How much work a search may do for its plan and its bound; times are typical.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema, IntoStaticStr)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Effort {
    /// A fraction of a second.
    Quick,
    /// About a second for the least latency; ten times as long for the least energy or EDP.
    #[default]
    Normal,
    /// Several seconds; minutes where dozens of branches are open at once.
    Thorough,
}

/// Default grid of output channels: the step of EPEW'25's grid search (section 5.3).
pub(crate) const DEFAULT_STEP: u32 = 8;
/// Default maximum of CPU threads in a plan: EPEW'25 evaluates one to three.
pub(crate) const DEFAULT_THREADS: u32 = 3;

/// One core set for each number of threads up to `threads`, of the fastest cores. Where energy counts, also those
/// without the fastest clusters, before them: slower cores take less energy for the same work.
pub fn core_sets(cpu: &Cpu, threads: u32, objective: Objective) -> Vec<CoreSet> {
    let clusters = if objective == Objective::Latency { 1 } else { cpu.clusters.len() };
    let from = |first| (1..=threads).map_while(move |threads| CoreSet::fastest_from(cpu, first, threads));
    (0..clusters).rev().flat_map(from).collect()
}

/// What a search may use, and what it minimises.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchOptions {
    /// How to find the plan.
    pub strategy: Strategy,
    /// What to minimise.
    pub objective: Objective,
    /// Synchronisation between processors.
    pub synchronisation: Mechanism,
    /// CPU core sets that may be used.
    pub core_sets: Vec<CoreSet>,
    /// Grid of output channels; at least 1. [`Strategy::Optimal`] considers every channel.
    pub step: u32,
    /// Effort of [`Strategy::Optimal`].
    pub effort: Effort,
}

impl SearchOptions {
    /// The command's defaults for a model on `device`: the best plan found, with up to three of the fastest
    /// CPU cores, SVM polling, least latency. Other objectives have other [`core_sets`].
    pub fn on(device: &Profile) -> Self {
        let objective = Objective::default();
        Self {
            strategy: Strategy::Optimal,
            objective,
            synchronisation: Mechanism::SvmPolling,
            core_sets: core_sets(&device.cpu, DEFAULT_THREADS, objective),
            step: DEFAULT_STEP,
            effort: Effort::default(),
        }
    }
}

/// Why nothing can run the operator: the error of the first processor allowed.
fn missing_kernel(simulator: &Simulator<'_>, stage: &Stage, options: &SearchOptions) -> SimulateError {
    let (device, library) = (simulator.device(), simulator.library());
    let on_cpu = options.core_sets.first().map(|&cores| Processor::Cpu(cores));
    let on_gpu = device.gpu.is_some().then_some(Processor::Gpu);
    on_gpu
        .into_iter()
        .chain(on_cpu)
        .find_map(|by| execute(&stage.layer, device, library, by).err())
        .unwrap_or(SimulateError::NothingToUse)
}

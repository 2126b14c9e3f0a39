//! Strategies for language models on GPU and NPU.
//!
//! Responsible for: who computes each product of activations and weights, for each prompt
//! length and for single tokens; everything else is the GPU's, whose kernels it is
//! (`HeteroInfer`, SOSP'25, figure 6). Not for: CPU cores, which only control.
//! Invariant: a strategy's choice for a product is a function of the product alone, so
//! equal products of all layers share it; only the solver takes a prompt or the tokens
//! after it as another strategy places them where that is faster as a whole.

mod activation_centric;
mod hybrid;
mod layer_level;
mod npu_alone;
mod price;
mod solver;
mod weight_centric;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use price::Price;

use crate::device::npu::Order;
use crate::device::profile::Profile;
use crate::kernel::cpu::Library;
use crate::plan::synchronisation::Mechanism;
use crate::plan::{AcceleratorSplit, GraphCover, Placement};
use crate::simulate::SimulateError;
use crate::simulate::generation::{Generation, GenerationPlan, Graphs, StepPlan, generate};
use crate::units::Picos;
use crate::workload::{LanguageTask, Operator, Stage, StepStages};

/// A way to place a language model's products.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LanguageStrategy {
    /// Everything on the GPU.
    GpuOnly,
    /// Products on the NPU, their rows padded to the next static graph (`Padding`).
    NpuPadding,
    /// Products on the NPU, in static graphs that are filled, one after another (`NPU-pipe`).
    NpuPipe,
    /// Products on the NPU, in graphs of one fixed size (`Chunked-prefill`, llm.npu).
    NpuChunked,
    /// Products on the NPU, in graphs made for the prompt's length when it arrives
    /// (`Online-prepare`).
    NpuOnline,
    /// As `npu-online`, and with the operands in the order that the model states them:
    /// the weights stay in the arrays.
    NpuNaive,
    /// Each product on the GPU or on the NPU, whichever is faster (`Hetero-layer`).
    HeteroLayer,
    /// Each product's output channels between GPU and NPU.
    WeightCentric,
    /// Each product's rows between GPU and NPU: what fills static graphs on the NPU.
    ActivationCentric,
    /// Rows and channels of each product between GPU and NPU.
    Hybrid,
    /// The fastest of all of these for each product and length, and for each prompt and
    /// all generated tokens as a whole (`Hetero-tensor`).
    #[default]
    HeteroTensor,
}

impl LanguageStrategy {
    /// All strategies.
    pub const ALL: [Self; 11] = [
        Self::GpuOnly,
        Self::NpuPadding,
        Self::NpuPipe,
        Self::NpuChunked,
        Self::NpuOnline,
        Self::NpuNaive,
        Self::HeteroLayer,
        Self::WeightCentric,
        Self::ActivationCentric,
        Self::Hybrid,
        Self::HeteroTensor,
    ];

    /// Those with the solver's graphs and order of operands, so that a phase can be
    /// theirs.
    const WITH_STANDARD_GRAPHS: [Self; 8] = [
        Self::GpuOnly,
        Self::NpuPadding,
        Self::NpuPipe,
        Self::NpuChunked,
        Self::HeteroLayer,
        Self::WeightCentric,
        Self::ActivationCentric,
        Self::Hybrid,
    ];

    /// The name used in files and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::GpuOnly => "gpu-only",
            Self::NpuPadding => "npu-padding",
            Self::NpuPipe => "npu-pipe",
            Self::NpuChunked => "npu-chunked",
            Self::NpuOnline => "npu-online",
            Self::NpuNaive => "npu-naive",
            Self::HeteroLayer => "hetero-layer",
            Self::WeightCentric => "weight-centric",
            Self::ActivationCentric => "activation-centric",
            Self::Hybrid => "hybrid",
            Self::HeteroTensor => "hetero-tensor",
        }
    }

    fn graphs(self) -> Graphs {
        match self {
            Self::NpuOnline | Self::NpuNaive => Graphs::MadeOnline,
            _ => Graphs::Standard,
        }
    }

    fn order(self) -> Option<Order> {
        (self == Self::NpuNaive).then_some(Order::WeightsStationary)
    }

    /// Who computes the product `stage`.
    fn place(self, price: &Price<'_>, stage: &Stage) -> Result<Placement, SimulateError> {
        Ok(match self {
            Self::GpuOnly => Placement::Gpu,
            Self::NpuPadding | Self::NpuOnline | Self::NpuNaive => {
                npu_alone::place(stage, GraphCover::Padded)
            }
            Self::NpuPipe => npu_alone::place(stage, GraphCover::Pieces),
            Self::NpuChunked => npu_alone::place(stage, npu_alone::CHUNKS),
            Self::HeteroLayer => layer_level::place(price, stage)?,
            Self::WeightCentric => shared(weight_centric::best(price, &stage.layer)?),
            Self::ActivationCentric => match activation_centric::best(price, &stage.layer)? {
                None => layer_level::place(price, stage)?,
                split => shared(split),
            },
            Self::Hybrid => shared(hybrid::best(price, &stage.layer)?),
            Self::HeteroTensor => solver::place(price, stage)?,
        })
    }
}

/// What was found, and what it takes; the GPU where nothing was.
type Priced = Option<(Picos, AcceleratorSplit)>;

fn shared(found: Priced) -> Placement {
    found.map_or(Placement::Gpu, |(_, split)| Placement::Accelerators(split))
}

/// The faster of two findings.
fn faster(one: Priced, other: Priced) -> Priced {
    match (one, other) {
        (Some(one), Some(other)) => Some(if other.0 < one.0 { other } else { one }),
        (one, other) => one.or(other),
    }
}

/// Plans `task` on `device` by `strategy`, with processors that meet by `synchronisation`.
///
/// # Errors
/// The device has no GPU, or no NPU where the strategy needs one.
pub fn plan_language(
    device: &Profile,
    library: Library,
    task: &LanguageTask,
    strategy: LanguageStrategy,
    synchronisation: Mechanism,
) -> Result<GenerationPlan, SimulateError> {
    let by = |strategy| plan_products(device, library, task, strategy, synchronisation);
    let mut plan = by(strategy)?;
    if strategy != LanguageStrategy::HeteroTensor {
        return Ok(plan);
    }
    // Products that are best alone wait for each other in a row.
    let mut fastest = PhaseTimes::of(&generate(device, library, task, &plan)?);
    for rival in LanguageStrategy::WITH_STANDARD_GRAPHS {
        let other = by(rival)?;
        let times = PhaseTimes::of(&generate(device, library, task, &other)?);
        for (turn, time) in times.prefill.into_iter().enumerate() {
            if time < fastest.prefill[turn] {
                fastest.prefill[turn] = time;
                plan.prefill[turn].clone_from(&other.prefill[turn]);
            }
        }
        if times.decode < fastest.decode {
            fastest.decode = times.decode;
            plan.decode = other.decode;
        }
    }
    Ok(plan)
}

/// How long the phases of a task take.
struct PhaseTimes {
    /// Reading each turn's prompt.
    prefill: Vec<Picos>,
    /// Generating all answers.
    decode: Picos,
}

impl PhaseTimes {
    fn of(generation: &Generation) -> Self {
        let decodes = generation.turns.iter().filter_map(|turn| turn.decode.as_ref());
        Self {
            prefill: generation.turns.iter().map(|turn| turn.prefill.latency).collect(),
            decode: decodes.fold(Picos::ZERO, |sum, phase| sum + phase.latency),
        }
    }
}

/// Each product as `strategy` places it.
fn plan_products(
    device: &Profile,
    library: Library,
    task: &LanguageTask,
    strategy: LanguageStrategy,
    synchronisation: Mechanism,
) -> Result<GenerationPlan, SimulateError> {
    if device.gpu.is_none() {
        return Err(SimulateError::absent("GPU", device));
    }
    if strategy != LanguageStrategy::GpuOnly && device.npu.is_none() {
        return Err(SimulateError::absent("NPU", device));
    }
    let mut plan = GenerationPlan {
        synchronisation,
        prefill: Vec::with_capacity(task.turns.len()),
        decode: StepPlan { first: Vec::new(), layer: Vec::new(), last: Vec::new() },
        graphs: strategy.graphs(),
        order: strategy.order(),
    };
    let variant = plan.device(device);
    let price = Price::new(&variant, library, synchronisation);
    for turn in 0..task.turns.len() {
        plan.prefill.push(plan_step(&price, &task.stages(task.prefill(turn)), strategy)?);
    }
    plan.decode = plan_step(&price, &task.stages(task.first_decode(0)), strategy)?;
    Ok(plan)
}

fn plan_step(
    price: &Price<'_>,
    stages: &StepStages,
    strategy: LanguageStrategy,
) -> Result<StepPlan, SimulateError> {
    let [first, layer, last] = stages.parts().map(|stages| {
        let place = |stage: &Stage| match &stage.layer.operator {
            Operator::Linear(_) => strategy.place(price, stage),
            _ => Ok(Placement::Gpu),
        };
        stages.iter().map(place).collect::<Result<Vec<_>, _>>()
    });
    Ok(StepPlan { first: first?, layer: layer?, last: last? })
}

/// A strategy's plan and what it takes.
#[derive(Clone, Debug, PartialEq)]
pub struct LanguageAnswer {
    /// The strategy.
    pub strategy: LanguageStrategy,
    /// Its plan.
    pub plan: GenerationPlan,
    /// What that takes.
    pub generation: Generation,
}

/// Plans `task` by `strategy` and simulates the plan.
///
/// # Errors
/// As [`plan_language`] and [`generate`].
pub fn explore_language(
    device: &Profile,
    library: Library,
    task: &LanguageTask,
    strategy: LanguageStrategy,
    synchronisation: Mechanism,
) -> Result<LanguageAnswer, SimulateError> {
    let plan = plan_language(device, library, task, strategy, synchronisation)?;
    let generation = generate(device, library, task, &plan)?;
    Ok(LanguageAnswer { strategy, plan, generation })
}

#[cfg(test)]
mod tests;

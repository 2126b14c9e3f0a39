//! Strategies for language models.
//!
//! Responsible for: which processor computes each product of activations and weights, for each
//! prompt length and for single tokens. Where GPU and NPU share the products, the GPU computes
//! everything else (`HeteroInfer`, SOSP'25, figure 6), and CPU cores only control. Not for: shares of
//! CPU cores. Invariant: a strategy's choice for a product is a function of the product alone, so equal
//! products of all layers share it; only the solver takes over another strategy's choices for a whole
//! prompt, or for all generated tokens, where that is faster.

mod price;
pub(super) mod products;

use std::collections::HashMap;

pub use price::ProductPrices;

use super::advice::CONFIDENCE;
use super::{Objective, Strategy};
use crate::device::{Order, Profile};
use crate::kernel::CoreSet;
use crate::plan::{Mechanism, Placement};
use crate::simulate::{
    Conversation, Footprint, Generation, GenerationPlan, Graphs, Result, SimulateError, StepPlan, generate,
};
use crate::units::{Bytes, Picos};
use crate::workload::{LanguageTask, Layer, Stage, StepStages};

/// Where a strategy places a product, or any operator if it computes whole steps on one processor.
pub(super) type Place = fn(&ProductPrices<'_>, &Stage) -> Result<Placement>;

/// How a strategy plans language models.
#[derive(Clone, Copy)]
pub(super) struct Rules {
    pub(super) place: Place,
    pub(super) steps: Steps,
    pub(super) role: Role,
}

/// How the steps of a strategy are computed.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Steps {
    /// Everything on the CPU cores.
    OnCores,
    /// Everything on the NPU, as graphs of its compiler.
    Compiled,
    /// Everything on the NPU, one kernel per operator.
    Kernels,
    /// Products where the strategy places them, on the NPU in standard graphs; everything else on the
    /// GPU.
    Standard,
    /// As `Standard`, in graphs compiled when a prompt arrives, with the operands in this order.
    Online(Option<Order>),
}

/// The purpose of a strategy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Existing engines work this way.
    Engine,
    /// No engine works this way, but it is a candidate for applications.
    Offered,
    /// For comparison with a paper, and a candidate of `hetero-tensor`.
    Compared,
}

impl Steps {
    /// Whether one processor computes whole steps, not only their products.
    fn compute_whole_steps(self) -> bool {
        matches!(self, Self::OnCores | Self::Compiled | Self::Kernels)
    }

    fn graphs(self, task: &LanguageTask) -> Graphs {
        match self {
            Self::OnCores | Self::Standard => Graphs::Standard,
            Self::Compiled => Graphs::compiled(task, true),
            Self::Kernels => Graphs::Kernels,
            Self::Online(_) => Graphs::MadeOnline,
        }
    }

    fn order(self) -> Option<Order> {
        match self {
            Self::OnCores | Self::Standard | Self::Compiled | Self::Kernels => None,
            Self::Online(order) => order,
        }
    }
}

impl Strategy {
    pub(super) fn role(self) -> Option<Role> {
        self.rules().language.map(|rules| rules.role)
    }

    /// The candidates for applications: the strategies of engines, and those offered in addition.
    pub(super) fn of_applications() -> impl Iterator<Item = Self> {
        Self::of_language_models().filter(|strategy| strategy.role() != Some(Role::Compared))
    }

    /// The strategies with the solver's graphs and order of operands, whose phases its plan can take
    /// over.
    fn rivals_of_the_solver() -> impl Iterator<Item = Self> {
        let is_rival = |strategy: &Self| {
            let steps = strategy.rules().language.map(|rules| rules.steps);
            steps == Some(Steps::Standard) && *strategy != Self::HeteroTensor
        };
        Self::of_language_models().filter(is_rival)
    }
}

/// All cores at once, as engines of language models use them.
///
/// # Errors
/// The device has no cores.
pub(super) fn on_all_cores(price: &ProductPrices<'_>, _stage: &Stage) -> Result<Placement> {
    let cores = CoreSet::all(&price.device().cpu);
    cores.map(Placement::cpu).ok_or_else(|| SimulateError::absent("CPU", price.device()))
}

/// Plans a conversation by `strategy`, with processors that synchronise by `synchronisation`.
///
/// # Errors
/// The device has no GPU, or no NPU where the strategy needs one.
pub fn plan_language(
    conversation: Conversation<'_>,
    strategy: Strategy,
    synchronisation: Mechanism,
) -> Result<GenerationPlan> {
    let by = |strategy| plan_products(conversation, strategy, synchronisation);
    let mut plan = by(strategy)?;
    if strategy == Strategy::NpuPrefill {
        plan.decode = faster_decode(conversation, [by(Strategy::CpuOnly), by(Strategy::GpuOnly)])?;
        plan.graphs = Graphs::compiled(conversation.task, false);
    }
    if strategy != Strategy::HeteroTensor {
        return Ok(plan);
    }
    // Placements that are best for each product alone ignore the waits between successive products.
    let mut fastest = PhaseTimes::of(&generate(conversation, &plan)?);
    for rival in Strategy::rivals_of_the_solver() {
        let other = by(rival)?;
        let times = PhaseTimes::of(&generate(conversation, &other)?);
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

/// The decode steps of whichever of `plans` decodes faster, the first of equals.
///
/// # Errors
/// The device can run neither plan: the error of the second.
fn faster_decode(of: Conversation<'_>, plans: [Result<GenerationPlan>; 2]) -> Result<StepPlan> {
    let timed = plans.map(|plan| {
        let plan = plan?;
        Ok((PhaseTimes::of(&generate(of, &plan)?).decode, plan.decode))
    });
    match timed {
        [Ok((one, _)), Ok((other, decode))] if other < one => Ok(decode),
        [Ok((_, decode)), _] | [Err(_), Ok((_, decode))] => Ok(decode),
        [Err(_), Err(error)] => Err(error),
    }
}

/// Latencies of a task's phases.
struct PhaseTimes {
    /// Prefill of each turn.
    prefill: Vec<Picos>,
    /// Decode, summed over all turns.
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

/// The plan of a conversation with each product as `strategy` places it.
fn plan_products(
    Conversation { device, library, task }: Conversation<'_>,
    strategy: Strategy,
    synchronisation: Mechanism,
) -> Result<GenerationPlan> {
    let Some(rules) = strategy.rules().language else {
        return Err(strategy.of_other_workloads("graphs of operators"));
    };
    if rules.steps == Steps::Kernels {
        check_session(task)?;
    }
    let uses_gpu = !rules.steps.compute_whole_steps();
    let hands_over_products = uses_gpu && strategy != Strategy::GpuOnly;
    if uses_gpu && device.gpu.is_none() {
        return Err(SimulateError::absent("GPU", device));
    }
    if hands_over_products && device.systolic().is_none() {
        return Err(SimulateError::absent("NPU", device));
    }
    let mut plan = GenerationPlan {
        synchronisation,
        prefill: Vec::with_capacity(task.turns.len()),
        decode: StepPlan { first: Vec::new(), layer: Vec::new(), last: Vec::new() },
        graphs: rules.steps.graphs(task),
        order: rules.steps.order(),
    };
    let variant = plan.device(device);
    let price = ProductPrices::new(&variant, library, synchronisation);
    let mut placed = HashMap::new();
    let mut step_plan = |step| plan_step(&price, &mut placed, &plan.graphs.stages(task, step), rules);
    let prompts = (0..task.turns.len()).map(|turn| step_plan(plan.graphs.prefill_steps(task, turn)[0].0));
    let prefill = prompts.collect::<Result<_, _>>()?;
    let decode = step_plan(plan.graphs.decode_step(task, 0, 0))?;
    (plan.prefill, plan.decode) = (prefill, decode);
    Ok(plan)
}

/// Most weights that a session of a Qualcomm NPU can map: llama.cpp maps larger models in parts, one
/// after another, in unpublished times (its docs/backend/snapdragon/developer.md).
const SESSION_BYTES: u64 = 3_500_000_000;

/// Checks that the weights fit one session.
fn check_session(task: &LanguageTask) -> Result<()> {
    let weights = task.data_type().weight_bytes(task.model.parameters());
    let most = Bytes(SESSION_BYTES);
    if weights > most { Err(SimulateError::SessionFull { weights, most }) } else { Ok(()) }
}

/// Plans a step; `placed` are the products placed so far, since models and conversations repeat them.
fn plan_step(
    price: &ProductPrices<'_>,
    placed: &mut HashMap<Layer, Placement>,
    stages: &StepStages,
    Rules { place, steps, .. }: Rules,
) -> Result<StepPlan> {
    let [first, layer, last] = stages.parts().map(|stages| {
        let place = |stage: &Stage| -> Result<Placement> {
            if !steps.compute_whole_steps() && stage.layer.operator.product_with_weights().is_none() {
                return Ok(Placement::GPU);
            }
            if let Some(known) = placed.get(&stage.layer) {
                return Ok(*known);
            }
            let placement = place(price, stage)?;
            placed.insert(stage.layer.clone(), placement);
            Ok(placement)
        };
        stages.iter().map(place).collect::<Result<Vec<_>>>()
    });
    Ok(StepPlan { first: first?, layer: layer?, last: last? })
}

/// A strategy's plan and its prediction.
#[derive(Clone, Debug, PartialEq)]
pub struct LanguageAnswer {
    /// The strategy.
    pub strategy: Strategy,
    /// Its plan.
    pub plan: GenerationPlan,
    /// Its prediction.
    pub generation: Generation,
    /// Memory of the weights and of the KV cache of all turns.
    pub memory: Footprint,
}

/// Plans a conversation by `strategy` and simulates the plan.
///
/// # Errors
/// As [`plan_language`] and [`generate`].
pub fn explore_language(
    conversation: Conversation<'_>,
    strategy: Strategy,
    synchronisation: Mechanism,
) -> Result<LanguageAnswer> {
    let plan = plan_language(conversation, strategy, synchronisation)?;
    let generation = generate(conversation, &plan)?;
    let memory = Footprint::of_language(conversation.task, &plan);
    Ok(LanguageAnswer { strategy, plan, generation, memory })
}

/// Sorts answers on `device`: those that fit into its memory first, then from best to worst.
pub fn sort_answers(answers: &mut [LanguageAnswer], device: &Profile, objective: Objective) {
    let is_too_large = |answer: &LanguageAnswer| answer.memory.fits(device) == Some(false);
    let cost = |answer: &LanguageAnswer| objective.cost(answer.generation.latency, answer.generation.energy);
    // Of equals, the one with less memory comes first: without a second copy of the weights.
    answers.sort_by(|one, other| {
        is_too_large(one)
            .cmp(&is_too_large(other))
            .then_with(|| cost(one).total_cmp(&cost(other)))
            .then_with(|| one.memory.peak().cmp(&other.memory.peak()))
    });
}

/// Puts the answer to advise first, of answers sorted by latency: the fastest on one processor, or the fastest that
/// beats it in enough draws of the profile's errors, since to share a model costs memory and energy. Of answers that
/// differ in whether they fit into the memory, only those like the first count.
///
/// # Errors
/// As [`generate`].
pub fn advise_sure(conversation: Conversation<'_>, answers: &mut [LanguageAnswer]) -> Result<()> {
    let fits = |answer: &LanguageAnswer| answer.memory.fits(conversation.device);
    let is_single =
        |answer: &LanguageAnswer| answer.plan.is_on_one_processor() && fits(answer) == fits(&answers[0]);
    let single = answers.iter().position(is_single);
    let Some(single) = single.filter(|&single| single > 0) else { return Ok(()) };
    let drawn = |answer: &LanguageAnswer| answer.plan.drawn(conversation, &answer.generation);
    let alone = drawn(&answers[single])?.latency;
    let mut advised = 0;
    while advised < single && !drawn(&answers[advised])?.latency.is_surely_faster(&alone, CONFIDENCE) {
        advised += 1;
    }
    answers[..=advised].rotate_right(1);
    Ok(())
}

#[cfg(test)]
mod tests;

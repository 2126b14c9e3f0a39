//! Strategies for language models.
//!
//! Responsible for: who computes each product of activations and weights, for each prompt
//! length and for single tokens. Where GPU and NPU share them, everything else is the GPU's, whose
//! kernels it is (`HeteroInfer`, SOSP'25, figure 6), and CPU cores only control. Not for: shares of CPU cores.
//! Invariant: a strategy's choice for a product is a function of the product alone, so
//! equal products of all layers share it; only the solver takes a prompt or the tokens
//! after it as another strategy places them where that is faster as a whole.

pub(super) mod activation_centric;
pub(super) mod hybrid;
pub(super) mod layer_level;
pub(super) mod npu_alone;
mod price;
pub(super) mod solver;
pub(super) mod weight_centric;

pub use price::ProductPrices;

use super::Strategy;
use crate::device::npu::Order;
use crate::device::profile::Profile;
use crate::kernel::cpu::{CoreSet, Library};
use crate::plan::Placement;
use crate::plan::synchronisation::Mechanism;
use crate::simulate::SimulateError;
use crate::simulate::generation::{Generation, GenerationPlan, Graphs, StepPlan, generate};
use crate::units::Picos;
use crate::workload::{LanguageTask, Stage, StepStages};

/// Strategies with the solver's graphs and order of operands, so that a phase can be theirs.
const WITH_STANDARD_GRAPHS: [Strategy; 8] = [
    Strategy::GpuOnly,
    Strategy::NpuPadding,
    Strategy::NpuPipe,
    Strategy::NpuChunked,
    Strategy::HeteroLayer,
    Strategy::WeightCentric,
    Strategy::ActivationCentric,
    Strategy::Hybrid,
];

impl Strategy {
    fn graphs(self, task: &LanguageTask) -> Graphs {
        if matches!(self, Self::NpuGraphs | Self::NpuPrefill) {
            Graphs::compiled(task)
        } else if matches!(self, Self::NpuOnline | Self::NpuNaive) {
            Graphs::MadeOnline
        } else {
            Graphs::Standard
        }
    }

    /// Whether one processor computes all of a step, not only its products.
    fn is_whole_step(self) -> bool {
        matches!(self, Self::CpuOnly | Self::NpuGraphs | Self::NpuPrefill)
    }

    fn order(self) -> Option<Order> {
        (self == Self::NpuNaive).then_some(Order::WeightsStationary)
    }
}

/// All cores at once, as engines of language models use them.
///
/// # Errors
/// The device has no cores.
pub(super) fn on_all_cores(price: &ProductPrices<'_>, _stage: &Stage) -> Result<Placement, SimulateError> {
    let cores = CoreSet::all(&price.device().cpu);
    cores.map(Placement::cpu).ok_or_else(|| SimulateError::absent("CPU", price.device()))
}

/// What was found, and what it takes; the GPU where nothing was.
type Priced = Option<(Picos, Placement)>;

pub(super) fn shared(found: Priced) -> Placement {
    found.map_or(Placement::GPU, |(_, placement)| placement)
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
    strategy: Strategy,
    synchronisation: Mechanism,
) -> Result<GenerationPlan, SimulateError> {
    let by = |strategy| plan_products(device, library, task, strategy, synchronisation);
    let mut plan = by(strategy)?;
    if strategy == Strategy::NpuPrefill {
        plan.decode = answer_beside(device, library, task, [by(Strategy::CpuOnly), by(Strategy::GpuOnly)])?;
    }
    if strategy != Strategy::HeteroTensor {
        return Ok(plan);
    }
    // Products that are best alone wait for each other in a row.
    let mut fastest = PhaseTimes::of(&generate(device, library, task, &plan)?);
    for rival in WITH_STANDARD_GRAPHS {
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

/// How the faster of `plans` generates the answers of `task`, the first of equals.
///
/// # Errors
/// The device can follow none of them: what the last one lacks.
fn answer_beside(
    device: &Profile,
    library: Library,
    task: &LanguageTask,
    plans: [Result<GenerationPlan, SimulateError>; 2],
) -> Result<StepPlan, SimulateError> {
    let timed = plans.map(|plan| {
        let plan = plan?;
        let time = PhaseTimes::of(&generate(device, library, task, &plan)?).decode;
        Ok((time, plan.decode))
    });
    let (_, decode) = match timed {
        [Ok(one), Ok(other)] => {
            if other.0 < one.0 {
                other
            } else {
                one
            }
        }
        [Ok(only), Err(_)] | [Err(_), Ok(only)] => only,
        [Err(_), Err(error)] => return Err(error),
    };
    Ok(decode)
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
    strategy: Strategy,
    synchronisation: Mechanism,
) -> Result<GenerationPlan, SimulateError> {
    let uses_gpu = !strategy.is_whole_step();
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
        graphs: strategy.graphs(task),
        order: strategy.order(),
    };
    let variant = plan.device(device);
    let price = ProductPrices::new(&variant, library, synchronisation);
    for turn in 0..task.turns.len() {
        let (step, _) = plan.graphs.prefill_steps(task, turn);
        plan.prefill.push(plan_step(&price, &plan.graphs.stages(task, step), strategy)?);
    }
    plan.decode =
        plan_step(&price, &plan.graphs.stages(task, plan.graphs.decode_step(task, 0, 0)), strategy)?;
    Ok(plan)
}

fn plan_step(
    price: &ProductPrices<'_>,
    stages: &StepStages,
    strategy: Strategy,
) -> Result<StepPlan, SimulateError> {
    let Some(place) = strategy.rules().place else {
        return Err(strategy.of_other_workloads("graphs of operators"));
    };
    let [first, layer, last] = stages.parts().map(|stages| {
        let place = |stage: &Stage| match stage.layer.operator.product_with_weights() {
            None if !strategy.is_whole_step() => Ok(Placement::GPU),
            Some(_) | None => place(price, stage),
        };
        stages.iter().map(place).collect::<Result<Vec<_>, _>>()
    });
    Ok(StepPlan { first: first?, layer: layer?, last: last? })
}

/// A strategy's plan and what it takes.
#[derive(Clone, Debug, PartialEq)]
pub struct LanguageAnswer {
    /// The strategy.
    pub strategy: Strategy,
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
    strategy: Strategy,
    synchronisation: Mechanism,
) -> Result<LanguageAnswer, SimulateError> {
    let plan = plan_language(device, library, task, strategy, synchronisation)?;
    let generation = generate(device, library, task, &plan)?;
    Ok(LanguageAnswer { strategy, plan, generation })
}

#[cfg(test)]
mod tests;

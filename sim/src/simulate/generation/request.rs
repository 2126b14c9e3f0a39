//! A language task as what one request of an application computes.
//!
//! Responsible for: the commands of prompts and of the answer's tokens, step after step, each layer
//! by itself, since beside other applications each meets them at another time. Not for: when requests
//! come (`applications`). Invariant: alone it takes what [`generate`](super::generate) says. Graphs
//! that are made for a prompt's length are made before the first request.

use super::{GenerationPlan, StepPlan};
use crate::device::profile::Profile;
use crate::kernel::cpu::Library;
use crate::plan::Plan;
use crate::simulate::SimulateError;
use crate::simulate::applications::PricedRequest;
use crate::workload::{LanguageTask, StepStages};

/// All prompts of `task`, each with its answer.
///
/// # Errors
/// The plan is for another task, or the device lacks a processor or kernel it uses.
pub fn price_answer(
    device: &Profile,
    library: Library,
    task: &LanguageTask,
    plan: &GenerationPlan,
) -> Result<PricedRequest, SimulateError> {
    let mut request = PricedRequest::default();
    for (turn, asked) in task.turns.iter().enumerate() {
        request.append(&price_prompt(device, library, (task, turn), plan)?, 1);
        request.append(&price_tokens(device, library, (task, turn, asked.generated_tokens), plan)?, 1);
    }
    Ok(request)
}

/// The prompt of one turn.
///
/// # Errors
/// As [`price_answer`].
pub fn price_prompt(
    device: &Profile,
    library: Library,
    (task, turn): (&LanguageTask, usize),
    plan: &GenerationPlan,
) -> Result<PricedRequest, SimulateError> {
    let (step, times) = plan.prefill_steps(task, turn);
    let of_step = plan.prefill_plan(task, turn)?;
    let step = priced_step((device, library), task, plan, (&plan.stages(task, step), of_step))?;
    let mut request = PricedRequest::default();
    request.append(&step, times);
    Ok(request)
}

/// The first so many tokens of a turn's answer.
///
/// # Errors
/// As [`price_answer`].
pub fn price_tokens(
    device: &Profile,
    library: Library,
    (task, turn, tokens): (&LanguageTask, usize, u32),
    plan: &GenerationPlan,
) -> Result<PricedRequest, SimulateError> {
    let mut request = PricedRequest::default();
    for token in 0..tokens {
        let stages = plan.stages(task, plan.decode_step(task, turn, token));
        request.append(&priced_step((device, library), task, plan, (&stages, &plan.decode))?, 1);
    }
    Ok(request)
}

fn priced_step(
    (device, library): (&Profile, Library),
    task: &LanguageTask,
    plan: &GenerationPlan,
    (stages, of_step): (&StepStages, &StepPlan),
) -> Result<PricedRequest, SimulateError> {
    let variant = plan.device(device);
    let simulator = plan.in_graphs(super::Simulator::new(&variant, library)).inside();
    let mut step = PricedRequest::default();
    let counts = [1, task.model.layers, 1];
    for ((stages, placements), times) in stages.parts().into_iter().zip(of_step.parts()).zip(counts) {
        let plan = Plan::new(plan.synchronisation, placements.clone());
        step.append(&PricedRequest::new(&simulator, stages, &plan)?, times);
    }
    Ok(step)
}

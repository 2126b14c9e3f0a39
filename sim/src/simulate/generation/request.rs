//! A language task as what one request of an application computes.
//!
//! Responsible for: the commands of prompts and of the answer's tokens, step after step, each layer
//! by itself, since beside other applications each meets them at another time. Not for: when requests
//! come (`applications`). Invariant: alone it takes what [`generate`](super::generate) says, but for keys and values that are
//! rearranged between phases. Graphs
//! that are made for a prompt's length are made before the first request.

use super::{GenerationPlan, GenerationRun, StepPlan};
use crate::device::Profile;
use crate::kernel::Library;
use crate::plan::Plan;
use crate::simulate::{PricedRequest, Result};
use crate::workload::{LanguageTask, TokenStep};

/// All prompts of `task`, each with its answer.
///
/// # Errors
/// The plan is for another task, or the device lacks a processor or kernel it uses.
pub fn price_answer(
    device: &Profile,
    library: Library,
    task: &LanguageTask,
    plan: &GenerationPlan,
) -> Result<PricedRequest> {
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
) -> Result<PricedRequest> {
    let of_step = plan.prefill_plan(task, turn)?;
    let (step, times) = plan.graphs_of(of_step).prefill_steps(task, turn);
    let step = priced_step((device, library), task, plan, (step, of_step))?;
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
) -> Result<PricedRequest> {
    let mut request = PricedRequest::default();
    for token in 0..tokens {
        let step = plan.graphs_of(&plan.decode).decode_step(task, turn, token);
        request.append(&priced_step((device, library), task, plan, (step, &plan.decode))?, 1);
    }
    Ok(request)
}

fn priced_step(
    (device, library): (&Profile, Library),
    task: &LanguageTask,
    plan: &GenerationPlan,
    (step, of_step): (TokenStep, &StepPlan),
) -> Result<PricedRequest> {
    let variant = plan.device(device);
    let mut run = GenerationRun::new(&variant, library, task, plan);
    let stages = run.stages(step, of_step);
    let mut priced = PricedRequest::default();
    let counts = [1, task.model.layers, 1];
    for ((stages, placements), times) in stages.parts().into_iter().zip(of_step.parts()).zip(counts) {
        let plan = Plan::new(plan.synchronisation, placements.clone());
        priced.append(&PricedRequest::new(&run.simulator, stages, &plan)?, times);
    }
    Ok(priced)
}

//! A language task as a request of an application.
//!
//! Responsible for: the commands of prefill and decode, step by step. Every layer has its own commands,
//! since contention with other applications differs from layer to layer. Not for: when requests arrive
//! (`applications`). Invariant: alone, a request takes the time of [`generate`](super::generate), except
//! that the KV cache is not converted between phases and graphs for a prompt's length are built before
//! the first request.

use super::{Conversation, GenerationPlan, GenerationRun, StepPlan};
use crate::simulate::{PricedRequest, Result};
use crate::workload::TokenStep;

/// All prompts of a conversation, each with its answer.
///
/// # Errors
/// The plan is for another task, or the device lacks a processor or kernel it uses.
pub fn price_answer(of: Conversation<'_>, plan: &GenerationPlan) -> Result<PricedRequest> {
    let mut request = PricedRequest::default();
    for (turn, asked) in of.task.turns.iter().enumerate() {
        request.append(&price_prompt(of, turn, plan)?, 1);
        request.append(&price_tokens(of, (turn, asked.generated_tokens), plan)?, 1);
    }
    Ok(request)
}

/// The prompt of one turn.
///
/// # Errors
/// As [`price_answer`].
pub fn price_prompt(of: Conversation<'_>, turn: usize, plan: &GenerationPlan) -> Result<PricedRequest> {
    let of_step = plan.prefill_plan(of.task, turn)?;
    let mut request = PricedRequest::default();
    for (step, times) in plan.graphs_of(of_step).prefill_steps(of.task, turn) {
        request.append(&priced_step(of, plan, (step, of_step))?, times);
    }
    Ok(request)
}

/// The first `tokens` tokens of a turn's answer.
///
/// # Errors
/// As [`price_answer`].
pub fn price_tokens(
    of: Conversation<'_>,
    (turn, tokens): (usize, u32),
    plan: &GenerationPlan,
) -> Result<PricedRequest> {
    let mut request = PricedRequest::default();
    for (step, times) in plan.graphs_of(&plan.decode).decode_steps(of.task, turn, tokens) {
        request.append(&priced_step(of, plan, (step, &plan.decode))?, times);
    }
    Ok(request)
}

fn priced_step(
    of: Conversation<'_>,
    plan: &GenerationPlan,
    (step, of_step): (TokenStep, &StepPlan),
) -> Result<PricedRequest> {
    let variant = plan.device(of.device);
    let mut run = GenerationRun::new(Conversation { device: &variant, ..of }, plan);
    let stages = run.stages(step, of_step);
    let mut priced = PricedRequest::default();
    for (stages, plan, times) in run.parts(&stages, of_step) {
        priced.append(&PricedRequest::new(&run.simulator, stages, &plan)?, times);
    }
    Ok(priced)
}

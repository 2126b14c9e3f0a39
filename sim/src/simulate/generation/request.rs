//! A language task as a request of an application.
//!
//! Responsible for: the commands of prefill and decode, step by step. Every layer has its own commands,
//! since contention with other applications differs from layer to layer. Not for: when requests arrive
//! (`applications`). Invariant: alone, a request takes the time of [`generate`](super::generate), except
//! that the KV cache is not converted between phases and graphs for a prompt's length are built before
//! the first request.

use super::{Conversation, GenerationPlan, GenerationRun, StepPlan};
use crate::simulate::{PricedRequest, Result};
use crate::workload::{TokenStep, Turn};

/// All prompts of a conversation, each with its answer.
///
/// # Errors
/// As [`price_turns`].
pub fn price_answer(of: Conversation<'_>, plan: &GenerationPlan) -> Result<PricedRequest> {
    let mut request = PricedRequest::default();
    price_turns(of, plan)?.iter().flatten().for_each(|part| request.append(part, 1));
    Ok(request)
}

/// The prompt and the answer of each turn.
///
/// # Errors
/// The plan is for another task, or the device lacks a processor or kernel it uses.
pub fn price_turns(of: Conversation<'_>, plan: &GenerationPlan) -> Result<Vec<[PricedRequest; 2]>> {
    let variant = plan.device(of.device);
    let mut run = GenerationRun::new(Conversation { device: &variant, ..of }, plan);
    let priced = |(turn, asked): (usize, &Turn)| {
        let prefill = plan.prefill_plan(of.task, turn)?;
        let prompt = plan.graphs_of(prefill).prefill_steps(of.task, turn);
        let answer = plan.graphs_of(&plan.decode).decode_steps(of.task, turn, asked.generated_tokens);
        Ok([run.priced(prompt, prefill)?, run.priced(answer, &plan.decode)?])
    };
    of.task.turns.iter().enumerate().map(priced).collect()
}

impl GenerationRun<'_> {
    /// All `steps`, each as often as its count says.
    fn priced(&mut self, steps: Vec<(TokenStep, u32)>, of_step: &StepPlan) -> Result<PricedRequest> {
        let mut request = PricedRequest::default();
        for (step, times) in steps {
            let stages = self.stages(step, of_step);
            let mut priced = PricedRequest::default();
            for (stages, plan, times) in self.parts(&stages, of_step) {
                priced.append(&PricedRequest::new(&self.simulator, stages, &plan)?, times);
            }
            request.append(&priced, times);
        }
        Ok(request)
    }
}

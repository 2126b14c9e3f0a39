//! `HeteroInfer` (SOSP'25): the runs behind its published numbers.
//!
//! Plans are made as the paper's engine makes them, for fast synchronisation; its numbers
//! without are of the same plans.

mod decode;
mod interference;
mod prefill;
mod setting;
mod strategies;
mod table3;

use super::{Comparison, Inputs, Result, range};
use coexec_sim::device::npu::Order;
use coexec_sim::explore::language::plan_language;
use coexec_sim::simulate::generation::{Conversation, Generation, GenerationPlan, PhaseReport, generate};
use coexec_sim::workload::{LanguageTask, Turn, WeightFormat, language_model};
use coexec_sim::{Library, Mechanism, Profile, Strategy};

/// Profile of the paper's phone.
const PHONE: &str = "snapdragon-8gen3";

/// The model most of its numbers are of.
const LLAMA_8B: &str = "llama3-8b";

/// The paper's fast synchronisation, and what it replaces.
const FAST: Mechanism = Mechanism::SleepThenPoll;
const SLOW: Mechanism = Mechanism::BlockingFinish;

/// The fact that figure 4 gives of the operands' order.
const ORDER: &str = "14336-4096-x-4096-k-vs-k-4096-x-4096-14336/order-speedup";

/// Prompt lengths over which it takes means (figures 13 and 16).
const LENGTHS: [u32; 3] = [64, 256, 1024];

/// Id of a fact about the phone.
fn id(rest: &str) -> String {
    format!("snapdragon-8-gen-3/{rest}")
}

/// Sets ours beside the published numbers.
pub(super) fn compare(comparison: &mut Comparison, inputs: &Inputs) -> Result {
    let runs = Runs { device: inputs.profile(PHONE)? };
    table3::compare(comparison, runs)?;
    strategies::compare(comparison, runs)?;
    prefill::compare(comparison, runs)?;
    decode::compare(comparison, runs)?;
    interference::compare(comparison, runs)?;
    setting::compare(comparison, runs)
}

/// Runs language models on the phone.
#[derive(Clone, Copy, Debug)]
struct Runs<'a> {
    device: &'a Profile,
}

/// One prompt and its answer, with 4-bit weights.
fn task(model: &str, [prompt_tokens, generated_tokens]: [u32; 2]) -> LanguageTask {
    let model = language_model(model).expect("the paper's models are bundled");
    LanguageTask::single(model, WeightFormat::W4a16, Turn { prompt_tokens, generated_tokens })
}

impl Runs<'_> {
    /// The CPU kernels, which compute nothing here.
    fn library(self) -> Library {
        Library::default_for(&self.device.cpu)
    }

    /// The plan of a strategy, made for fast synchronisation.
    fn plan(self, task: &LanguageTask, strategy: Strategy) -> Result<GenerationPlan> {
        Ok(plan_language(Conversation::new(self.device, self.library(), task), strategy, FAST)?)
    }

    /// What a prompt and its answer take.
    fn answer(
        self,
        model: &str,
        tokens: [u32; 2],
        strategy: Strategy,
        synchronisation: Mechanism,
    ) -> Result<Generation> {
        let task = task(model, tokens);
        let plan = GenerationPlan { synchronisation, ..self.plan(&task, strategy)? };
        Ok(generate(Conversation::new(self.device, self.library(), &task), &plan)?)
    }

    /// Seconds of a prompt of `tokens` for Llama-8B.
    fn prefill(self, tokens: u32, strategy: Strategy, synchronisation: Mechanism) -> Result<f64> {
        let answer = self.answer(LLAMA_8B, [tokens, 0], strategy, synchronisation)?;
        Ok(answer.turns[0].prefill.latency.as_seconds())
    }

    /// The same in pieces of standard sizes with the weights staying in the NPU's arrays, and
    /// slow synchronisation.
    fn prefill_unswapped(self, tokens: u32) -> Result<f64> {
        let task = task(LLAMA_8B, [tokens, 0]);
        let order = Some(Order::WeightsStationary);
        let plan = GenerationPlan { synchronisation: SLOW, order, ..self.plan(&task, Strategy::NpuPipe)? };
        let answer = generate(Conversation::new(self.device, self.library(), &task), &plan)?;
        Ok(answer.turns[0].prefill.latency.as_seconds())
    }

    /// Generating 32 tokens after a prompt of 256.
    fn decode(self, model: &str, strategy: Strategy, synchronisation: Mechanism) -> Result<PhaseReport> {
        let answer = self.answer(model, [256, 32], strategy, synchronisation)?;
        Ok(answer.turns[0].decode.clone().expect("it generates tokens"))
    }
}

#[cfg(test)]
mod tests;

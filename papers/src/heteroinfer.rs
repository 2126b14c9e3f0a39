//! `HeteroInfer` (SOSP'25): the runs behind its published numbers.
//!
//! Plans are made for fast synchronisation, as in the paper's engine; numbers without fast
//! synchronisation are of the same plans.

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

/// The model of most of the paper's numbers.
const LLAMA_8B: &str = "llama3-8b";

/// The paper's fast synchronisation, and the one it replaces.
const FAST: Mechanism = Mechanism::SleepThenPoll;
const SLOW: Mechanism = Mechanism::BlockingFinish;

/// Fact: the speedup from the operands' order in figure 4.
const ORDER: &str = "14336-4096-x-4096-k-vs-k-4096-x-4096-14336/order-speedup";

/// Prompt lengths that the paper averages over (figures 13 and 16).
const LENGTHS: [u32; 3] = [64, 256, 1024];

/// Id of a fact about the phone.
fn id(rest: &str) -> String {
    format!("snapdragon-8-gen-3/{rest}")
}

/// Compares ours with the published numbers.
pub(super) fn compare(comparison: &mut Comparison, inputs: &Inputs) -> Result {
    let runs = Runs { device: inputs.profile(PHONE)? };
    table3::compare(comparison, runs)?;
    strategies::compare(comparison, runs)?;
    prefill::compare(comparison, runs)?;
    decode::compare(comparison, runs)?;
    interference::compare(comparison, runs)?;
    setting::compare(comparison, runs)
}

/// Runs of language models on the phone.
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
    /// The CPU library; no operator here runs on the CPU.
    fn library(self) -> Library {
        Library::default_for(&self.device.cpu)
    }

    /// The plan of a strategy, made for fast synchronisation.
    fn plan(self, task: &LanguageTask, strategy: Strategy) -> Result<GenerationPlan> {
        Ok(plan_language(Conversation::new(self.device, self.library(), task), strategy, FAST)?)
    }

    /// Predicts a prompt of `tokens[0]` and an answer of `tokens[1]` tokens.
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

    /// Prefill time of Llama-8B for `tokens` tokens, in seconds.
    fn prefill(self, tokens: u32, strategy: Strategy, synchronisation: Mechanism) -> Result<f64> {
        let answer = self.answer(LLAMA_8B, [tokens, 0], strategy, synchronisation)?;
        Ok(answer.turns[0].prefill.latency.as_seconds())
    }

    /// [`Self::prefill`] on the NPU in static graphs of standard sizes, with weight-stationary arrays
    /// and slow synchronisation.
    fn prefill_unswapped(self, tokens: u32) -> Result<f64> {
        let task = task(LLAMA_8B, [tokens, 0]);
        let order = Some(Order::WeightsStationary);
        let plan = GenerationPlan { synchronisation: SLOW, order, ..self.plan(&task, Strategy::NpuPipe)? };
        let answer = generate(Conversation::new(self.device, self.library(), &task), &plan)?;
        Ok(answer.turns[0].prefill.latency.as_seconds())
    }

    /// Decode of 32 tokens after a prompt of 256.
    fn decode(self, model: &str, strategy: Strategy, synchronisation: Mechanism) -> Result<PhaseReport> {
        let answer = self.answer(model, [256, 32], strategy, synchronisation)?;
        Ok(answer.turns[0].decode.clone().expect("it generates tokens"))
    }
}

#[cfg(test)]
mod tests;

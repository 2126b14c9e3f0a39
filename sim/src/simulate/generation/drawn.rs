//! Prefill and decode times under random errors of a profile's times.
//!
//! Responsible for: the basis of a language model's times under a plan, and draws of their errors.
//! Not for: the predicted times themselves (`super`). Invariant: without errors, every draw is the predicted
//! time. An operator has one error in all layers, turns and tokens; both phases share the error of a processor.

use serde::Serialize;

use super::{Conversation, Generation, GenerationPlan, GenerationRun, Graphs, StepPlan};
use crate::device::{AnswerPart, Basis, ProcessorKind};
use crate::simulate::uncertainty::stated_language_error;
use crate::simulate::{DRAWS, Drawn, Errors, Known, Result, known_in, latencies};
use crate::units::Picos;
use crate::workload::TokenStep;

/// Uncertainty of the times of a language model.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GenerationDrawn {
    /// Time to the first token of the first turn.
    #[serde(rename = "time_to_first_token_interval_ps")]
    pub first_token: Drawn,
    /// Time per token after the first; `None` without such tokens.
    #[serde(rename = "time_per_token_interval_ps", skip_serializing_if = "Option::is_none")]
    pub next_token: Option<Drawn>,
    /// Tokens after the first per second: the central 90 % interval of the draws.
    #[serde(rename = "tokens_per_second_interval", skip_serializing_if = "Option::is_none")]
    pub tokens_per_second: Option<[f64; 2]>,
    /// Time of all turns.
    #[serde(rename = "interval_ps")]
    pub latency: Drawn,
    /// Basis of the times of the processors used in prefill and in decode.
    pub known: [Vec<Known>; 2],
    /// The errors drawn from, in prefill and in decode.
    pub errors: [Errors; 2],
}

impl GenerationPlan {
    /// Basis of the times of the processors used in a step, and their errors.
    fn known(&self, of: Conversation<'_>, step: &StepPlan, part: AnswerPart) -> (Vec<Known>, Errors) {
        let Conversation { device, library, task } = of;
        let format = task.data_type();
        let name = format.to_string();
        let bases = known_in(device, library, format);
        let npu = device.npu.as_ref();
        let graphs = self.graphs_of(step);
        let compiled = npu.and_then(|npu| npu.compiled.as_ref()).filter(|_| graphs.hold_whole_steps());
        let kernels = npu.and_then(|npu| npu.language.as_ref()).filter(|_| graphs == Graphs::Kernels);
        let basis = |kind: ProcessorKind| match (compiled, kernels) {
            (Some(_), _) if stated_language_error(device, kind, (&name, part)).is_some() => {
                Basis::Transferred
            }
            // The rates come from graphs in other formats or phases, whose stated errors do not apply here.
            (Some(compiled), _) => compiled.basis.max(Basis::Scaled),
            // The stated errors are those of graphs, not of kernels.
            (None, Some(kernels)) => kernels.basis.max(Basis::Scaled),
            (None, None) => bases[kind as usize],
        };
        let is_used =
            |&kind: &ProcessorKind| step.parts().into_iter().flatten().any(|placement| placement.uses(kind));
        let of =
            |processor| Known { processor, basis: basis(processor), formats: vec![format], missing: None };
        let known: Vec<Known> = ProcessorKind::ALL.into_iter().filter(is_used).map(of).collect();
        let errors = Errors::of_language(device, &known, (&name, part));
        (known, errors)
    }

    /// Times of a conversation, predicted as `nominal`, in each draw of its device's errors. The first turn's
    /// deviations apply to all turns.
    ///
    /// # Errors
    /// As [`super::generate`].
    pub fn drawn(&self, of: Conversation<'_>, nominal: &Generation) -> Result<GenerationDrawn> {
        let (variant, task) = (self.device(of.device), of.task);
        let mut run = GenerationRun::new(Conversation { device: &variant, ..of }, self);
        let steps = [self.prefill_plan(task, 0)?, &self.decode];
        let known = |(step, part)| self.known(of, step, part);
        let [(of_prompt, prompt_errors), (of_token, token_errors)] =
            [(steps[0], AnswerPart::FirstToken), (steps[1], AnswerPart::NextToken)].map(known);
        let [prompt_graphs, token_graphs] = steps.map(|step| self.graphs_of(step));
        let (prompt_step, _) = prompt_graphs.prefill_steps(task, 0)[0];
        let prompt = run.time_ratios(prompt_step, steps[0], &prompt_errors)?;
        let token = run.time_ratios(token_graphs.decode_step(task, 0, 0), steps[1], &token_errors)?;
        let times = |time: Picos, factor: f64| Picos((time.0 as f64 * factor).round() as u64);
        let drawn = |time: &dyn Fn(f64, f64) -> Picos| {
            Drawn(prompt.iter().zip(&token).map(|(&prompt, &token)| time(prompt, token)).collect())
        };
        // The errors do not apply to the time of building graphs.
        let first_tokens = nominal
            .turns
            .iter()
            .map(|turn| (turn.preparation, turn.time_to_first_token.saturating_sub(turn.preparation)));
        let first_tokens: Vec<(Picos, Picos)> = first_tokens.collect();
        let first = |turn: usize, prompt| first_tokens[turn].0 + times(first_tokens[turn].1, prompt);
        let answers = nominal.turns.iter().filter_map(|turn| turn.decode.as_ref());
        let answers: Picos = answers.map(|phase| phase.latency).sum();
        let all = |prompt, token| {
            let prompts: Picos = (0..first_tokens.len()).map(|turn| first(turn, prompt)).sum();
            prompts + times(answers, token)
        };
        let per_token = nominal.turns.first().and_then(|turn| turn.time_per_token);
        let next_token = per_token.map(|time| drawn(&|_, token| times(time, token)));
        let rate = |time: Picos| 1.0 / time.as_seconds();
        Ok(GenerationDrawn {
            first_token: drawn(&|prompt, _| first(0, prompt)),
            tokens_per_second: next_token
                .as_ref()
                .map(Drawn::interval)
                .map(|[low, high]| [rate(high), rate(low)]),
            next_token,
            latency: drawn(&all),
            known: [of_prompt, of_token],
            errors: [prompt_errors, token_errors],
        })
    }
}

impl GenerationRun<'_> {
    /// The ratio of a step's time in each draw to its predicted time.
    fn time_ratios(&mut self, step: TokenStep, plan: &StepPlan, errors: &Errors) -> Result<Vec<f64>> {
        let stages = self.stages(step, plan);
        let mut nominal = 0.0;
        let mut sums = vec![0.0; DRAWS as usize];
        for (stages, plan, count) in self.parts(&stages, plan) {
            let count = f64::from(count);
            nominal += count * self.simulator.latency(stages, &plan)?.0 as f64;
            let drawn = latencies(&self.simulator, (stages, &plan, None), errors, 0..DRAWS)?;
            sums.iter_mut().zip(drawn).for_each(|(sum, time)| *sum += count * time.0 as f64);
        }
        Ok(sums.into_iter().map(|sum| if nominal > 0.0 { sum / nominal } else { 1.0 }).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Profile;
    use crate::explore::Strategy;
    use crate::explore::language::explore_language;
    use crate::kernel::Library;
    use crate::plan::synchronisation::Mechanism;
    use crate::workload::LanguageTask;
    use crate::workload::{Turn, WeightFormat, language_model};

    #[test]
    fn draws_equal_the_prediction_without_errors_and_contain_it_with_them() {
        let device = Profile::load("snapdragon-8elite").unwrap();
        let turn = Turn { prompt_tokens: 200, generated_tokens: 8 };
        let model = language_model("llama3.2-1b").unwrap();
        let task = LanguageTask { model, weights: WeightFormat::W4a16, turns: vec![turn, turn] };
        for strategy in [Strategy::NpuGraphs, Strategy::HeteroTensor, Strategy::NpuOnline] {
            let answer = explore_language(
                Conversation::new(&device, Library::Xnnpack, &task),
                strategy,
                Mechanism::SvmPolling,
            )
            .unwrap();
            let drawn = |device| {
                answer
                    .plan
                    .drawn(Conversation::new(device, Library::Xnnpack, &task), &answer.generation)
                    .unwrap()
            };
            let within = drawn(&device);
            let [low, high] = within.latency.interval();
            assert!(low < answer.generation.latency && answer.generation.latency < high, "{strategy:?}");
            let mut certain = device.clone();
            for group in &mut certain.calibration.as_mut().unwrap().error {
                group.mape_percent = 0.0;
            }
            if strategy == Strategy::NpuGraphs {
                let nominal = answer.generation.turns[0].time_to_first_token;
                assert_eq!(drawn(&certain).first_token.interval(), [nominal; 2]);
                assert_eq!(drawn(&certain).latency.interval(), [answer.generation.latency; 2]);
                assert!(within.errors[1].common_percent[2] < within.errors[0].common_percent[2]);
            }
        }
    }
}

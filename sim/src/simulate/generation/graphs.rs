//! The static graphs of an NPU, and the steps of a language model that they hold.
//!
//! Responsible for: which steps are run where graphs are of fixed lengths. Not for: what a step costs. Invariant: a
//! compiled graph holds the context of its step.

use crate::simulate::GraphMaking;
use crate::workload::{DataType, GraphContexts, LanguageTask, StepStages, TokenStep};

/// Which static graphs the NPU has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Graphs {
    /// Those of the standard sizes, made before the first request.
    #[default]
    Standard,
    /// Those of each prompt's length, made when it arrives.
    MadeOnline,
    /// None: each operator has a kernel.
    Kernels,
    /// Those of all operators of a step, over a context of fixed length however many tokens there are.
    Compiled {
        /// Tokens of the least context that holds the whole conversation.
        context: u32,
        /// Whether there are others.
        contexts: GraphContexts,
    },
}

/// Tokens of a prompt that a compiled graph reads at once: those of the exports of Qualcomm AI Hub, whose times to
/// the first token are of so many.
const COMPILED_PROMPT: u32 = 128;

/// Least context of compiled graphs, of those that Qualcomm AI Hub publishes times for: 512 to 4096, doubled from
/// one to the next.
const LEAST_CONTEXT: u32 = 512;
/// The longest of them, which exports of several contexts have whatever is asked.
const LONGEST_CONTEXT: u32 = 4096;

/// The least context with graphs that holds so many tokens.
fn least_context(tokens: u32) -> u32 {
    tokens.max(LEAST_CONTEXT).checked_next_power_of_two().unwrap_or(u32::MAX)
}

impl Graphs {
    /// Compiled for the least context that holds all turns of `task`, and for others where its model's engine has
    /// them.
    pub(crate) fn compiled(task: &LanguageTask) -> Self {
        let context = least_context(task.context_before(task.turns.len()));
        Self::Compiled { context, contexts: task.model.graph_contexts }
    }

    /// What of it the NPU's compiler makes.
    pub(super) fn making(self) -> GraphMaking {
        match self {
            Self::Standard | Self::MadeOnline => GraphMaking::None,
            Self::Kernels => GraphMaking::Kernels,
            Self::Compiled { .. } => GraphMaking::TokenSteps,
        }
    }

    pub(super) fn are_of_steps(self) -> bool {
        self.making() == GraphMaking::TokenSteps
    }

    /// Steps that read the prompt of a turn, each with how often it is run.
    pub(crate) fn prefill_steps(self, task: &LanguageTask, turn: usize) -> Vec<(TokenStep, u32)> {
        let step = task.prefill(turn);
        match self {
            Self::Standard | Self::MadeOnline | Self::Kernels => vec![(step, 1)],
            Self::Compiled { context, contexts } => {
                let before = task.context_before(turn);
                let read = (0..step.tokens).step_by(COMPILED_PROMPT as usize);
                let over = read.map(|tokens| contexts.holding(before.saturating_add(tokens), context));
                counted(over.map(|context| TokenStep { tokens: COMPILED_PROMPT, context }))
            }
        }
    }

    /// The step that generates a token of a turn, `token` after the first of them.
    pub(crate) fn decode_step(self, task: &LanguageTask, turn: usize, token: u32) -> TokenStep {
        let first = task.first_decode(turn);
        let step = TokenStep { context: first.context.saturating_add(token), ..first };
        match self {
            Self::Standard | Self::MadeOnline | Self::Kernels => step,
            Self::Compiled { context, contexts } => {
                TokenStep { context: contexts.holding(step.context.saturating_sub(1), context), ..first }
            }
        }
    }

    /// Steps that generate the tokens of a turn, each with how often it is run without another between.
    pub(super) fn decode_steps(self, task: &LanguageTask, turn: usize) -> Vec<(TokenStep, u32)> {
        let tokens = 0..task.turns[turn].generated_tokens;
        counted(tokens.map(|token| self.decode_step(task, turn, token)))
    }

    /// The stages of one step. A compiled graph computes the successors of all its tokens (`logits` of Qualcomm's
    /// exports), and its last product has weights of 8 bits where the others have 4.
    pub(crate) fn stages(self, task: &LanguageTask, step: TokenStep) -> StepStages {
        let stages = task.stages(step);
        if !self.are_of_steps() {
            return stages;
        }
        let format = task.data_type();
        let last = if format == DataType::W4A16 { DataType::W8A16 } else { format };
        StepStages { last: task.model.last_stages(step.tokens, last), ..stages }
    }
}

impl GraphContexts {
    /// The context of the graph that reads or generates tokens after `before` others, where `longest` holds
    /// all. A graph keeps room for a whole part of a prompt behind what was there, also where it generates one
    /// token: with 384 tokens Genie leaves the graph of 512.
    fn holding(self, before: u32, longest: u32) -> u32 {
        match self {
            Self::One => longest,
            Self::Several => {
                least_context(before.saturating_add(COMPILED_PROMPT)).min(longest.max(LONGEST_CONTEXT))
            }
        }
    }
}

/// Equal steps that follow each other as one, with their number.
fn counted(steps: impl Iterator<Item = TokenStep>) -> Vec<(TokenStep, u32)> {
    let mut counted: Vec<(TokenStep, u32)> = Vec::new();
    for step in steps {
        match counted.last_mut() {
            Some((last, times)) if *last == step => *times += 1,
            Some(_) | None => counted.push((step, 1)),
        }
    }
    counted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{Turn, WeightFormat, language_model};

    /// Contexts of the steps of `model`, which reads 600 tokens and generates 1000, with how often each is run.
    fn contexts(model: &str) -> [Vec<(u32, u32)>; 2] {
        let turn = Turn { prompt_tokens: 600, generated_tokens: 1000 };
        let task = LanguageTask::single(language_model(model).unwrap(), WeightFormat::W4a16, turn);
        let graphs = Graphs::compiled(&task);
        [graphs.prefill_steps(&task, 0), graphs.decode_steps(&task, 0)]
            .map(|steps| steps.into_iter().map(|(step, times)| (step.context, times)).collect())
    }

    #[test]
    fn each_step_runs_in_the_least_context_that_keeps_room_for_a_part_of_a_prompt() {
        // Tokens 0, 128, 256 and 384 fit into 512 with 128 more; the first 897 into 1024.
        assert_eq!(contexts("qwen3-4b"), [vec![(512, 4), (1024, 1)], vec![(1024, 297), (2048, 703)]]);
    }

    #[test]
    fn exports_of_one_context_read_and_generate_in_it() {
        assert_eq!(contexts("llama3-8b"), [vec![(2048, 5)], vec![(2048, 1000)]]);
    }
}

//! The static graphs of an NPU, and the steps of a language model that run in them.
//!
//! Responsible for: which steps are run where graphs have fixed lengths. Not for: the cost of a step. Invariant: a
//! compiled graph is long enough for the context of its step.

use crate::simulate::NpuExecution;
use crate::workload::{DataType, GraphContexts, LanguageTask, StepStages, TokenStep};

/// Which static graphs the NPU has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Graphs {
    /// Graphs of the standard sizes, built before the first request.
    #[default]
    Standard,
    /// Graphs of each prompt's length, built when the prompt arrives.
    MadeOnline,
    /// No graphs: each operator has a kernel.
    Kernels,
    /// Graphs of all operators of a step, over a context of fixed length regardless of the number of tokens.
    Compiled {
        /// Shortest context, in tokens, that fits what the graphs read and generate.
        context: u32,
        /// Whether there are graphs of other contexts.
        contexts: GraphContexts,
    },
}

/// Prompt tokens per run of a compiled graph, as in the exports of Qualcomm AI Hub, whose published times to first
/// token are for this many.
const COMPILED_PROMPT: u32 = 128;

/// Shortest context of compiled graphs. Qualcomm AI Hub publishes times for contexts of 512 to 4096 in powers of
/// two.
const MIN_CONTEXT: u32 = 512;
/// Longest of these contexts; exports with several contexts always include it.
const MAX_CONTEXT: u32 = 4096;

/// The shortest context with graphs that fits `tokens`.
fn shortest_context(tokens: u32) -> u32 {
    tokens.max(MIN_CONTEXT).checked_next_power_of_two().unwrap_or(u32::MAX)
}

impl Graphs {
    /// Graphs compiled for the shortest context that fits all turns of `task`, and for other contexts where its
    /// model's engine has them. Graphs that do not generate never see the last answer.
    pub(crate) fn compiled(task: &LanguageTask, generate: bool) -> Self {
        let turns = task.turns.len();
        let seen =
            if generate { task.context_before(turns) } else { task.prefill(turns.saturating_sub(1)).context };
        Self::Compiled { context: shortest_context(seen), contexts: task.model.graph_contexts }
    }

    /// How the simulator gives operators to the NPU with these graphs.
    pub(super) fn npu_execution(self) -> NpuExecution {
        match self {
            Self::Standard | Self::MadeOnline => NpuExecution::Products,
            Self::Kernels => NpuExecution::Kernels,
            Self::Compiled { .. } => NpuExecution::TokenSteps,
        }
    }

    /// Whether each graph holds all operators of a step.
    pub(super) fn hold_whole_steps(self) -> bool {
        self.npu_execution() == NpuExecution::TokenSteps
    }

    /// The number of tokens whose keys and values are allocated for `tokens`: graphs attend to all of their context.
    pub(crate) fn allocated_context(self, tokens: u32) -> u32 {
        match self {
            Self::Standard | Self::MadeOnline | Self::Kernels => tokens,
            Self::Compiled { context, contexts } => {
                contexts.fitting_context(tokens.saturating_sub(1), context).max(tokens)
            }
        }
    }

    /// Steps of a turn's prefill, each with the number of consecutive runs.
    pub(crate) fn prefill_steps(self, task: &LanguageTask, turn: usize) -> Vec<(TokenStep, u32)> {
        let step = task.prefill(turn);
        match self {
            Self::Standard | Self::MadeOnline | Self::Kernels => vec![(step, 1)],
            Self::Compiled { context, contexts } => {
                let before = task.context_before(turn);
                let read = (0..step.tokens).step_by(COMPILED_PROMPT as usize);
                let over =
                    read.map(|tokens| contexts.fitting_context(before.saturating_add(tokens), context));
                run_lengths(over.map(|context| TokenStep { tokens: COMPILED_PROMPT, context }))
            }
        }
    }

    /// The step that generates token number `token` of a turn, counted from zero.
    pub(crate) fn decode_step(self, task: &LanguageTask, turn: usize, token: u32) -> TokenStep {
        let first = task.first_decode(turn);
        let step = TokenStep { context: first.context.saturating_add(token), ..first };
        match self {
            Self::Standard | Self::MadeOnline | Self::Kernels => step,
            Self::Compiled { context, contexts } => TokenStep {
                context: contexts.fitting_context(step.context.saturating_sub(1), context),
                ..first
            },
        }
    }

    /// Steps that generate the first `tokens` tokens of a turn, each with the number of consecutive runs.
    pub(super) fn decode_steps(self, task: &LanguageTask, turn: usize, tokens: u32) -> Vec<(TokenStep, u32)> {
        run_lengths((0..tokens).map(|token| self.decode_step(task, turn, token)))
    }

    /// The stages of one step. A compiled graph computes the logits of all its tokens (`logits` of Qualcomm's
    /// exports), and its last product has 8-bit weights where the others have 4-bit weights.
    pub(crate) fn stages(self, task: &LanguageTask, step: TokenStep) -> StepStages {
        let stages = task.stages(step);
        if !self.hold_whole_steps() {
            return stages;
        }
        let format = task.data_type();
        let last = if format == DataType::W4A16 { DataType::W8A16 } else { format };
        StepStages { last: task.model.last_stages(step.tokens, last), ..stages }
    }
}

impl GraphContexts {
    /// The context of the graph that reads or generates tokens after `before` earlier ones; `longest` fits
    /// all. A graph always keeps room for [`COMPILED_PROMPT`] more tokens, even in decode: beyond 384 tokens Genie
    /// leaves the graph of 512.
    fn fitting_context(self, before: u32, longest: u32) -> u32 {
        match self {
            Self::One => longest,
            Self::Several => {
                shortest_context(before.saturating_add(COMPILED_PROMPT)).min(longest.max(MAX_CONTEXT))
            }
        }
    }
}

/// Run-length encoding: consecutive equal steps with their count.
fn run_lengths(steps: impl Iterator<Item = TokenStep>) -> Vec<(TokenStep, u32)> {
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

    /// Contexts of the prefill and decode steps of `model` with 600 prompt tokens and 1000 generated ones, each
    /// with its count.
    fn contexts(model: &str) -> [Vec<(u32, u32)>; 2] {
        let turn = Turn { prompt_tokens: 600, generated_tokens: 1000 };
        let task = LanguageTask::single(language_model(model).unwrap(), WeightFormat::W4a16, turn);
        let graphs = Graphs::compiled(&task, true);
        [graphs.prefill_steps(&task, 0), graphs.decode_steps(&task, 0, 1000)]
            .map(|steps| steps.into_iter().map(|(step, times)| (step.context, times)).collect())
    }

    #[test]
    fn each_step_runs_in_the_shortest_context_with_room_for_another_prompt_part() {
        // Prompt parts at 0, 128, 256 and 384 fit into 512 with 128 more tokens; up to 896 tokens fit into 1024.
        assert_eq!(contexts("qwen3-4b"), [vec![(512, 4), (1024, 1)], vec![(1024, 297), (2048, 703)]]);
    }

    #[test]
    fn exports_of_one_context_read_and_generate_in_it() {
        assert_eq!(contexts("llama3-8b"), [vec![(2048, 5)], vec![(2048, 1000)]]);
    }
}

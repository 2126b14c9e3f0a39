//! The static graphs of an NPU, and the steps of a language model that they hold.
//!
//! Responsible for: which steps are run where graphs are of fixed lengths. Not for: what a step costs. Invariant: a
//! compiled graph holds the context of every turn.

use crate::workload::{DataType, LanguageTask, StepStages, TokenStep};

/// Which static graphs the NPU has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Graphs {
    /// Those of the standard sizes, made before the first request.
    #[default]
    Standard,
    /// Those of each prompt's length, made when it arrives.
    MadeOnline,
    /// One of all operators of a step, over a context of so many tokens however many there are.
    Compiled {
        /// Tokens of the context.
        context: u32,
    },
}

/// Tokens of a prompt that a compiled graph reads at once: those of the exports of Qualcomm AI Hub, whose times to
/// the first token are of so many.
const COMPILED_PROMPT: u32 = 128;

/// Least context of compiled graphs, of those that Qualcomm AI Hub publishes times for: 512 to 4096, doubled from
/// one to the next.
const LEAST_CONTEXT: u32 = 512;

impl Graphs {
    /// Compiled for the least context that holds all turns of `task`.
    pub(crate) fn compiled(task: &LanguageTask) -> Self {
        let tokens = task.context_before(task.turns.len()).max(LEAST_CONTEXT);
        Self::Compiled { context: tokens.checked_next_power_of_two().unwrap_or(u32::MAX) }
    }

    pub(super) fn are_of_steps(self) -> bool {
        matches!(self, Self::Compiled { .. })
    }

    /// The step that reads the prompt of a turn, and how often it is run.
    pub(crate) fn prefill_steps(self, task: &LanguageTask, turn: usize) -> (TokenStep, u32) {
        let step = task.prefill(turn);
        match self {
            Self::Standard | Self::MadeOnline => (step, 1),
            Self::Compiled { context } => {
                (TokenStep { tokens: COMPILED_PROMPT, context }, step.tokens.div_ceil(COMPILED_PROMPT))
            }
        }
    }

    /// The step that generates a token of a turn, `token` after the first of them.
    pub(crate) fn decode_step(self, task: &LanguageTask, turn: usize, token: u32) -> TokenStep {
        let first = task.first_decode(turn);
        match self {
            Self::Standard | Self::MadeOnline => {
                TokenStep { context: first.context.saturating_add(token), ..first }
            }
            Self::Compiled { context } => TokenStep { context, ..first },
        }
    }

    /// The stages of one step. In compiled graphs the last product has weights of 8 bits where the others have
    /// 4, as Qualcomm's exports do.
    pub(crate) fn stages(self, task: &LanguageTask, step: TokenStep) -> StepStages {
        let stages = task.stages(step);
        match self {
            Self::Compiled { .. } if task.data_type() == DataType::W4A16 => {
                StepStages { last: task.model.last_stages(DataType::W8A16), ..stages }
            }
            Self::Compiled { .. } | Self::Standard | Self::MadeOnline => stages,
        }
    }
}

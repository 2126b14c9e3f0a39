//! Tasks of a language model: turns of a prompt and an answer.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{LanguageModel, TokenStep, WeightFormat};
use crate::workload::{DataType, Stage};

/// One prompt and its answer. Prefill yields the answer's first token; the others are
/// generated one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Turn {
    /// Tokens of the prompt.
    pub prompt_tokens: u32,
    /// Tokens generated after the first.
    pub generated_tokens: u32,
}

/// A model and the turns of one conversation, which keeps its KV cache from turn to turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LanguageTask {
    /// The model.
    pub model: LanguageModel,
    /// How its weights are stored.
    pub weights: WeightFormat,
    /// At least one turn.
    pub turns: Vec<Turn>,
}

/// The stages of one step, or what belongs to each of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepParts<T> {
    /// Before the first layer.
    pub first: Vec<T>,
    /// One layer; the same for all layers.
    pub layer: Vec<T>,
    /// After the last layer.
    pub last: Vec<T>,
}

/// The stages of one step.
pub type StepStages = StepParts<Stage>;

impl LanguageTask {
    /// A task of one turn.
    pub fn single(model: LanguageModel, weights: WeightFormat, turn: Turn) -> Self {
        Self { model, weights, turns: vec![turn] }
    }

    /// The step that reads the prompt of `turn`, after the turns before it.
    pub fn prefill(&self, turn: usize) -> TokenStep {
        let before = self.context_before(turn);
        let tokens = self.turns.get(turn).map_or(0, |turn| turn.prompt_tokens);
        TokenStep { tokens, context: before.saturating_add(tokens) }
    }

    /// The first step that generates a token of `turn`'s answer.
    pub fn first_decode(&self, turn: usize) -> TokenStep {
        TokenStep { tokens: 1, context: self.prefill(turn).context.saturating_add(1) }
    }

    /// Tokens of the turns before `turn`.
    pub fn context_before(&self, turn: usize) -> u32 {
        let tokens = |turn: &Turn| turn.prompt_tokens.saturating_add(turn.generated_tokens);
        self.turns.iter().take(turn).map(tokens).fold(0, u32::saturating_add)
    }

    /// Number format of the layers.
    pub fn data_type(&self) -> DataType {
        self.weights.data_type()
    }

    /// The stages of one step.
    pub fn stages(&self, step: TokenStep) -> StepStages {
        let data_type = self.data_type();
        StepStages {
            first: self.model.first_stages(step, data_type),
            layer: self.model.layer_stages(step, data_type),
            last: self.model.last_stages(1, data_type),
        }
    }
}

impl<T> StepParts<T> {
    /// The three parts in order.
    pub fn parts(&self) -> [&[T]; 3] {
        [&self.first, &self.layer, &self.last]
    }
}

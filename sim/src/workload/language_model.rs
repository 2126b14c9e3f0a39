//! Decoder-only language models: their dimensions, their parameters and the
//! operators of one step.
//!
//! Responsible for: the models of the papers, models described by a Hugging Face
//! `config.json`, and the operators that process tokens in a context. Not for:
//! placement, or how often a step runs.
//! Invariant: all layers of a model are equal, so that one layer's operators
//! represent all of them.

mod bundled;
mod config;
mod operators;
mod task;

use serde::{Deserialize, Serialize};

pub use bundled::{language_model, language_models};
pub use config::ConfigError;
pub use task::{LanguageTask, StepParts, StepStages, Turn};

use super::{DataType, OperatorError, Stage};

/// A decoder-only transformer with gated feed-forward networks, the architecture
/// of Llama and most models after it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LanguageModel {
    /// Name: `llama3-8b`.
    pub name: String,
    /// Decoder layers.
    pub layers: u32,
    /// Features of one token between layers (`hidden_size`).
    pub features: u32,
    /// Query heads.
    pub heads: u32,
    /// Heads of keys and values, each shared by a group of query heads.
    pub key_value_heads: u32,
    /// Features of one head.
    pub head_features: u32,
    /// Features inside the feed-forward network (`intermediate_size`).
    pub feed_forward_features: u32,
    /// Size of the vocabulary.
    pub vocabulary: u32,
    /// Whether the last layer's weights are the table of embeddings.
    pub tied_embedding: bool,
    /// Whether queries, keys and values have biases.
    pub attention_bias: bool,
    /// Most tokens of a conversation (`max_position_embeddings`); none if unknown.
    pub max_context: Option<u64>,
    /// Context lengths of the graphs of engines that compile whole steps.
    #[serde(default)]
    pub graph_contexts: GraphContexts,
}

/// Context lengths of the graphs of engines that compile whole steps, such as Qualcomm's Genie. A graph
/// always takes the time of its whole context, even if there are fewer tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GraphContexts {
    /// Several lengths from 512 tokens on; each step runs in the shortest that holds it. Exports of
    /// Qualcomm AI Hub since spring 2026 (`DEFAULT_EXPORT_CONTEXT_LENGTHS` in its ai-hub-models; a
    /// bundle of Qwen3-4B has `prompt_ar128_cl512` and others).
    #[default]
    Several,
    /// One length, which holds the whole conversation: its earlier exports (`export.py` at 33c3d03,
    /// February 2026).
    One,
}

/// A step: tokens that a model processes at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct TokenStep {
    /// Tokens processed.
    pub tokens: u32,
    /// Tokens that they attend to, themselves included.
    pub context: u32,
}

/// How the weights of a language model are stored; activations have 16 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WeightFormat {
    /// 4-bit integers.
    #[default]
    W4a16,
    /// 8-bit integers.
    Int8,
    /// 16-bit floating point.
    F16,
}

impl WeightFormat {
    /// The number format of the model's layers.
    pub fn data_type(self) -> DataType {
        match self {
            Self::W4a16 => DataType::W4A16,
            Self::Int8 => DataType::W8A16,
            Self::F16 => DataType::F16,
        }
    }
}

impl LanguageModel {
    /// Trained parameters.
    pub fn parameters(&self) -> u64 {
        let (step, format) = (TokenStep { tokens: 1, context: 1 }, DataType::F16);
        let of = |stages: Vec<Stage>| -> u64 {
            stages.iter().map(|stage| stage.layer.operator.parameters()).sum()
        };
        let table = of(self.first_stages(step, format));
        let layers = u64::from(self.layers) * of(self.layer_stages(step, format));
        let last = of(self.last_stages(1, format)) - if self.tied_embedding { table } else { 0 };
        table + layers + last
    }

    /// Bytes of the keys and values of `context` tokens in all layers, in 16 bits.
    pub fn cache_bytes(&self, context: u32) -> u64 {
        let element_bytes = DataType::F16.activation_bytes();
        let per_token = 2 * u64::from(self.key_value_heads) * u64::from(self.head_features);
        u64::from(self.layers) * u64::from(context) * per_token * element_bytes
    }

    /// Checks every operator of `step`.
    ///
    /// # Errors
    /// The first invalid operator.
    pub fn check(&self, step: TokenStep) -> Result<(), OperatorError> {
        let format = DataType::F16;
        let parts =
            [self.first_stages(step, format), self.layer_stages(step, format), self.last_stages(1, format)];
        parts.iter().flatten().try_for_each(|stage| stage.layer.operator.check())
    }
}

#[cfg(test)]
mod tests;

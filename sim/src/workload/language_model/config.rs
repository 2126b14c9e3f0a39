//! Models described by a Hugging Face `config.json`.
//!
//! Only the keys that determine dimensions are read; such files have many more. A
//! model with other layers than [`LanguageModel`] is refused.

use serde::Deserialize;
use thiserror::Error;

use super::{GraphContexts, LanguageModel};

/// Model types with the layers of [`LanguageModel`]: attention, then a gated
/// feed-forward network, each after a norm.
const MODEL_TYPES: [&str; 9] =
    ["llama", "mistral", "qwen2", "qwen3", "internlm2", "phi3", "gemma", "minicpm", "yi"];

/// Largest value of a dimension in a configuration: 2^20 is ten times the largest
/// vocabulary dimension in use.
const MAX_DIMENSION: u32 = 1 << 20;

/// Why a configuration is not a supported model.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[allow(missing_docs, reason = "each message names its fields")]
pub enum ConfigError {
    /// Invalid JSON, or a value of another type.
    #[error("not a model configuration: {0}")]
    Json(String),
    /// Another architecture.
    #[error("model type {found:?} is not one of {}", MODEL_TYPES.join(", "))]
    ModelType { found: String },
    /// A mixture of experts.
    #[error("{key}: mixtures of experts are not modelled")]
    Experts { key: &'static str },
    /// An invalid dimension.
    #[error("{key} is {found}, expected {expected}")]
    Dimension { key: &'static str, found: u32, expected: String },
}

#[derive(Deserialize)]
struct Config {
    model_type: Option<String>,
    hidden_size: u32,
    intermediate_size: u32,
    num_hidden_layers: u32,
    num_attention_heads: u32,
    num_key_value_heads: Option<u32>,
    head_dim: Option<u32>,
    vocab_size: u32,
    #[serde(default)]
    tie_word_embeddings: bool,
    #[serde(default)]
    attention_bias: bool,
    max_position_embeddings: Option<u64>,
    num_local_experts: Option<u32>,
    num_experts: Option<u32>,
}

impl LanguageModel {
    /// The model that a Hugging Face `config.json` describes.
    ///
    /// # Errors
    /// What is wrong with `content`.
    pub fn from_config(name: &str, content: &str) -> Result<Self, ConfigError> {
        let config: Config =
            serde_json::from_str(content).map_err(|error| ConfigError::Json(error.to_string()))?;
        if let Some(found) = config.model_type.filter(|found| !MODEL_TYPES.contains(&found.as_str())) {
            return Err(ConfigError::ModelType { found });
        }
        let experts = [("num_local_experts", config.num_local_experts), ("num_experts", config.num_experts)];
        if let Some((key, _)) = experts.into_iter().find(|(_, count)| count.is_some_and(|count| count > 1)) {
            return Err(ConfigError::Experts { key });
        }
        let heads = dimension("num_attention_heads", config.num_attention_heads)?;
        let features = dimension("hidden_size", config.hidden_size)?;
        let key_value_heads = dimension("num_key_value_heads", config.num_key_value_heads.unwrap_or(heads))?;
        if !heads.is_multiple_of(key_value_heads) {
            let expected = format!("a divisor of the {heads} attention heads");
            return Err(ConfigError::Dimension {
                key: "num_key_value_heads",
                found: key_value_heads,
                expected,
            });
        }
        let head_features = match config.head_dim {
            Some(features) => dimension("head_dim", features)?,
            None if features.is_multiple_of(heads) => features / heads,
            None => {
                let expected = format!("a multiple of the {heads} attention heads, or head_dim");
                return Err(ConfigError::Dimension { key: "hidden_size", found: features, expected });
            }
        };
        Ok(Self {
            name: name.to_owned(),
            layers: dimension("num_hidden_layers", config.num_hidden_layers)?,
            features,
            heads,
            key_value_heads,
            head_features,
            feed_forward_features: dimension("intermediate_size", config.intermediate_size)?,
            vocabulary: dimension("vocab_size", config.vocab_size)?,
            tied_embedding: config.tie_word_embeddings,
            attention_bias: config.attention_bias,
            max_context: config.max_position_embeddings,
            graph_contexts: GraphContexts::default(),
        })
    }
}

fn dimension(key: &'static str, found: u32) -> Result<u32, ConfigError> {
    if (1..=MAX_DIMENSION).contains(&found) {
        return Ok(found);
    }
    Err(ConfigError::Dimension { key, found, expected: format!("a whole number from 1 to {MAX_DIMENSION}") })
}

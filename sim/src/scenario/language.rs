//! The language model of a scenario file, with its prompts and answers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::unknown;
use crate::explore::Strategy;
use crate::input::{Result, Text, Violation};
use crate::workload::{
    GraphContexts, LanguageModel, LanguageTask, MAX_DIMENSION, OperatorError, Turn, WeightFormat,
    language_model, language_models,
};

/// Maximum number of turns of a conversation.
const MAX_TURNS: usize = 1_000;

/// Maximum number of generated tokens per turn: each is simulated.
const MAX_GENERATED_TOKENS: u32 = 1 << 20;

/// Default number of prompt tokens: those of `HeteroInfer`'s evaluation of decoding.
const PROMPT_TOKENS: u32 = 256;

/// Default number of generated tokens: those of `HeteroInfer`'s energy measurements.
const GENERATED_TOKENS: u32 = 32;

/// A language model with its prompts and answers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LanguageTable {
    /// Name of a bundled language model, or path of a Hugging Face `config.json`.
    pub model: String,
    /// Number format of the weights; 4-bit integers unless given.
    pub weights: Option<WeightFormat>,
    /// Number of prompt tokens, for a task of one turn; 256 unless given.
    pub prompt_tokens: Option<u32>,
    /// Number of tokens generated after the first, for a task of one turn; 32 unless given.
    pub generated_tokens: Option<u32>,
    /// Contexts for which an engine with compiled steps has graphs. Unless given, those of Qualcomm AI Hub's export
    /// for a bundled model, and several for a `config.json`.
    pub graph_contexts: Option<GraphContexts>,
    /// The turns of a conversation, over which the KV cache is kept.
    pub turn: Option<Vec<Turn>>,
    /// Strategy that places the model's products; unless given, the best by the objective, but for time the fastest
    /// on one processor where no other is surely faster.
    pub strategy: Option<Strategy>,
}

impl LanguageTable {
    /// The task of the table; `at` is the table's key.
    ///
    /// # Errors
    /// An unknown model, a bad configuration, or too many tokens.
    pub(super) fn task(&self, text: &Text, at: &str) -> Result<LanguageTask> {
        let mut model = self.model(text, at)?;
        model.graph_contexts = self.graph_contexts.unwrap_or(model.graph_contexts);
        let task =
            LanguageTask { model, weights: self.weights.unwrap_or_default(), turns: self.turns(text, at)? };
        let last = task.turns.len().saturating_sub(1);
        for turn in 0..=last {
            let mut last_token = task.first_decode(turn);
            last_token.context = last_token.context.saturating_add(task.turns[turn].generated_tokens);
            for (key, step) in [("prompt_tokens", task.prefill(turn)), ("generated_tokens", last_token)] {
                let refused = |error: OperatorError| {
                    let message =
                        format!("{} tokens are too many for {}: {error}", step.context, task.model.name);
                    text.refuse(&self.key_of_turn(at, turn, key), message, "ask for fewer tokens")
                };
                task.model.check(step).map_err(refused)?;
            }
        }
        Ok(task)
    }

    /// Path of `key` of a turn.
    fn key_of_turn(&self, at: &str, turn: usize, key: &str) -> String {
        if self.turn.is_some() { format!("{at}.turn[{turn}].{key}") } else { format!("{at}.{key}") }
    }

    fn model(&self, text: &Text, at: &str) -> Result<LanguageModel> {
        let key = format!("{at}.model");
        if let Some(model) = language_model(&self.model) {
            return Ok(model);
        }
        let Some(config) = Text::of_file(&text.path(&self.model)) else {
            let known = language_models().map(|(name, _)| name);
            let or = ", or the path of a config.json";
            return Err(unknown(text, &key, &self.model, known, or));
        };
        let config = config?;
        LanguageModel::from_config(&self.model, &config.content).map_err(|error| {
            let help = "give the config.json of a decoder such as Llama, Mistral or Qwen2".to_owned();
            text.refuse(&key, format!("{}: {error}", config.name), help)
        })
    }

    fn turns(&self, text: &Text, at: &str) -> Result<Vec<Turn>> {
        let of_turns = format!("{at}.turn");
        let turns: Vec<Turn> = match &self.turn {
            None => vec![Turn {
                prompt_tokens: self.prompt_tokens.unwrap_or(PROMPT_TOKENS),
                generated_tokens: self.generated_tokens.unwrap_or(GENERATED_TOKENS),
            }],
            Some(_) if self.prompt_tokens.is_some() || self.generated_tokens.is_some() => {
                let message = "the task has turns and tokens of a single turn";
                let help = "write prompt_tokens and generated_tokens inside each [[language_model.turn]]";
                return Err(text.refuse(&of_turns, message, help));
            }
            Some(turns) => turns.clone(),
        };
        if turns.is_empty() || turns.len() > MAX_TURNS {
            let expected = format!("1 to {MAX_TURNS} turns");
            return Err(text.reject(Violation::new(of_turns, turns.len(), expected)));
        }
        for (index, turn) in turns.iter().enumerate() {
            let reject = |key, found: u32, expected| {
                let key = self.key_of_turn(at, index, key);
                Err(text.reject(Violation::new(key, found, expected)))
            };
            if !(1..=MAX_DIMENSION).contains(&turn.prompt_tokens) {
                return reject("prompt_tokens", turn.prompt_tokens, format!("1 to {MAX_DIMENSION}"));
            }
            if turn.generated_tokens > MAX_GENERATED_TOKENS {
                return reject(
                    "generated_tokens",
                    turn.generated_tokens,
                    format!("0 to {MAX_GENERATED_TOKENS}"),
                );
            }
        }
        Ok(turns)
    }
}

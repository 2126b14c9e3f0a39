//! The language model of a scenario file, and what it is asked.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::unknown;
use crate::explore::Strategy;
use crate::input::{Result, Text, Violation};
use crate::workload::{
    GraphContexts, LanguageModel, LanguageTask, MAX_DIMENSION, OperatorError, Turn, WeightFormat,
    language_model, language_models,
};

/// Most turns of a conversation.
const MOST_TURNS: usize = 1_000;

/// Most tokens that one turn generates: each is simulated.
const MOST_GENERATED: u32 = 1 << 20;

/// Tokens of the prompt unless the file says otherwise, as `HeteroInfer` evaluates decoding.
const PROMPT_TOKENS: u32 = 256;

/// Tokens generated unless the file says otherwise, as `HeteroInfer` measures energy.
const GENERATED_TOKENS: u32 = 32;

/// A language model and what it is asked, as it is written.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LanguageTable {
    /// Name of a bundled language model, or path of a Hugging Face `config.json`.
    pub model: String,
    /// How the weights are stored; 4-bit integers unless said otherwise.
    pub weights: Option<WeightFormat>,
    /// Tokens of the prompt, of a task of one turn.
    pub prompt_tokens: Option<u32>,
    /// Tokens generated after the first, of a task of one turn.
    pub generated_tokens: Option<u32>,
    /// Contexts that an engine of whole compiled steps has graphs for; unless said otherwise those of Qualcomm AI
    /// Hub's export of a bundled model, and several of a `config.json`.
    pub graph_contexts: Option<GraphContexts>,
    /// The turns of a conversation, whose keys and values are kept.
    pub turn: Option<Vec<Turn>>,
    /// Who computes the model's products; unless said otherwise the engine that answers soonest.
    pub strategy: Option<Strategy>,
}

impl LanguageTable {
    /// The task this stands for; `at` is the key of the table.
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

    /// The path of a turn's key.
    fn key_of_turn(&self, at: &str, turn: usize, key: &str) -> String {
        if self.turn.is_some() { format!("{at}.turn[{turn}].{key}") } else { format!("{at}.{key}") }
    }

    fn model(&self, text: &Text, at: &str) -> Result<LanguageModel> {
        let key = format!("{at}.model");
        if let Some(model) = language_model(&self.model) {
            return Ok(model);
        }
        let Some(config) = Text::of_file(&self.model) else {
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
        if turns.is_empty() || turns.len() > MOST_TURNS {
            let expected = format!("1 to {MOST_TURNS} turns");
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
            if turn.generated_tokens > MOST_GENERATED {
                return reject("generated_tokens", turn.generated_tokens, format!("0 to {MOST_GENERATED}"));
            }
        }
        Ok(turns)
    }
}

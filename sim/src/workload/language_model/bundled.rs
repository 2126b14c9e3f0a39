//! The language models of `HeteroInfer` (SOSP'25), with the dimensions of their
//! released configurations.

use super::LanguageModel;

/// Name, one line about it, and the model's dimensions.
struct Entry {
    name: &'static str,
    summary: &'static str,
    layers: u32,
    features: u32,
    /// Query heads, heads of keys and values, features of a head.
    heads: [u32; 3],
    feed_forward_features: u32,
    vocabulary: u32,
    tied_embedding: bool,
}

const ENTRIES: [Entry; 4] = [
    Entry {
        name: "llama3-8b",
        summary: "Llama-3-8B language model",
        layers: 32,
        features: 4096,
        heads: [32, 8, 128],
        feed_forward_features: 14336,
        vocabulary: 128_256,
        tied_embedding: false,
    },
    Entry {
        name: "llama2-7b",
        summary: "Llama-2-7B language model",
        layers: 32,
        features: 4096,
        heads: [32, 32, 128],
        feed_forward_features: 11008,
        vocabulary: 32000,
        tied_embedding: false,
    },
    Entry {
        name: "llama3.2-3b",
        summary: "Llama-3.2-3B language model",
        layers: 28,
        features: 3072,
        heads: [24, 8, 128],
        feed_forward_features: 8192,
        vocabulary: 128_256,
        tied_embedding: true,
    },
    Entry {
        name: "internlm2-1.8b",
        summary: "InternLM2-1.8B language model",
        layers: 24,
        features: 2048,
        heads: [16, 8, 128],
        feed_forward_features: 8192,
        vocabulary: 92544,
        tied_embedding: false,
    },
];

/// Names and summaries of the bundled language models.
pub const LANGUAGE_MODELS: [(&str, &str); ENTRIES.len()] = {
    let mut names = [("", ""); ENTRIES.len()];
    let mut index = 0;
    while index < ENTRIES.len() {
        names[index] = (ENTRIES[index].name, ENTRIES[index].summary);
        index += 1;
    }
    names
};

/// The bundled language model called `name`.
pub fn language_model(name: &str) -> Option<LanguageModel> {
    let entry = ENTRIES.iter().find(|entry| entry.name.eq_ignore_ascii_case(name))?;
    let [heads, key_value_heads, head_features] = entry.heads;
    Some(LanguageModel {
        name: entry.name.to_owned(),
        layers: entry.layers,
        features: entry.features,
        heads,
        key_value_heads,
        head_features,
        feed_forward_features: entry.feed_forward_features,
        vocabulary: entry.vocabulary,
        tied_embedding: entry.tied_embedding,
        attention_bias: false,
    })
}

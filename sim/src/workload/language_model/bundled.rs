//! Language models with the dimensions of their released configurations: those of `HeteroInfer`
//! (SOSP'25), then those that phones are measured with (`data/aihub`), each as the `config.json`
//! beside its weights at huggingface.co has it. Models that were trained further have the
//! dimensions of what they were trained from: Llama-3.1-8B, and SEA-LION, ELYZA and TAIDE of 8
//! billion parameters, those of Llama-3-8B. Gemma 3n is of another architecture.

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
    attention_bias: bool,
}

const ENTRIES: [Entry; 17] = [
    Entry {
        name: "llama3-8b",
        summary: "Llama-3-8B language model",
        layers: 32,
        features: 4096,
        heads: [32, 8, 128],
        feed_forward_features: 14336,
        vocabulary: 128_256,
        tied_embedding: false,
        attention_bias: false,
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
        attention_bias: false,
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
        attention_bias: false,
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
        attention_bias: false,
    },
    Entry {
        name: "llama3.2-1b",
        summary: "Llama-3.2-1B language model",
        layers: 16,
        features: 2048,
        heads: [32, 8, 64],
        feed_forward_features: 8192,
        vocabulary: 128_256,
        tied_embedding: true,
        attention_bias: false,
    },
    Entry {
        name: "mistral-7b-v0.3",
        summary: "Mistral-7B-v0.3 language model",
        layers: 32,
        features: 4096,
        heads: [32, 8, 128],
        feed_forward_features: 14336,
        vocabulary: 32768,
        tied_embedding: false,
        attention_bias: false,
    },
    Entry {
        name: "qwen2.5-0.5b",
        summary: "Qwen2.5-0.5B language model",
        layers: 24,
        features: 896,
        heads: [14, 2, 64],
        feed_forward_features: 4864,
        vocabulary: 151_936,
        tied_embedding: true,
        attention_bias: true,
    },
    Entry {
        name: "qwen2.5-1.5b",
        summary: "Qwen2.5-1.5B language model",
        layers: 28,
        features: 1536,
        heads: [12, 2, 128],
        feed_forward_features: 8960,
        vocabulary: 151_936,
        tied_embedding: true,
        attention_bias: true,
    },
    Entry {
        name: "qwen2.5-7b",
        summary: "Qwen2.5-7B language model, also the text part of Qwen2.5-VL-7B",
        layers: 28,
        features: 3584,
        heads: [28, 4, 128],
        feed_forward_features: 18944,
        vocabulary: 152_064,
        tied_embedding: false,
        attention_bias: true,
    },
    Entry {
        name: "qwen3-0.6b",
        summary: "Qwen3-0.6B language model",
        layers: 28,
        features: 1024,
        heads: [16, 8, 128],
        feed_forward_features: 3072,
        vocabulary: 151_936,
        tied_embedding: true,
        attention_bias: false,
    },
    Entry {
        name: "qwen3-1.7b",
        summary: "Qwen3-1.7B language model, also the text part of Qwen3-VL-2B",
        layers: 28,
        features: 2048,
        heads: [16, 8, 128],
        feed_forward_features: 6144,
        vocabulary: 151_936,
        tied_embedding: true,
        attention_bias: false,
    },
    Entry {
        name: "qwen3-4b",
        summary: "Qwen3-4B language model",
        layers: 36,
        features: 2560,
        heads: [32, 8, 128],
        feed_forward_features: 9728,
        vocabulary: 151_936,
        tied_embedding: true,
        attention_bias: false,
    },
    Entry {
        name: "qwen3-8b",
        summary: "Qwen3-8B language model, also the text part of Qwen3-VL-8B",
        layers: 36,
        features: 4096,
        heads: [32, 8, 128],
        feed_forward_features: 12288,
        vocabulary: 151_936,
        tied_embedding: false,
        attention_bias: false,
    },
    Entry {
        name: "phi-3.5-mini",
        summary: "Phi-3.5-mini language model",
        layers: 32,
        features: 3072,
        heads: [32, 32, 96],
        feed_forward_features: 8192,
        vocabulary: 32064,
        tied_embedding: false,
        attention_bias: false,
    },
    Entry {
        name: "phi-4-mini",
        summary: "Phi-4-mini language model",
        layers: 32,
        features: 3072,
        heads: [24, 8, 128],
        feed_forward_features: 8192,
        vocabulary: 200_064,
        tied_embedding: true,
        attention_bias: false,
    },
    Entry {
        name: "gemma-2b",
        summary: "Gemma-2B language model",
        layers: 18,
        features: 2048,
        heads: [8, 1, 256],
        feed_forward_features: 16384,
        vocabulary: 256_000,
        tied_embedding: true,
        attention_bias: false,
    },
    Entry {
        name: "falcon3-7b",
        summary: "Falcon3-7B language model",
        layers: 28,
        features: 3072,
        heads: [12, 4, 256],
        feed_forward_features: 23040,
        vocabulary: 131_072,
        tied_embedding: false,
        attention_bias: false,
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
        attention_bias: entry.attention_bias,
    })
}

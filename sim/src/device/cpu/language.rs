//! CPU kernels of a language-model engine (llama.cpp), which multiplies integer weights by
//! activations that it brings to 8 bits: what no library of networks does.
//!
//! Responsible for: the constants. Not for: the equations (`kernel::cpu::language`), whose
//! terms they are. They are of all cores together: nobody publishes such times by core.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::device::{Basis, Quantity};

/// Rates of models whose weights alone are integers, on all cores.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LanguageRates {
    /// Where the values come from that name no source of their own.
    pub source: String,
    /// What they rest on.
    #[serde(default)]
    pub basis: Basis,
    /// From one operator to the next: all threads wait for the last of them.
    pub operator_us: Quantity,
    /// Products with weights: multiply-accumulates of many rows.
    pub multiply_accumulates_per_ns: Quantity,
    /// Memory bandwidth of products of one row, and of everything that is no product.
    pub bandwidth_gbps: Quantity,
    /// Products of activations, over the context: multiply-accumulates while a prompt is read.
    pub context_multiply_accumulates_per_ns: Quantity,
    /// The same for a single token, whose rows share little of what they read.
    pub token_context_multiply_accumulates_per_ns: Quantity,
}

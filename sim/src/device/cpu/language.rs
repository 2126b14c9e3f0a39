//! CPU kernels of a language-model engine (llama.cpp), which multiplies integer weights by
//! activations quantised to 8 bits; the network libraries have no such kernels.
//!
//! Responsible for: the constants. Not for: the equations, which `kernel::cpu::language`
//! has. The constants are for all cores together, as such times are not published per core.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::device::{Basis, Quantity};

/// Rates of models with integer weights and 16-bit activations, on all cores.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LanguageRates {
    /// Source of the values that have none of their own.
    pub source: String,
    /// Evidence behind the values.
    #[serde(default)]
    pub basis: Basis,
    /// Overhead per operator: the barrier at which all threads wait for the last one.
    pub operator_us: Quantity,
    /// Multiply-accumulate rate of products of many rows with weights.
    pub multiply_accumulates_per_ns: Quantity,
    /// Memory bandwidth of products of one row and of all non-product kernels.
    pub bandwidth_gbps: Quantity,
    /// Multiply-accumulate rate of attention products (over the context) in prefill.
    pub context_multiply_accumulates_per_ns: Quantity,
    /// Multiply-accumulate rate of attention products for a single token (decode), whose few rows
    /// reuse little of what they read.
    pub token_context_multiply_accumulates_per_ns: Quantity,
}

//! GPU kernels of a language-model engine, which computes with integer weights and
//! 16-bit activations, unlike any kernel of the `TFLite` delegate.
//!
//! Responsible for: the constants and their ranges. Not for: the equations, which
//! `kernel::gpu::language` has.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::device::{Basis, Quantity};

/// Kernels for models with integer weights and 16-bit activations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LanguageKernels {
    /// Source of the values that have none of their own.
    pub source: String,
    /// Evidence behind the values.
    #[serde(default)]
    pub basis: Basis,
    /// Overhead per kernel in the queue.
    pub launch_us: Quantity,
    /// Dequantising one weight to 16 bits, before a product of many rows.
    pub weight_ns: Quantity,
    /// Rate of products of many rows, in 10^12 operations a second; a
    /// multiply-accumulate is two.
    pub product_teraflops: Quantity,
    /// Memory bandwidth of products of one row and of all non-product kernels.
    pub bandwidth_gbps: Quantity,
    /// Submitting work that depends on another processor's result, so that it could not be
    /// queued in advance.
    pub submission_us: Quantity,
    /// Parameters of products timed in isolation, if published.
    pub stand_alone: Option<StandAlone>,
}

/// A product timed in isolation: `overhead + weight bytes / bandwidth` with one row; with more
/// rows, the overhead plus the predicted time of the product.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StandAlone {
    /// Where the values come from.
    pub source: String,
    /// Submitting the one kernel and waiting for it.
    pub overhead_us: Quantity,
    /// Memory bandwidth of a product of one row.
    pub bandwidth_gbps: Quantity,
}

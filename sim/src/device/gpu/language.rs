//! GPU kernels of a language-model engine, which computes with integer weights and
//! 16-bit activations: what no kernel of the `TFLite` delegate does.
//!
//! Responsible for: the constants and their ranges. Not for: the equations
//! (`kernel::gpu::language`), whose terms they are.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::device::{Basis, Quantity};

/// Kernels for models whose weights alone are integers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LanguageKernels {
    /// Where the values come from that name no source of their own.
    pub source: String,
    /// What they rest on.
    #[serde(default)]
    pub basis: Basis,
    /// From one kernel of the queue to the next.
    pub launch_us: Quantity,
    /// Making one weight a 16-bit number in its place, before a product of many rows.
    pub weight_ns: Quantity,
    /// Rate of products of many rows, in 10^12 operations a second; a
    /// multiply-accumulate is two.
    pub product_teraflops: Quantity,
    /// Memory bandwidth of products of one row, and of everything that is no product.
    pub bandwidth_gbps: Quantity,
    /// Handing work to the GPU's queue after another processor's result, where the queue
    /// could not be filled before.
    pub submission_us: Quantity,
    /// How products were timed on their own, where that was published.
    pub stand_alone: Option<StandAlone>,
}

/// A product timed on its own: `overhead + weight bytes / bandwidth` with one row, and with
/// more the overhead and what the product takes.
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

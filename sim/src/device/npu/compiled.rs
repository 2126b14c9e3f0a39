//! Parameters of whole graphs compiled for an NPU.
//!
//! Responsible for: the constants of the rules in `kernel::npu::compiled`. Not for: products dispatched
//! one by one (`SystolicArrays`). Invariant: every parameter is a term of one of those rules, and its
//! documentation names the term.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::device::{Basis, Quantity};

/// Rates of graphs compiled as a whole, in 16-bit floating point, to which the compiler converts
/// 32-bit models.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CompiledGraphs {
    /// Source of the values that have none of their own.
    pub source: String,
    /// Evidence behind the values.
    #[serde(default)]
    pub basis: Basis,
    /// Device of the runs that the values were fitted to, as the runs name it (`8gen3` in `data/aihub`).
    /// Runs of any other are of another chip.
    pub measured_on: Option<String>,
    /// From dispatching a graph to its first operator, plus from its last operator to the caller.
    pub graph_us: Quantity,
    /// Overhead per operator.
    pub operator_us: Quantity,
    /// Overhead per matrix of a batched product.
    pub matrix_us: Quantity,
    /// Overhead per group of a grouped convolution.
    pub group_us: Quantity,
    /// Layout conversion of one pixel of a three-channel image that enters or leaves the graph.
    pub image_pixel_ns: Quantity,
    /// Subtracting the mean from a pixel of a three-channel input image, or dividing it by the standard
    /// deviation.
    pub normalised_pixel_ns: Quantity,
    /// Multiply-accumulate rate of the matrix unit.
    pub multiply_accumulates_per_ns: Quantity,
    /// Multiply-accumulate rate of 3-D convolutions.
    pub volume_multiply_accumulates_per_ns: Quantity,
    /// Rate of window taps in depthwise convolutions and pooling.
    pub taps_per_ns: Quantity,
    /// Bandwidth of operands between on-chip memory and the units.
    pub on_chip_gbps: Quantity,
    /// Bandwidth of operands whose layout changes on the way.
    pub layout_change_gbps: Quantity,
    /// Bandwidth of operands of element-wise work on token-shaped tensors.
    pub token_gbps: Quantity,
    /// Result rate of nonlinear functions: all but additions, multiplications and clamps.
    pub nonlinear_elements_per_ns: Quantity,
    /// Result rate of interpolation whose result is too large to stay on chip.
    pub large_resize_elements_per_ns: Quantity,
    /// Element rate of reductions over channels: sum, maximum, arg-max.
    pub channel_reduction_elements_per_ns: Quantity,
    /// Source-element rate of gathers at indices that the network computes.
    pub gathered_elements_per_ns: Quantity,
    /// Memory bandwidth of weights, and of tensors that do not fit on chip.
    pub bandwidth_gbps: Quantity,
    /// Memory bandwidth of weights in products of one row.
    pub one_row_bandwidth_gbps: Quantity,
    /// Memory bandwidth of weights in decode, in graphs of whole steps of a language model. If absent,
    /// such graphs cannot be predicted.
    pub token_bandwidth_gbps: Option<Quantity>,
    /// Memory bandwidth of weights in prefill, in graphs of a chunk of the prompt. Defaults to that of
    /// other graphs.
    pub prompt_bandwidth_gbps: Option<Quantity>,
    /// Fraction of the bytes beyond the on-chip memory that are spilled; tiling chains of operators
    /// avoids the rest.
    pub spill_factor: Quantity,
    /// On-chip memory, which holds tensors between operators.
    pub on_chip_bytes: Quantity,
    /// Most bytes that the memory is ahead of the operators: weights are fetched while earlier operators
    /// run, and products read them on chip like their other operands.
    pub fetched_ahead_bytes: Quantity,
    /// Models with 8-bit integer weights and activations. If absent, they cannot be predicted.
    pub integer: Option<IntegerGraphs>,
    /// Models with integer weights and 16-bit activations. If absent, they cannot be predicted.
    pub integer_weights: Option<IntegerWeights>,
}

/// Differences of models with 8-bit integer weights and activations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct IntegerGraphs {
    /// Source of the values that have none of their own.
    pub source: String,
    /// Rate of the matrix unit relative to floats.
    pub product_rate_factor: Quantity,
    /// Rate of the matrix unit in 3-D convolutions, relative to floats.
    pub volume_rate_factor: Quantity,
    /// Rate of the vector unit relative to floats.
    pub vector_rate_factor: Quantity,
    /// Fixed costs relative to floats.
    pub fixed_cost_factor: Quantity,
    /// Overhead per matrix of a batched product. If absent, that of floats.
    pub matrix_us: Option<Quantity>,
    /// Rate of reductions over channels relative to floats. If absent, they run at the rate of floats.
    pub channel_reduction_rate_factor: Option<Quantity>,
    /// Result rate of a stand-alone batch norm.
    pub batch_norm_elements_per_ns: Quantity,
}

/// Differences of models with integer weights and 16-bit activations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct IntegerWeights {
    /// Source of the values that have none of their own.
    pub source: String,
    /// Rate of the matrix unit relative to floats.
    pub product_rate_factor: Quantity,
    /// Fixed costs relative to floats.
    pub fixed_cost_factor: Quantity,
    /// Result rate of a stand-alone batch norm.
    pub batch_norm_elements_per_ns: Quantity,
}

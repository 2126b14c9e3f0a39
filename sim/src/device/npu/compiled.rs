//! Parameters of graphs that an NPU's compiler takes as a whole.
//!
//! Responsible for: the constants of the rules in `kernel::npu::compiled`. Not for: products
//! that are handed over one by one, whose constants the table around this one has.
//! Invariant: every number is a term of one of those rules, and says which.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::device::{Basis, Quantity};

/// How graphs run that are compiled as a whole. Rates are those of 16-bit floats, which a
/// model in 32 bits becomes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CompiledGraphs {
    /// Where the values come from that name no source of their own.
    pub source: String,
    /// What they rest on.
    #[serde(default)]
    pub basis: Basis,
    /// From handing over a graph to its first operator, and from its last to the caller.
    pub graph_us: Quantity,
    /// What each operator takes beside its work.
    pub operator_us: Quantity,
    /// What each matrix of a batched product takes beside its work.
    pub matrix_us: Quantity,
    /// What each group of a grouped convolution takes beside its work.
    pub group_us: Quantity,
    /// Bringing a pixel of a three-channel image into the graph's layout, or out of it.
    pub image_pixel_ns: Quantity,
    /// Subtracting a mean from a pixel of a three-channel image, or dividing it by a deviation.
    pub normalised_pixel_ns: Quantity,
    /// Multiply-accumulates of the matrix unit.
    pub multiply_accumulates_per_ns: Quantity,
    /// The same in convolutions over volumes.
    pub volume_multiply_accumulates_per_ns: Quantity,
    /// Elements that windows without products visit (pooling, depthwise convolutions).
    pub taps_per_ns: Quantity,
    /// Operands between on-chip memory and the units.
    pub on_chip_gbps: Quantity,
    /// Operands whose layout changes on the way.
    pub layout_change_gbps: Quantity,
    /// Operands of element-wise work on tensors that are no images.
    pub token_gbps: Quantity,
    /// Results of functions other than sums, products and bounds.
    pub nonlinear_elements_per_ns: Quantity,
    /// Results of interpolation that are too large to stay on chip.
    pub large_resize_elements_per_ns: Quantity,
    /// Elements of which one a pixel is made: sums, largest, places of the largest.
    pub channel_reduction_elements_per_ns: Quantity,
    /// Elements looked through for places that the network computes.
    pub gathered_elements_per_ns: Quantity,
    /// Memory bandwidth of weights, and of tensors that do not fit on chip.
    pub bandwidth_gbps: Quantity,
    /// Memory bandwidth of weights that one row is multiplied by.
    pub one_row_bandwidth_gbps: Quantity,
    /// Memory bandwidth of weights that one token is multiplied by, in graphs of whole steps of a language
    /// model. Absent: nothing is known of such graphs.
    pub token_bandwidth_gbps: Option<Quantity>,
    /// Memory bandwidth of weights that a part of a prompt is multiplied by, in the same graphs. Absent: that of
    /// other graphs.
    pub prompt_bandwidth_gbps: Option<Quantity>,
    /// Part of the bytes beyond the on-chip memory that move: chains of operators are tiled.
    pub spill_factor: Quantity,
    /// Memory that tensors stay in between operators.
    pub on_chip_bytes: Quantity,
    /// Models whose weights and activations are 8-bit integers. Absent: nothing is known of them.
    pub integer: Option<IntegerGraphs>,
    /// Models whose weights alone are integers, beside 16-bit activations. Absent: as above.
    pub integer_weights: Option<IntegerWeights>,
}

/// What differs where weights and activations are 8-bit integers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct IntegerGraphs {
    /// Where the values come from that name no source of their own.
    pub source: String,
    /// Rate of the matrix unit over that for floats.
    pub product_rate_factor: Quantity,
    /// The same in convolutions over volumes.
    pub volume_rate_factor: Quantity,
    /// Rate of the vector unit over that for floats.
    pub vector_rate_factor: Quantity,
    /// Fixed costs over those for floats.
    pub fixed_cost_factor: Quantity,
    /// What each matrix of a batched product takes beside its work.
    pub matrix_us: Quantity,
    /// Results of a normalisation by trained statistics that stands on its own.
    pub batch_norm_elements_per_ns: Quantity,
}

/// What differs where weights alone are integers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct IntegerWeights {
    /// Where the values come from that name no source of their own.
    pub source: String,
    /// Rate of the matrix unit over that for floats.
    pub product_rate_factor: Quantity,
    /// Fixed costs over those for floats.
    pub fixed_cost_factor: Quantity,
    /// Results of a normalisation by trained statistics that stands on its own.
    pub batch_norm_elements_per_ns: Quantity,
}

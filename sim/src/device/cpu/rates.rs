//! Rate tables: the cost of a unit of work on one core, per kernel library.
//!
//! Each table holds the terms of the CPU model's equation for one library and one number
//! format, in nanoseconds per unit, with the fork-join cost and the contention fitted
//! jointly with them. Parentheses give the term's name in the equation.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::device::{Basis, Quantity};

/// Range of contention and slowdown factors in a profile. Fitted contention may be slightly negative (a core benefits
/// from data that its neighbour fetched), but the time of eight threads must stay positive: 1 - 0.1 * 7 > 0. Values
/// above ten are percentages mistaken for fractions.
pub const CONTENTION_FACTORS: [f64; 2] = [-0.1, 10.0];

/// Rates of TFLite's own kernels (ruy GEMM) on one core.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RuyRates {
    /// Where the table's values come from.
    pub source: String,
    /// Evidence behind the values.
    #[serde(default)]
    pub basis: Basis,
    /// One multiply-accumulate of the padded GEMM (`mac`).
    pub multiply_accumulate_ns: Quantity,
    /// Start and end of one micro-kernel tile (`tile`).
    pub tile_ns: Quantity,
    /// Packing one weight, depth padded (`packL`).
    pub pack_weight_ns: Quantity,
    /// Packing one element of the pixel matrix, depth padded (`packR`).
    pub pack_pixel_ns: Quantity,
    /// One weight of a matrix-vector product (`gemv`).
    pub gemv_weight_ns: Quantity,
    /// One multiply-accumulate of a depthwise convolution (`dw`).
    pub depthwise_tap_ns: Quantity,
    /// One multiply-accumulate of an 8-bit 3x3 depthwise convolution over whole vectors of
    /// channels, for which TFLite has a special kernel (`dw3`); defaults to `depthwise_tap_ns`.
    pub depthwise_3x3_tap_ns: Option<Quantity>,
    /// One output element of a depthwise convolution (`dwout`).
    pub depthwise_output_ns: Quantity,
    /// Overhead per output pixel of a 32-bit depthwise convolution, independent of its channels
    /// (`dwpix`): TFLite's kernel restarts at each pixel; 0 if absent.
    pub depthwise_pixel_ns: Option<Quantity>,
    /// Overhead of one row of one pixel's window in im2col, excluding its elements (`row`).
    pub im2col_row_ns: Quantity,
    /// Copying one element by im2col (`im2`).
    pub im2col_element_ns: Quantity,
    /// One multiply-accumulate of the reference loop nest (`ref`).
    pub reference_multiply_accumulate_ns: Quantity,
    /// One tap of one output of the reference loop nest (`refout`).
    pub reference_tap_ns: Quantity,
    /// One element of an element-wise function (`ew`).
    pub element_wise_ns: Quantity,
    /// One element of an addition or multiplication with one value per channel (`bc`); defaults
    /// to `element_wise_ns`.
    pub broadcast_element_ns: Option<Quantity>,
    /// One element of a function more complex than a comparison: hard swish, sigmoid (`act`);
    /// defaults to `element_wise_ns`.
    pub activation_element_ns: Option<Quantity>,
    /// One element read by a mean (`mean`); defaults to `element_wise_ns`.
    pub mean_element_ns: Option<Quantity>,
    /// One tap of one pooling output (`pool`).
    pub pool_tap_ns: Quantity,
    /// Copying one element: pad, slice (`cat`).
    pub copy_element_ns: Quantity,
    /// Copying one element of a concatenation (`concat`); defaults to `copy_element_ns`.
    pub concat_element_ns: Option<Quantity>,
    /// Extra time per element of a tensor beyond the first megabyte (`big`).
    pub beyond_cache_element_ns: Quantity,
    /// Dispatching one operator (`op`).
    pub operator_ns: Quantity,
    /// Waking the worker threads for one parallel region and waiting for the
    /// last of them, in microseconds (fork).
    pub fork_us: Quantity,
    /// Relative slowdown of parallel work per further thread of the cluster (beta): a
    /// factor of `1 + contention_factor * (threads - 1)`.
    pub contention_factor: Quantity,
    /// Relative slowdown of every time if all cores of the cluster work and none is left to
    /// the operating system (kappa).
    #[serde(default)]
    pub whole_cluster_slowdown_factor: Quantity,
}

/// Costs of mixing cores of several clusters, for one number format. Both values are fitted
/// jointly.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MixedClusters {
    /// Where the table's values come from.
    pub source: String,
    /// Factor on every time (gamma): a clock or power limit that the clusters share.
    pub slowdown_factor: Quantity,
    /// Waking worker threads on other clusters for one parallel region and waiting for the
    /// last of them, in microseconds; overrides the clusters' own fork cost.
    pub fork_us: Quantity,
}

/// Rates of XNNPACK on one core.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct XnnpackRates {
    /// Where the table's values come from.
    pub source: String,
    /// Evidence behind the values.
    #[serde(default)]
    pub basis: Basis,
    /// One multiply-accumulate of the padded GEMM (`mac`).
    pub multiply_accumulate_ns: Quantity,
    /// One multiply-accumulate of an indirect GEMM over a window of several taps; defaults to
    /// `multiply_accumulate_ns`.
    pub window_multiply_accumulate_ns: Option<Quantity>,
    /// Start and end of one micro-kernel tile (`tile`).
    pub tile_ns: Quantity,
    /// One tap of one tile of an indirect GEMM: reading its pointers (`tap`).
    pub tap_ns: Quantity,
    /// Extra time per weight read by one row of tiles if the weights exceed the first-level
    /// cache (`sL1`).
    pub beyond_l1_ns: Quantity,
    /// Further extra time per weight read if the weights exceed the last-level cache (`sL3`).
    pub beyond_l3_ns: Quantity,
    /// One byte read from an input larger than the last-level cache (`A`): of products;
    /// on x86-64, of all operators.
    pub input_byte_ns: Quantity,
    /// One byte written to an output too large for memory that is already mapped (`alloc`);
    /// 0 if the runtime reuses an arena.
    pub allocated_byte_ns: Quantity,
    /// One weight of a matrix-vector product, channels padded (`gemv`).
    pub gemv_weight_ns: Quantity,
    /// One multiply-accumulate of a depthwise convolution (`dw`).
    pub depthwise_tap_ns: Quantity,
    /// One multiply-accumulate of a depthwise convolution whose window exceeds the unrolled
    /// kernels, such as 7x7 (`dw7`). Where no run informs it: 2.5 cycles on large cores and 9 on small ones,
    /// against 0.6 and 3 of a smaller window (CPU model, PyTorch Mobile); on x86-64, measured under LiteRT.
    pub large_depthwise_tap_ns: Quantity,
    /// Extra time per multiply-accumulate of a depthwise convolution whose weights exceed
    /// the first-level cache; 0 if absent.
    pub depthwise_beyond_l1_ns: Option<Quantity>,
    /// One element of an element-wise function or of a mean (`ew`); on x86-64, one
    /// element read and written.
    pub element_wise_ns: Quantity,
    /// One element of a function with an exponential (`sig`).
    pub sigmoid_ns: Quantity,
    /// One tap of one pooling output (`pool`); on x86-64, of the taps padded to the kernel's.
    pub pool_tap_ns: Quantity,
    /// Copying one element: concat, slice (`cat`).
    pub copy_element_ns: Quantity,
    /// Overhead per call of a row-wise micro-kernel, such as for a padded row, a broadcast row
    /// or an output pixel of a depthwise convolution; 0 if absent.
    pub call_ns: Option<Quantity>,
    /// Dispatching one operator (`op`).
    pub operator_ns: Quantity,
    /// Extra overhead per convolution call, in addition to its dispatch (`opconv`).
    pub convolution_ns: Quantity,
    /// Waking the worker threads for one parallel region and waiting for the
    /// last of them, in microseconds (fork).
    pub fork_us: Quantity,
    /// Relative slowdown of parallel work per further thread of the cluster (beta): a
    /// factor of `1 + contention_factor * (threads - 1)`.
    pub contention_factor: Quantity,
    /// Contention of the memory terms (weights and inputs that miss the caches, allocated
    /// outputs) per further thread, in the same form (betam).
    pub memory_contention_factor: Quantity,
    /// Relative slowdown of every time if all cores of the cluster work and none is left to
    /// the operating system (kappa).
    #[serde(default)]
    pub whole_cluster_slowdown_factor: Quantity,
}

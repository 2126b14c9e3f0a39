//! Rate tables: what a unit of work costs on one core, per kernel library.
//!
//! Each table holds the terms of the CPU model's equation for one library and
//! one number format, in nanoseconds per unit, with the fork cost and the
//! contention that were fitted together with them. The letter in parentheses is
//! the term's name in the equation.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::device::{Basis, Quantity};

/// Rates of TFLite's own kernels (ruy GEMM) on one core.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RuyRates {
    /// Where the table's values come from.
    pub source: String,
    /// What they rest on.
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
    /// The same of 8-bit 3x3 windows over whole vectors of channels, for which
    /// TFLite has a kernel of its own (`dw3`); as any other where absent.
    pub depthwise_3x3_tap_ns: Option<Quantity>,
    /// One output element of a depthwise convolution (`dwout`).
    pub depthwise_output_ns: Quantity,
    /// One output pixel of a 32-bit depthwise convolution, whatever its channels
    /// (`dwpix`): TFLite's kernel starts over at each; free where absent.
    pub depthwise_pixel_ns: Option<Quantity>,
    /// Copying one row of one pixel's window by im2col, apart from its elements
    /// (`row`).
    pub im2col_row_ns: Quantity,
    /// Copying one element by im2col (`im2`).
    pub im2col_element_ns: Quantity,
    /// One multiply-accumulate of the reference loop nest (`ref`).
    pub reference_multiply_accumulate_ns: Quantity,
    /// One window position of one output of the reference loop nest (`refout`).
    pub reference_tap_ns: Quantity,
    /// One element of an element-wise function (`ew`).
    pub element_wise_ns: Quantity,
    /// One element of a product or sum with one value a channel (`bc`); as any
    /// other function's where absent.
    pub broadcast_element_ns: Option<Quantity>,
    /// One element of a function that takes more than a comparison: hard swish,
    /// sigmoid (`act`); as any other function's where absent.
    pub activation_element_ns: Option<Quantity>,
    /// One element read by a mean (`mean`); as an element-wise function's where
    /// absent.
    pub mean_element_ns: Option<Quantity>,
    /// One window position of one output of a pooling (`pool`).
    pub pool_tap_ns: Quantity,
    /// Copying one element: pad, slice (`cat`).
    pub copy_element_ns: Quantity,
    /// Copying one element of a concatenation (`concat`); as any other copy where
    /// absent.
    pub concat_element_ns: Option<Quantity>,
    /// One element of a tensor beyond the first megabyte (`big`).
    pub beyond_cache_element_ns: Quantity,
    /// Dispatching one operator (`op`).
    pub operator_ns: Quantity,
    /// Waking the worker threads for one parallel region and waiting for the
    /// last of them, in microseconds (fork).
    pub fork_us: Quantity,
    /// What each further thread of the cluster adds to parallel work, as a part
    /// of it (beta): work takes `1 + contention_factor * (threads - 1)`.
    pub contention_factor: Quantity,
    /// What is added to every time, as a part of it, where all cores of the
    /// cluster work and none is left to the operating system (kappa).
    #[serde(default)]
    pub whole_cluster_slowdown_factor: Quantity,
}

/// What working together with cores of other clusters costs, in one number
/// format. Both values are fitted together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MixedClusters {
    /// Where the table's values come from.
    pub source: String,
    /// What every time is multiplied by (gamma): a clock or power limit that the
    /// clusters share.
    pub slowdown_factor: Quantity,
    /// Waking worker threads on other clusters for one parallel region and waiting
    /// for the last of them, in microseconds: takes the place of the clusters' own.
    pub fork_us: Quantity,
}

/// Rates of XNNPACK on one core.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct XnnpackRates {
    /// Where the table's values come from.
    pub source: String,
    /// What they rest on.
    #[serde(default)]
    pub basis: Basis,
    /// One multiply-accumulate of the padded GEMM (`mac`).
    pub multiply_accumulate_ns: Quantity,
    /// The same under a window of several pixels; as any other where absent.
    pub window_multiply_accumulate_ns: Option<Quantity>,
    /// Start and end of one micro-kernel tile (`tile`).
    pub tile_ns: Quantity,
    /// One window position of one tile of an indirect GEMM: its pointers (`tap`).
    pub tap_ns: Quantity,
    /// One weight read by one row of tiles where the weights exceed the
    /// first-level cache (`sL1`).
    pub beyond_l1_ns: Quantity,
    /// The same, added where the weights exceed the last-level cache (`sL3`).
    pub beyond_l3_ns: Quantity,
    /// One byte read of an input beyond the last-level cache (`A`): of products, on x86-64 of any operator.
    pub input_byte_ns: Quantity,
    /// One byte written to an output too large to be served from memory already
    /// mapped (`alloc`); 0 where the runtime reuses an arena.
    pub allocated_byte_ns: Quantity,
    /// One weight of a matrix-vector product, channels padded (`gemv`).
    pub gemv_weight_ns: Quantity,
    /// One multiply-accumulate of a depthwise convolution (`dw`).
    pub depthwise_tap_ns: Quantity,
    /// The same for windows that no unrolled kernel fits, such as 7x7 (`dw7`).
    pub large_depthwise_tap_ns: Quantity,
    /// One weight of a depthwise convolution read beyond the first-level cache, on top; free where absent.
    pub depthwise_beyond_l1_ns: Option<Quantity>,
    /// One element of an element-wise function or of a mean (`ew`); on x86-64 one that is read and written.
    pub element_wise_ns: Quantity,
    /// One element of a function with an exponential in it (`sig`).
    pub sigmoid_ns: Quantity,
    /// One window position of one output of a pooling (`pool`); on x86-64 of those that are computed.
    pub pool_tap_ns: Quantity,
    /// Copying one element: concat, slice (`cat`).
    pub copy_element_ns: Quantity,
    /// One call of a kernel that goes row by row: a row of zeros around pixels, of a broadcast, a pixel under a window of
    /// one channel; free where absent.
    pub call_ns: Option<Quantity>,
    /// Dispatching one operator (`op`).
    pub operator_ns: Quantity,
    /// Calling one convolution, on top of its dispatch (`opconv`).
    pub convolution_ns: Quantity,
    /// Waking the worker threads for one parallel region and waiting for the
    /// last of them, in microseconds (fork).
    pub fork_us: Quantity,
    /// What each further thread of the cluster adds to parallel work, as a part
    /// of it (beta): work takes `1 + contention_factor * (threads - 1)`.
    pub contention_factor: Quantity,
    /// The same for the memory terms: weights and inputs beyond the caches,
    /// allocated outputs (betam).
    pub memory_contention_factor: Quantity,
    /// What is added to every time, as a part of it, where all cores of the
    /// cluster work and none is left to the operating system (kappa).
    #[serde(default)]
    pub whole_cluster_slowdown_factor: Quantity,
}

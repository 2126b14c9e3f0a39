//! Parameters of the convolution kernels, one table per kernel family, named
//! after the terms of its equation.
//!
//! In the equations, `pixels` and `slices` are those of one thread's tile, `lanes`
//! and `weights` the distinct pixel blocks and output-slice blocks of a wave,
//! `iterations` the trips of a thread's loop, `stride` the horizontal one, and
//! `rounds(L, c)` sums over the occupancy rounds the soft maximum of the latency
//! `L` and of the cost `c` times the waves resident on a compute unit.
//! Every `launch_us` has `unit_us * (compute units that get a group - 1)` added, where a
//! table has that. Bytes count whole slices of 8 bytes (four 16-bit channels). The structure is
//! the white-box model fitted on the mobile-ml-benchmark data set.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::parameters::kernel_table;
use crate::device::quantity::Quantity;

/// Generic convolution: one thread computes a tile of pixels x output slices and
/// loops over the window and the input slices.
///
/// ```text
/// reuse = window_reuse_factor + (row_reuse_factor, if the tile has two rows), unless trivial
/// spilled = ((input + output + weights) / cache_bytes - 1) / 0.2, from 0 to 1
/// L = (latency_us + latency_pixel_us * pixels / (1 + reuse) + latency_slice_us * slices
///      + latency_weight_us * weights * slices)
///     * (1 + window_latency_factor, unless trivial) * unroll ^ -unroll_exponent
///     * (1 + spill_latency_factor * spilled)
/// c = (throughput_slice_us * slices + throughput_texel_us * pixels * slices
///      + throughput_pixel_read_us * lanes * pixels * stride
///      + throughput_weight_read_us * weights * slices)
///     * (1 + window_throughput_factor, unless trivial)
/// time = launch_us + iterations * rounds(L, c)
///          * (1 + addition_factor, if trivial and a sum is linked
///               + activation_factor, if an activation is linked)
///      + traffic_us_per_byte * (input + output * (1 + addition_traffic_factor * sums) + weights)
///      + wave_us * waves per compute unit * pixels * slices
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConvGenericKernel {
    /// Where the values come from.
    pub source: String,
    /// Launch of the kernel (t0).
    pub launch_us: Quantity,
    /// Latency of a loop iteration on a nearly empty compute unit: constant part (L).
    pub latency_us: Quantity,
    /// Latency of an iteration per pixel of the tile (L).
    pub latency_pixel_us: Quantity,
    /// Latency of an iteration per output slice of the tile (L).
    pub latency_slice_us: Quantity,
    /// Latency of an iteration per output slice of the tile and distinct weight block
    /// of the wave (L).
    pub latency_weight_us: Quantity,
    /// Cost of a wave's iteration per output slice of the tile (c).
    pub throughput_slice_us: Quantity,
    /// Cost of a wave's iteration per texel of the tile: 16 multiply-adds a lane (c).
    pub throughput_texel_us: Quantity,
    /// Cost of a wave's iteration per distinct pixel block, pixel of the tile and step
    /// of the stride (c).
    pub throughput_pixel_read_us: Quantity,
    /// Cost of a wave's iteration per distinct weight block and output slice (c).
    pub throughput_weight_read_us: Quantity,
    /// Sharpness of the soft maximum of latency and throughput; 0 is their sum.
    pub roofline_sharpness: Quantity,
    /// Relative rise of the latency where the kernel loops over a window.
    pub window_latency_factor: Quantity,
    /// Power of the source unroll that divides the latency.
    pub unroll_exponent: Quantity,
    /// Relative rise of the cost where the kernel loops over a window.
    pub window_throughput_factor: Quantity,
    /// Relative rise of the loop where a trivial kernel has a sum linked.
    pub addition_factor: Quantity,
    /// Relative rise of the loop where an activation is linked.
    pub activation_factor: Quantity,
    /// Prologue and epilogue of a wave, per texel of the tile.
    pub wave_us: Quantity,
    /// Time per byte of tensor and weights.
    pub traffic_us_per_byte: Quantity,
    /// Traffic of a linked sum's second operand, relative to the output's.
    pub addition_traffic_factor: Quantity,
    /// How far the last round's waves count as rounded up, to a power of two up to 8
    /// and to a multiple of four above. Apple only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tail_rounding_factor: Option<Quantity>,
    /// How far a window spares the pixels' part of the latency: a tap reads pixels that
    /// its neighbour has brought into the cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_reuse_factor: Option<Quantity>,
    /// How much further where the tile has two rows: one of them is what the same
    /// thread read for the tap above.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub row_reuse_factor: Option<Quantity>,
    /// Bytes of tensors and weights that a last-level cache keeps from one launch to the
    /// next. Only for GPUs whose cache holds most layers whole and lies nearer than their
    /// memory by far: on an H200 an iteration takes 0.26 us, and 0.45 us where what is
    /// counted here exceeds 17 MB (twice as much in the 32 bits it was measured in).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_bytes: Option<Quantity>,
    /// Relative rise of the latency where tensors and weights exceed that cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spill_latency_factor: Option<Quantity>,
    /// Start of each compute unit beyond the first that gets a group. Only for CPU
    /// devices, whose sleeping cores have to be woken one by one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit_us: Option<Quantity>,
}

kernel_table!(ConvGenericKernel {
    launch_us,
    latency_us,
    latency_pixel_us,
    latency_slice_us,
    latency_weight_us,
    throughput_slice_us,
    throughput_texel_us,
    throughput_pixel_read_us,
    throughput_weight_read_us,
    roofline_sharpness,
    window_latency_factor,
    unroll_exponent,
    window_throughput_factor,
    addition_factor,
    activation_factor,
    wave_us,
    traffic_us_per_byte,
    addition_traffic_factor,
} optional { tail_rounding_factor, window_reuse_factor, row_reuse_factor, cache_bytes, spill_latency_factor, unit_us });

/// Winograd convolution: 36 batched 1x1 convolutions between two transforms; one
/// table for the three launches.
///
/// ```text
/// L = latency_us + latency_slice_us * slices
/// c = throughput_slice_us * slices + throughput_texel_us * pixels * slices
/// time = launch_us + iterations * rounds(L, c) + wave_us * waves per compute unit * pixels * slices
///      + forward_us_per_byte * transformed input + inverse_us_per_byte * transformed output
///      + traffic_us_per_byte * (input + output + transformed weights)
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WinogradKernel {
    /// Where the values come from.
    pub source: String,
    /// Launches of the three kernels (t0).
    pub launch_us: Quantity,
    /// Latency of a loop iteration of the middle kernel: constant part (L).
    pub latency_us: Quantity,
    /// Latency of an iteration per output slice of the tile (L).
    pub latency_slice_us: Quantity,
    /// Cost of a wave's iteration per output slice of the tile (c).
    pub throughput_slice_us: Quantity,
    /// Cost of a wave's iteration per texel of the tile (c).
    pub throughput_texel_us: Quantity,
    /// Sharpness of the soft maximum of latency and throughput; 0 is their sum.
    pub roofline_sharpness: Quantity,
    /// Prologue and epilogue of a wave, per texel of the tile.
    pub wave_us: Quantity,
    /// The 4x4 to 36 transform, per byte it writes.
    pub forward_us_per_byte: Quantity,
    /// The 36 to 4x4 transform, per byte it reads.
    pub inverse_us_per_byte: Quantity,
    /// Time per byte of tensor and weights.
    pub traffic_us_per_byte: Quantity,
}

kernel_table!(WinogradKernel {
    launch_us,
    latency_us,
    latency_slice_us,
    throughput_slice_us,
    throughput_texel_us,
    roofline_sharpness,
    wave_us,
    forward_us_per_byte,
    inverse_us_per_byte,
    traffic_us_per_byte,
});

/// Convolution with weights in constant memory: one thread computes all output
/// slices of one pixel, fully unrolled.
///
/// ```text
/// reads = window * input slices
/// L = latency_read_us * reads * (1 + dot_latency_factor, in dot form)
///     + latency_slice_us * output slices
/// c = throughput_read_us * reads + throughput_product_us * window * input channels * output slices
///     + throughput_slice_us * output slices
/// time = launch_us + rounds(L, c)
///      + traffic_us_per_byte * (input + output * (1 + addition_traffic_factor * sums) + weights)
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConvConstantsKernel {
    /// Where the values come from.
    pub source: String,
    /// Launch of the kernel (t0).
    pub launch_us: Quantity,
    /// Latency per texel a thread reads (L).
    pub latency_read_us: Quantity,
    /// Latency per output slice of a thread (L).
    pub latency_slice_us: Quantity,
    /// Cost of a wave per texel a thread reads (c).
    pub throughput_read_us: Quantity,
    /// Cost of a wave per multiply-add of four channels (c).
    pub throughput_product_us: Quantity,
    /// Cost of a wave per output slice of a thread (c).
    pub throughput_slice_us: Quantity,
    /// Sharpness of the soft maximum of latency and throughput; 0 is their sum.
    pub roofline_sharpness: Quantity,
    /// Time per byte of tensor and weights.
    pub traffic_us_per_byte: Quantity,
    /// Traffic of a linked sum's second operand, relative to the output's.
    pub addition_traffic_factor: Quantity,
    /// Relative rise of the latency of a read in dot form, which the delegate takes
    /// where the output channels are no whole slices: every channel has its own dot
    /// products, whose four terms wait for one another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dot_latency_factor: Option<Quantity>,
}

kernel_table!(ConvConstantsKernel {
    launch_us,
    latency_read_us,
    latency_slice_us,
    throughput_read_us,
    throughput_product_us,
    throughput_slice_us,
    roofline_sharpness,
    traffic_us_per_byte,
    addition_traffic_factor,
} optional { dot_latency_factor });

/// Depthwise convolution: the 3x3 kernel (2x2 pixels a thread), the 3x3 kernel of
/// vertical stride 2 (1x2 pixels), and the generic one (one pixel, any window).
///
/// ```text
/// L = latency_3x3_us | latency_stride_h2_us | latency_tap_us * window
/// c = throughput_3x3_us | throughput_stride_h2_us
///       | throughput_us + (throughput_tap_us + throughput_strided_tap_us, if strided) * window
///     + throughput_pixel_read_us * lanes * reads * stride
///     + throughput_weight_read_us * weights * taps
/// time = launch_us + rounds(L, c) * (1 + activation_factor, if an activation is linked)
///      + traffic_us_per_byte * bytes + spill_us_per_byte * max(0, bytes - cache_bytes)
///      + group_us * groups per compute unit
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DepthwiseKernel {
    /// Where the values come from.
    pub source: String,
    /// Launch of the kernel (t0).
    pub launch_us: Quantity,
    /// Latency of a 3x3 thread (L).
    pub latency_3x3_us: Quantity,
    /// Latency of a stride-h2 thread (L).
    pub latency_stride_h2_us: Quantity,
    /// Latency of a generic thread per tap of the window (L).
    pub latency_tap_us: Quantity,
    /// Cost of a wave of the 3x3 kernel (c).
    pub throughput_3x3_us: Quantity,
    /// Cost of a wave of the stride-h2 kernel (c).
    pub throughput_stride_h2_us: Quantity,
    /// Cost of a wave of the generic kernel: constant part (c).
    pub throughput_us: Quantity,
    /// Cost of a wave of the generic kernel per tap (c).
    pub throughput_tap_us: Quantity,
    /// What a stride above one adds per tap (c).
    pub throughput_strided_tap_us: Quantity,
    /// Cost per distinct pixel of a wave, read and step of the stride (c).
    pub throughput_pixel_read_us: Quantity,
    /// Cost per distinct slice of a wave and tap (c).
    pub throughput_weight_read_us: Quantity,
    /// Sharpness of the soft maximum of latency and throughput; 0 is their sum.
    pub roofline_sharpness: Quantity,
    /// Time per byte of tensor and weights.
    pub traffic_us_per_byte: Quantity,
    /// Relative rise of the work where an activation is linked.
    pub activation_factor: Quantity,
    /// Traffic of a linked sum's second operand, relative to the output's.
    pub addition_traffic_factor: Quantity,
    /// Start of a work-group.
    pub group_us: Quantity,
    /// Extra time per byte beyond `cache_bytes`.
    pub spill_us_per_byte: Quantity,
    /// Bytes of a launch up to which the overlap of windows is served by the cache.
    pub cache_bytes: Quantity,
    /// Start of each compute unit beyond the first that gets a group. Only for CPU
    /// devices, whose sleeping cores have to be woken one by one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit_us: Option<Quantity>,
}

kernel_table!(DepthwiseKernel {
    launch_us,
    latency_3x3_us,
    latency_stride_h2_us,
    latency_tap_us,
    throughput_3x3_us,
    throughput_stride_h2_us,
    throughput_us,
    throughput_tap_us,
    throughput_strided_tap_us,
    throughput_pixel_read_us,
    throughput_weight_read_us,
    roofline_sharpness,
    traffic_us_per_byte,
    activation_factor,
    addition_traffic_factor,
    group_us,
    spill_us_per_byte,
    cache_bytes,
} optional { unit_us });

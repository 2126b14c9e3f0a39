//! Parameters of the kernels that are no convolutions, one table per family.
//!
//! The equations use the terms of the convolution tables next door.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::parameters::kernel_table;
use crate::device::quantity::Quantity;

/// Matrix-vector product: four threads share the dot products of one output slice.
///
/// ```text
/// time = launch_us + iterations * rounds(latency_us, throughput_us)
///      + traffic_us_per_byte * (input + output + weights)
///      + linked_us * activations + linear_us, unless it replaces a 1x1 convolution
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FullyConnectedKernel {
    /// Where the values come from.
    pub source: String,
    /// Launch of the kernel (t0).
    pub launch_us: Quantity,
    /// Latency of a loop iteration (L).
    pub latency_us: Quantity,
    /// Cost of a wave's iteration (c).
    pub throughput_us: Quantity,
    /// Sharpness of the soft maximum of latency and throughput; 0 is their sum.
    pub roofline_sharpness: Quantity,
    /// Time per byte of tensor and weights.
    pub traffic_us_per_byte: Quantity,
    /// Time of a linked activation.
    pub linked_us: Quantity,
    /// Extra time of a fully connected layer over a 1x1 convolution of one pixel.
    pub linear_us: Quantity,
    /// Start of each compute unit beyond the first that gets a group. Only for CPU
    /// devices, whose sleeping cores have to be woken one by one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit_us: Option<Quantity>,
}

kernel_table!(FullyConnectedKernel {
    launch_us,
    latency_us,
    throughput_us,
    roofline_sharpness,
    traffic_us_per_byte,
    linked_us,
    linear_us,
} optional { unit_us });

/// Windowed pooling: one thread computes one slice of one pixel.
///
/// ```text
/// c = throughput_us + throughput_stride_us * stride
/// time = launch_us + traffic_us_per_byte * (input + output)
///      + (window * rounds(latency_us, c) + wave_us * waves per compute unit)
///          * (1 + average_factor, for an average)
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PoolKernel {
    /// Where the values come from.
    pub source: String,
    /// Launch of the kernel (t0).
    pub launch_us: Quantity,
    /// Latency of one tap of the window (L).
    pub latency_us: Quantity,
    /// Cost of a wave's tap: constant part (c).
    pub throughput_us: Quantity,
    /// Cost of a wave's tap per step of the stride (c).
    pub throughput_stride_us: Quantity,
    /// Sharpness of the soft maximum of latency and throughput; 0 is their sum.
    pub roofline_sharpness: Quantity,
    /// Time per byte of tensor.
    pub traffic_us_per_byte: Quantity,
    /// Relative rise of the work of an average over a maximum: it sums in 32 bits and
    /// divides.
    pub average_factor: Quantity,
    /// Prologue and epilogue of a wave: what a window of any size pays once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wave_us: Option<Quantity>,
    /// Start of each compute unit beyond the first that gets a group. Only for CPU
    /// devices, whose sleeping cores have to be woken one by one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit_us: Option<Quantity>,
}

kernel_table!(PoolKernel {
    launch_us,
    latency_us,
    throughput_us,
    throughput_stride_us,
    roofline_sharpness,
    traffic_us_per_byte,
    average_factor,
} optional { wave_us, unit_us });

/// Mean over pixels: a work-group shares one slice, or one thread sums it alone.
///
/// ```text
/// time = launch_us + iterations * rounds(latency_us, throughput_us)
///      + traffic_us_per_byte * (input + output)
///      + (wave_us + reduction_step_us * steps) * waves per compute unit
///      + lone_read_us * iterations, where one thread sums alone
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MeanKernel {
    /// Where the values come from.
    pub source: String,
    /// Launch of the kernel (t0).
    pub launch_us: Quantity,
    /// Latency of one read (L).
    pub latency_us: Quantity,
    /// Cost of a wave's read (c).
    pub throughput_us: Quantity,
    /// Sharpness of the soft maximum of latency and throughput; 0 is their sum.
    pub roofline_sharpness: Quantity,
    /// Time per byte of tensor.
    pub traffic_us_per_byte: Quantity,
    /// Start of a wave and its part of the group reduction.
    pub wave_us: Quantity,
    /// Extra time per read of a thread that sums a slice alone.
    pub lone_read_us: Quantity,
    /// One step of the tree in which a group adds up its threads' sums: a quarter of
    /// them goes on behind a barrier, but every wave waits at it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reduction_step_us: Option<Quantity>,
    /// Start of each compute unit beyond the first that gets a group. Only for CPU
    /// devices, whose sleeping cores have to be woken one by one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit_us: Option<Quantity>,
}

kernel_table!(MeanKernel {
    launch_us,
    latency_us,
    throughput_us,
    roofline_sharpness,
    traffic_us_per_byte,
    wave_us,
    lone_read_us,
} optional { reduction_step_us, unit_us });

/// Concatenation along channels: one thread copies all slices of one pixel.
///
/// ```text
/// work = output slices / iterations
/// L = (latency_us + latency_slice_us * work + latency_input_us * inputs / iterations)
///     * (misaligned_latency_factor, if misaligned)
/// c = throughput_us * work + throughput_input_us * inputs / iterations
///     + throughput_misaligned_us * work, if misaligned
/// time = launch_us + iterations * rounds(L, c) * (1 + linked_factor, if a sum or product is linked)
///      + traffic_us_per_byte * (input + output * (1 + linked_traffic_factor * second operands))
/// ```
/// A linked product and the sum behind it are a normalisation by trained statistics,
/// whose operands are a few bytes a channel; every other sum reads a tensor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConcatKernel {
    /// Where the values come from.
    pub source: String,
    /// Launch of the kernel (t0).
    pub launch_us: Quantity,
    /// Latency of a loop iteration (L).
    pub latency_us: Quantity,
    /// Latency of starting on an input (L).
    pub latency_input_us: Quantity,
    /// Cost of a wave's slice (c).
    pub throughput_us: Quantity,
    /// Cost of a wave's start on an input (c).
    pub throughput_input_us: Quantity,
    /// What inputs that end within a slice add per slice (c).
    pub throughput_misaligned_us: Quantity,
    /// Sharpness of the soft maximum of latency and throughput; 0 is their sum.
    pub roofline_sharpness: Quantity,
    /// Time per byte of tensor.
    pub traffic_us_per_byte: Quantity,
    /// Latency where an input ends within a slice, relative to whole slices: that
    /// kernel is fully unrolled.
    pub misaligned_latency_factor: Quantity,
    /// Traffic of a linked function's second operand, relative to the output's.
    pub linked_traffic_factor: Quantity,
    /// Relative rise of the loop where a sum or product is linked.
    pub linked_factor: Quantity,
    /// Latency per slice of an iteration (L): one that copies two slices has both
    /// reads in flight, but does not take them for the price of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_slice_us: Option<Quantity>,
    /// Start of each compute unit beyond the first that gets a group. Only for CPU
    /// devices, whose sleeping cores have to be woken one by one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit_us: Option<Quantity>,
}

kernel_table!(ConcatKernel {
    launch_us,
    latency_us,
    latency_input_us,
    throughput_us,
    throughput_input_us,
    throughput_misaligned_us,
    roofline_sharpness,
    traffic_us_per_byte,
    misaligned_latency_factor,
    linked_traffic_factor,
    linked_factor,
} optional { latency_slice_us, unit_us });

/// Element-wise functions, softmax, normalisations, look-ups and copies: memory
/// traffic with a little work around it.
///
/// ```text
/// time = launch_us + iterations * rounds(latency_us, throughput_us)
///      + traffic_us_per_byte * (input + output * (1 + sums) + weights)
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ElementwiseKernel {
    /// Where the values come from.
    pub source: String,
    /// Launch of the kernel (t0).
    pub launch_us: Quantity,
    /// Latency of one slice a thread reads and processes (L).
    pub latency_us: Quantity,
    /// Cost of a wave's slice (c).
    pub throughput_us: Quantity,
    /// Sharpness of the soft maximum of latency and throughput; 0 is their sum.
    pub roofline_sharpness: Quantity,
    /// Time per byte of tensor.
    pub traffic_us_per_byte: Quantity,
    /// Start of each compute unit beyond the first that gets a group. Only for CPU
    /// devices, whose sleeping cores have to be woken one by one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit_us: Option<Quantity>,
}

kernel_table!(ElementwiseKernel {
    launch_us,
    latency_us,
    throughput_us,
    roofline_sharpness,
    traffic_us_per_byte,
} optional { unit_us });

//! The three depthwise convolution kernels.

use super::{Cost, Dispatch, Kernel, Modelled, activations, extent, lanes, select};
use crate::device::{Gpu, ResidentKernel, SLICE_BYTES, Tile};
use crate::workload::{DepthwiseConv2d, Layer};

/// Texels that a thread of the 3x3 kernel reads for its 2x2 pixels.
const READS_3X3: f64 = 16.0;
/// Texels that a thread of the stride-h2 kernel reads for its 1x2 pixels.
const READS_STRIDE_H2: f64 = 15.0;
/// Taps of a 3x3 window.
const TAPS_3X3: f64 = 9.0;

/// A depthwise convolution: threads cover pixels and slices. The loop over taps is
/// part of the fitted cost, so the model counts one iteration.
pub(super) fn depthwise(conv: &DepthwiseConv2d, layer: &Layer, gpu: &Gpu) -> Modelled {
    let table = &gpu.depthwise;
    let rules = gpu.family.rules();
    let (input, output) = (extent(conv.input), extent(conv.output()));
    let window = conv.window.taps() as f64;
    let strided = if conv.window.stride[0].max(conv.window.stride[1]) > 1 {
        table.throughput_strided_tap_us.value
    } else {
        0.0
    };
    let (kernel, tile, latency_us, work_us, [reads, taps]) = if select::suits_depthwise_3x3(conv, rules) {
        let (latency_us, work_us) = (table.latency_3x3_us.value, table.throughput_3x3_us.value);
        (Kernel::Depthwise3x3, Tile::new(2, 2, 1), latency_us, work_us, [READS_3X3, TAPS_3X3])
    } else if select::suits_depthwise_stride_h2(conv, rules) {
        let (latency_us, work_us) = (table.latency_stride_h2_us.value, table.throughput_stride_h2_us.value);
        (Kernel::DepthwiseStrideH2, Tile::new(1, 2, 1), latency_us, work_us, [READS_STRIDE_H2, TAPS_3X3])
    } else {
        let work_us = table.throughput_us.value + (table.throughput_tap_us.value + strided) * window;
        let latency_us = table.latency_tap_us.value * window;
        (Kernel::DepthwiseGeneric, Tile::new(1, 1, 1), latency_us, work_us, [window; 2])
    };
    let dispatch = Dispatch::over(kernel, output, tile, 1, gpu);
    let lanes = lanes::of_group(dispatch.work_group, gpu.simd_width);
    let lines = lanes::relative_cache_lines(conv.window.stride[1]);
    let shared_us = table.throughput_pixel_read_us.value * lanes.pixels * reads * lines
        + table.throughput_weight_read_us.value * lanes.weights * taps;

    let weights = conv.window.taps() * u64::from(output.slices) * SLICE_BYTES;
    let bytes = input.bytes() + output.bytes() + weights;
    let operands = layer.linked.operand_tensors(layer.operator.output());
    let moved = bytes as f64 + output.bytes() as f64 * table.addition_traffic_factor.value * operands;
    let spilled = (moved - table.cache_bytes.value).max(0.0);
    let common = Cost::new(table.common(), bytes, moved);
    let activated = activations(layer) > 0;
    let cost = Cost {
        latency_us,
        throughput_us: work_us + shared_us,
        resident_waves: gpu.resident_waves(tile.texels(), ResidentKernel::Depthwise),
        loop_factor: if activated { 1.0 + table.activation_factor.value } else { 1.0 },
        traffic_us: common.traffic_us + table.spill_us_per_byte.value * spilled,
        epilogue_us: table.group_us.value * f64::from(dispatch.groups.div_ceil(gpu.compute_units)),
        ..common
    };
    Modelled { dispatch, cost }
}

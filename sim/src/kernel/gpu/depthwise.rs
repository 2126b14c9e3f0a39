//! The three depthwise convolution kernels.

use super::latency::Cost;
use super::select::{self, Kernel};
use super::tile::Tile;
use super::work_group::Dispatch;
use super::{Extent, Modelled, SLICE_BYTES, lanes, value_or_zero, work_group};
use crate::device::gpu::Gpu;
use crate::workload::{DepthwiseConv2d, Layer};

/// Texels that a thread of the 3x3 kernel reads for its 2x2 pixels.
const READS_3X3: f64 = 16.0;
/// Texels that a thread of the stride-h2 kernel reads for its 1x2 pixels.
const READS_STRIDE_H2: f64 = 15.0;
/// Weights of a 3x3 window.
const TAPS_3X3: f64 = 9.0;

/// A depthwise convolution: threads cover pixels and slices, and loop over
/// nothing that the model counts as iterations.
pub(super) fn depthwise(conv: &DepthwiseConv2d, layer: &Layer, gpu: &Gpu) -> Modelled {
    let table = &gpu.depthwise;
    let kernel = select::depthwise(conv, gpu.family);
    let (input, output) = (Extent::of(conv.input), Extent::of(conv.output()));
    let tile = match kernel {
        Kernel::Depthwise3x3 => Tile::new(2, 2, 1),
        Kernel::DepthwiseStrideH2 => Tile::new(1, 2, 1),
        _ => Tile::new(1, 1, 1),
    };
    let grid = work_group::grid(output, tile);
    let dispatch = Dispatch::new(kernel, tile, grid, work_group::generic_work_group(grid, gpu), 1);

    let window = f64::from(conv.kernel[0]) * f64::from(conv.kernel[1]);
    let strided =
        if conv.stride[0].max(conv.stride[1]) > 1 { table.throughput_strided_tap_us.value } else { 0.0 };
    let (latency_us, work_us, reads, taps) = match kernel {
        Kernel::Depthwise3x3 => {
            (table.latency_3x3_us.value, table.throughput_3x3_us.value, READS_3X3, TAPS_3X3)
        }
        Kernel::DepthwiseStrideH2 => {
            (table.latency_stride_h2_us.value, table.throughput_stride_h2_us.value, READS_STRIDE_H2, TAPS_3X3)
        }
        _ => (
            table.latency_tap_us.value * window,
            table.throughput_us.value + (table.throughput_tap_us.value + strided) * window,
            window,
            window,
        ),
    };
    let lanes = lanes::of_group(dispatch.work_group, gpu.simd_width);
    let shared_us = table.throughput_pixel_read_us.value * lanes.pixels * reads * f64::from(conv.stride[1])
        + table.throughput_weight_read_us.value * lanes.weights * taps;

    let taps_of_window = u64::from(conv.kernel[0]) * u64::from(conv.kernel[1]);
    let weights = taps_of_window * u64::from(output.slices) * SLICE_BYTES;
    let bytes = input.bytes() + output.bytes() + weights;
    let additions = f64::from(layer.linked.additions());
    let moved = bytes as f64 + output.bytes() as f64 * table.addition_traffic_factor.value * additions;
    let spilled = (moved - table.cache_bytes.value).max(0.0);
    let activated = layer.linked.activations() > 0;
    let cost = Cost {
        launch_us: table.launch_us.value,
        unit_us: value_or_zero(table.unit_us.as_ref()),
        latency_us,
        throughput_us: work_us + shared_us,
        sharpness: table.roofline_sharpness.value,
        resident_waves: gpu.resident_depthwise_waves(tile.texels()),
        loop_factor: if activated { 1.0 + table.activation_factor.value } else { 1.0 },
        traffic_us: table.traffic_us_per_byte.value * moved + table.spill_us_per_byte.value * spilled,
        epilogue_us: table.group_us.value * f64::from(dispatch.groups.div_ceil(gpu.compute_units)),
        bytes,
        ..Cost::default()
    };
    Modelled { dispatch, cost }
}

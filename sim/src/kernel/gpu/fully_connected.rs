//! The matrix-vector kernel: four threads of a group share the dot products of
//! one output slice and add their parts up through local memory.

use super::conv::weight_bytes;
use super::latency::Cost;
use super::select::Kernel;
use super::tile::Tile;
use super::work_group::Dispatch;
use super::{Modelled, SLICE_BYTES, value_or_zero};
use crate::device::gpu::{Gpu, GpuFamily};
use crate::workload::{Conv2d, DataType, Layer, Linear, slices};

/// Threads that share the dot products of an output slice.
const SHARERS: u32 = 4;

/// Output slices of one work-group.
fn slices_of_group(family: GpuFamily) -> u32 {
    match family {
        GpuFamily::Adreno3xx => 16,
        family if family.is_adreno() => 32,
        GpuFamily::PowerVr | GpuFamily::AppleA9 | GpuFamily::AppleBionic | GpuFamily::Nvidia => 8,
        _ => 16,
    }
}

/// A linear layer of one row.
pub(super) fn of_linear(linear: &Linear, layer: &Layer, gpu: &Gpu) -> Modelled {
    model(linear.input_features, linear.output_features, gpu.fully_connected.linear_us.value, layer, gpu)
}

/// A 1x1 convolution of one pixel.
pub(super) fn of_conv(conv: &Conv2d, layer: &Layer, gpu: &Gpu) -> Modelled {
    model(conv.input.channels, conv.output_channels, 0.0, layer, gpu)
}

fn model(inputs: u32, outputs: u32, linear_us: f64, layer: &Layer, gpu: &Gpu) -> Modelled {
    let table = &gpu.fully_connected;
    let (source, output) = (slices(inputs), slices(outputs));
    let group = [slices_of_group(gpu.family), SHARERS, 1];
    // The grid has one row; the four sharers exist only as the group's rows.
    let grid = [output.max(1), 1, 1];
    let dispatch =
        Dispatch::new(Kernel::FullyConnected, Tile::new(1, 1, 1), grid, group, source.div_ceil(SHARERS));
    let blocks = u64::from(source) * u64::from(output);
    let bytes = u64::from(source) * SLICE_BYTES
        + u64::from(output) * SLICE_BYTES
        + dequantised_or_packed(blocks, layer.data_type);
    let cost = Cost {
        launch_us: table.launch_us.value,
        unit_us: value_or_zero(table.unit_us.as_ref()),
        latency_us: table.latency_us.value,
        throughput_us: table.throughput_us.value,
        sharpness: table.roofline_sharpness.value,
        loop_factor: 1.0,
        traffic_us: table.traffic_us_per_byte.value * bytes as f64,
        epilogue_us: table.linked_us.value * f64::from(layer.linked.activations()) + linear_us,
        bytes,
        ..Cost::default()
    };
    Modelled { dispatch, cost }
}

/// Bytes of the weights: this kernel, unlike the convolutions, also reads 8-bit
/// weights as they are.
fn dequantised_or_packed(blocks: u64, data_type: DataType) -> u64 {
    let wide = weight_bytes(blocks, data_type);
    if data_type == DataType::I8 { wide / 2 } else { wide }
}

//! The matrix-vector kernel: four threads of a group share the dot products of
//! one output slice and combine their partial sums through local memory.

use super::conv::weight_bytes;
use super::{Cost, Dispatch, Kernel, Modelled, activations};
use crate::device::{Gpu, SLICE_BYTES, Tile};
use crate::workload::{Layer, slices};

/// Threads that share the dot products of an output slice.
const THREADS_PER_SLICE: u32 = 4;

/// `inputs` features of one pixel or token times an `inputs x outputs` matrix.
/// `linear_us` is the extra time of a fully connected layer over a 1x1 convolution.
pub(super) fn matrix_vector(
    [inputs, outputs]: [u32; 2],
    linear_us: f64,
    layer: &Layer,
    gpu: &Gpu,
) -> Modelled {
    let table = &gpu.fully_connected;
    let (source, output) = (slices(inputs), slices(outputs));
    let group = [gpu.family.rules().fully_connected_slices, THREADS_PER_SLICE, 1];
    // The grid has one row; the four threads of a slice are the rows of the group.
    let grid = [output.max(1), 1, 1];
    let dispatch = Dispatch::new(
        Kernel::FullyConnected,
        Tile::new(1, 1, 1),
        grid,
        group,
        source.div_ceil(THREADS_PER_SLICE),
    );
    let blocks = u64::from(source) * u64::from(output);
    let bytes = u64::from(source) * SLICE_BYTES
        + u64::from(output) * SLICE_BYTES
        + weight_bytes(blocks, layer.data_type);
    let cost = Cost {
        latency_us: table.latency_us.value,
        throughput_us: table.throughput_us.value,
        epilogue_us: table.linked_us.value * f64::from(activations(layer)) + linear_us,
        ..Cost::new(table.common(), bytes, bytes as f64)
    };
    Modelled { dispatch, cost }
}

//! The residual model of a launch: its features, and the scaling of its phases.

use super::{Launch, extent, weight_blocks};
use crate::device::gpu::Correction;
use crate::device::{Extent, Feature, Features, Gpu, SLICE_BYTES};
use crate::kernel::Execution;
use crate::workload::{Class, Layer, Movement, Operator, slices};

/// Added to byte counts before taking the logarithm, so that zero bytes are finite: four
/// texels of activations, or one 4x4 block of weights.
const BYTES_OFFSET: f64 = 32.0;

/// Lanes of a wave, one pixel each, on half of the GPUs in the public table.
const PIXELS_PER_WAVE: u64 = 32;

/// Periods of alignment effects in slices and in groups per compute unit: the kernels'
/// unroll and the schedulers' grouping (short), and a cache line of weights (long).
const SHORT_PERIOD: f64 = 4.0;
const LONG_PERIOD: f64 = 16.0;

/// The residual correction of a launch; `None` if the profile has no residual table for the
/// kernel.
pub fn correction(layer: &Layer, launch: &Launch, gpu: &Gpu) -> Option<Correction> {
    let table = gpu.residual.as_ref()?.of(launch.kernel.table())?;
    Some(table.correction(&features(layer, launch, gpu)))
}

/// Scales every phase of `execution` by the residual factor.
pub(super) fn apply(layer: &Layer, gpu: &Gpu, execution: &mut Execution<Launch>) {
    if let Some(correction) = correction(layer, &execution.detail, gpu) {
        let factor = correction.log_factor.exp();
        execution.phases.stretch(factor);
        execution.detail.residual_factor = Some(factor);
    }
}

/// The residual model's features of a launch.
pub fn features(layer: &Layer, launch: &Launch, gpu: &Gpu) -> Features {
    let operator = &layer.operator;
    let ((trivial, weight_bytes), (side, stride)) = (weights(operator), window(operator));
    let (input, output) = (input_of(operator), extent(operator.output()));
    let units = f64::from(gpu.compute_units);
    let groups_per_unit = f64::from(launch.groups) / units;
    let waves = f64::from(launch.waves_per_group);
    let last_waves = f64::from(launch.last_round_groups.div_ceil(gpu.compute_units)) * waves;
    let slot_waves = launch.slots.map(|slots| f64::from(slots) / units * waves);
    let threads_needed: f64 = launch.grid.iter().map(|&threads| f64::from(threads)).product();
    let threads = f64::from(launch.groups) * f64::from(launch.threads_per_group);
    let pixels = output.pixels().max(1);
    let whole = pixels.next_multiple_of(PIXELS_PER_WAVE);
    let [columns, rows, tile_slices] = launch.tile.map(f64::from);
    let linked = &layer.linked;
    let mut features = [0.0; Feature::ALL.len()];
    let mut set = |feature: Feature, value: f64| features[feature as usize] = value;
    set(Feature::InputBytes, (input.bytes() as f64 + BYTES_OFFSET).log2());
    set(Feature::OutputBytes, (output.bytes() as f64 + BYTES_OFFSET).log2());
    set(Feature::WeightBytes, (weight_bytes + BYTES_OFFSET).log2());
    set(Feature::Iterations, (f64::from(launch.iterations) + 1.0).log2());
    set(Feature::GroupsPerUnit, groups_per_unit.log2());
    set(Feature::Window, side);
    set(Feature::Stride, stride);
    set(Feature::Trivial, f64::from(u8::from(trivial)));
    set(Feature::LinkedOperand, f64::from(linked.of_two_operands().min(1)));
    set(Feature::LinkedActivation, f64::from(linked.activations().min(1)));
    set(Feature::TileTexels, (columns * rows * tile_slices).max(1.0).log2());
    set(Feature::TileSlices, tile_slices.max(1.0).log2());
    set(Feature::GroupThreads, f64::from(launch.threads_per_group).log2());
    set(Feature::GroupWaves, waves.log2());
    set(Feature::UnevenGroups, groups_per_unit.fract());
    set(Feature::LastRoundFill, slot_waves.map_or(0.0, |slots| last_waves / slots.max(1.0)));
    set(Feature::LastRoundWaves, (last_waves + 1.0).log2());
    set(Feature::MissingPixels, (whole as f64 / pixels as f64 - 1.0).min(1.0));
    set(Feature::IdleThreads, (threads / threads_needed.max(1.0)).max(1.0).log2());
    set(Feature::GroupRemainder, remainder(groups_per_unit, SHORT_PERIOD));
    set(Feature::OutputSliceRemainder, remainder(f64::from(output.slices), SHORT_PERIOD));
    set(Feature::InputSliceRemainder, remainder(f64::from(input.slices), SHORT_PERIOD));
    set(Feature::InputBlockRemainder, remainder(f64::from(input.slices), LONG_PERIOD));
    features
}

/// `count` modulo `period`, as a fraction of `period`.
fn remainder(count: f64, period: f64) -> f64 {
    (count / period).fract()
}

/// The first input. For operators that only move elements, the output: they read no more
/// than they write.
fn input_of(operator: &Operator) -> Extent {
    let output = operator.output();
    let only_moves = matches!(operator.class(), Class::Movement(_) | Class::Gather(_));
    extent(operator.input(0).filter(|_| !only_moves).unwrap_or(output))
}

/// Whether the operator runs without a window loop (pointwise, or no convolution at all),
/// and the bytes of its weights.
fn weights(operator: &Operator) -> (bool, f64) {
    let blocks = |source: u32, output: u32| {
        f64::from(slices(source)) * f64::from(slices(output)) * 4.0 * SLICE_BYTES as f64
    };
    let class = operator.class();
    if let Class::Convolution(conv) = class {
        (conv.window.is_pointwise(), weight_blocks(conv) as f64 * 4.0 * SLICE_BYTES as f64)
    } else if let Class::Depthwise(conv) = class {
        let slices = f64::from(slices(conv.input.channels));
        (false, conv.window.taps() as f64 * slices * SLICE_BYTES as f64)
    } else if let Class::Product(product) = class {
        (true, f64::from(product.batch) * blocks(product.inner, product.outputs))
    } else {
        (true, 0.0)
    }
}

/// Height and vertical stride of an operator's window; for a concatenation, its number of inputs and 1.
fn window(operator: &Operator) -> (f64, f64) {
    if let Some(window) = operator.window() {
        (f64::from(window.kernel[0]), f64::from(window.stride[0]))
    } else if let Class::Movement(Movement::Joined(concat)) = operator.class() {
        (concat.extents.len() as f64, 1.0)
    } else {
        (1.0, 1.0)
    }
}

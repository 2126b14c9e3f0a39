//! Kernels that mostly move memory: concatenation, element-wise functions,
//! softmax, normalisations, look-ups and copies.

use super::latency::Cost;
use super::select::{self, Kernel};
use super::tile::Tile;
use super::work_group::{self, Dispatch};
use super::{Extent, Modelled, saturated, value_or_zero};
use crate::device::gpu::{Gpu, GpuFamily};
use crate::workload::{CHANNELS_PER_SLICE, Concat, Layer, Linked, NormKind, Operator, slices};

/// Concatenation along channels: one thread copies all slices of one pixel.
pub(super) fn concat(concat: &Concat, layer: &Layer, gpu: &Gpu) -> Modelled {
    let table = &gpu.concat;
    let channels = concat.channels.iter().fold(0_u32, |sum, &channels| sum.saturating_add(channels));
    let output = Extent::of(concat.extent.with_channels(channels));
    let misaligned = concat.channels.iter().any(|channels| channels % CHANNELS_PER_SLICE != 0);
    let iterations = if misaligned {
        output.slices.max(1)
    } else {
        saturated(concat.channels.iter().map(|&channels| u64::from(copy_iterations(slices(channels)))).sum())
    };
    let tile = Tile::new(1, 1, output.slices.max(1));
    let grid = work_group::grid(output, tile);
    let group = work_group::generic_work_group(grid, gpu);
    let dispatch = Dispatch::new(Kernel::Concat, tile, grid, group, iterations);

    let inputs = concat.channels.len() as f64 / f64::from(iterations.max(1));
    let work = f64::from(output.slices.max(1)) / f64::from(iterations.max(1));
    let mut latency_us = table.latency_us.value
        + value_or_zero(table.latency_slice_us.as_ref()) * work
        + table.latency_input_us.value * inputs;
    let mut throughput_us = table.throughput_us.value * work + table.throughput_input_us.value * inputs;
    if misaligned {
        latency_us *= table.misaligned_latency_factor.value;
        throughput_us += table.throughput_misaligned_us.value * work;
    }
    let linked = layer.linked.additions() + layer.linked.multiplications();
    let bytes = 2 * output.bytes();
    let second_operands = f64::from(tensor_operands(&layer.linked)) * output.bytes() as f64;
    let cost = Cost {
        launch_us: table.launch_us.value,
        unit_us: value_or_zero(table.unit_us.as_ref()),
        latency_us,
        throughput_us,
        sharpness: table.roofline_sharpness.value,
        loop_factor: if linked > 0 { 1.0 + table.linked_factor.value } else { 1.0 },
        traffic_us: table.traffic_us_per_byte.value
            * (bytes as f64 + table.linked_traffic_factor.value * second_operands),
        bytes,
        ..Cost::default()
    };
    Modelled { dispatch, cost }
}

/// Tensors that the functions linked behind a concatenation read. A product and the
/// sum behind it are a normalisation by trained statistics, whose operands are a few
/// bytes a channel; every other sum adds a tensor of the output's size.
pub(super) fn tensor_operands(linked: &Linked) -> u32 {
    linked.additions().saturating_sub(linked.multiplications())
}

/// Iterations that copy one input: two slices each where their number is even.
fn copy_iterations(slices: u32) -> u32 {
    if slices.is_multiple_of(2) { slices / 2 } else { slices }
}

/// Every operator without a kernel family of its own.
///
/// The public GPU table holds no such kernels: the dispatch is the delegate's,
/// the cost a launch, a soft roofline of slice visits, and bytes.
pub(super) fn elementwise(operator: &Operator, gpu: &Gpu) -> Modelled {
    let output = Extent::of(operator.output());
    match operator {
        Operator::Softmax(softmax) => {
            let passes = select::softmax_passes(gpu.family);
            let dispatch = per_pixel(Kernel::Softmax, output, passes.saturating_mul(output.slices), gpu);
            model(dispatch, Extent::of(softmax.input).bytes() + output.bytes(), gpu)
        }
        Operator::Norm(norm) if norm.kind != NormKind::Batch => {
            let dispatch = norm_dispatch(output, gpu);
            model(dispatch, Extent::of(norm.input).bytes() + output.bytes(), gpu)
        }
        Operator::Elementwise(function) => {
            let second = function.other.map_or(0, |other| Extent::of(other).bytes());
            let dispatch = per_texel(Kernel::Elementwise, output, 1, gpu);
            model(dispatch, Extent::of(function.input).bytes() + second + output.bytes(), gpu)
        }
        Operator::Embedding(_) => model(per_texel(Kernel::Gather, output, 1, gpu), 2 * output.bytes(), gpu),
        Operator::Slice(slice) => {
            let dispatch = per_texel(Kernel::Slice, output, reads_per_texel(&[slice.first_channel]), gpu);
            model(dispatch, 2 * output.bytes(), gpu)
        }
        Operator::Reshape(reshape) => {
            let reads = reads_per_texel(&[reshape.input.channels, reshape.output.channels]);
            let dispatch = per_texel(Kernel::Reshape, output, reads, gpu);
            model(dispatch, Extent::of(reshape.input).bytes() + output.bytes(), gpu)
        }
        // A normalisation by trained statistics is a multiply-add per element.
        _ => model(per_texel(Kernel::Elementwise, output, 1, gpu), 2 * output.bytes(), gpu),
    }
}

/// Reads that gather the four channels of a texel: one where the `channels` it is
/// counted by are whole slices, else one for each channel.
fn reads_per_texel(channels: &[u32]) -> u32 {
    let whole = channels.iter().all(|channels| channels % CHANNELS_PER_SLICE == 0);
    if whole { 1 } else { CHANNELS_PER_SLICE }
}

/// One thread per slice of each pixel.
fn per_texel(kernel: Kernel, output: Extent, iterations: u32, gpu: &Gpu) -> Dispatch {
    let tile = Tile::new(1, 1, 1);
    let grid = work_group::grid(output, tile);
    Dispatch::new(kernel, tile, grid, work_group::generic_work_group(grid, gpu), iterations)
}

/// One thread per pixel, which visits slices `iterations` times.
fn per_pixel(kernel: Kernel, output: Extent, iterations: u32, gpu: &Gpu) -> Dispatch {
    let tile = Tile::new(1, 1, output.slices.max(1));
    let grid = work_group::grid(output, tile);
    Dispatch::new(kernel, tile, grid, work_group::generic_work_group(grid, gpu), iterations)
}

/// Passes of a normalisation over a pixel's channels: sums of the values and of
/// their squares, then the result.
const NORM_PASSES: u32 = 2;

/// A normalisation: the threads of a group along z share a pixel's slices.
fn norm_dispatch(output: Extent, gpu: &Gpu) -> Dispatch {
    if !select::norm_uses_group(output, gpu.family) {
        let tile = Tile::new(1, 1, output.slices.max(1));
        let iterations = NORM_PASSES.saturating_mul(output.slices);
        return Dispatch::new(Kernel::Norm, tile, work_group::grid(output, tile), [8, 8, 1], iterations);
    }
    let group = norm_group(output, gpu);
    let visits = output.slices.div_ceil(group[2]);
    let tile = Tile::new(1, 1, visits.max(1));
    let grid = [output.width.max(1), output.height.max(1), group[2]];
    Dispatch::new(Kernel::Norm, tile, grid, group, NORM_PASSES.saturating_mul(visits))
}

fn norm_group(output: Extent, gpu: &Gpu) -> [u32; 3] {
    let mut threads = norm_threads(gpu).min(gpu.max_work_group_size);
    if output.width.saturating_mul(output.height) == 1 {
        while threads >= output.slices.max(1).saturating_mul(2) {
            threads /= 2;
        }
        return [1, 1, threads];
    }
    let slices: u32 = match output.slices {
        0 | 1 => 1,
        2 => 2,
        3 | 5 | 6 | 9 => 3,
        4 | 7 | 8 | 10..=15 => 4,
        _ => 8,
    };
    let mut columns = 1;
    let mut rows = (threads / slices.next_multiple_of(4)).max(1);
    while rows > columns {
        rows /= 2;
        columns *= 2;
    }
    [columns, rows.max(1), slices]
}

/// Threads of a normalising group that the delegate wishes for.
fn norm_threads(gpu: &Gpu) -> u32 {
    match gpu.family {
        // Some members of these generations get 64 or 256.
        GpuFamily::Adreno3xx | GpuFamily::Adreno4xx | GpuFamily::Adreno5xx => 128,
        GpuFamily::Adreno6xx | GpuFamily::Adreno7xx => 256,
        GpuFamily::Amd => 512,
        GpuFamily::Generic => gpu.max_work_group_size,
        // Mali keeps local memory in main memory; NVIDIA allows no more along z.
        _ => 64,
    }
}

fn model(dispatch: Dispatch, bytes: u64, gpu: &Gpu) -> Modelled {
    let table = &gpu.elementwise;
    let cost = Cost {
        launch_us: table.launch_us.value,
        unit_us: value_or_zero(table.unit_us.as_ref()),
        latency_us: table.latency_us.value,
        throughput_us: table.throughput_us.value,
        sharpness: table.roofline_sharpness.value,
        loop_factor: 1.0,
        traffic_us: table.traffic_us_per_byte.value * bytes as f64,
        bytes,
        ..Cost::default()
    };
    Modelled { dispatch, cost }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Function;

    #[test]
    fn a_normalisation_behind_a_concatenation_reads_no_tensor() {
        let operands = |functions: &[Function]| tensor_operands(&functions.iter().copied().collect());
        assert_eq!(operands(&[Function::Add]), 1);
        assert_eq!(operands(&[Function::Multiply, Function::Add, Function::Relu]), 0);
    }

    #[test]
    fn inputs_of_an_even_number_of_slices_are_copied_two_at_a_time() {
        assert_eq!(copy_iterations(16), 8);
        assert_eq!(copy_iterations(15), 15);
    }

    #[test]
    fn a_texel_that_straddles_slices_is_gathered_channel_by_channel() {
        assert_eq!(reads_per_texel(&[64, 128]), 1);
        assert_eq!(reads_per_texel(&[64, 130]), 4);
    }
}

//! Kernels that mostly move memory: concatenation, element-wise functions,
//! softmax, normalisations, look-ups and copies.

use super::reduce::sharing_threads;
use super::{Cost, Dispatch, Kernel, Modelled, extent, latency, saturated, select};
use crate::device::{Extent, Gpu, Quantity, SLICE_BYTES, Tile};
use crate::workload::{
    CHANNELS_PER_SLICE, Concat, Definition as _, Elementwise, Function, Generic, GenericKind, Layer, Linked,
    Pick, Product, Resize, Shape, slices,
};

/// What a thread computes of a kernel with one for each slice of a pixel.
const TEXEL: Tile = Tile::new(1, 1, 1);

/// What a thread computes of a kernel with one for each pixel.
fn whole_pixel(output: Extent) -> Tile {
    Tile::new(1, 1, output.slices.max(1))
}

/// Rows looked up in a table, or a concatenation along another dimension than channels: one thread
/// looks for what has its texel, and copies that.
pub(super) fn copy(kernel: Kernel, output: Extent, gpu: &Gpu) -> Modelled {
    model(Dispatch::over(kernel, output, TEXEL, 1, gpu), 2 * output.bytes(), gpu)
}

/// Concatenation along channels: one thread copies all slices of one pixel.
pub(super) fn concat(concat: &Concat, layer: &Layer, gpu: &Gpu) -> Modelled {
    let table = &gpu.concat;
    let channels = concat.extents.iter().fold(0_u32, |sum, &channels| sum.saturating_add(channels));
    let output = extent(concat.extent.with_channels(channels));
    let misaligned = concat.extents.iter().any(|channels| channels % CHANNELS_PER_SLICE != 0);
    let iterations = if misaligned {
        output.slices.max(1)
    } else {
        saturated(concat.extents.iter().map(|&channels| u64::from(copy_iterations(slices(channels)))).sum())
    };
    let dispatch = Dispatch::over(Kernel::Concat, output, whole_pixel(output), iterations, gpu);

    let inputs = concat.extents.len() as f64 / f64::from(iterations.max(1));
    let work = f64::from(output.slices.max(1)) / f64::from(iterations.max(1));
    let mut latency_us = table.latency_us.value
        + Quantity::or_zero(table.latency_slice_us.as_ref()) * work
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
        latency_us,
        throughput_us,
        loop_factor: if linked > 0 { 1.0 + table.linked_factor.value } else { 1.0 },
        ..Cost::new(table.common(), bytes, bytes as f64 + table.linked_traffic_factor.value * second_operands)
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

// The public GPU table holds none of the kernels below: the dispatch is the delegate's,
// the cost a launch, a soft roofline of slice visits, and bytes.

/// A softmax over each pixel's channels.
pub(super) fn softmax(shape: Shape, gpu: &Gpu) -> Modelled {
    let (output, rules) = (extent(shape), gpu.family.rules());
    if select::softmax_uses_group(shape) {
        return model(shared_softmax(output, gpu), 2 * output.bytes(), gpu);
    }
    let iterations = rules.softmax_passes.saturating_mul(output.slices);
    let dispatch = Dispatch::over(Kernel::Softmax, output, whole_pixel(output), iterations, gpu);
    model(dispatch, 2 * output.bytes(), gpu)
}

/// Passes of a shared softmax that all threads of a pixel take part in: maximum and sum.
const SHARED_SOFTMAX_PASSES: u32 = 2;

/// A softmax whose pixels each have groups of their own: every one of these finds maximum and sum
/// again, and each of its threads then writes a slice.
fn shared_softmax(output: Extent, gpu: &Gpu) -> Dispatch {
    let slices = output.slices.max(1);
    let mut threads = gpu.family.rules().softmax_threads;
    while threads > 1 && (threads >= slices.saturating_mul(2) || threads >= gpu.max_work_group_size) {
        threads /= 2;
    }
    let iterations = SHARED_SOFTMAX_PASSES.saturating_mul(slices.div_ceil(threads)).saturating_add(1);
    let grid = [slices, output.columns().max(1), output.height.max(1)];
    Dispatch::new(Kernel::Softmax1x1, TEXEL, grid, [threads, 1, 1], iterations)
}

/// A normalisation for which the delegate has no kernel: so many launches in which a thread sums a
/// pixel, and of functions of each element.
pub(super) fn norm_in_steps(shape: Shape, [sums, functions]: [u32; 2], gpu: &Gpu) -> Modelled {
    let pixels = shape.with_channels(1);
    let (read, written) = (extent(shape), extent(pixels));
    let sum = Dispatch::over(Kernel::Elementwise, written, TEXEL, read.slices, gpu);
    let sum = model(sum, read.bytes() + written.bytes(), gpu);
    let function = Elementwise { function: Function::Multiply, input: shape, other: Some(pixels) };
    let mut last = elementwise(&function, gpu);
    let functions = functions.saturating_sub(1);
    last.cost.transform_us =
        f64::from(sums) * alone_us(&sum, gpu) + f64::from(functions) * alone_us(&last, gpu);
    last.cost.bytes += u64::from(sums) * sum.cost.bytes + u64::from(functions) * last.cost.bytes;
    last
}

/// A function of one tensor, or of two.
pub(super) fn elementwise(function: &Elementwise, gpu: &Gpu) -> Modelled {
    let output = extent(function.input);
    let second = function.other.map_or(0, |other| extent(other).bytes());
    model(Dispatch::over(Kernel::Elementwise, output, TEXEL, 1, gpu), 2 * output.bytes() + second, gpu)
}

/// Elements moved from one position to another: a thread writes a texel, of one that it reads
/// where the channels stay together by four.
pub(super) fn pick(kernel: Kernel, pick: &Pick, output: Shape, gpu: &Gpu) -> Modelled {
    let reads = if pick.moves_whole_texels() { 1 } else { CHANNELS_PER_SLICE };
    // A range reads no more than it writes.
    let input = pick.input.images(pick.images);
    let read = if input.elements() > output.elements() { output } else { input };
    let (read, output) = (extent(read), extent(output));
    model(Dispatch::over(kernel, output, TEXEL, reads, gpu), read.bytes() + output.bytes(), gpu)
}

/// An image of another size: a thread mixes the texels of one.
pub(super) fn resize(resize: &Resize, gpu: &Gpu) -> Modelled {
    let (input, output) = (extent(resize.input), extent(resize.output()));
    let taps = resize.interpolation.taps();
    let read = (u64::from(taps) * output.bytes()).min(input.bytes());
    model(Dispatch::over(Kernel::Resize, output, TEXEL, taps, gpu), read + output.bytes(), gpu)
}

/// An operator without a kernel of its own: one thread a texel of the output, which reads as many
/// texels as it has to visit for it; of a reduction of many, a group.
pub(super) fn generic(generic: &Generic, gpu: &Gpu) -> Modelled {
    let output = extent(generic.output);
    let texels = output.bytes() / SLICE_BYTES;
    let visits = generic.visited().div_ceil(u64::from(CHANNELS_PER_SLICE)).div_ceil(texels.max(1));
    let visits = saturated(visits.max(1));
    let limits = gpu.family.rules().reduction_threads;
    let threads = (generic.kind == GenericKind::Reduction).then(|| sharing_threads(visits, limits)).flatten();
    let dispatch = match threads {
        Some(threads) => {
            let grid =
                [output.columns().max(1).saturating_mul(threads), output.height.max(1), output.slices.max(1)];
            Dispatch::new(Kernel::Generic, TEXEL, grid, [threads, 1, 1], visits.div_ceil(threads))
        }
        None => Dispatch::over(Kernel::Generic, output, TEXEL, visits, gpu),
    };
    model(dispatch, generic.moved_as(|shape| extent(*shape).bytes()), gpu)
}

/// Elements under another extent.
pub(super) fn reshape(input: Shape, output: Shape, gpu: &Gpu) -> Modelled {
    let reads = reads_per_texel(&[input.channels, output.channels]);
    let (input, output) = (extent(input), extent(output));
    model(Dispatch::over(Kernel::Reshape, output, TEXEL, reads, gpu), input.bytes() + output.bytes(), gpu)
}

/// Reads that gather the four channels of a texel: one where the `channels` it is
/// counted by are whole slices, else one for each channel.
fn reads_per_texel(channels: &[u32]) -> u32 {
    let whole = channels.iter().all(|channels| channels % CHANNELS_PER_SLICE == 0);
    if whole { 1 } else { CHANNELS_PER_SLICE }
}

/// Passes of a normalisation over a pixel's channels: sums of the values and of
/// their squares, then the result.
const NORM_PASSES: u32 = 2;

/// A normalisation by each pixel's statistics: where threads share a pixel, those of a group along z
/// share its slices.
pub(super) fn norm(output: Extent, gpu: &Gpu) -> Modelled {
    let dispatch = if select::norm_uses_group(output, gpu.family.rules()) {
        let group = norm_group(output, gpu);
        let visits = output.slices.div_ceil(group[2]);
        let tile = Tile::new(1, 1, visits.max(1));
        let grid = [output.columns().max(1), output.height.max(1), group[2]];
        Dispatch::new(Kernel::Norm, tile, grid, group, NORM_PASSES.saturating_mul(visits))
    } else {
        let iterations = NORM_PASSES.saturating_mul(output.slices);
        Dispatch::over(Kernel::Norm, output, whole_pixel(output), iterations, gpu)
    };
    model(dispatch, 2 * output.bytes(), gpu)
}

fn norm_group(output: Extent, gpu: &Gpu) -> [u32; 3] {
    let most = gpu.max_work_group_size;
    let mut threads = gpu.family.rules().norm_threads.map_or(most, |threads| threads.min(most));
    if output.pixels() == 1 {
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

/// Adds the launches around a product of two activations: in front one that rearranges the right operand
/// into the layout of weights; of several images also one that makes the left operand an image, and one
/// behind that makes several of the result.
pub(super) fn rearrange_operands(cost: &mut Cost, product: Product, gpu: &Gpu) {
    let Product { images, batch, rows, inner, outputs, .. } = product;
    cost.transform_us = weights_converter_us([inner, outputs], batch, gpu);
    if images > 1 {
        let one = |channels| Shape { batch: 1, height: batch, width: rows, channels };
        let several = |channels| Shape { batch: images, height: batch / images, ..one(channels) };
        for (from, to) in [(several(inner), one(inner)), (one(outputs), several(outputs))] {
            let launch = reshape(from, to, gpu);
            cost.transform_us += alone_us(&launch, gpu);
            cost.bytes += launch.cost.bytes;
        }
    }
}

/// A launch in which a thread turns four texels.
fn weights_converter_us([inner, outputs]: [u32; 2], batch: u32, gpu: &Gpu) -> f64 {
    let blocks = Extent { batch: 1, width: slices(outputs), height: slices(inner), slices: batch };
    let bytes = 2 * u64::from(CHANNELS_PER_SLICE) * blocks.bytes();
    let dispatch = Dispatch::over(Kernel::MatMul, blocks, TEXEL, CHANNELS_PER_SLICE, gpu);
    alone_us(&model(dispatch, bytes, gpu), gpu)
}

/// What a launch in front of another takes.
fn alone_us(launch: &Modelled, gpu: &Gpu) -> f64 {
    latency::execution(&launch.dispatch, &launch.cost, 0, gpu).phases.duration().as_micros()
}

fn model(dispatch: Dispatch, bytes: u64, gpu: &Gpu) -> Modelled {
    let table = &gpu.elementwise;
    let cost = Cost {
        latency_us: table.latency_us.value,
        throughput_us: table.throughput_us.value,
        ..Cost::new(table.common(), bytes, bytes as f64)
    };
    Modelled { dispatch, cost }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::gpu::execute;
    use crate::workload::{DataType, GenericKind, Norm, NormKind};

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

    #[test]
    fn a_norm_by_mean_squares_takes_three_launches_but_in_engines_of_language_models() {
        let gpu = crate::device::profile::Profile::load("pixel4").unwrap().gpu.unwrap();
        let micros = |kind, data_type| {
            let norm = Norm { kind, input: Shape::tokens(64, 512) };
            execute(&Layer::new(norm.into(), data_type), &gpu).unwrap().phases.duration().as_micros()
        };
        let launch = gpu.elementwise.launch_us.value;
        let [layer, rms, steps] =
            [NormKind::Layer, NormKind::Rms, NormKind::LayerInSteps].map(|kind| micros(kind, DataType::F32));
        assert!(rms > layer + launch && steps > rms + 3.0 * launch, "{layer} {rms} {steps}");
        let [rms, layer] = [NormKind::Rms, NormKind::Layer].map(|kind| micros(kind, DataType::W4A16));
        assert!((rms - layer).abs() < 1e-9);
    }

    #[test]
    fn an_operator_without_a_kernel_reads_as_many_texels_as_it_visits_for_one_of_its_output() {
        let gpu = crate::device::profile::Profile::load("pixel4").unwrap().gpu.unwrap();
        let inputs = vec![Shape::image(8, 8, 32)];
        let of = |kind, passes| {
            let reduction = Generic { kind, inputs: inputs.clone(), output: Shape::image(1, 1, 32), passes };
            generic(&reduction, &gpu).dispatch.iterations
        };
        assert_eq!(of(GenericKind::Reduction, 1), 64);
        assert_eq!(of(GenericKind::Reduction, 3), 192);
        assert_eq!(of(GenericKind::Gather, 1), 1);
    }
}

//! Memory-bound kernels: concatenation, element-wise functions, softmax,
//! normalisations, look-ups and copies.

use super::reduce::sharing_threads;
use super::{Cost, Dispatch, Kernel, Modelled, extent, latency, saturated, select};
use crate::device::{Extent, Gpu, Quantity, SLICE_BYTES, Tile};
use crate::workload::{
    CHANNELS_PER_SLICE, Concat, Definition as _, Elementwise, Function, Generic, GenericKind, Layer, Linked,
    Pick, Product, Resize, Shape, slices,
};

/// Tile of a kernel with one thread per texel, that is per slice of a pixel.
const TEXEL: Tile = Tile::new(1, 1, 1);

/// Tile of a kernel with one thread per pixel.
fn whole_pixel(output: Extent) -> Tile {
    Tile::new(1, 1, output.slices.max(1))
}

/// Look-up of table rows, or concatenation along a dimension other than channels: each thread finds the
/// source of its texel and copies it.
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

/// Output-sized tensors that functions linked to a concatenation read. A multiplication with
/// the addition after it is a batch normalisation, whose operands are a few bytes per
/// channel; every other addition reads a whole tensor.
pub(super) fn tensor_operands(linked: &Linked) -> u32 {
    linked.additions().saturating_sub(linked.multiplications())
}

/// Iterations that copy one input: two slices per iteration if their number is even, else one.
fn copy_iterations(slices: u32) -> u32 {
    if slices.is_multiple_of(2) { slices / 2 } else { slices }
}

// The public GPU table has no measurements of the kernels below: their dispatch is the
// delegate's, their cost a launch, a soft roofline of slice visits, and memory traffic.

/// A softmax over each pixel's channels.
pub(super) fn softmax(shape: Shape, gpu: &Gpu) -> Modelled {
    let (output, rules) = (extent(shape), gpu.family.rules());
    if select::softmax_uses_group(shape) {
        return model(softmax_1x1(output, gpu), 2 * output.bytes(), gpu);
    }
    let iterations = rules.softmax_passes.saturating_mul(output.slices);
    let dispatch = Dispatch::over(Kernel::Softmax, output, whole_pixel(output), iterations, gpu);
    model(dispatch, 2 * output.bytes(), gpu)
}

/// Reductions of `softmax1x1` over all slices of a pixel: maximum and sum.
const SOFTMAX_1X1_REDUCTIONS: u32 = 2;

/// `softmax1x1`: every work-group of a pixel repeats both reductions over all slices, then each thread
/// writes one slice.
fn softmax_1x1(output: Extent, gpu: &Gpu) -> Dispatch {
    let slices = output.slices.max(1);
    let mut threads = gpu.family.rules().softmax_threads;
    while threads > 1 && (threads >= slices.saturating_mul(2) || threads >= gpu.max_work_group_size) {
        threads /= 2;
    }
    let iterations = SOFTMAX_1X1_REDUCTIONS.saturating_mul(slices.div_ceil(threads)).saturating_add(1);
    let grid = [slices, output.columns().max(1), output.height.max(1)];
    Dispatch::new(Kernel::Softmax1x1, TEXEL, grid, [threads, 1, 1], iterations)
}

/// A normalisation without a fused kernel: `sums` launches of one thread per pixel, which sums its
/// channels, and `functions` element-wise launches. The modelled dispatch is the last one's.
pub(super) fn decomposed_norm(shape: Shape, [sums, functions]: [u32; 2], gpu: &Gpu) -> Modelled {
    let pixels = shape.with_channels(1);
    let (read, written) = (extent(shape), extent(pixels));
    let sum = Dispatch::over(Kernel::Elementwise, written, TEXEL, read.slices, gpu);
    let sum = model(sum, read.bytes() + written.bytes(), gpu);
    let function = Elementwise { function: Function::Multiply, input: shape, other: Some(pixels) };
    let mut last = elementwise(&function, gpu);
    let functions = functions.saturating_sub(1);
    last.cost.transform_us = f64::from(sums) * separate_launch_us(&sum, gpu)
        + f64::from(functions) * separate_launch_us(&last, gpu);
    last.cost.bytes += u64::from(sums) * sum.cost.bytes + u64::from(functions) * last.cost.bytes;
    last
}

/// An element-wise function of one or two tensors.
pub(super) fn elementwise(function: &Elementwise, gpu: &Gpu) -> Modelled {
    let output = extent(function.input);
    let second = function.other.map_or(0, |other| extent(other).bytes());
    model(Dispatch::over(Kernel::Elementwise, output, TEXEL, 1, gpu), 2 * output.bytes() + second, gpu)
}

/// A permutation or selection of elements: each thread writes one texel. It reads one if the four
/// channels stay together, else one per channel.
pub(super) fn pick(kernel: Kernel, pick: &Pick, output: Shape, gpu: &Gpu) -> Modelled {
    let reads = if pick.moves_whole_texels() { 1 } else { CHANNELS_PER_SLICE };
    // A slice reads only the elements it writes.
    let input = pick.input.images(pick.images);
    let read = if input.elements() > output.elements() { output } else { input };
    let (read, output) = (extent(read), extent(output));
    model(Dispatch::over(kernel, output, TEXEL, reads, gpu), read.bytes() + output.bytes(), gpu)
}

/// A resized image: each thread interpolates one texel.
pub(super) fn resize(resize: &Resize, gpu: &Gpu) -> Modelled {
    let (input, output) = (extent(resize.input), extent(resize.output()));
    let taps = resize.interpolation.taps();
    let read = (u64::from(taps) * output.bytes()).min(input.bytes());
    model(Dispatch::over(Kernel::Resize, output, TEXEL, taps, gpu), read + output.bytes(), gpu)
}

/// An operator without a specific kernel: one thread per output texel, which reads every texel that the
/// output depends on. Long reductions use a work-group per output texel.
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

/// The same elements in another shape.
pub(super) fn reshape(input: Shape, output: Shape, gpu: &Gpu) -> Modelled {
    let reads = reads_per_texel(&[input.channels, output.channels]);
    let (input, output) = (extent(input), extent(output));
    model(Dispatch::over(Kernel::Reshape, output, TEXEL, reads, gpu), input.bytes() + output.bytes(), gpu)
}

/// Reads per output texel of a reshape: one if all `channels` counts are whole slices, else one per
/// channel.
fn reads_per_texel(channels: &[u32]) -> u32 {
    let whole = channels.iter().all(|channels| channels % CHANNELS_PER_SLICE == 0);
    if whole { 1 } else { CHANNELS_PER_SLICE }
}

/// Passes of a normalisation over a pixel's channels: one for the statistics (sum and sum of
/// squares), one for the result.
const NORM_PASSES: u32 = 2;

/// A normalisation by each pixel's statistics: either the z axis of a work-group shares a pixel's
/// slices, or one thread handles a whole pixel.
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

/// Adds the launches around a product of two activations: the converter that brings the right operand
/// into the weight layout and, with several images, a reshape that merges those of the left operand and
/// one that splits the result.
pub(super) fn rearrange_operands(cost: &mut Cost, product: Product, gpu: &Gpu) {
    let Product { images, batch, rows, inner, outputs, .. } = product;
    cost.transform_us = weights_converter_us([inner, outputs], batch, gpu);
    if images > 1 {
        let one = |channels| Shape { batch: 1, height: batch, width: rows, channels };
        let several = |channels| Shape { batch: images, height: batch / images, ..one(channels) };
        for (from, to) in [(several(inner), one(inner)), (one(outputs), several(outputs))] {
            let launch = reshape(from, to, gpu);
            cost.transform_us += separate_launch_us(&launch, gpu);
            cost.bytes += launch.cost.bytes;
        }
    }
}

/// Time of the weights converter, in microseconds: each thread transposes a 4x4 block (four texels).
fn weights_converter_us([inner, outputs]: [u32; 2], batch: u32, gpu: &Gpu) -> f64 {
    let blocks = Extent { batch: 1, width: slices(outputs), height: slices(inner), slices: batch };
    let bytes = 2 * u64::from(CHANNELS_PER_SLICE) * blocks.bytes();
    let dispatch = Dispatch::over(Kernel::MatMul, blocks, TEXEL, CHANNELS_PER_SLICE, gpu);
    separate_launch_us(&model(dispatch, bytes, gpu), gpu)
}

/// Time of a launch of its own, including its overhead, in microseconds.
fn separate_launch_us(launch: &Modelled, gpu: &Gpu) -> f64 {
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
    fn a_batch_norm_linked_to_a_concatenation_reads_no_tensor() {
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
    fn an_rms_norm_takes_three_launches_except_in_language_model_engines() {
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
    fn an_operator_without_a_kernel_reads_all_texels_that_an_output_texel_depends_on() {
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

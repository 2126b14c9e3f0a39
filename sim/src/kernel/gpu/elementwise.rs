//! Memory-bound kernels: concatenation, element-wise functions, softmax,
//! normalisations, look-ups and copies.

use super::reduce::sharing_threads;
use super::{Cost, Dispatch, Kernel, Modelled, extent, saturated, select};
use crate::device::{Extent, Gpu, Quantity, SLICE_BYTES, Tile};
use crate::workload::{
    CHANNELS_PER_SLICE, Concat, Definition as _, Elementwise, Function, Generic, GenericKind, Layer, Pick,
    Product, Resize, Shape, slices,
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
    let bytes = 2 * output.bytes();
    let operands = layer.linked.operand_tensors(layer.operator.output());
    let second_operands = operands * output.bytes() as f64;
    let cost = Cost {
        latency_us,
        throughput_us,
        loop_factor: if layer.linked.of_two_operands() > 0 { 1.0 + table.linked_factor.value } else { 1.0 },
        ..Cost::new(table.common(), bytes, bytes as f64 + table.linked_traffic_factor.value * second_operands)
    };
    Modelled { dispatch, cost }
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

/// A normalisation without a fused kernel: `sums` launches, each of which sums the channels of every
/// pixel, and `functions` element-wise launches. The modelled dispatch is the last one's.
pub(super) fn decomposed_norm(shape: Shape, [sums, functions]: [u32; 2], gpu: &Gpu) -> Modelled {
    let pixels = shape.with_channels(1);
    let (read, written) = (extent(shape), extent(pixels));
    let sum = reduction(Kernel::Elementwise, written, read.slices, gpu);
    let sum = model(sum, read.bytes() + written.bytes(), gpu);
    let function = Elementwise { function: Function::Multiply, input: shape, other: Some(pixels) };
    let function = elementwise(&function, gpu);
    let mut last = function;
    last.cost.add_launches(&sum, sums, gpu);
    last.cost.add_launches(&function, functions.saturating_sub(1), gpu);
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

/// A reduction of `visits` texels to each texel of `output`: one thread per output texel, or a work-group
/// if there are many.
fn reduction(kernel: Kernel, output: Extent, visits: u32, gpu: &Gpu) -> Dispatch {
    let Some(threads) = sharing_threads(visits, gpu.family.rules().reduction_threads) else {
        return Dispatch::over(kernel, output, TEXEL, visits, gpu);
    };
    let grid = [output.columns().max(1).saturating_mul(threads), output.height.max(1), output.slices.max(1)];
    Dispatch::new(kernel, TEXEL, grid, [threads, 1, 1], visits.div_ceil(threads))
}

/// An operator without a specific kernel: a thread reads every texel that an output texel depends on,
/// except for reductions, which have a rule.
pub(super) fn generic(generic: &Generic, gpu: &Gpu) -> Modelled {
    let output = extent(generic.output);
    let texels = output.bytes() / SLICE_BYTES;
    let visits = generic.visited().div_ceil(u64::from(CHANNELS_PER_SLICE)).div_ceil(texels.max(1));
    let visits = saturated(visits.max(1));
    let dispatch = if matches!(generic.kind, GenericKind::Reduction | GenericKind::Transform) {
        reduction(Kernel::Generic, output, visits, gpu)
    } else {
        Dispatch::over(Kernel::Generic, output, TEXEL, visits, gpu)
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
    if (output.width, output.height) == (1, 1) {
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
    cost.add_launches(&weights_converter([inner, outputs], batch, gpu), 1, gpu);
    if images > 1 {
        let one = |channels| Shape { batch: 1, height: batch, width: rows, channels };
        let several = |channels| Shape { batch: images, height: batch / images, ..one(channels) };
        for (from, to) in [(several(inner), one(inner)), (one(outputs), several(outputs))] {
            cost.add_launches(&reshape(from, to, gpu), 1, gpu);
        }
    }
}

/// The weights converter: each thread transposes a 4x4 block (four texels).
fn weights_converter([inner, outputs]: [u32; 2], batch: u32, gpu: &Gpu) -> Modelled {
    let blocks = Extent { batch: 1, width: slices(outputs), height: slices(inner), slices: batch };
    let bytes = 2 * u64::from(CHANNELS_PER_SLICE) * blocks.bytes();
    model(Dispatch::over(Kernel::MatMul, blocks, TEXEL, CHANNELS_PER_SLICE, gpu), bytes, gpu)
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
    use crate::workload::{DataType, GenericKind, Norm, NormKind, SecondOperand};

    fn pixel4() -> Gpu {
        crate::device::profile::Profile::load("pixel4").unwrap().gpu.unwrap()
    }

    fn micros(operator: impl Into<crate::workload::Operator>) -> f64 {
        let layer = Layer::new(operator.into(), DataType::F32);
        execute(&layer, &pixel4()).unwrap().phases.duration().as_micros()
    }

    #[test]
    fn the_rules_for_few_pixels_are_of_one_image() {
        let batch = |batch, width| Shape { batch, ..Shape::tokens(width, 512) };
        assert!(select::softmax_uses_group(batch(8, 200)) && !select::softmax_uses_group(batch(1, 300)));
        let [one, eight] = [1, 8].map(|count| norm_group(extent(batch(count, 1)), &pixel4()));
        assert_eq!(one, eight);
    }

    #[test]
    fn a_norm_sums_channels_as_any_reduction_does() {
        let (input, pixels) = (Shape::tokens(64, 4096), Shape::tokens(64, 1));
        let kind = GenericKind::Reduction;
        let sum = Generic { kind, inputs: vec![input], output: pixels, passes: 1 };
        let function = Elementwise { function: Function::Multiply, input, other: Some(pixels) };
        let parts = micros(sum) + 2.0 * micros(function);
        assert!((micros(Norm { kind: NormKind::Rms, input }) - parts).abs() < 1e-5);
    }

    #[test]
    fn a_linked_function_reads_its_second_operand_unless_it_is_broadcast() {
        let input = Shape::image(112, 112, 64);
        let sigmoid = Elementwise { function: Function::Sigmoid, input, other: None };
        let alone = Layer::new(sigmoid.into(), DataType::F32);
        let linked = |operand| {
            let mut layer = alone.clone();
            assert!(layer.linked.push(Function::Multiply, operand));
            layer
        };
        let [alone, broadcast, linked] =
            [alone.clone(), linked(SecondOperand::PER_CHANNEL), linked(SecondOperand::WHOLE)]
                .map(|layer| execute(&layer, &pixel4()).unwrap().phases.duration().as_micros());
        let tensor_us = pixel4().elementwise.traffic_us_per_byte.value * extent(input).bytes() as f64;
        assert!((broadcast - alone).abs() < 1e-9 && tensor_us > 1.0);
        assert!((linked - alone - tensor_us).abs() < 1e-5, "{alone} {linked}");
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
        let inputs = vec![Shape::image(4, 4, 32)];
        let of = |kind, passes| {
            let reduction = Generic { kind, inputs: inputs.clone(), output: Shape::image(1, 1, 32), passes };
            generic(&reduction, &gpu).dispatch.iterations
        };
        assert_eq!(of(GenericKind::Reduction, 1), 16);
        assert_eq!(of(GenericKind::Reduction, 3), 48);
        assert_eq!(of(GenericKind::Gather, 1), 1);
    }
}

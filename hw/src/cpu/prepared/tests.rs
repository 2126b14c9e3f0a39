//! Every operator against the reference, on every instruction set of this processor.

mod parts;
mod refusals;

use coexec_sim::Region;
use coexec_sim::workload::{
    Concat, DataType, Dimension, Elementwise, Embedding, Generic, GenericKind, Interpolation, Linear, Linked,
    LocalResponseNorm, MatMul, Mean, Norm, NormKind, Pad, Padding, Pool, PoolKind, Reshape, SecondOperand,
    Slice, Softmax, Transpose, Window,
};
use half::f16;
use proptest::prelude::*;
use proptest::sample::select;

use super::*;
use crate::cpu::thread_pool::ThreadPool;
use crate::cpu::{available_sets, widest_set};
use crate::operands::{check_part, weight_counts};
use crate::verify::Reference;

/// Cases per property, unless `PROPTEST_CASES` asks for fewer (under emulation).
const CASES: u32 = 48;
/// Fill value before a run: it must be gone from the computed part and remain everywhere else.
const UNTOUCHED: f32 = -77.0;

/// A permutation that moves every dimension.
const PERMUTED: [Dimension; 4] = [Dimension::Channels, Dimension::Batch, Dimension::Height, Dimension::Width];

/// Pseudo-random numbers in [-1, 1) (linear congruential), exact in `f16`.
fn numbers(count: usize, seed: u32) -> Vec<f32> {
    let mut state = seed;
    let number = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 23) as f32 / 256.0 - 1.0
    };
    std::iter::repeat_with(number).take(count).collect()
}

/// Least magnitude of a linked function's operand: quotients by near-zero values lose all
/// significant digits.
const MIN_OPERAND: f32 = 0.25;

fn inputs_of(layer: &Layer) -> Vec<Vec<f32>> {
    let operator = &layer.operator;
    let count = operator.inputs().len();
    let mut inputs: Vec<Vec<f32>> = layer
        .read_shapes()
        .enumerate()
        .map(|(n, shape)| numbers(shape.elements() as usize, n as u32))
        .collect();
    for value in inputs[count..].iter_mut().flatten() {
        *value = (MIN_OPERAND + (1.0 - MIN_OPERAND) * value.abs()).copysign(*value);
    }
    if let Operator::Embedding(table) = operator {
        for (index, input) in inputs[0].iter_mut().enumerate() {
            *input = (index as u32 * 7 % table.vocabulary) as f32;
        }
    }
    inputs
}

/// Runs `part` of a layer and compares it with the reference; elements outside must stay untouched.
fn check<T: Element>(layer: &Layer, part: Region, threads: usize, set: InstructionSet) {
    let layer = &Layer { data_type: T::DATA_TYPE, ..layer.clone() };
    let [kernel, bias] = weight_counts(&layer.operator);
    let (kernel, bias) = (numbers(kernel, 91), numbers(bias, 92));
    let weights = Weights { kernel: &kernel, bias: &bias };
    let inputs = inputs_of(layer);
    let converted: Vec<Vec<T>> = inputs.iter().map(|input| super::converted(input)).collect();
    let operands: Vec<&[T]> = converted.iter().map(Vec::as_slice).collect();
    let channels = layer.operator.output().channels as usize;
    let mut output = vec![T::from_f32(UNTOUCHED); layer.operator.output().elements() as usize];
    let mut pool = ThreadPool::new(threads).unwrap();
    let mut prepared = Prepared::<T>::new(layer, &weights, set).unwrap();
    // Twice, so that a second run does not depend on what the first left.
    for _ in 0..2 {
        prepared.run(&mut pool, &operands, &mut output, part).unwrap();
    }
    let inputs: Vec<&[f32]> = inputs.iter().map(Vec::as_slice).collect();
    let reference = Reference::new(layer, weights, &inputs).unwrap();
    let compared = reference.compare(&output, part, 1).unwrap_or_else(|error| panic!("{set}: {error}"));
    let touched = output.iter().filter(|value| value.to_f32().to_bits() != UNTOUCHED.to_bits()).count();
    assert_eq!(touched, compared, "{set}: elements outside {part:?} of {channels} channels changed");
}

fn check_all(layer: &Layer, part: Region, threads: usize) {
    layer_is_valid(layer);
    for set in available_sets() {
        check::<f32>(layer, part, threads, set);
    }
}

fn layer_is_valid(layer: &Layer) {
    layer.operator.check().unwrap();
}

fn layer(operator: Operator, linked: &[Function]) -> Layer {
    let linked: Linked = linked.iter().copied().collect();
    Layer { linked, ..Layer::new(operator, DataType::F32) }
}

/// The part whose ends are at these fractions of the channels and rows.
fn part(operator: &Operator, channels: [f64; 2], lines: [f64; 2]) -> Region {
    let whole = Region::of(operator.output());
    let range = |count: u32, [a, b]: [f64; 2]| {
        let at = |fraction: f64| (fraction * f64::from(count + 1)) as u32;
        at(a.min(b))..at(a.max(b)).min(count)
    };
    let part = Region {
        channels: range(whole.channels.end, channels).into(),
        rows: range(whole.rows.end, lines).into(),
    };
    if check_part(operator, part).is_ok() { part } else { whole }
}

fn fractions() -> impl Strategy<Value = [f64; 2]> {
    prop_oneof![Just([0.0, 0.999_999]), [0.0..1.0_f64, 0.0..1.0]]
}

fn activations() -> impl Strategy<Value = Vec<Function>> {
    use Function::{
        Add, Divide, Gelu, HardSigmoid, HardSwish, Multiply, Prelu, Relu, Relu6, Sigmoid, Silu, Tanh,
    };
    prop_oneof![
        Just(vec![]),
        Just(vec![Relu]),
        Just(vec![Relu6, Tanh]),
        Just(vec![Add, Relu, HardSwish]),
        Just(vec![Multiply, Silu, Add, Gelu]),
        Just(vec![Sigmoid, HardSigmoid]),
        Just(vec![Prelu, Divide]),
    ]
}

prop_compose! {
    fn windows()(
        kernel in [1_u32..5, 1_u32..5],
        stride in [1_u32..4, 1_u32..4],
        dilation in [1_u32..3, 1_u32..3],
        pads in [0_u32..3, 0_u32..3, 0_u32..3, 0_u32..3],
        extra in [0_u32..9, 0_u32..9],
    ) -> ([u32; 2], [u32; 2], [u32; 2], Padding, [u32; 2]) {
        let [top, bottom, left, right] = pads;
        let reach = |axis: usize| dilation[axis] * (kernel[axis] - 1) + 1;
        let extent = [reach(0) + extra[0], reach(1) + extra[1]];
        (kernel, stride, dilation, Padding { top, bottom, left, right }, extent)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(CASES.min(ProptestConfig::default().cases)))]

    #[test]
    fn linear_layers_agree(
        (rows, inputs, outputs) in (1_u32..40, 1_u32..700, 1_u32..90),
        bias: bool,
        linked in activations(),
        (channels, lines) in (fractions(), fractions()),
        threads in 1_usize..4,
    ) {
        let linear = Linear { rows, input_features: inputs, output_features: outputs, bias };
        let layer = layer(Operator::Linear(linear), &linked);
        check_all(&layer, part(&layer.operator, channels, lines), threads);
    }

    #[test]
    fn convolutions_agree(
        (kernel, stride, dilation, padding, [height, width]) in windows(),
        (batch, groups, inputs, outputs) in (1_u32..3, 1_u32..4, 1_u32..20, 1_u32..30),
        linked in activations(),
        (channels, lines) in (fractions(), fractions()),
        threads in 1_usize..4,
    ) {
        let conv = Conv2d::new(Shape { batch, height, width, channels: inputs * groups }, outputs * groups, Window { kernel, stride, dilation, padding }).groups(groups);
        let layer = layer(Operator::Conv2d(conv), &linked);
        check_all(&layer, part(&layer.operator, channels, lines), threads);
    }

    #[test]
    fn depthwise_convolutions_agree(
        (kernel, stride, dilation, padding, [height, width]) in windows(),
        (batch, inputs, multiplier) in (1_u32..3, 1_u32..50, 1_u32..3),
        bias: bool,
        linked in activations(),
        (channels, lines) in (fractions(), fractions()),
        threads in 1_usize..4,
    ) {
        let conv = DepthwiseConv2d::new(Shape { batch, height, width, channels: inputs }, Window { kernel, stride, dilation, padding }).multiplier(multiplier).bias(bias);
        let layer = layer(Operator::DepthwiseConv2d(conv), &linked);
        check_all(&layer, part(&layer.operator, channels, lines), threads);
    }

    #[test]
    fn pooling_windows_agree(
        (kernel, stride, _, padding, [height, width]) in windows(),
        (batch, channel_count) in (1_u32..3, 1_u32..40),
        kind in select(vec![PoolKind::Max, PoolKind::Average]),
        (channels, lines) in (fractions(), fractions()),
        threads in 1_usize..4,
    ) {
        // A window entirely in the padding has no defined result.
        let inside = |pad: u32, kernel: u32| pad.min(kernel - 1);
        let padding = Padding {
            top: inside(padding.top, kernel[0]), bottom: inside(padding.bottom, kernel[0]),
            left: inside(padding.left, kernel[1]), right: inside(padding.right, kernel[1]),
        };
        let input = Shape { batch, height, width, channels: channel_count };
        let pool = Pool { kind, input, window: Window { stride, ..Window::of(kernel).padding(padding) } };
        let layer = layer(Operator::Pool(pool), &[Function::Relu]);
        check_all(&layer, part(&layer.operator, channels, lines), threads);
    }

    #[test]
    fn products_of_activations_agree(
        (images, batch, m, k, n) in (1_u32..3, 1_u32..4, 1_u32..30, 1_u32..70, 1_u32..50),
        (channels, lines) in (fractions(), fractions()),
        threads in 1_usize..4,
    ) {
        let layer = layer(Operator::MatMul(MatMul { images, batch, m, k, n }), &[]);
        check_all(&layer, part(&layer.operator, channels, lines), threads);
    }

    #[test]
    fn half_precision_products_agree(
        (rows, inputs, outputs) in (1_u32..30, 1_u32..200, 1_u32..40),
        (kernel, stride, dilation, padding, [height, width]) in windows(),
        (channels, lines) in (fractions(), fractions()),
    ) {
        let linear = Linear { rows, input_features: inputs, output_features: outputs, bias: true };
        let conv = Conv2d::new(Shape::image(height, width, inputs % 16 + 1), outputs, Window { kernel, stride, dilation, padding });
        for operator in [Operator::Linear(linear), Operator::Conv2d(conv)] {
            let layer = layer(operator, &[Function::Relu6]);
            for set in available_sets() {
                check::<f16>(&layer, part(&layer.operator, channels, lines), 2, set);
            }
        }
    }

    #[test]
    fn the_other_operators_agree(
        (batch, height, width, depth) in (1_u32..3, 1_u32..6, 1_u32..6, 1_u32..50),
        (channels, lines) in (fractions(), fractions()),
        threads in 1_usize..4,
        linked in activations(),
    ) {
        let input = Shape { batch, height, width, channels: depth };
        let norms = [NormKind::Layer, NormKind::Rms, NormKind::Batch]
            .map(|kind| Operator::Norm(Norm { kind, input }));
        let operands = second_operands(input);
        let others = operands.map(|other| {
            Operator::Elementwise(Elementwise { function: Function::Multiply, input, other: Some(other) })
        });
        let sums = Elementwise { function: Function::Silu, input, other: None };
        let operators = [
            Operator::Mean(Mean { input }),
            Operator::Softmax(Softmax { input }),
            Operator::LocalResponseNorm(LocalResponseNorm { input, size: 1 + depth % 6 }),
            Operator::Concat(Concat::of_channels(input, vec![depth, 1, 7])),
            Operator::Concat(Concat { extent: input, dimension: Dimension::Batch, extents: vec![batch, 2] }),
            Operator::Concat(Concat { extent: input, dimension: Dimension::Height, extents: vec![1, height] }),
            Operator::Concat(Concat { extent: input, dimension: Dimension::Width, extents: vec![2, width, 1] }),
            Operator::Slice(Slice::of_channels(input, depth / 3, depth - depth / 3)),
            Operator::Slice(Slice { input, dimension: Dimension::Height, first: height - 1, count: height, step: -1 }),
            Operator::Resize(Resize { input, height: 2 * height, width: width + 1, interpolation: Interpolation::Nearest }),
            Operator::Resize(Resize { input, height: 2 * height, width: width + 1, interpolation: Interpolation::Bilinear }),
            Operator::Pad(Pad { input, before: [0, 1, 2, 3], after: [1, 0, 1, 0] }),
            Operator::Transpose(Transpose { input: Shape { batch: 1, ..input }, images: batch, order: PERMUTED }),
            Operator::Reshape(Reshape { input, output: Shape::tokens(batch * height * width, depth) }),
            Operator::Embedding(Embedding { rows: height * width, vocabulary: 11, features: depth }),
            Operator::Elementwise(sums),
            Operator::Generic(Generic { kind: GenericKind::Movement, inputs: vec![input, Shape::tokens(2, 3)], output: Shape { height: height + 1, ..input }, passes: 2 }),
            Operator::Generic(Generic { kind: GenericKind::Reduction, inputs: vec![input], output: input.with_channels(1), passes: 1 }),
        ];
        for operator in operators.into_iter().chain(norms).chain(others) {
            let layer = layer(operator, &linked);
            check_all(&layer, part(&layer.operator, channels, lines), threads);
        }
        for other in operands {
            let mut layer = layer(Operator::Elementwise(sums), &linked);
            layer.linked.push(Function::Add, SecondOperand::new(input, other));
            check_all(&layer, part(&layer.operator, channels, lines), threads);
        }
    }
}

/// Shapes that a second operand may have beside a first of shape `first`.
fn second_operands(first: Shape) -> [Shape; 7] {
    let images = if first.batch.is_multiple_of(2) { first.batch / 2 } else { first.batch };
    [
        first,
        Shape::image(1, 1, first.channels),
        first.with_channels(1),
        Shape { batch: 1, ..first },
        Shape { height: 1, ..first },
        Shape { width: 1, ..first },
        Shape { batch: images, width: 1, ..first },
    ]
}

#[test]
fn a_row_that_conflicts_with_its_neighbours_in_cache_is_copied_right() {
    // 1024 inputs of four bytes: every row maps to the same cache sets.
    let linear = Linear { rows: 17, input_features: 1024, output_features: 70, bias: true };
    let layer = layer(Operator::Linear(linear), &[]);
    check_all(&layer, Region::of(layer.operator.output()), 1);
}

#[test]
fn running_allocates_nothing() {
    let linear = Linear { rows: 33, input_features: 65, output_features: 70, bias: true };
    let conv = DepthwiseConv2d::new(Shape::image(10, 10, 20), Window::same(3)).bias(false);
    let matmul = MatMul { images: 1, batch: 3, m: 20, k: 30, n: 40 };
    let mut pool = ThreadPool::new(1).unwrap();
    for operator in [Operator::Linear(linear), Operator::DepthwiseConv2d(conv), Operator::MatMul(matmul)] {
        let layer = layer(operator, &[Function::Add, Function::Sigmoid]);
        let [kernel, bias] = weight_counts(&layer.operator);
        let weights = Weights { kernel: &numbers(kernel, 1), bias: &numbers(bias, 2) };
        let set = widest_set();
        let mut prepared = Prepared::<f32>::new(&layer, &weights, set).unwrap();
        let inputs = inputs_of(&layer);
        let inputs: Vec<&[f32]> = inputs.iter().map(Vec::as_slice).collect();
        let mut output = vec![0.0; layer.operator.output().elements() as usize];
        let part = Region::of(layer.operator.output());
        let counted = allocation_counter::measure(|| {
            prepared.run(&mut pool, &inputs, &mut output, part).unwrap();
        });
        assert_eq!(counted.count_total, 0, "{}", layer.operator);
    }
}

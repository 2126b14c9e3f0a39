//! Parts of a layer, on one thread or several, compose to the whole.

use std::ops::Range;

use super::*;

#[test]
fn results_do_not_depend_on_the_threads() {
    let linear = Linear { rows: 50, input_features: 300, output_features: 96, bias: true };
    let layer = layer(Operator::Linear(linear), &[Function::Relu]);
    let (kernel, input) = (numbers(96 * 300, 3), numbers(50 * 300, 4));
    let weights = Weights { kernel: &kernel, bias: &numbers(96, 5) };
    let run = |threads: usize| {
        let set = widest_set();
        let mut prepared = Prepared::<f32>::new(&layer, &weights, set).unwrap();
        let mut output = vec![0.0; 50 * 96];
        let mut pool = ThreadPool::new(threads).unwrap();
        let part = Region::of(layer.operator.output());
        prepared.run(&mut pool, &[&input], &mut output, part).unwrap();
        output
    };
    assert_eq!(run(1), run(2));
    assert_eq!(run(1), run(3));
}

/// Runs each of `parts` separately and compares the whole output.
fn check_parts(operator: Operator, parts: &[Region]) {
    let layer = layer(operator, &[]);
    let [kernel, bias] = weight_counts(&layer.operator).map(|count| numbers(count, 3));
    let weights = Weights { kernel: &kernel, bias: &bias };
    let inputs = inputs_of(&layer);
    let inputs: Vec<&[f32]> = inputs.iter().map(Vec::as_slice).collect();
    let elements = layer.operator.output().elements() as usize;
    let mut pool = ThreadPool::new(2).unwrap();
    for set in available_sets() {
        let mut prepared = Prepared::<f32>::new(&layer, &weights, set).unwrap();
        let mut output = vec![UNTOUCHED; elements];
        for part in parts {
            prepared.run(&mut pool, &inputs, &mut output, *part).unwrap();
        }
        let reference = Reference::new(&layer, weights, &inputs).unwrap();
        let compared = reference.compare(&output, Region::of(layer.operator.output()), 1);
        assert_eq!(compared.unwrap_or_else(|error| panic!("{set}: {error}")), elements);
    }
}

fn convolution(groups: u32, stride: u32) -> Operator {
    Operator::Conv2d(Conv2d::new(Shape::image(9, 9, 6), 44, Window::same(3).stride(stride)).groups(groups))
}

/// The operators other than convolutions that can be cut along the height of their output.
fn operators_with_lines() -> Vec<Operator> {
    let input = Shape { batch: 2, height: 7, width: 5, channels: 37 };
    let (kernel, padding) = ([3, 3], Padding::symmetric(1, 1));
    let multiply = Elementwise { function: Function::Multiply, input, other: Some(input) };
    vec![
        Operator::DepthwiseConv2d(DepthwiseConv2d::new(input, Window::of(kernel).padding(padding))),
        Operator::Pool(Pool { kind: PoolKind::Max, input, window: Window::of(kernel).padding(padding) }),
        Operator::Linear(Linear { rows: 19, input_features: 33, output_features: 40, bias: true }),
        Operator::MatMul(MatMul { images: 1, batch: 3, m: 11, k: 16, n: 34 }),
        Operator::Elementwise(multiply),
        Operator::Concat(Concat::of_channels(input, vec![37, 3])),
        Operator::Softmax(Softmax { input }),
        Operator::Norm(Norm { kind: NormKind::Layer, input }),
        Operator::Slice(Slice::of_channels(input, 4, 20)),
        Operator::Embedding(Embedding { rows: 9, vocabulary: 11, features: 20 }),
    ]
}

#[test]
fn two_parts_of_the_channels_make_the_whole() {
    for (groups, stride, cut) in [(1, 1, 19), (1, 2, 32), (2, 1, 30)] {
        let operator = convolution(groups, stride);
        let parts = [0..cut, cut..44]
            .map(|channels| Region { channels: channels.into(), ..Region::of(operator.output()) });
        check_parts(operator, &parts);
    }
}

#[test]
fn two_parts_of_the_height_make_the_whole() {
    let convolutions = [(1, 1), (1, 2), (2, 1)].map(|(groups, stride)| convolution(groups, stride));
    for operator in operators_with_lines().into_iter().chain(convolutions) {
        let lines = operator.output().lines();
        let cut = 2 * lines / 3;
        let parts =
            [0..cut, cut..lines].map(|lines| Region { rows: lines.into(), ..Region::of(operator.output()) });
        check_parts(operator, &parts);
    }
}

#[test]
fn a_convolution_is_cut_along_both_channels_and_height() {
    let operator = convolution(1, 1);
    let corner =
        |channels: Range<u32>, lines: Range<u32>| Region { channels: channels.into(), rows: lines.into() };
    let parts = [corner(0..17, 0..4), corner(17..44, 0..4), corner(0..40, 4..9), corner(40..44, 4..9)];
    check_parts(operator, &parts);
}

#[test]
fn the_division_is_the_simulators_on_ruys_tile() {
    use coexec_sim::kernel::cpu::ruy::{self, Product, Tile};
    use coexec_sim::plan::Region;
    let linear = Linear { rows: 196, input_features: 512, output_features: 512, bias: false };
    let layer = layer(Operator::Linear(linear), &[]);
    let kernel = numbers(512 * 512, 1);
    let weights = Weights { kernel: &kernel, bias: &[] };
    for set in available_sets() {
        let prepared = Prepared::<f32>::new(&layer, &weights, set).unwrap();
        let division = prepared.division(Region::of(layer.operator.output()), 4).unwrap();
        let map = ruy::block_map(
            Product { channels: 512, pixels: 196, depth: 512 },
            Tile { channels: 8, pixels: 8, depth: 1 },
            4,
            4,
        );
        if matches!(set, InstructionSet::Neon | InstructionSet::NeonF16) {
            assert_eq!(division.blocks() as u64, map.blocks());
            assert_eq!(division.threads, map.threads as usize);
        }
        assert!(division.blocks() > 1);
    }
}

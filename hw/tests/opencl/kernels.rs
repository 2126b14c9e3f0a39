//! Every kernel in every layout against the reference, on random shapes: ragged channels, odd
//! sizes, strides, dilations, padding, batches, parts.

use coexec_hw::opencl::{Dispatch, Linearisation};
use coexec_sim::kernel::gpu::Kernel;
use coexec_sim::plan::Region;
use coexec_sim::workload::{
    Concat, Conv2d, DataType, DepthwiseConv2d, Dimension, Elementwise, Function, Layer, Layout, Linear,
    MatMul, Mean, Norm, NormKind, Operator, Padding, Pool, PoolKind, Shape, Window,
};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::{LAYOUTS, check, runtime};

/// Random shapes per kernel and layout.
const CASES: u32 = 24;

pub(super) fn launched(kernel: Kernel, tile: [u32; 3], work_group: [u32; 3]) -> Dispatch {
    Dispatch { kernel, tile, work_group, linearisation: Linearisation::None }
}

/// Checks layers of `operators` with `linked` functions, in every layout; invalid operators are
/// skipped.
pub(super) fn check_all(
    operators: impl Strategy<Value = Operator>,
    linked: &[Function],
    cut: impl Fn(&Operator, u32) -> Region,
    dispatch: Dispatch,
) {
    check_in(&LAYOUTS, operators, linked, cut, dispatch);
}

/// The same in the given `layouts`.
fn check_in(
    layouts: &[Layout],
    operators: impl Strategy<Value = Operator>,
    linked: &[Function],
    cut: impl Fn(&Operator, u32) -> Region,
    dispatch: Dispatch,
) {
    let Some(runtime) = runtime() else { return };
    let mut runner = TestRunner::new(Config { cases: CASES, failure_persistence: None, ..Config::default() });
    let cases = (operators, any::<u32>());
    let outcome = runner.run(&cases, |(operator, seed)| {
        prop_assume!(operator.check().is_ok());
        let linked = super::linked(linked, operator.output(), seed);
        let layer = Layer { linked, ..Layer::new(operator.clone(), DataType::F32) };
        for &layout in layouts {
            check::<f32>(&runtime, &layer, cut(&operator, seed), layout, dispatch);
        }
        Ok(())
    });
    outcome.unwrap();
}

pub(super) fn whole(operator: &Operator, _seed: u32) -> Region {
    Region::of(operator.output())
}

/// A random range of whole slices and a random range of rows.
pub(super) fn any_part(operator: &Operator, seed: u32) -> Region {
    let output = operator.output();
    let slices = output.channels.div_ceil(4);
    let [first, last] = sorted([seed % slices, seed / 7 % slices]);
    let [top, bottom] = sorted([seed / 31 % output.lines(), seed / 97 % output.lines()]);
    Region {
        channels: (first * 4..((last + 1) * 4).min(output.channels)).into(),
        rows: (top..bottom + 1).into(),
    }
}

/// A random range of whole slices, and all rows.
fn any_channels(operator: &Operator, seed: u32) -> Region {
    Region { channels: any_part(operator, seed).channels, ..Region::of(operator.output()) }
}

/// All channels of a random range of rows.
pub(super) fn any_lines(operator: &Operator, seed: u32) -> Region {
    Region { rows: any_part(operator, seed).rows, ..Region::of(operator.output()) }
}

fn sorted([a, b]: [u32; 2]) -> [u32; 2] {
    [a.min(b), a.max(b)]
}

prop_compose! {
    fn shapes()(
        batch in 1_u32..3, height in 1_u32..14, width in 1_u32..14, channels in 1_u32..22
    ) -> Shape {
        Shape { batch, height, width, channels }
    }
}

prop_compose! {
    fn paddings()(top in 0_u32..3, bottom in 0_u32..3, left in 0_u32..3, right in 0_u32..3) -> Padding {
        Padding { top, bottom, left, right }
    }
}

fn windows() -> impl Strategy<Value = [[u32; 2]; 3]> {
    let sides = |most: u32| [1..most, 1..most];
    (sides(5), sides(4), sides(3)).prop_map(|(kernel, stride, dilation)| [kernel, stride, dilation])
}

prop_compose! {
    fn convolutions()(
        input in shapes(),
        [kernel, stride, dilation] in windows(),
        padding in paddings(),
        output_channels in 1_u32..30,
        bias in any::<bool>(),
    ) -> Conv2d {
        Conv2d::new(input, output_channels, Window { kernel, stride, dilation, padding }).bias(bias)
    }
}

#[test]
fn generic_convolutions_agree_with_the_reference_for_any_part() {
    let operators = || convolutions().prop_map(Operator::Conv2d);
    check_all(operators(), &[], any_part, launched(Kernel::ConvGeneric, [2, 2, 2], [4, 2, 2]));
    check_all(operators(), &[], any_part, launched(Kernel::ConvGeneric, [1, 1, 4], [8, 1, 1]));
    let linearised = Dispatch {
        linearisation: Linearisation::All,
        ..launched(Kernel::ConvGeneric, [1, 2, 3], [16, 1, 1])
    };
    check_all(operators(), &[Function::Relu6], whole, linearised);
    let spatial = Dispatch { linearisation: Linearisation::Spatial, ..linearised };
    check_all(operators(), &[], whole, spatial);
}

#[test]
fn functions_linked_to_a_convolution_run_in_order_on_their_operands() {
    let linked = [Function::Add, Function::HardSwish, Function::Multiply, Function::Sigmoid];
    let operators = convolutions().prop_map(Operator::Conv2d);
    check_all(operators, &linked, any_part, launched(Kernel::ConvGeneric, [2, 1, 2], [4, 4, 1]));
}

#[test]
fn pointwise_convolutions_and_linear_layers_agree_with_the_reference() {
    let pointwise = convolutions().prop_map(|conv| {
        Operator::Conv2d(Conv2d {
            window: Window { kernel: [1; 2], stride: [1; 2], dilation: [1; 2], padding: Padding::NONE },
            ..conv
        })
    });
    check_all(pointwise, &[], any_part, launched(Kernel::ConvGeneric, [2, 2, 2], [4, 2, 2]));
    let linear = (1_u32..40, 1_u32..50, 1_u32..70, any::<bool>()).prop_map(|(rows, input, output, bias)| {
        Operator::Linear(Linear { rows, input_features: input, output_features: output, bias })
    });
    check_all(linear, &[Function::Gelu], any_part, launched(Kernel::ConvGeneric, [4, 1, 2], [4, 1, 4]));
}

#[test]
fn grouped_convolutions_agree_with_the_reference_even_where_groups_straddle_slices() {
    let grouped =
        (convolutions(), 1_u32..7, 1_u32..7, 2_u32..5).prop_map(|(conv, inputs, outputs, groups)| {
            Operator::Conv2d(Conv2d {
                input: conv.input.with_channels(inputs * groups),
                output_channels: outputs * groups,
                groups,
                ..conv
            })
        });
    check_all(grouped, &[], any_channels, launched(Kernel::GroupedConv, [2, 1, 2], [4, 2, 1]));
}

#[test]
fn matrix_products_of_every_batch_agree_with_the_reference() {
    let products = |images: std::ops::Range<u32>| {
        (images, 1_u32..4, 1_u32..20, 1_u32..20, 1_u32..20)
            .prop_map(|(images, batch, m, k, n)| Operator::MatMul(MatMul { images, batch, m, k, n }))
    };
    let launch = || launched(Kernel::MatMul, [2, 1, 2], [4, 1, 2]);
    check_all(products(1..2), &[Function::Add], any_part, launch());
    check_all(products(2..4), &[Function::Add], any_channels, launch());
}

#[test]
fn matrix_vector_products_agree_with_the_reference() {
    let linear = (1_u32..4, 1_u32..200, 1_u32..150, any::<bool>()).prop_map(|(rows, input, output, bias)| {
        Operator::Linear(Linear { rows, input_features: input, output_features: output, bias })
    });
    // One row of a product, which may have several.
    let any_row = |operator: &Operator, seed: u32| {
        let row = seed / 31 % operator.output().lines();
        Region { rows: (row..row + 1).into(), ..any_channels(operator, seed) }
    };
    check_all(linear, &[Function::Add], any_row, launched(Kernel::FullyConnected, [1; 3], [8, 4, 1]));
}

#[test]
fn winograd_convolutions_agree_with_the_reference_for_any_part() {
    let operators = (convolutions(), 0_u32..2).prop_map(|(conv, padding)| {
        Operator::Conv2d(Conv2d {
            window: Window {
                kernel: [3; 2],
                stride: [1; 2],
                dilation: [1; 2],
                padding: Padding::symmetric(padding, 1),
            },
            ..conv
        })
    });
    check_all(operators, &[Function::Relu], any_part, launched(Kernel::Winograd, [4, 1, 2], [4, 2, 2]));
}

#[test]
fn convolutions_with_constant_weights_agree_with_the_reference() {
    let operators = || {
        convolutions().prop_map(|conv| {
            // Channels and window are compile-time constants: few values of each keep the number of
            // builds small.
            let input = conv.input.with_channels(conv.input.channels % 2 * 3 + 2);
            let output_channels = conv.output_channels % 2 * 5 + 3;
            Operator::Conv2d(Conv2d {
                input,
                output_channels,
                window: Window { kernel: [3, 2], ..conv.window },
                ..conv
            })
        })
    };
    check_all(operators(), &[Function::Relu], any_lines, launched(Kernel::ConvConstants, [1; 3], [4, 2, 1]));
}

prop_compose! {
    fn depthwise()(
        input in shapes(),
        [kernel, stride, dilation] in windows(),
        padding in paddings(),
        bias in any::<bool>(),
    ) -> DepthwiseConv2d {
        DepthwiseConv2d::new(input, Window { kernel, stride, dilation, padding }).bias(bias)
    }
}

#[test]
fn depthwise_convolutions_agree_with_the_reference_for_any_part() {
    let generic = |multiplier| {
        depthwise().prop_map(move |conv| Operator::DepthwiseConv2d(DepthwiseConv2d { multiplier, ..conv }))
    };
    check_all(generic(1), &[], any_part, launched(Kernel::DepthwiseGeneric, [1; 3], [4, 2, 2]));
    check_all(generic(3), &[], any_part, launched(Kernel::DepthwiseGeneric, [1; 3], [4, 2, 2]));
    check_all(generic(1), &[], any_part, launched(Kernel::DepthwiseStrideH2, [1, 2, 1], [4, 2, 2]));
    let plain = depthwise().prop_map(|conv| {
        Operator::DepthwiseConv2d(DepthwiseConv2d {
            window: Window {
                kernel: [3; 2],
                stride: [1; 2],
                dilation: [1; 2],
                padding: Padding::symmetric(1, 1),
            },
            ..conv
        })
    });
    check_all(plain, &[Function::Relu6], any_part, launched(Kernel::Depthwise3x3, [2, 2, 1], [4, 2, 2]));
}

#[test]
fn pooling_leaves_padding_out_of_the_mean_and_of_the_maximum() {
    for kind in [PoolKind::Max, PoolKind::Average] {
        let pools =
            (shapes(), windows(), paddings()).prop_map(move |(input, [kernel, stride, _], padding)| {
                // A window entirely in the padding has neither a mean nor a maximum.
                let padding = Padding {
                    top: padding.top.min(kernel[0] - 1),
                    bottom: padding.bottom.min(kernel[0] - 1),
                    left: padding.left.min(kernel[1] - 1),
                    right: padding.right.min(kernel[1] - 1),
                };
                Operator::Pool(Pool {
                    kind,
                    input,
                    window: Window { stride, ..Window::of(kernel).padding(padding) },
                })
            });
        check_all(pools, &[], any_part, launched(Kernel::Pool, [1; 3], [4, 2, 2]));
    }
}

#[test]
fn means_agree_with_the_reference_for_groups_and_for_lone_threads() {
    let means = || shapes().prop_map(|input| Operator::Mean(Mean { input }));
    check_all(means(), &[], any_channels, launched(Kernel::Mean, [1; 3], [4, 4, 1]));
    check_all(means(), &[Function::HardSigmoid], any_channels, launched(Kernel::Mean, [1; 3], [1, 1, 8]));
}

#[test]
fn every_element_wise_function_agrees_with_the_reference() {
    let functions = [
        Function::Add,
        Function::Multiply,
        Function::Divide,
        Function::Prelu,
        Function::Relu,
        Function::Relu6,
        Function::HardSwish,
        Function::HardSigmoid,
        Function::Sigmoid,
        Function::Silu,
        Function::Gelu,
        Function::Tanh,
    ];
    for (function, layout) in functions.into_iter().zip(LAYOUTS.into_iter().cycle()) {
        let operators = (shapes(), 0..7_usize).prop_map(move |(input, operand)| {
            let other = function.is_binary().then(|| super::second_operands(input)[operand]);
            Operator::Elementwise(Elementwise { function, input, other })
        });
        let dispatch = launched(Kernel::Elementwise, [1; 3], [4, 2, 2]);
        check_in(&[layout], operators, &[], any_part, dispatch);
    }
}

#[test]
fn a_normalisation_by_trained_statistics_scales_and_shifts_each_channel() {
    let norms = shapes().prop_map(|input| Operator::Norm(Norm { kind: NormKind::Batch, input }));
    check_all(norms, &[Function::Relu], any_part, launched(Kernel::Elementwise, [1; 3], [4, 2, 2]));
}

#[test]
fn concatenations_of_whole_and_of_ragged_slices_agree_with_the_reference() {
    for channels in [vec![8, 4, 3], vec![3, 5, 8, 1], vec![7]] {
        let concats =
            shapes().prop_map(move |extent| Operator::Concat(Concat::of_channels(extent, channels.clone())));
        check_all(concats, &[Function::Relu], any_lines, launched(Kernel::Concat, [1; 3], [4, 2, 1]));
    }
}

#[test]
fn concatenations_along_other_dimensions_agree_with_the_reference() {
    for dimension in [Dimension::Batch, Dimension::Height, Dimension::Width] {
        let concats = (shapes(), prop::collection::vec(1_u32..4, 1..4))
            .prop_map(move |(extent, extents)| Operator::Concat(Concat { extent, dimension, extents }));
        check_all(concats, &[Function::Relu], any_part, launched(Kernel::ConcatXy, [1; 3], [2, 2, 2]));
    }
}

//! Proptest strategies for operators and the processors that run them.

use proptest::collection::vec;
use proptest::prelude::*;

use crate::measure::runs::ExecutedOn;
use coexec_sim::Axis;
use coexec_sim::workload::{
    Concat, Conv2d, DepthwiseConv2d, Dimension, Elementwise, Embedding, Function, Linear, MatMul, Mean, Norm,
    NormKind, Operator, Padding, Pool, PoolKind, Reshape, Shape, Slice, Softmax, Window,
};

fn image() -> impl Strategy<Value = Shape> {
    (1_u32..64, 1_u32..64, 1_u32..512)
        .prop_map(|(height, width, channels)| Shape::image(height, width, channels))
}

/// A window that fits any image, and its padding.
fn window() -> impl Strategy<Value = ([u32; 2], [u32; 2], Padding)> {
    (1_u32..8, 1_u32..8, 1_u32..4, 1_u32..4).prop_map(|(height, width, down, right)| {
        ([height, width], [down, right], Padding { top: height, bottom: 0, left: width, right: 1 })
    })
}

fn windowed() -> impl Strategy<Value = Operator> {
    (image(), window(), 1_u32..8, any::<bool>()).prop_flat_map(
        |(input, (kernel, stride, padding), count, bias)| {
            prop_oneof![
                Just(Operator::Conv2d(
                    Conv2d::new(
                        input.with_channels(input.channels * count),
                        3 * count,
                        Window { stride, ..Window::of(kernel).padding(padding) }
                    )
                    .groups(count)
                    .bias(bias)
                )),
                Just(Operator::DepthwiseConv2d(
                    DepthwiseConv2d::new(input, Window { stride, ..Window::of(kernel).padding(padding) })
                        .multiplier(count)
                        .bias(bias)
                )),
                Just(Operator::Pool(Pool {
                    kind: PoolKind::Average,
                    input,
                    window: Window { stride, ..Window::of(kernel).padding(padding) }
                })),
            ]
        },
    )
}

fn shaped_by_input() -> impl Strategy<Value = Operator> {
    image().prop_flat_map(|input| {
        let other = input.with_channels(input.channels + 3);
        let sum = Elementwise { function: Function::Add, input, other: Some(input) };
        let scaled = Elementwise {
            function: Function::Multiply,
            input,
            other: Some(Shape::image(1, 1, input.channels)),
        };
        prop_oneof![
            Just(Operator::Mean(Mean { input })),
            Just(Operator::Concat(Concat::of_channels(
                input,
                vec![input.channels, other.channels, input.channels]
            ))),
            Just(Operator::Concat(Concat {
                extent: input,
                dimension: Dimension::Height,
                extents: vec![input.height, 3]
            })),
            Just(Operator::Elementwise(sum)),
            Just(Operator::Elementwise(scaled)),
            Just(Operator::Elementwise(Elementwise { function: Function::HardSwish, input, other: None })),
            Just(Operator::Softmax(Softmax { input })),
            Just(Operator::Norm(Norm { kind: NormKind::Rms, input })),
            Just(Operator::Slice(Slice::of_channels(input, 0, input.channels))),
            Just(Operator::Reshape(Reshape {
                input,
                output: Shape {
                    batch: 1,
                    height: 1,
                    width: input.height * input.width,
                    channels: input.channels
                },
            })),
        ]
    })
}

pub(super) fn any_operator() -> impl Strategy<Value = Operator> {
    let products = (1_u32..99, 1_u32..999, 1_u32..999, any::<bool>()).prop_flat_map(|(m, k, n, bias)| {
        prop_oneof![
            Just(Operator::Linear(Linear { rows: m, input_features: k, output_features: n, bias })),
            Just(Operator::MatMul(MatMul { images: 3, batch: 4, m, k, n })),
            Just(Operator::Embedding(Embedding { rows: m, vocabulary: k, features: n })),
        ]
    });
    prop_oneof![products, windowed(), shaped_by_input()]
}

pub(super) fn functions() -> impl Strategy<Value = Vec<Function>> {
    use Function::{Add, Gelu, HardSigmoid, HardSwish, Multiply, Relu, Relu6, Sigmoid, Silu, Tanh};
    let any = [Add, Multiply, Relu, Relu6, HardSwish, HardSigmoid, Sigmoid, Silu, Gelu, Tanh];
    vec(prop::sample::select(any.to_vec()), 0..4)
}

pub(super) fn processors() -> impl Strategy<Value = ExecutedOn> {
    prop_oneof![
        Just(ExecutedOn::Gpu),
        Just(ExecutedOn::Npu),
        Just(ExecutedOn::Cpu("1large2med".into())),
        (prop::sample::select(vec![Axis::Channels, Axis::Height]), 1_u32..5000, 1_u32..5000)
            .prop_map(|(axis, cpu, gpu)| ExecutedOn::Split { axis, cores: "3small".into(), cpu, gpu }),
        Just(ExecutedOn::Plan("best.plan.toml".into())),
    ]
}

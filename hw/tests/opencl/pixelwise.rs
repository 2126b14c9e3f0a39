//! Kernels over the channels of a pixel and for data movement, against the reference.

use coexec_sim::kernel::gpu::Kernel;
use coexec_sim::workload::{
    Dimension, Embedding, Function, Generic, GenericKind, Interpolation, LocalResponseNorm, Norm, NormKind,
    Operator, Pad, Reshape, Resize, Shape, Slice, Softmax, Transpose,
};
use proptest::prelude::*;

use super::kernels::{any_lines, any_part, check_all, launched, whole};

fn shapes() -> impl Strategy<Value = Shape> {
    (1..3_u32, 1..5_u32, 1..6_u32, 1..40_u32).prop_map(|(batch, height, width, channels)| Shape {
        batch,
        height,
        width,
        channels,
    })
}

#[test]
fn softmax_agrees_with_the_reference_for_any_lines() {
    let operators = shapes().prop_map(|input| Operator::Softmax(Softmax { input }));
    let dispatch = launched(Kernel::Softmax, [1, 1, 10], [4, 2, 1]);
    check_all(operators, &[], any_lines, dispatch);
}

#[test]
fn softmax_agrees_with_the_reference_whatever_threads_share_a_pixel() {
    for group in [[1, 1, 1], [4, 1, 1], [16, 1, 1]] {
        let operators = shapes().prop_map(|input| Operator::Softmax(Softmax { input }));
        check_all(operators, &[Function::Relu], any_lines, launched(Kernel::Softmax1x1, [1; 3], group));
    }
}

#[test]
fn norms_agree_with_the_reference_whatever_threads_share_a_pixel() {
    for group in [[8, 8, 1], [4, 2, 3], [1, 1, 8]] {
        for (kind, kernel) in [
            (NormKind::Layer, Kernel::Norm),
            (NormKind::LayerInSteps, Kernel::Elementwise),
            (NormKind::Rms, Kernel::Elementwise),
        ] {
            let operators = shapes().prop_map(move |input| Operator::Norm(Norm { kind, input }));
            check_all(operators, &[Function::Relu], any_lines, launched(kernel, [1, 1, 4], group));
        }
    }
}

#[test]
fn local_response_norms_agree_with_the_reference_whatever_threads_share_a_pixel() {
    for group in [[8, 8, 1], [4, 2, 3]] {
        let operators = (shapes(), 1..7_u32)
            .prop_map(|(input, size)| Operator::LocalResponseNorm(LocalResponseNorm { input, size }));
        check_all(operators, &[Function::Relu], any_lines, launched(Kernel::Norm, [1, 1, 4], group));
    }
}

#[test]
fn ranges_of_any_dimension_agree_with_the_reference_for_any_part() {
    let operators = (shapes(), 0..4_usize, 0..8_u32, 1..20_u32, 1..3_i32).prop_map(
        |(input, along, first, count, step)| {
            let dimension = Dimension::ALL[along];
            let input =
                input.with(dimension, first + (count - 1) * step.unsigned_abs() + 1 + input.channels % 3);
            Operator::Slice(Slice { input, dimension, first, count, step })
        },
    );
    check_all(operators, &[Function::Relu], any_part, launched(Kernel::Slice, [1; 3], [2, 2, 2]));
}

#[test]
fn ranges_go_backwards() {
    let operators = (shapes(), 0..4_usize).prop_map(|(input, along)| {
        let dimension = Dimension::ALL[along];
        let extent = input.along(dimension);
        Operator::Slice(Slice { input, dimension, first: extent - 1, count: extent, step: -1 })
    });
    check_all(operators, &[], any_part, launched(Kernel::Slice, [1; 3], [2, 2, 2]));
}

#[test]
fn padding_agrees_with_the_reference_for_any_part() {
    let around = || (0..2_u32, 0..3_u32, 0..3_u32, 0..9_u32).prop_map(<[u32; 4]>::from);
    let operators = (shapes(), around(), around())
        .prop_map(|(input, before, after)| Operator::Pad(Pad { input, before, after }));
    check_all(operators, &[], any_part, launched(Kernel::Padding, [1; 3], [2, 2, 2]));
}

#[test]
fn images_of_another_size_agree_with_the_reference_for_any_part() {
    for interpolation in [Interpolation::Nearest, Interpolation::Bilinear] {
        let operators = (shapes(), 1..9_u32, 1..9_u32).prop_map(move |(input, height, width)| {
            Operator::Resize(Resize { input, height, width, interpolation })
        });
        check_all(operators, &[Function::Relu], any_part, launched(Kernel::Resize, [1; 3], [2, 2, 2]));
    }
}

#[test]
fn dimensions_in_any_order_agree_with_the_reference_for_any_part() {
    let order = Just(Dimension::ALL).prop_shuffle();
    let operators = (shapes(), 1..3_u32, order)
        .prop_map(|(input, images, order)| Operator::Transpose(Transpose { input, images, order }));
    check_all(operators, &[], any_part, launched(Kernel::Transpose, [1; 3], [2, 2, 2]));
}

#[test]
fn reshapes_keep_the_order_of_the_host() {
    let operators = (shapes(), 0..4_u32).prop_map(|(input, form)| {
        let Shape { batch, height, width, channels } = input;
        let output = match form {
            0 => Shape { batch, height, width: channels, channels: width },
            1 => Shape::tokens(batch * height * width, channels),
            2 => Shape { batch: 1, height: 1, width: 1, channels: batch * height * width * channels },
            _ => Shape { batch: height, height: batch, width: 1, channels: width * channels },
        };
        Operator::Reshape(Reshape { input, output })
    });
    check_all(operators, &[], whole, launched(Kernel::Reshape, [1; 3], [2, 2, 2]));
}

#[test]
fn rows_of_a_table_are_found() {
    let operators = (1..9_u32, 2..50_u32, 1..30_u32).prop_map(|(rows, vocabulary, features)| {
        Operator::Embedding(Embedding { rows, vocabulary, features })
    });
    check_all(operators, &[], whole, launched(Kernel::Gather, [1; 3], [4, 1, 4]));
}

#[test]
fn what_stands_for_an_operator_without_a_kernel_agrees_with_the_reference() {
    let kinds = [GenericKind::Elementwise, GenericKind::Reduction, GenericKind::Movement];
    let operators = (shapes(), shapes(), shapes(), 0..3_usize, 1..3_u32).prop_map(
        move |(first, second, output, kind, passes)| {
            Operator::Generic(Generic { kind: kinds[kind], inputs: vec![first, second], output, passes })
        },
    );
    check_all(operators, &[], any_lines, launched(Kernel::Elementwise, [1; 3], [4, 2, 2]));
}

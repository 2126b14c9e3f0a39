//! Kernels over the channels of a pixel, and those that only move elements, against the
//! reference.

use coexec_sim::kernel::gpu::Kernel;
use coexec_sim::workload::{
    Embedding, Function, LocalResponseNorm, Norm, NormKind, Operator, Reshape, Shape, Slice, Softmax,
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
fn norms_agree_with_the_reference_whatever_threads_share_a_pixel() {
    for group in [[8, 8, 1], [4, 2, 3], [1, 1, 8]] {
        for kind in [NormKind::Layer, NormKind::Rms] {
            let operators = shapes().prop_map(move |input| Operator::Norm(Norm { kind, input }));
            check_all(operators, &[Function::Relu], any_lines, launched(Kernel::Norm, [1, 1, 4], group));
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
fn ranges_of_channels_agree_with_the_reference_for_any_part() {
    let operators = (shapes(), 0..8_u32, 1..20_u32).prop_map(|(input, first_channel, channels)| {
        let input = input.with_channels(first_channel + channels + input.channels % 3);
        Operator::Slice(Slice { input, first_channel, channels })
    });
    check_all(operators, &[], any_part, launched(Kernel::Slice, [1; 3], [2, 2, 2]));
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

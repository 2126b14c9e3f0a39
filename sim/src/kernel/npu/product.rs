//! Layers as matrix products.

use crate::kernel::Unsupported;
use crate::workload::{DataType, Layer, Operator};

/// What the rows of a product are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rows {
    /// Tokens: their number changes from request to request.
    Tokens,
    /// Output pixels: their number is part of the network.
    Pixels,
}

/// `batch` equal products of `[rows, inner]` activations and `[inner, outputs]`
/// weights (or activations that take their place).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Product {
    pub(super) batch: u64,
    pub(super) rows: u64,
    pub(super) inner: u64,
    pub(super) outputs: u64,
    pub(super) kind: Rows,
    /// Whether the right operand is part of the network.
    pub(super) trained_weights: bool,
    /// Whether both operands are 8-bit integers.
    pub(super) integers: bool,
    /// Tensors of the output's size that move: the output, and what linked
    /// functions of two tensors read.
    pub(super) output_transfers: u64,
}

impl Product {
    /// The product `layer` is; a convolution is the product of its unrolled
    /// windows (im2col), one a group.
    pub(super) fn of(layer: &Layer) -> Result<Self, Unsupported> {
        let linked = &layer.linked;
        let output_transfers = 1 + u64::from(linked.additions()) + u64::from(linked.multiplications());
        let integers = layer.data_type == DataType::I8;
        match &layer.operator {
            Operator::Linear(linear) => Ok(Self {
                batch: 1,
                rows: linear.rows.into(),
                inner: linear.input_features.into(),
                outputs: linear.output_features.into(),
                kind: Rows::Tokens,
                trained_weights: true,
                integers,
                output_transfers,
            }),
            Operator::MatMul(product) => Ok(Self {
                batch: product.batch.into(),
                rows: product.m.into(),
                inner: product.k.into(),
                outputs: product.n.into(),
                kind: Rows::Tokens,
                trained_weights: false,
                integers,
                output_transfers,
            }),
            Operator::Conv2d(conv) => {
                let groups = u64::from(conv.groups);
                let window = u64::from(conv.kernel[0]) * u64::from(conv.kernel[1]);
                Ok(Self {
                    batch: groups,
                    rows: conv.output().pixels(),
                    inner: window * (u64::from(conv.input.channels) / groups),
                    outputs: u64::from(conv.output_channels) / groups,
                    kind: Rows::Pixels,
                    trained_weights: true,
                    integers,
                    output_transfers,
                })
            }
            other => Err(Unsupported {
                processor: "NPU",
                operator: other.to_string(),
                reason: "its arrays compute linear, matmul and conv2d only; place it on the GPU or the CPU"
                    .into(),
            }),
        }
    }
}

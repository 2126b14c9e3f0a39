//! Lowering of layers to matrix products.

use crate::kernel::{Result, Unsupported};
use crate::workload::{Class, DataType, Layer};

/// Meaning of a product's rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rows {
    /// Tokens, whose number varies per request.
    Tokens,
    /// Output pixels, whose number is fixed by the network.
    Pixels,
}

/// `batch` equal products of `[rows, inner]` activations and `[inner, outputs]` weights or,
/// in attention, activations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Product {
    pub(super) batch: u64,
    pub(super) rows: u64,
    pub(super) inner: u64,
    pub(super) outputs: u64,
    pub(super) kind: Rows,
    /// Whether the right operand is a trained weight.
    pub(super) trained_weights: bool,
    /// Whether both operands are 8-bit integers.
    pub(super) integers: bool,
    /// Output-sized tensors transferred: the output, and the second operands of linked functions.
    pub(super) output_transfers: u64,
}

impl Product {
    /// Lowers `layer` to a product; a convolution becomes one product per group over its unrolled
    /// windows (im2col).
    pub(super) fn of(layer: &Layer) -> Result<Self> {
        let operands = layer.linked.operand_tensors(layer.operator.output());
        let output_transfers = 1 + operands.ceil() as u64;
        let integers = layer.data_type == DataType::I8;
        let class = layer.operator.class();
        let (batch, [rows, inner, outputs], kind, trained_weights) = if let Class::Product(product) = class {
            let extents = [product.rows, product.inner, product.outputs].map(u64::from);
            (u64::from(product.batch), extents, Rows::Tokens, product.trained)
        } else if let Class::Convolution(conv) = class {
            let groups = u64::from(conv.groups);
            let inner = conv.window.taps() * u64::from(conv.group_channels());
            let outputs = u64::from(conv.output_channels) / groups;
            (groups, [conv.output().pixels(), inner, outputs], Rows::Pixels, true)
        } else {
            let reason = "its arrays compute linear, matmul and conv2d only; place it on the GPU or the CPU";
            return Err(Unsupported::new("NPU", &layer.operator, reason));
        };
        Ok(Self { batch, rows, inner, outputs, kind, trained_weights, integers, output_transfers })
    }
}

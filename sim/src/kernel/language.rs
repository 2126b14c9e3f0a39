//! Kernels of engines for language models, one for each operator; and what one takes of llama.cpp's, which multiplies
//! integer weights by activations that it brings to 8 bits, on all CPU cores or on an NPU.
//!
//! Responsible for: what an operator takes there. Not for: what it waits for before and behind, which its
//! processor says, or what kernels of a GPU take, which have other limits. Invariant: a product with weights takes the
//! longer of its arithmetic and of reading the weights once; with one row that is reading. Products of activations,
//! those over the context, are bound by arithmetic that finds few values in registers, with the rows of a single
//! token fewer still. Everything else is bound by the tensors it reads and writes.

use serde::Serialize;

use super::cpu::traffic;
use crate::device::LanguageRates;
use crate::units::{Bytes, Picos};
use crate::workload::{Class, Layer};

/// Rows of a product over the context, at most, that stand for one token: the query heads that
/// share keys and values, 8 in the largest groups of the bundled models.
const ROWS_OF_A_TOKEN: u32 = 8;

/// Which kernel runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, strum::Display)]
#[serde(rename_all = "kebab-case")]
pub enum LanguageKernel {
    /// Each row times the weights, which stay integers.
    #[strum(to_string = "matrix-vector product")]
    MatrixVector,
    /// All rows at once; on a GPU after the weights became 16-bit numbers.
    #[strum(to_string = "matrix product")]
    MatrixMatrix,
    /// A product of two activations.
    #[strum(to_string = "product of activations")]
    Attention,
    /// Anything else: what it reads and writes.
    #[strum(to_string = "element-wise kernel")]
    Elementwise,
}

/// A launch of one such kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LanguageLaunch {
    /// The kernel.
    pub kernel: LanguageKernel,
    /// Bytes moved to and from memory.
    pub bytes: Bytes,
    /// What moving them takes at the kernels' bandwidth.
    #[serde(rename = "traffic_time_ps")]
    pub traffic_time: Picos,
}

/// What an operator takes.
pub(super) struct Work {
    pub(super) kernel: LanguageKernel,
    /// Time, in nanoseconds.
    pub(super) nanos: f64,
    /// Whether memory bounds it.
    pub(super) is_traffic: bool,
}

impl Work {
    /// Of `layer` at these rates.
    pub(super) fn of(layer: &Layer, rates: &LanguageRates) -> Self {
        // A gigabyte a second is a byte a nanosecond.
        let reading = |bytes: u64| bytes as f64 / rates.bandwidth_gbps.value;
        let macs = layer.operator.macs() as f64;
        let arithmetic = |kernel, rate: f64| Self { kernel, nanos: macs / rate, is_traffic: false };
        if let Some(product) = layer.operator.product_with_weights() {
            let nanos = reading(layer.data_type.weight_bytes(layer.operator.parameters()).0);
            let is_row = product.rows == 1;
            let kernel = if is_row { LanguageKernel::MatrixVector } else { LanguageKernel::MatrixMatrix };
            let computing = arithmetic(kernel, rates.multiply_accumulates_per_ns.value);
            return if nanos > computing.nanos {
                Self { kernel, nanos, is_traffic: true }
            } else {
                computing
            };
        }
        if let Class::Product(product) = layer.operator.class() {
            let rate = if product.rows <= ROWS_OF_A_TOKEN {
                &rates.token_context_multiply_accumulates_per_ns
            } else {
                &rates.context_multiply_accumulates_per_ns
            };
            return arithmetic(LanguageKernel::Attention, rate.value);
        }
        let nanos = reading(traffic::bytes(layer, None));
        Self { kernel: LanguageKernel::Elementwise, nanos, is_traffic: true }
    }
}

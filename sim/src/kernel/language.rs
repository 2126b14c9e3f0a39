//! Kernels of language-model engines, one launch per operator, and the execution time of llama.cpp's
//! kernels, which multiply integer weights by activations quantised to 8 bits, on all CPU cores or on
//! an NPU.
//!
//! Responsible for: the time of one operator. Not for: dispatch and synchronisation around it, which
//! the processor's model adds, or GPU kernels, which have other bounds. Invariant: a product with
//! weights is a roofline: the larger of its arithmetic and of reading the weights once, which dominates
//! with one row. Attention products (over the context) are compute-bound at a lower rate, since they
//! reuse few values in registers, and at a lower rate still for the rows of a single token. Everything
//! else is bound by the tensors it reads and writes.

use serde::Serialize;

use super::cpu::traffic;
use crate::device::LanguageRates;
use crate::units::{Bytes, Picos};
use crate::workload::{Class, Layer};

/// An attention product with at most this many rows is treated as that of a single token (decode): its
/// rows are the query heads that share one key-value head, at most 8 in the bundled models.
const MAX_ROWS_OF_ONE_TOKEN: u32 = 8;

/// Which kernel runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, strum::Display)]
#[serde(rename_all = "kebab-case")]
pub enum LanguageKernel {
    /// Row by row, with the weights kept as integers.
    #[strum(to_string = "matrix-vector product")]
    MatrixVector,
    /// All rows at once; on a GPU after dequantising the weights to 16 bits.
    #[strum(to_string = "matrix product")]
    MatrixMatrix,
    /// A product of two activations: queries with keys, or probabilities with values.
    #[strum(to_string = "product of activations")]
    Attention,
    /// Anything else; bound by memory traffic.
    #[strum(to_string = "element-wise kernel")]
    Elementwise,
}

/// A launch of a [`LanguageKernel`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LanguageLaunch {
    /// The kernel.
    pub kernel: LanguageKernel,
    /// Bytes moved to and from memory.
    pub bytes: Bytes,
    /// Time to move `bytes` at the kernels' bandwidth.
    #[serde(rename = "traffic_time_ps")]
    pub traffic_time: Picos,
}

/// The kernel of an operator and its time.
pub(super) struct Work {
    pub(super) kernel: LanguageKernel,
    /// Duration, in nanoseconds.
    pub(super) nanos: f64,
    /// Whether memory traffic bounds the duration.
    pub(super) is_traffic: bool,
}

impl Work {
    /// The work of `layer` at `rates`.
    pub(super) fn of(layer: &Layer, rates: &LanguageRates) -> Self {
        // 1 GB/s is 1 byte per nanosecond.
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
            let rate = if product.rows <= MAX_ROWS_OF_ONE_TOKEN {
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

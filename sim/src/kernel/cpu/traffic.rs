//! Bytes a layer moves: its tensors and weights at their real element sizes.
//!
//! Caches are not modelled here: bytes are what a layer asks of the memory
//! system once, which is what the shared memory sees of tensors that do not
//! stay in a cache between operators.

use super::{Library, separate_passes};
use crate::workload::{Conv2d, Layer, Operator};

/// Bytes of one cache line, on every Arm and Apple core the rates cover.
pub(super) const CACHE_LINE_BYTES: u64 = 64;
/// Bytes of one index into an embedding table (32-bit).
const INDEX_BYTES: u64 = 4;

/// Bytes `layer` reads and writes when `library` runs it: inputs, weights and
/// outputs, and the tensors of linked functions that run as passes of their own.
pub(super) fn bytes(layer: &Layer, library: Library) -> u64 {
    let element = layer.data_type.activation_bytes();
    let output = layer.operator.output().elements() * element;
    let weights = |count| layer.data_type.weight_bytes(count).0;
    let main = match &layer.operator {
        Operator::Conv2d(conv) if conv.groups > 1 && library == Library::Xnnpack => {
            grouped_input_bytes(conv, element)
                + (output as f64 * grouped_output_factor(conv, element)) as u64
                + weights(layer.operator.parameters())
        }
        Operator::Embedding(table) => {
            let vectors = u64::from(table.rows) * u64::from(table.features);
            u64::from(table.rows) * INDEX_BYTES + weights(vectors) + output
        }
        Operator::Norm(_) if folded(&layer.operator) => 0,
        operator => input_elements(operator) * element + weights(operator.parameters()) + output,
    };
    let passes: u64 = separate_passes(layer).map(|function| if function.is_binary() { 3 } else { 2 }).sum();
    main + passes * output
}

/// Bytes of a grouped convolution's input with one pass a group: each pass
/// pulls whole cache lines for its channels of every pixel (XNNPACK).
pub(super) fn grouped_input_bytes(conv: &Conv2d, element: u64) -> u64 {
    let channels = u64::from(conv.input.channels / conv.groups);
    u64::from(conv.groups) * conv.input.pixels() * (channels * element).next_multiple_of(CACHE_LINE_BYTES)
}

/// How many times the bytes of a grouped convolution's output are moved: a pass
/// that writes less than a cache line a pixel moves the whole line.
pub(super) fn grouped_output_factor(conv: &Conv2d, element: u64) -> f64 {
    if conv.groups == 1 {
        return 1.0;
    }
    let pixel_bytes = u64::from(conv.output_channels / conv.groups) * element;
    (CACHE_LINE_BYTES as f64 / pixel_bytes.max(1) as f64).max(1.0)
}

/// Whether inference frameworks fold the operator into its neighbour.
pub(super) fn folded(operator: &Operator) -> bool {
    matches!(operator, Operator::Norm(norm) if norm.kind == crate::workload::NormKind::Batch)
}

/// Elements of all inputs. [`Operator::input_elements`] collects a list; a
/// search asks too often for that.
fn input_elements(operator: &Operator) -> u64 {
    match operator {
        Operator::Linear(linear) => u64::from(linear.rows) * u64::from(linear.input_features),
        Operator::MatMul(product) => {
            let [batch, m, k, n] = [product.batch, product.m, product.k, product.n].map(u64::from);
            batch * k * (m + n)
        }
        Operator::Conv2d(conv) => conv.input.elements(),
        Operator::DepthwiseConv2d(conv) => conv.input.elements(),
        Operator::Pool(pool) => pool.input.elements(),
        Operator::Mean(mean) => mean.input.elements(),
        Operator::Concat(_) | Operator::Slice(_) | Operator::Reshape(_) => operator.output().elements(),
        Operator::Elementwise(function) => {
            function.input.elements() + function.other.map_or(0, |other| other.elements())
        }
        Operator::Softmax(softmax) => softmax.input.elements(),
        Operator::Norm(norm) => norm.input.elements(),
        Operator::Embedding(table) => u64::from(table.rows),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{DataType, Padding, Shape};

    fn conv(groups: u32) -> Conv2d {
        Conv2d {
            input: Shape::image(14, 14, 64),
            output_channels: 64,
            kernel: [1, 1],
            stride: [1, 1],
            dilation: [1, 1],
            padding: Padding::NONE,
            groups,
            bias: false,
        }
    }

    #[test]
    fn a_dense_convolution_moves_input_weights_and_output_once() {
        let layer = Layer::new(Operator::Conv2d(conv(1)), DataType::F32);
        assert_eq!(bytes(&layer, Library::Xnnpack), 4 * (2 * 14 * 14 * 64 + 64 * 64));
        assert_eq!(bytes(&layer, Library::Ruy), bytes(&layer, Library::Xnnpack));
    }

    #[test]
    fn narrow_groups_pull_whole_cache_lines_in_xnnpack() {
        // 4 channels of 4 bytes a group: 16 of the 64 bytes of each line.
        let layer = Layer::new(Operator::Conv2d(conv(16)), DataType::F32);
        let tensors = 2 * 14 * 14 * 64 * 4;
        assert_eq!(bytes(&layer, Library::Xnnpack), 4 * tensors + 4 * 64 * 4);
        assert_eq!(bytes(&layer, Library::Ruy), tensors + 4 * 64 * 4);
    }

    #[test]
    fn an_embedding_reads_the_rows_it_looks_up_not_the_table() {
        let table = crate::workload::Embedding { rows: 2, vocabulary: 32_000, features: 8 };
        let layer = Layer::new(Operator::Embedding(table), DataType::F32);
        assert_eq!(bytes(&layer, Library::Ruy), 2 * 4 + 2 * 16 * 4);
    }
}

//! Memory traffic of a layer: its tensors and weights at their real element sizes.
//!
//! Caches are not modelled here: every tensor counts once, as the shared memory sees it if
//! no cache keeps the tensor between operators.

use super::{Library, separate_passes};
use crate::units::Bytes;
use crate::workload::{Class, Conv2d, Layer};

/// Bytes of a cache line, on every Arm and Apple core that the rates cover.
pub(super) const CACHE_LINE_BYTES: u64 = 64;
/// Bytes of one index into an embedding table (32-bit).
const INDEX_BYTES: u64 = 4;

/// Bytes that `layer` reads and writes: inputs, weights and outputs, and the tensors of
/// linked functions that run as separate passes. `library` is `None` for a language-model
/// engine.
pub(in crate::kernel) fn bytes(layer: &Layer, library: Option<Library>) -> u64 {
    let element = layer.data_type.activation_bytes();
    let output = layer.operator.output().elements() * element;
    let weights = |count| layer.data_type.weight_bytes(count).0;
    let operator = &layer.operator;
    let main = match operator.class() {
        Class::Convolution(conv) if conv.groups > 1 && library == Some(Library::Xnnpack) => {
            convolution_input_bytes(conv, element)
                + (output as f64 * grouped_output_factor(conv, element)) as u64
                + weights(operator.parameters())
        }
        Class::Gather(table) => {
            let vectors = u64::from(table.rows) * u64::from(table.features);
            u64::from(table.rows) * INDEX_BYTES + weights(vectors) + output
        }
        // XNNPACK packs the right operand into a copy and reads that.
        Class::Product(product) if !product.trained && library == Some(Library::Xnnpack) => {
            let right =
                [product.batch, product.inner, product.outputs].map(u64::from).iter().product::<u64>();
            (operator.input_elements() + 2 * right) * element + output
        }
        Class::Movement(_) => 2 * output,
        Class::Elementwise(_) if operator.folds() => 0,
        Class::Recurrent(recurrent) => {
            let steps = u64::from(recurrent.steps);
            operator.input_elements() * element
                + output
                + weights(operator.parameters()).saturating_mul(steps)
        }
        Class::Generic(generic) => generic.moved().saturating_mul(element),
        Class::Product(_)
        | Class::Convolution(_)
        | Class::Depthwise(_)
        | Class::Pool(_)
        | Class::Reduction(_)
        | Class::Elementwise(_) => {
            operator.input_elements() * element + weights(operator.parameters()) + output
        }
    };
    let passes: f64 = separate_passes(layer).map(|pass| 2.0 + pass.operand_tensors()).sum();
    main + (passes * output as f64) as u64
}

/// The weights among the bytes that `layer` moves, and the rest.
pub(super) fn weights_and_tensors(layer: &Layer, library: Library) -> [Bytes; 2] {
    let all = bytes(layer, Some(library));
    let weights = layer.data_type.weight_bytes(layer.operator.parameters()).0.min(all);
    [weights, all - weights].map(Bytes)
}

/// Bytes read from a convolution's input in XNNPACK, which makes one pass per group:
/// if there are several, each pass fetches whole cache lines for the group's channels of every pixel.
pub(super) fn convolution_input_bytes(conv: &Conv2d, element: u64) -> u64 {
    if conv.groups == 1 {
        return conv.input.elements() * element;
    }
    let channels = u64::from(conv.input.channels / conv.groups);
    u64::from(conv.groups) * conv.input.pixels() * (channels * element).next_multiple_of(CACHE_LINE_BYTES)
}

/// Write amplification of a grouped convolution's output: a pass that writes less than a
/// cache line per pixel moves the whole line.
pub(super) fn grouped_output_factor(conv: &Conv2d, element: u64) -> f64 {
    if conv.groups == 1 {
        return 1.0;
    }
    let pixel_bytes = u64::from(conv.output_channels / conv.groups) * element;
    (CACHE_LINE_BYTES as f64 / pixel_bytes.max(1) as f64).max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{DataType, Operator, Shape, Window};

    fn conv(groups: u32) -> Conv2d {
        Conv2d::new(Shape::image(14, 14, 64), 64, Window::valid(1)).groups(groups).bias(false)
    }

    #[test]
    fn a_convolution_of_one_group_reads_no_more_than_its_input() {
        let image = Conv2d::new(Shape::image(224, 224, 3), 32, Window::same(3));
        assert_eq!(convolution_input_bytes(&image, 1), 224 * 224 * 3);
        assert_eq!(convolution_input_bytes(&conv(4), 1), 4 * 14 * 14 * CACHE_LINE_BYTES);
    }

    #[test]
    fn a_dense_convolution_moves_input_weights_and_output_once() {
        let layer = Layer::new(Operator::Conv2d(conv(1)), DataType::F32);
        assert_eq!(bytes(&layer, Some(Library::Xnnpack)), 4 * (2 * 14 * 14 * 64 + 64 * 64));
        assert_eq!(bytes(&layer, Some(Library::Ruy)), bytes(&layer, Some(Library::Xnnpack)));
    }

    #[test]
    fn narrow_groups_pull_whole_cache_lines_in_xnnpack() {
        // 4 channels of 4 bytes per group use 16 of the 64 bytes of each line.
        let layer = Layer::new(Operator::Conv2d(conv(16)), DataType::F32);
        let tensors = 2 * 14 * 14 * 64 * 4;
        assert_eq!(bytes(&layer, Some(Library::Xnnpack)), 4 * tensors + 4 * 64 * 4);
        assert_eq!(bytes(&layer, Some(Library::Ruy)), tensors + 4 * 64 * 4);
    }

    #[test]
    fn an_embedding_reads_the_rows_it_looks_up_not_the_table() {
        let table = crate::workload::Embedding { rows: 2, vocabulary: 32_000, features: 8 };
        let layer = Layer::new(Operator::Embedding(table), DataType::F32);
        assert_eq!(bytes(&layer, Some(Library::Ruy)), 2 * 4 + 2 * 16 * 4);
    }
}

//! The operands of an operator on real hardware: tensors, weights, and the part of the result to
//! compute.
//!
//! Tensors are dense, channels innermost (NHWC); a matrix of tokens is an image of height 1.
//! Weights have TFLite's layouts on every processor, so that parts computed by different processors
//! join without a transform.

use std::ops::Range;

use coexec_sim::InstructionSet;
use coexec_sim::plan::{Region, Span};
use coexec_sim::workload::{Class, DataType, Layer, Movement, Operator, OperatorError, Reduction, Shape};
use thiserror::Error;

/// Trained parameters of an operator, row-major.
///
/// | operator | kernel | bias |
/// |---|---|---|
/// | linear | output features, input features | output features |
/// | conv2d | output channels, height, width, input channels of a group | output channels |
/// | depthwise conv2d | height, width, output channels | output channels |
/// | norm | scale per channel | shift per channel (not for RMS) |
/// | embedding | vectors, features | none |
///
/// Empty where the operator has none.
#[derive(Clone, Copy, Debug, Default)]
pub struct Weights<'a> {
    /// The weight matrix or filter.
    pub kernel: &'a [f32],
    /// The bias, one value per output channel.
    pub bias: &'a [f32],
}

/// The pixels of a range of rows in each image of a tensor: one contiguous stretch per image,
/// evenly spaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stretches {
    /// First pixel of the first stretch, counted over all images.
    pub(crate) first: usize,
    /// Pixels of each stretch.
    pub(crate) length: usize,
    /// Number of stretches: 1 where whole images are computed.
    pub(crate) count: usize,
    /// Pixels from the start of one stretch to the start of the next.
    pub(crate) step: usize,
}

/// The outcome of a check of operands, or of a kernel on the CPU.
pub type Result<T = (), E = OperandError> = std::result::Result<T, E>;

/// An operator cannot run on the operands it was given.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[allow(missing_docs, reason = "each message names its fields")]
pub enum OperandError {
    /// The layer computes in another number format.
    #[error("found a layer in {found}, expected {expected}: the CPU kernels compute in f32 or f16")]
    DataType { found: DataType, expected: DataType },
    /// This processor does not have the instructions.
    #[error("this processor does not have {0}")]
    InstructionSet(InstructionSet),
    /// The operator's dimensions are invalid.
    #[error(transparent)]
    Operator(#[from] OperatorError),
    /// Too many or too few weights, inputs or elements.
    #[error("found {found} {what}, expected {expected}")]
    Count { what: String, found: usize, expected: usize },
    /// A part that exceeds the output, or that cannot be computed by itself.
    #[error("found {which} {found:?}, expected {expected}")]
    Part { which: &'static str, found: Range<u32>, expected: String },
    /// An operator without a kernel in this crate.
    #[error("{operator}: there is no kernel for it")]
    NoKernel { operator: String },
}

impl OperandError {
    pub(crate) fn count(found: usize, expected: usize, what: impl Into<String>) -> Self {
        Self::Count { what: what.into(), found, expected }
    }
}

/// Checks that `operator` can compute `part` of its output by itself.
///
/// # Errors
/// Where the part exceeds the output, cuts channels that the operator needs together (softmax,
/// norms of tokens), or cuts rows of an operator that needs them all (reshapes, products of several
/// heads).
pub fn check_part(operator: &Operator, part: Region) -> Result {
    let whole = Region::of(operator.output());
    let needs_all_rows = matches!(operator.class(), Class::Movement(Movement::Rearranged(_)));
    // With several heads the rows of the output are heads, and all of them form one batch of
    // products.
    let needs_all_heads = operator.multiplies_activations() && operator.output().height > 1;
    let needs_all_channels = match operator.class() {
        Class::Reduction(Reduction::Pixels { .. }) => false,
        Class::Reduction(Reduction::Exponentials | Reduction::Normalisation(_))
        | Class::Recurrent(_)
        | Class::Generic(_) => true,
        Class::Product(_)
        | Class::Convolution(_)
        | Class::Depthwise(_)
        | Class::Pool(_)
        | Class::Elementwise(_)
        | Class::Movement(_)
        | Class::Gather(_) => needs_all_rows,
    };
    check_span("channels", part.channels, whole.channels, needs_all_channels)?;
    check_span("lines", part.rows, whole.rows, needs_all_rows || needs_all_heads)
}

/// Pixels in a row of `shape`: 1 where rows are tokens.
pub(crate) fn row_pixels(shape: Shape) -> usize {
    shape.height as usize * shape.width as usize / shape.lines().max(1) as usize
}

/// `span` as a range of indices.
pub(crate) fn indices(span: Span) -> Range<usize> {
    span.start as usize..span.end as usize
}

impl Stretches {
    /// The stretches of `rows` in a tensor of `shape`.
    pub(crate) fn new(shape: Shape, rows: Span) -> Self {
        let [image, batch] = [shape.height * shape.width, shape.batch].map(|extent| extent as usize);
        let (row, rows) = (row_pixels(shape), indices(rows));
        let (first, length) = (rows.start * row, rows.len() * row);
        if length == image {
            return Self { first, length: image * batch, count: 1, step: image };
        }
        Self { first, length, count: batch, step: image }
    }

    /// The range of pixels of each stretch.
    pub(crate) fn iter(self) -> impl Iterator<Item = Range<usize>> {
        (0..self.count).map(move |number| self.first + number * self.step).map(move |at| at..at + self.length)
    }
}

/// The (pixel, channel) pairs of `part` of a tensor of `shape`, pixels counted over all images, in
/// memory order.
pub(crate) fn elements(shape: Shape, part: Region) -> impl Iterator<Item = (usize, usize)> {
    let pixels = Stretches::new(shape, part.rows).iter().flatten();
    pixels.flat_map(move |pixel| indices(part.channels).map(move |channel| (pixel, channel)))
}

/// The elements of `part` of a tensor of `shape`, as contiguous ranges.
pub(crate) fn pieces(shape: Shape, part: Region) -> impl Iterator<Item = Range<usize>> {
    let (all, channels) = (shape.channels as usize, indices(part.channels));
    Stretches::new(shape, part.rows).iter().flat_map(move |pixels| {
        let channels = channels.clone();
        let run = if channels.len() == all { pixels.len().max(1) } else { 1 };
        pixels
            .step_by(run)
            .map(move |pixel| pixel * all + channels.start..(pixel + run - 1) * all + channels.end)
    })
}

fn check_span(which: &'static str, found: Span, whole: Span, needs_all: bool) -> Result {
    let fits = found.start <= found.end && found.end <= whole.end;
    if fits && (!needs_all || found == whole) {
        return Ok(());
    }
    let (found, whole) = (found.range(), whole.range());
    let expected = if needs_all { format!("all, {whole:?}") } else { format!("a part of {whole:?}") };
    Err(OperandError::Part { which, found, expected })
}

impl Weights<'_> {
    /// Checks that these are weights of `operator`.
    ///
    /// # Errors
    /// Where the kernel or the bias has the wrong number of elements.
    pub fn check(&self, operator: &Operator) -> Result {
        let [kernel, bias] = weight_counts(operator);
        for (which, found, expected) in
            [("kernel", self.kernel.len(), kernel), ("bias", self.bias.len(), bias)]
        {
            if found != expected {
                return Err(OperandError::count(found, expected, format!("numbers in the {which}")));
            }
        }
        Ok(())
    }
}

/// Elements of the kernel and of the bias of `operator`.
pub fn weight_counts(operator: &Operator) -> [usize; 2] {
    operator.weights().map(|count| count as usize)
}

/// Checks the lengths of a layer's inputs: the operator's own, then one for each linked binary
/// function. Allocates nothing.
///
/// # Errors
/// Where the number of inputs is wrong, or one has the wrong size.
pub fn check_inputs(layer: &Layer, lengths: impl ExactSizeIterator<Item = usize>) -> Result {
    let expected = layer.read_shapes().count();
    if lengths.len() != expected {
        return Err(OperandError::count(lengths.len(), expected, "inputs"));
    }
    for (index, (found, shape)) in lengths.zip(layer.read_shapes()).enumerate() {
        let expected = shape.elements() as usize;
        if found != expected {
            return Err(OperandError::count(found, expected, format!("elements in input {index}")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use coexec_sim::workload::{Linear, Norm, NormKind, Reshape};

    use super::*;

    fn linear() -> Operator {
        Operator::Linear(Linear { rows: 5, input_features: 3, output_features: 7, bias: true })
    }

    fn channels_of(operator: &Operator, channels: Range<u32>) -> Region {
        Region { channels: channels.into(), ..Region::of(operator.output()) }
    }

    fn rows_of(operator: &Operator, rows: Range<u32>) -> Region {
        Region { rows: rows.into(), ..Region::of(operator.output()) }
    }

    #[test]
    fn a_part_beyond_the_output_is_refused() {
        let check = |part| check_part(&linear(), part);
        assert!(check(channels_of(&linear(), 2..7)).is_ok());
        assert!(check(channels_of(&linear(), 2..8)).is_err());
        assert!(check(rows_of(&linear(), 4..6)).is_err());
        assert!(check(rows_of(&linear(), Range { start: 3, end: 2 })).is_err());
    }

    #[test]
    fn pieces_hold_a_part_and_nothing_else() {
        let shape = Shape { batch: 2, height: 3, width: 4, channels: 3 };
        let rows = Region { rows: Span::new(1, 3), ..Region::of(shape) };
        assert_eq!(pieces(shape, rows).collect::<Vec<_>>(), [12..36, 48..72]);
        assert!(pieces(shape, Region::of(shape)).eq(std::iter::once(0..72)));
        let channels = Region { channels: Span::new(1, 3), ..Region::of(shape) };
        for part in [rows, channels, Region { channels: Span::new(0, 1), rows: Span::new(2, 3) }] {
            let elements: Vec<usize> =
                elements(shape, part).map(|(pixel, channel)| 3 * pixel + channel).collect();
            assert_eq!(pieces(shape, part).flatten().collect::<Vec<_>>(), elements, "{part:?}");
        }
    }

    #[test]
    fn operators_that_mix_all_channels_are_not_cut_along_them() {
        let norm = Operator::Norm(Norm { kind: NormKind::Layer, input: Shape::tokens(4, 8) });
        assert!(check_part(&norm, channels_of(&norm, 0..4)).is_err());
        assert!(check_part(&norm, rows_of(&norm, 1..3)).is_ok());
        let reshape =
            Operator::Reshape(Reshape { input: Shape::tokens(4, 8), output: Shape::image(4, 4, 2) });
        assert!(check_part(&reshape, rows_of(&reshape, 0..2)).is_err());
    }

    #[test]
    fn weights_are_counted_without_and_with_their_bias() {
        assert_eq!(weight_counts(&linear()), [21, 7]);
        let kernel = [0.0; 21];
        assert_eq!(
            Weights { kernel: &kernel, bias: &[] }.check(&linear()),
            Err(OperandError::count(0, 7, "numbers in the bias"))
        );
    }
}

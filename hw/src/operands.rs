//! What an operator is given on real hardware: tensors, weights, and which part
//! of the result it computes.
//!
//! Tensors are dense, channels innermost (NHWC); a matrix of tokens is an image
//! of one line. The layouts of weights are TFLite's, the same for every
//! processor, so that a part computed by another joins without a transform.

use std::marker::PhantomData;
use std::ops::Range;

use coexec_sim::workload::{NormKind, Operator, Shape};
use thiserror::Error;

/// Trained parameters of an operator, row-major.
///
/// | operator | kernel | bias |
/// |---|---|---|
/// | linear | output features, input features | output features |
/// | conv2d | output channels, height, width, input channels of a group | output channels |
/// | depthwise conv2d | height, width, output channels | output channels |
/// | norm | scale a channel | shift a channel (not for RMS) |
/// | embedding | vectors, features | none |
///
/// What an operator does not have is empty.
#[derive(Clone, Copy, Debug, Default)]
pub struct Weights<'a> {
    /// The weights proper.
    pub kernel: &'a [f32],
    /// What is added to each output channel.
    pub bias: &'a [f32],
}

/// The part of an operator's result that is computed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Output channels.
    pub channels: Range<u32>,
    /// Lines of each image of the output: rows of pixels, or tokens where the
    /// output is one row high.
    pub lines: Range<u32>,
}

/// Where results go: a whole output tensor of which only a part is written.
pub struct Output<'a, T> {
    first: *mut T,
    length: usize,
    tensor: PhantomData<&'a mut [T]>,
}

/// An operator cannot run on what it was given.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum OperandError {
    /// Weights of the wrong size.
    #[error("found {found} numbers in the {which}, expected {expected}")]
    WeightCount {
        /// Kernel or bias.
        which: &'static str,
        /// Numbers given.
        found: usize,
        /// Numbers the operator has.
        expected: usize,
    },
    /// More or fewer inputs than the layer reads.
    #[error("found {found} inputs, expected {expected}")]
    InputCount {
        /// Inputs given.
        found: usize,
        /// Inputs of the operator and its linked functions.
        expected: usize,
    },
    /// An input of the wrong size.
    #[error("found {found} elements in input {index}, expected {expected}")]
    InputLength {
        /// Which input, from 0.
        index: usize,
        /// Elements given.
        found: usize,
        /// Elements expected.
        expected: usize,
    },
    /// An output of the wrong size.
    #[error("found room for {found} elements in the output, expected {expected}")]
    OutputLength {
        /// Elements there is room for.
        found: usize,
        /// Elements expected.
        expected: usize,
    },
    /// A part that the output does not have, or that cannot be computed alone.
    #[error("found {which} {found:?}, expected {expected}")]
    Part {
        /// Channels or lines.
        which: &'static str,
        /// The range given.
        found: Range<u32>,
        /// What would be accepted.
        expected: String,
    },
    /// An index beyond the end of an embedding's table.
    #[error("found index {found} into the table, expected a whole number below {vocabulary}")]
    Index {
        /// The index, as given.
        found: String,
        /// Vectors in the table.
        vocabulary: u32,
    },
}

impl Part {
    /// The whole result of `operator`.
    pub fn whole(operator: &Operator) -> Self {
        let output = operator.output();
        Self { channels: 0..output.channels, lines: 0..lines(output) }
    }

    /// All lines of some output channels.
    pub fn of_channels(operator: &Operator, channels: Range<u32>) -> Self {
        Self { channels, ..Self::whole(operator) }
    }

    /// All channels of some lines.
    pub fn of_lines(operator: &Operator, lines: Range<u32>) -> Self {
        Self { lines, ..Self::whole(operator) }
    }

    /// Whether `operator` can compute this part.
    ///
    /// # Errors
    /// Where the output does not have these channels or lines, or the operator
    /// needs all channels (softmax, norms of tokens) or has no lines (reshapes).
    pub fn check(&self, operator: &Operator) -> Result<(), OperandError> {
        let whole = Self::whole(operator);
        let needs_all_channels = match operator {
            Operator::Softmax(_) | Operator::Reshape(_) => true,
            Operator::Norm(norm) => norm.kind != NormKind::Batch,
            _ => false,
        };
        let needs_all_lines = matches!(operator, Operator::Reshape(_));
        check_range("channels", &self.channels, &whole.channels, needs_all_channels)?;
        check_range("lines", &self.lines, &whole.lines, needs_all_lines)
    }

    /// Pixels, counted over all images, and channels of the part of the result of
    /// `operator`, in the order of memory.
    pub(crate) fn elements(&self, operator: &Operator) -> impl Iterator<Item = (usize, usize)> {
        let shape = operator.output();
        let image = shape.height as usize * shape.width as usize;
        let line = image / lines(shape).max(1) as usize;
        let pixels = self.lines.start as usize * line..self.lines.end as usize * line;
        let channels = self.channels.start as usize..self.channels.end as usize;
        (0..shape.batch as usize).flat_map(move |batch| {
            let channels = channels.clone();
            pixels
                .clone()
                .flat_map(move |pixel| channels.clone().map(move |channel| (batch * image + pixel, channel)))
        })
    }
}

fn check_range(
    which: &'static str,
    found: &Range<u32>,
    whole: &Range<u32>,
    needs_all: bool,
) -> Result<(), OperandError> {
    let fits = found.start <= found.end && found.end <= whole.end;
    if fits && (!needs_all || found == whole) {
        return Ok(());
    }
    let expected = if needs_all { format!("all, {whole:?}") } else { format!("a part of {whole:?}") };
    Err(OperandError::Part { which, found: found.clone(), expected })
}

/// Lines of an image of `output`: see [`Part::lines`].
pub fn lines(output: Shape) -> u32 {
    if output.height > 1 { output.height } else { output.width }
}

impl<'a, T> From<&'a mut [T]> for Output<'a, T> {
    fn from(tensor: &'a mut [T]) -> Self {
        Self { first: tensor.as_mut_ptr(), length: tensor.len(), tensor: PhantomData }
    }
}

impl<T> Output<'_, T> {
    /// A tensor of which another processor may write other parts at the same time.
    ///
    /// # Safety
    /// Until the output is dropped, `first` is valid for reads and writes of
    /// `length` elements, and nobody else accesses the parts that are computed
    /// into it while they are.
    pub unsafe fn shared(first: *mut T, length: usize) -> Self {
        Self { first, length, tensor: PhantomData }
    }

    /// The first element.
    pub fn as_mut_ptr(&mut self) -> *mut T {
        self.first
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }
}

impl Weights<'_> {
    /// Whether these are the weights of `operator`.
    ///
    /// # Errors
    /// Where the kernel or the bias has too many or too few numbers.
    pub fn check(&self, operator: &Operator) -> Result<(), OperandError> {
        let [kernel, bias] = weight_counts(operator);
        for (which, found, expected) in
            [("kernel", self.kernel.len(), kernel), ("bias", self.bias.len(), bias)]
        {
            if found != expected {
                return Err(OperandError::WeightCount { which, found, expected });
            }
        }
        Ok(())
    }
}

/// Numbers in the kernel and in the bias of `operator`.
pub fn weight_counts(operator: &Operator) -> [usize; 2] {
    let all = operator.parameters() as usize;
    let bias = match operator {
        Operator::Linear(linear) if linear.bias => linear.output_features,
        Operator::Conv2d(conv) if conv.bias => conv.output_channels,
        Operator::DepthwiseConv2d(conv) if conv.bias => conv.output().channels,
        Operator::Norm(norm) if norm.kind != NormKind::Rms => norm.input.channels,
        _ => 0,
    } as usize;
    [all - bias, bias]
}

/// Elements of each tensor that `operator` reads, in order.
pub fn input_lengths(operator: &Operator) -> Vec<usize> {
    operator.inputs().iter().map(|shape| shape.elements() as usize).collect()
}

/// Checks the lengths of a layer's inputs: the operator's `own`, then one for each
/// of the `additional` functions of two tensors linked behind it, which has the
/// size of `output` or one value a channel. Allocates nothing.
///
/// # Errors
/// Where there are too many or too few inputs, or one has the wrong size.
pub fn check_inputs(
    own: &[usize],
    output: Shape,
    additional: usize,
    lengths: impl ExactSizeIterator<Item = usize>,
) -> Result<(), OperandError> {
    let expected = own.len() + additional;
    if lengths.len() != expected {
        return Err(OperandError::InputCount { found: lengths.len(), expected });
    }
    for (index, found) in lengths.enumerate() {
        let expected = own.get(index).copied().unwrap_or(output.elements() as usize);
        let is_broadcast = index >= own.len() && found == output.channels as usize;
        if found != expected && !is_broadcast {
            return Err(OperandError::InputLength { index, found, expected });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use coexec_sim::workload::{Linear, Norm, Reshape};

    use super::*;

    fn linear() -> Operator {
        Operator::Linear(Linear { rows: 5, input_features: 3, output_features: 7, bias: true })
    }

    #[test]
    fn tokens_are_the_lines_of_a_matrix() {
        assert_eq!(Part::whole(&linear()), Part { channels: 0..7, lines: 0..5 });
    }

    #[test]
    fn a_part_beyond_the_output_is_refused() {
        assert!(Part::of_channels(&linear(), 2..7).check(&linear()).is_ok());
        assert!(Part::of_channels(&linear(), 2..8).check(&linear()).is_err());
        assert!(Part::of_lines(&linear(), 4..6).check(&linear()).is_err());
        assert!(Part::of_lines(&linear(), Range { start: 3, end: 2 }).check(&linear()).is_err());
    }

    #[test]
    fn what_mixes_all_channels_is_not_cut_along_them() {
        let norm = Operator::Norm(Norm { kind: NormKind::Layer, input: Shape::tokens(4, 8) });
        assert!(Part::of_channels(&norm, 0..4).check(&norm).is_err());
        assert!(Part::of_lines(&norm, 1..3).check(&norm).is_ok());
        let reshape =
            Operator::Reshape(Reshape { input: Shape::tokens(4, 8), output: Shape::image(4, 4, 2) });
        assert!(Part::of_lines(&reshape, 0..2).check(&reshape).is_err());
    }

    #[test]
    fn weights_are_counted_without_and_with_their_bias() {
        assert_eq!(weight_counts(&linear()), [21, 7]);
        let kernel = [0.0; 21];
        assert_eq!(
            Weights { kernel: &kernel, bias: &[] }.check(&linear()),
            Err(OperandError::WeightCount { which: "bias", found: 0, expected: 7 })
        );
    }
}

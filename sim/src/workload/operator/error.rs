//! Errors of single operators, and how to fix them.

use strum::EnumMessage;
use thiserror::Error;

use super::{MAX_DIMENSION, MAX_ELEMENTS, MAX_WORK};
use crate::workload::{Dimension, Shape};

/// Why an operator is invalid.
#[derive(Clone, Debug, PartialEq, Eq, EnumMessage, Error)]
#[allow(missing_docs, reason = "each message names its fields")]
pub enum OperatorError {
    /// A dimension, stride, dilation or group count of zero.
    #[error("{dimension} is 0, expected at least 1")]
    #[strum(
        message = "Every extent, stride, dilation and group count is at least 1; only paddings may be 0."
    )]
    Zero { dimension: &'static str },
    /// A dimension beyond [`MAX_DIMENSION`].
    #[error("{dimension} is {found}, expected at most {MAX_DIMENSION}")]
    #[strum(message = "Dimensions are limited to 2^24; check for a misplaced digit.")]
    DimensionTooLarge { dimension: &'static str, found: u64 },
    /// A tensor beyond [`MAX_ELEMENTS`].
    #[error("{tensor} has {found} elements, expected at most {MAX_ELEMENTS}")]
    #[strum(message = "Tensors are limited to 2^40 elements; split the operator.")]
    TensorTooLarge { tensor: &'static str, found: u128 },
    /// More work than [`MAX_WORK`].
    #[error("it takes {found} steps, expected at most {MAX_WORK}")]
    #[strum(
        message = "Work is limited to 2^53 so that counts stay exact in floating point; split the operator."
    )]
    TooMuchWork { found: u128 },
    /// A window larger than its padded input.
    #[error("the window covers {reach} {axis}, but the padded input has {padded}")]
    #[strum(message = "Add padding or choose a smaller kernel or dilation.")]
    WindowTooLarge { axis: &'static str, reach: u64, padded: u64 },
    /// Channels that are not a multiple of the groups.
    #[error("{channels} {which} channels do not divide into {groups} groups")]
    #[strum(message = "Choose a number of groups that divides input and output channels.")]
    Groups { which: &'static str, channels: u32, groups: u32 },
    /// Channels that are not a multiple of the slices under a window.
    #[error("{channels} channels of a group do not divide into {slices} slices")]
    #[strum(message = "Choose a number of slices that divides the input channels of a group.")]
    Slices { channels: u32, slices: u32 },
    /// A function of one tensor given two, or the reverse.
    #[error("the function {function} reads {expected} tensors, found {found}")]
    #[strum(message = "Sums and products read two tensors, other functions one.")]
    OperandCount { function: String, found: u32, expected: u32 },
    /// A second operand that cannot be broadcast to the first.
    #[error("the second operand is {second}, expected {first}, or 1 along some of its dimensions")]
    #[strum(
        message = "The second operand has the extent of the first or one element along each dimension, or a divisor of its images."
    )]
    Broadcast { first: Shape, second: Shape },
    /// A reshape between extents of different size.
    #[error("{input} has {} elements, but {output} has {}", input.elements(), output.elements())]
    #[strum(message = "A reshape keeps the number of elements.")]
    ElementCount { input: Shape, output: Shape },
    /// A slice out of range.
    #[error("the slice takes position {position} along {dimension}, but the input has {extent}")]
    #[strum(message = "Take fewer positions, start at a lower one or take a smaller step.")]
    SliceRange { position: i64, dimension: Dimension, extent: u32 },
    /// An order in which a dimension is missing.
    #[error("the order does not name each dimension once")]
    #[strum(message = "Write batch, height, width and channels, each once.")]
    Order,
    /// A concatenation of no tensors.
    #[error("it joins no tensors, expected at least 1")]
    #[strum(message = "List the channels of each tensor to join.")]
    NothingToJoin,
}

impl OperatorError {
    /// How to fix it, in one sentence.
    pub fn help(&self) -> &'static str {
        self.get_message().unwrap_or_default()
    }
}

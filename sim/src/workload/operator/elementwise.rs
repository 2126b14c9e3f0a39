//! Element-wise functions.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{BatchOf, ChannelCut, Checked, Class, Definition, Operator, OperatorError, bounds, first};
use crate::workload::Shape;

/// An element-wise function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema, strum::Display)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "snake_case")]
pub enum Function {
    /// Sum of two tensors.
    Add,
    /// Product of two tensors.
    Multiply,
    /// Quotient of two tensors.
    Divide,
    /// `max(x, 0) + slope * min(x, 0)`, with one trained slope per channel.
    Prelu,
    /// `max(x, 0)`.
    Relu,
    /// `min(max(x, 0), 6)`.
    Relu6,
    /// `x * relu6(x + 3) / 6`.
    HardSwish,
    /// `relu6(x + 3) / 6`.
    HardSigmoid,
    /// `1 / (1 + exp(-x))`.
    Sigmoid,
    /// `x * sigmoid(x)`, also called swish.
    Silu,
    /// Gaussian error linear unit.
    Gelu,
    /// Hyperbolic tangent.
    Tanh,
}

impl Function {
    /// Whether it only clamps its input: kernels of products and sums apply it to their results.
    pub fn is_bound(self) -> bool {
        matches!(self, Self::Relu | Self::Relu6)
    }

    /// Whether it contains an exponential.
    pub fn has_exponential(self) -> bool {
        matches!(self, Self::Sigmoid | Self::Silu | Self::Gelu | Self::Tanh)
    }

    /// Whether it has a piecewise linear approximation in place of an exponential.
    pub fn is_hard(self) -> bool {
        matches!(self, Self::HardSwish | Self::HardSigmoid)
    }

    /// Whether the function reads two tensors.
    pub fn is_binary(self) -> bool {
        matches!(self, Self::Add | Self::Multiply | Self::Divide | Self::Prelu)
    }

    /// The function's name in messages and node names.
    pub(in crate::workload) fn word(self) -> String {
        format!("{self:?}").to_lowercase()
    }
}

/// An element-wise function of one tensor, or of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Elementwise {
    /// The function.
    pub function: Function,
    /// Extent of the first operand and of the output.
    #[serde(skip)]
    pub input: Shape,
    /// Extent of the second operand: the input's, or `1x1xC` if one value per
    /// channel is broadcast. `None` for a function of one tensor.
    #[serde(skip)]
    pub other: Option<Shape>,
}

impl Elementwise {
    /// Whether the second operand is broadcast, with one value per channel.
    pub fn is_broadcast(&self) -> bool {
        self.other.is_some_and(|other| other != self.input)
    }

    /// Whether it reads two tensors of the output's size.
    pub fn reads_two_tensors(&self) -> bool {
        self.other == Some(self.input)
    }
}

impl Definition for Elementwise {
    fn class(&self) -> Class<'_> {
        Class::Elementwise(*self)
    }

    fn check(&self) -> Checked {
        let Self { function, input: first, other } = *self;
        bounds::shape("the first operand", first)?;
        let (found, expected) = (1 + u32::from(other.is_some()), 1 + u32::from(function.is_binary()));
        if found != expected {
            return Err(OperatorError::OperandCount { function: function.word(), found, expected });
        }
        let Some(second) = other else { return Ok(()) };
        bounds::shape("the second operand", second)?;
        let one_a_channel = Shape::image(1, 1, first.channels);
        let one_an_image = Shape { batch: first.batch, ..one_a_channel };
        if second != first && second != one_a_channel && second != one_an_image {
            return Err(OperatorError::Broadcast { first, second });
        }
        Ok(())
    }

    fn extent(&self) -> Shape {
        self.input
    }

    fn input(&self, index: usize) -> Option<Shape> {
        [Some(self.input), self.other].get(index).copied().flatten()
    }

    fn applies_bounds(&self) -> bool {
        self.function.is_binary()
    }

    fn channel_cut(&self) -> ChannelCut {
        ChannelCut::Separate
    }

    fn over(&self, extent: Shape) -> Operator {
        let follow = |other: Shape| {
            if other == self.input { extent } else { other.with_channels(extent.channels) }
        };
        Self { input: extent, other: self.other.map(follow), ..*self }.into()
    }

    fn reading(&self, given: &[Shape]) -> Operator {
        let input = first(given, self.input);
        let other = self.function.is_binary().then(|| given.get(1).copied().unwrap_or(input));
        Self { input, other, ..*self }.into()
    }

    fn batched(&self, batch: &BatchOf<'_>) -> Option<Operator> {
        // Operands of equal extent stay equal, whatever the layout of each one given.
        let of_one_extent = || self.over(first(batch.given, self.input));
        Some(if self.is_broadcast() { self.reading(batch.given) } else { of_one_extent() })
    }
}

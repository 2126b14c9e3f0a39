//! Element-wise functions.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{BatchOf, ChannelCut, Checked, Class, Definition, Operator, OperatorError, bounds, first};
use crate::workload::{Dimension, Shape};

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
    /// Extent of the second operand, which may be broadcast; see [`SecondOperand`]. `None` for a function
    /// of one tensor.
    #[serde(skip)]
    pub other: Option<Shape>,
}

/// How the second operand of a function is read beside the first: along each dimension it has the first's
/// extent, or one element that is read again and again. Of images it may also have a divisor of the first's
/// number: after the last the first follows again, as position biases of heads do in windows. Which of its images is
/// read changes no time, so masks that all heads of one window share are written in the same way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SecondOperand {
    /// Its extents in the order of [`Dimension`]; `None` where it has the first's.
    own: [Option<u32>; 4],
}

impl SecondOperand {
    /// An element for each of the first operand's.
    pub const WHOLE: Self = Self { own: [None; 4] };
    /// One element for each channel.
    pub const PER_CHANNEL: Self = Self { own: [Some(1), Some(1), Some(1), None] };

    /// The relation of an operand of extent `second` to one of extent `first`.
    pub fn new(first: Shape, second: Shape) -> Self {
        let (first, second) = (<[u32; 4]>::from(first), <[u32; 4]>::from(second));
        Self { own: std::array::from_fn(|at| (first[at] != second[at]).then_some(second[at])) }
    }

    /// Whether it has an element for each of the first's.
    pub fn is_whole(&self) -> bool {
        *self == Self::WHOLE
    }

    /// Its extent beside a first operand of extent `first`. A part whose images are not whole rounds of the
    /// second operand's reads one for each.
    pub fn beside(&self, first: Shape) -> Shape {
        let [images, height, width, channels] = self.own;
        let batch = images.filter(|&images| first.batch.is_multiple_of(images)).unwrap_or(first.batch);
        Shape {
            batch,
            height: height.unwrap_or(first.height),
            width: width.unwrap_or(first.width),
            channels: channels.unwrap_or(first.channels),
        }
    }

    /// The index of the pixel, counted over all images, that is read for pixel `pixel` of a first operand of
    /// extent `first`.
    pub fn pixel(&self, first: Shape, pixel: usize) -> usize {
        if self.is_whole() {
            return pixel;
        }
        let second = self.beside(first);
        let [width, height] = [first.width, first.height].map(|extent| extent as usize);
        let [column, row, image] = [pixel % width, pixel / width % height, pixel / width / height];
        let at = |extent: u32, index: usize| index % extent as usize;
        (at(second.batch, image) * second.height as usize + at(second.height, row)) * second.width as usize
            + at(second.width, column)
    }

    /// Whether it is broadcast along a dimension.
    pub fn repeats(&self, dimension: Dimension) -> bool {
        self.own[dimension as usize].is_some()
    }

    /// Whether one value is read for all channels of a pixel of a first operand of extent `first`.
    pub fn is_per_pixel(&self, first: Shape) -> bool {
        self.beside(first).channels < first.channels
    }

    /// Whether it can be read beside a first operand of extent `first`.
    fn fits(&self, first: Shape) -> bool {
        let [images, rest @ ..] = self.own;
        images.is_none_or(|images| images > 0 && first.batch.is_multiple_of(images))
            && rest.iter().flatten().all(|&extent| extent == 1)
    }
}

impl Elementwise {
    /// Whether the second operand is broadcast.
    pub fn is_broadcast(&self) -> bool {
        self.other.is_some_and(|other| other != self.input)
    }

    /// How its second operand is read, if it has one.
    pub fn second_operand(&self) -> SecondOperand {
        self.other.map_or(SecondOperand::WHOLE, |other| SecondOperand::new(self.input, other))
    }

    /// Runs of consecutive elements of the output for each of which a kernel is called that reads the
    /// second operand in order, or as one value: dimensions that are broadcast alike are one run.
    pub fn runs(&self) -> u64 {
        let extents = <[u32; 4]>::from(self.input);
        let SecondOperand { own } = self.second_operand();
        let mut inner = (0..extents.len()).rev().filter(|&at| extents[at] > 1);
        let Some(innermost) = inner.next() else { return 1 };
        let run = inner.take_while(|&at| own[at] == own[innermost]).last();
        let outer = extents[..run.unwrap_or(innermost)].iter().map(|&extent| u64::from(extent));
        outer.product()
    }

    /// Its second operand, in tensors of the output's size; the few values of one pixel stay in a cache.
    pub fn operand_tensors(&self) -> f64 {
        let counts = |other: &Shape| *other == self.input || other.pixels() > 1;
        self.other.filter(counts).map_or(0.0, |other| other.elements() as f64 / self.input.elements() as f64)
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
        if !SecondOperand::new(first, second).fits(first) {
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
        let follow = |other| SecondOperand::new(self.input, other).beside(extent);
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
        let batched = if self.is_broadcast() { self.reading(batch.given) } else { of_one_extent() };
        Some(batched).filter(|batched| batched.check().is_ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Shape = Shape { batch: 4, height: 3, width: 5, channels: 2 };

    fn sum(second: Shape) -> Elementwise {
        Elementwise { function: Function::Add, input: FIRST, other: Some(second) }
    }

    #[test]
    fn a_second_operand_is_read_again_along_dimensions_of_one_element_and_images_of_a_divisor() {
        for second in [[4, 3, 5, 2], [1, 1, 1, 2], [4, 3, 5, 1], [1, 3, 5, 2], [2, 3, 1, 2], [4, 1, 5, 2]] {
            let second = Shape::from(second);
            let operand = sum(second).second_operand();
            assert_eq!((sum(second).check(), operand.beside(FIRST)), (Ok(()), second));
            let mut read = Vec::new();
            for image in 0..FIRST.batch {
                for row in 0..FIRST.height {
                    for column in 0..FIRST.width {
                        let row = row % second.height;
                        read.push(
                            ((image % second.batch) * second.height + row) * second.width
                                + column % second.width,
                        );
                    }
                }
            }
            let found: Vec<u32> = (0..read.len()).map(|pixel| operand.pixel(FIRST, pixel) as u32).collect();
            assert_eq!(found, read, "{second}");
        }
        for second in [[3, 3, 5, 2], [4, 2, 5, 2], [4, 3, 5, 3], [8, 3, 5, 2]] {
            assert!(sum(second.into()).check().is_err(), "{second:?}");
        }
    }

    #[test]
    fn dimensions_that_are_broadcast_alike_are_one_run() {
        for (second, runs) in [
            ([4, 3, 5, 2], 1),
            ([1, 1, 1, 2], 60),
            ([4, 3, 5, 1], 60),
            ([1, 3, 5, 2], 4),
            ([4, 3, 1, 1], 12),
            ([2, 1, 1, 1], 4),
            ([1, 1, 1, 1], 1),
        ] {
            assert_eq!(sum(second.into()).runs(), runs, "{second:?}");
        }
    }

    #[test]
    fn a_part_reads_its_part_of_a_second_operand() {
        let part = FIRST.with_channels(1);
        for (second, expected) in
            [([1, 3, 5, 2], [1, 3, 5, 1]), ([4, 3, 5, 1], [4, 3, 5, 1]), ([1, 1, 1, 2], [1; 4])]
        {
            assert_eq!(sum(second.into()).over(part).input(1), Some(expected.into()));
        }
    }
}

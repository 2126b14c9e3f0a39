//! The trait of all operators.

use std::fmt;
use std::ops::Range;

use super::{Class, Operator, OperatorError, Reduction, Window, bounds};
use crate::workload::Shape;

/// Extent of an operator's input before its inputs are known.
pub(super) const UNKNOWN: Shape = Shape { batch: 0, height: 0, width: 0, channels: 0 };

/// How an operator can be divided along its output channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelCut {
    /// Not at all.
    None,
    /// Each part has weights of its own and reads the whole input.
    OfWeights,
    /// Each part reads only the same part of the input's channels.
    Separate,
}

/// The batch that an operator is adapted to.
#[derive(Clone, Copy, Debug)]
pub struct BatchOf<'a> {
    /// Number of images or sequences.
    pub count: u32,
    /// Extents of the operator's inputs.
    pub given: &'a [Shape],
    /// Whether a product of two activations reads the result.
    pub feeds_product: bool,
}

impl BatchOf<'_> {
    /// `value` times the number of images; a result that is too large fails the operator's check.
    pub(super) fn times(&self, value: u32) -> u32 {
        value.saturating_mul(self.count)
    }
}

/// An operator. All methods except `check` assume that `check` succeeds.
pub trait Definition {
    /// The name of this special case of its kind, such as a grouped convolution; `None` without one.
    fn special_name(&self) -> Option<&'static str> {
        None
    }

    /// The class of its work.
    fn class(&self) -> Class<'_>;

    /// Checks everything that does not depend on a graph.
    ///
    /// # Errors
    /// The first [`OperatorError`] found: a zero or oversized dimension, a window
    /// larger than its padded input, channels that do not divide into groups,
    /// operands that do not broadcast, a reshape to another size, a slice out of
    /// range.
    fn check(&self) -> Result<(), OperatorError> {
        bounds::shape("the input", self.extent())?;
        bounds::shape("the output", self.output())
    }

    /// Extent of its first input.
    fn extent(&self) -> Shape;

    /// The operator with another extent of the first input, if its own depends on that.
    fn over(&self, extent: Shape) -> Operator;

    /// Whether a file omits its extents, which then follow from its inputs.
    fn takes_extents(&self) -> bool {
        self.window().is_none()
    }

    /// The operator on inputs of the extents `given`, as far as its own extents depend on them.
    fn reading(&self, given: &[Shape]) -> Operator {
        self.over(first(given, self.extent()))
    }

    /// Extent of the input at position `index`; `None` after the last. Weights are not inputs.
    fn input(&self, index: usize) -> Option<Shape> {
        (index == 0).then(|| self.extent())
    }

    /// Extent of the tensor it writes.
    fn output(&self) -> Shape {
        self.extent()
    }

    /// Multiply-accumulates of matrix products and convolutions; zero for
    /// everything else, as the papers count.
    fn macs(&self) -> u64 {
        0
    }

    /// Trained parameters: weights, then biases.
    fn weights(&self) -> [u64; 2] {
        [0, 0]
    }

    /// The window that slides over its input, if any.
    fn window(&self) -> Option<Window> {
        None
    }

    /// Writes a short description, which starts with `name`.
    ///
    /// # Errors
    /// Those of the formatter.
    fn describe(&self, name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{name} -> {}", self.output())
    }

    /// Whether inference frameworks fold it into the weights of the operator before it.
    fn folds(&self) -> bool {
        false
    }

    /// Whether its kernels clamp results to the bounds of a rectifier for free. For a folded operator,
    /// the operator that it is folded into does.
    fn applies_bounds(&self) -> bool {
        self.window().is_some()
    }

    /// Whether element-wise functions can run in its epilogue.
    fn takes_functions(&self) -> bool {
        true
    }

    /// Whether its result is a view of its input, for which an engine may run no kernel.
    fn is_view(&self) -> bool {
        false
    }

    /// The operator with a bias; `None` if a normalisation cannot fold into its weights.
    fn with_bias(&self) -> Option<Operator> {
        None
    }

    /// How it can be divided along its output channels.
    fn channel_cut(&self) -> ChannelCut {
        ChannelCut::None
    }

    /// The part that computes `channels` output channels, if it can be cut along them.
    fn part_of_channels(&self, channels: u32) -> Operator {
        self.over(self.extent().with_channels(channels))
    }

    /// Lines of its output, if each depends only on some lines of the input.
    fn own_lines(&self) -> Option<u32> {
        let by_pixel = matches!(
            self.class(),
            Class::Elementwise(_) | Class::Reduction(Reduction::Exponentials | Reduction::Normalisation(_))
        );
        match self.window() {
            Some(_) => Some(self.output().height),
            None => (by_pixel && !self.folds()).then(|| self.extent().lines()),
        }
    }

    /// The part that computes `lines` of its output from the input lines that its window reaches,
    /// if it can be cut along lines.
    fn part_of_lines(&self, lines: Range<u32>) -> Operator {
        self.over(self.extent().with_lines(&lines))
    }

    /// The operator for a batch; `None` if it would mix different images or sequences.
    fn batched(&self, batch: &BatchOf<'_>) -> Option<Operator> {
        // A window over the tokens of one matrix would reach from one sequence into the next.
        let reaches = self.window().is_some_and(|window| !window.is_pointwise());
        let mixes = reaches && first(batch.given, self.extent()).is_tokens();
        (!mixes).then(|| self.reading(batch.given))
    }
}

/// Methods of an operator whose first input is its field `input`.
macro_rules! of_one_input {
    () => {
        fn extent(&self) -> $crate::workload::Shape {
            self.input
        }

        fn over(&self, extent: $crate::workload::Shape) -> $crate::workload::Operator {
            let mut other = *self;
            other.input = extent;
            other.into()
        }
    };
}
pub(super) use of_one_input;

/// Methods of an operator whose field `window` slides over its field `input`.
macro_rules! under_window {
    () => {
        of_one_input!();

        fn window(&self) -> Option<Window> {
            Some(self.window)
        }

        fn output(&self) -> $crate::workload::Shape {
            self.output()
        }

        fn part_of_lines(&self, lines: std::ops::Range<u32>) -> $crate::workload::Operator {
            let (input, window) = self.window.of_rows(self.input, lines);
            Self { input, window, ..*self }.into()
        }
    };
}
pub(super) use under_window;

/// Methods of an operator whose extents do not depend on its inputs.
macro_rules! of_own_extents {
    () => {
        fn over(&self, _: $crate::workload::Shape) -> $crate::workload::Operator {
            (*self).into()
        }

        fn takes_extents(&self) -> bool {
            false
        }
    };
}
pub(super) use of_own_extents;

/// The form in files of an extent that follows from an input: `true`.
pub(super) mod flag {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    use super::{Shape, UNKNOWN};

    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    pub(in super::super) fn serialize<S: Serializer>(_: &Shape, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_bool(true)
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Shape, D::Error> {
        let false_is_none = || D::Error::custom("invalid value: `false`, expected `true` or no such key");
        bool::deserialize(from)?.then_some(UNKNOWN).ok_or_else(false_is_none)
    }
}

/// The first extent given, or `known` if there is none.
pub(super) fn first(given: &[Shape], known: Shape) -> Shape {
    given.first().copied().unwrap_or(known)
}

pub(super) fn yes() -> bool {
    true
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
pub(super) fn is_true(flag: &bool) -> bool {
    *flag
}

pub(super) fn one() -> u32 {
    1
}

pub(super) fn is_one<T: From<u8> + PartialEq>(count: &T) -> bool {
    *count == T::from(1)
}

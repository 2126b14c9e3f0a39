//! What every operator answers.

use std::fmt;
use std::ops::Range;

use super::{Class, Operator, OperatorError, Window, bounds};
use crate::workload::Shape;

/// Extent of an operator's input until it is known what it reads.
pub(super) const UNKNOWN: Shape = Shape { batch: 0, height: 0, width: 0, channels: 0 };

/// How an operator can be divided along its output channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelCut {
    /// In no way.
    None,
    /// Each part has weights of its own and reads the whole input.
    OfWeights,
    /// Each part reads the same part of the input's channels.
    Separate,
}

/// What an operator's batch is made for.
#[derive(Clone, Copy, Debug)]
pub struct BatchOf<'a> {
    /// Images or sequences at once.
    pub count: u32,
    /// Extents of what the operator reads.
    pub given: &'a [Shape],
    /// Whether a product of activations reads the result.
    pub feeds_product: bool,
}

impl BatchOf<'_> {
    /// `value` for all of them; what is too large fails the operator's check.
    pub(super) fn times(&self, value: u32) -> u32 {
        value.saturating_mul(self.count)
    }
}

/// What every operator answers. All methods but `check` assume that it succeeds.
pub trait Definition {
    /// The field's word for operators of its kind that are as this one, where they have one of their own.
    fn special_name(&self) -> Option<&'static str> {
        None
    }

    /// What kind of work it is.
    fn class(&self) -> Class<'_>;

    /// Checks everything about it that does not depend on a graph.
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

    /// Extent of the first tensor that it reads.
    fn extent(&self) -> Shape;

    /// The operator on a first tensor of another extent, where it takes its own from it.
    fn over(&self, extent: Shape) -> Operator;

    /// Whether a file leaves its extents to what it reads.
    fn takes_extents(&self) -> bool {
        self.window().is_none()
    }

    /// The operator on inputs of these extents, as far as they are given and it takes its own
    /// from them.
    fn reading(&self, given: &[Shape]) -> Operator {
        self.over(first(given, self.extent()))
    }

    /// Extent of the tensor that it reads at position `index`; `None` beyond the last. Weights
    /// are not inputs.
    fn input(&self, index: usize) -> Option<Shape> {
        (index == 0).then(|| self.extent())
    }

    /// Extent of the tensor it writes.
    fn output(&self) -> Shape {
        self.extent()
    }

    /// Multiply-accumulates of the matrix products and convolutions; zero for
    /// everything else, as the papers count.
    fn macs(&self) -> u64 {
        0
    }

    /// Trained parameters: the weights proper, and what is added to each output channel.
    fn weights(&self) -> [u64; 2] {
        [0, 0]
    }

    /// The window that slides over its input, where one does.
    fn window(&self) -> Option<Window> {
        None
    }

    /// The operator, whose kind has that name, in a few words.
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

    /// Whether its kernels keep results within the bounds of a rectifier for free. What is
    /// folded leaves that to the operator it is folded into.
    fn applies_bounds(&self) -> bool {
        self.window().is_some()
    }

    /// Whether element-wise functions can run in its epilogue.
    fn takes_functions(&self) -> bool {
        true
    }

    /// Whether its result is a part or another extent of what is there, so that an engine
    /// may run nothing.
    fn is_view(&self) -> bool {
        false
    }

    /// The operator with a bias, where it has weights that a normalisation folds into.
    fn with_bias(&self) -> Option<Operator> {
        None
    }

    /// How it can be divided along its output channels.
    fn channel_cut(&self) -> ChannelCut {
        ChannelCut::None
    }

    /// The part that computes so many output channels, where it can be divided along them.
    fn part_of_channels(&self, channels: u32) -> Operator {
        self.over(self.extent().with_channels(channels))
    }

    /// Lines of its output, where each depends on some lines of the input only.
    fn own_lines(&self) -> Option<u32> {
        self.window().map(|_| self.output().height)
    }

    /// The part that computes `lines` of its output, on what its window reaches for them,
    /// where it can be divided along them.
    fn part_of_lines(&self, lines: Range<u32>) -> Operator {
        self.over(self.extent().with_lines(&lines))
    }

    /// The operator for a batch; `None` where it would mix what belongs to different
    /// parts of the batch.
    fn batched(&self, batch: &BatchOf<'_>) -> Option<Operator> {
        Some(self.reading(batch.given))
    }
}

/// The extent of an operator whose first tensor is its field `input`, and the operator over another.
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

/// What an operator answers whose window, its field `window`, slides over its field `input`.
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

/// The operator, which says all of its extents itself, over what it reads.
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

/// An extent that comes from an input, in files: `true`.
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

/// The first extent given, or else `known`.
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

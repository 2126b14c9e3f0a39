//! What every operator answers.

use std::fmt;
use std::ops::Range;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::bounds::Checked;
use super::{Class, Operator, Window};
use crate::workload::shape::Shape;

/// Extent of an operator's input until it is known what it reads.
pub(super) const UNKNOWN: Shape = Shape { batch: 0, height: 0, width: 0, channels: 0 };

/// How an operator can be divided along its output channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChannelCut {
    /// In no way.
    None,
    /// Each part has weights of its own and reads the whole input.
    OfWeights,
    /// Each part reads the same part of the input's channels.
    Separate,
}

/// What an operator's batch is made for.
pub(in crate::workload) struct BatchOf<'a> {
    /// Images or sequences at once.
    pub(in crate::workload) count: u32,
    /// Extents of what the operator reads.
    pub(in crate::workload) given: &'a [Shape],
    /// Whether a product of activations reads the result.
    pub(in crate::workload) feeds_product: bool,
}

impl BatchOf<'_> {
    /// `value` for all of them; what is too large fails the operator's check.
    pub(super) fn times(&self, value: u32) -> u32 {
        value.saturating_mul(self.count)
    }
}

/// One operator. All methods but `check` assume that it succeeds.
pub(super) trait Definition {
    /// The field's word for it.
    fn name(&self) -> &'static str;

    /// What kind of work it is.
    fn class(&self) -> Class<'_>;

    /// Whether its dimensions make sense.
    fn check(&self) -> Checked;

    /// Extent of the tensor that it reads at position `index`; `None` beyond the last.
    fn input(&self, index: usize) -> Option<Shape>;

    /// Extent of the tensor it writes.
    fn output(&self) -> Shape;

    /// Multiply-accumulates, as the papers count: of products and convolutions only.
    fn macs(&self) -> u64 {
        0
    }

    /// Trained parameters: weights proper, and what is added to each channel.
    fn weights(&self) -> [u64; 2] {
        [0, 0]
    }

    /// The window that slides over its input, and that input.
    fn window(&self) -> Option<(Shape, &Window)> {
        None
    }

    /// The operator in a few words.
    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} -> {}", self.name(), self.output())
    }

    /// Whether inference frameworks fold it into the weights of the operator before it.
    fn folds(&self) -> bool {
        false
    }

    /// Whether its kernels keep results within the bounds of a rectifier for free.
    fn applies_bounds(&self) -> bool {
        false
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

    /// The part that computes so many output channels, where it can be cut along them.
    fn with_channels(&self, _: u32) -> Option<Operator> {
        None
    }

    /// Lines of its output that depend on some lines of the input only; 1 for none.
    fn separate_rows(&self) -> u32 {
        1
    }

    /// The part that computes `rows` of its output, on what its window reaches for them,
    /// where it can be cut along them.
    fn with_rows(&self, _: Range<u32>) -> Option<Operator> {
        None
    }

    /// Whether a file leaves its extents to what it reads.
    fn takes_extents(&self) -> bool {
        false
    }

    /// The operator on inputs of these extents, as far as they are given.
    fn reading(&self, given: &[Shape]) -> Operator;

    /// The operator for a batch; `None` where it would mix what belongs to different
    /// parts of the batch.
    fn batched(&self, batch: &BatchOf<'_>) -> Option<Operator> {
        Some(self.reading(batch.given))
    }
}

/// What a file says of an operator that has nothing but extents: `true`.
#[derive(Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub(super) struct Flag(pub(super) bool);

impl Flag {
    /// The extent to begin with, or what is wrong with the flag.
    pub(super) fn unknown_extent(self) -> Result<Shape, &'static str> {
        if self.0 { Ok(UNKNOWN) } else { Err("invalid value: `false`, expected `true` or no such key") }
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

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
pub(super) fn is_one(count: &u32) -> bool {
    *count == 1
}

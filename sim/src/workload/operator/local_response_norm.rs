//! Local response normalisation.

use std::ops::Range;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::bounds::{self, Checked};
use super::definition::{Definition, UNKNOWN, first};
use super::{Class, Operator, Reduction, Statistic};
use crate::workload::shape::Shape;

/// Each element over a power of the mean square of its neighbours along channels (`AlexNet`).
/// The power, and what is added to the mean and multiplies it, change no time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(from = "u32", into = "u32")]
pub struct LocalResponseNorm {
    /// Input extent.
    pub input: Shape,
    /// Channels of a neighbourhood, the element's own in the middle: of an even number, one more behind it.
    pub size: u32,
}

impl From<u32> for LocalResponseNorm {
    fn from(size: u32) -> Self {
        Self { input: UNKNOWN, size }
    }
}

impl From<LocalResponseNorm> for u32 {
    fn from(norm: LocalResponseNorm) -> Self {
        norm.size
    }
}

impl Definition for LocalResponseNorm {
    fn name(&self) -> &'static str {
        "local response norm"
    }

    fn class(&self) -> Class<'_> {
        Class::Reduction(Reduction::Normalisation(Statistic::NeighbourSquares { channels: self.size }))
    }

    fn check(&self) -> Checked {
        bounds::shape("the input", self.input)?;
        bounds::dimension("size", self.size)?;
        let Shape { batch, height, width, channels } = self.input;
        bounds::work(&[batch, height, width, channels, self.size])
    }

    fn input(&self, index: usize) -> Option<Shape> {
        (index == 0).then_some(self.input)
    }

    fn output(&self) -> Shape {
        self.input
    }

    fn separate_rows(&self) -> u32 {
        self.input.lines()
    }

    fn with_rows(&self, rows: Range<u32>) -> Option<Operator> {
        Some(Self { input: self.input.with_lines(&rows), ..*self }.into())
    }

    fn takes_extents(&self) -> bool {
        true
    }

    fn reading(&self, given: &[Shape]) -> Operator {
        Self { input: first(given, self.input), ..*self }.into()
    }
}

//! Softmax.

use std::ops::Range;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::bounds::{self, Checked};
use super::definition::{Definition, Flag, first};
use super::{Class, Operator, Reduction};
use crate::workload::shape::Shape;

/// Softmax over the channels of each pixel (or token): `true`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "Flag", into = "Flag")]
pub struct Softmax {
    /// Input extent.
    pub input: Shape,
}

impl TryFrom<Flag> for Softmax {
    type Error = &'static str;

    fn try_from(flag: Flag) -> Result<Self, Self::Error> {
        Ok(Self { input: flag.unknown_extent()? })
    }
}

impl From<Softmax> for Flag {
    fn from(_: Softmax) -> Self {
        Self(true)
    }
}

impl Definition for Softmax {
    fn name(&self) -> &'static str {
        "softmax"
    }

    fn class(&self) -> Class<'_> {
        Class::Reduction(Reduction::Exponentials)
    }

    fn check(&self) -> Checked {
        bounds::shape("the input", self.input)
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
        Some(Self { input: self.input.with_lines(&rows) }.into())
    }

    fn takes_extents(&self) -> bool {
        true
    }

    fn reading(&self, given: &[Shape]) -> Operator {
        Self { input: first(given, self.input) }.into()
    }
}

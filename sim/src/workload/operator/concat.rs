//! Concatenations.

use std::ops::Range;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::bounds::{self, Checked};
use super::definition::{Definition, Flag, first};
use super::error::OperatorError;
use super::{Class, Movement, Operator};
use crate::workload::shape::Shape;

/// A concatenation along channels: `true`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "Flag", into = "Flag")]
pub struct Concat {
    /// Extent of the inputs; its channels are not used.
    pub extent: Shape,
    /// Channels of each input, in order.
    pub channels: Vec<u32>,
}

impl TryFrom<Flag> for Concat {
    type Error = &'static str;

    fn try_from(flag: Flag) -> Result<Self, Self::Error> {
        Ok(Self { extent: flag.unknown_extent()?, channels: Vec::new() })
    }
}

impl From<Concat> for Flag {
    fn from(_: Concat) -> Self {
        Self(true)
    }
}

impl Definition for Concat {
    fn name(&self) -> &'static str {
        "concat"
    }

    fn class(&self) -> Class<'_> {
        Class::Movement(Movement::Joined(self))
    }

    fn check(&self) -> Checked {
        if self.channels.is_empty() {
            return Err(OperatorError::NothingToJoin);
        }
        let mut total = 0_u64;
        for &channels in &self.channels {
            bounds::shape("an input", self.extent.with_channels(channels))?;
            total += u64::from(channels);
            // Checked on the way: a list of inputs can be as long as a file.
            bounds::at_most_max("output channels", total)?;
        }
        bounds::shape("the output", self.extent.with_channels(total as u32))
    }

    fn input(&self, index: usize) -> Option<Shape> {
        self.channels.get(index).map(|&channels| self.extent.with_channels(channels))
    }

    fn output(&self) -> Shape {
        self.extent.with_channels(self.channels.iter().sum())
    }

    fn separate_rows(&self) -> u32 {
        self.extent.lines()
    }

    fn with_rows(&self, rows: Range<u32>) -> Option<Operator> {
        Some(Self { extent: self.extent.with_lines(&rows), channels: self.channels.clone() }.into())
    }

    fn takes_extents(&self) -> bool {
        true
    }

    fn reading(&self, given: &[Shape]) -> Operator {
        let extent = first(given, self.extent);
        Self { extent, channels: given.iter().map(|shape| shape.channels).collect() }.into()
    }
}

//! Slices of tensors.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::bounds::{self, Checked};
use super::definition::{Definition, UNKNOWN};
use super::error::OperatorError;
use super::{Class, Movement, Operator};
use crate::workload::shape::Shape;

/// A range of channels taken out of a tensor: `[first, count]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(from = "[u32; 2]", into = "[u32; 2]")]
pub struct Slice {
    /// Input extent.
    pub input: Shape,
    /// First channel taken.
    pub first_channel: u32,
    /// Channels taken.
    pub channels: u32,
}

impl From<[u32; 2]> for Slice {
    fn from([first_channel, channels]: [u32; 2]) -> Self {
        Self { input: UNKNOWN, first_channel, channels }
    }
}

impl From<Slice> for [u32; 2] {
    fn from(slice: Slice) -> Self {
        [slice.first_channel, slice.channels]
    }
}

impl Definition for Slice {
    fn name(&self) -> &'static str {
        "slice"
    }

    fn class(&self) -> Class<'_> {
        Class::Movement(Movement::Range(self))
    }

    fn check(&self) -> Checked {
        bounds::shape("the input", self.input)?;
        bounds::dimension("channels", self.channels)?;
        let end = u64::from(self.first_channel) + u64::from(self.channels);
        if end > u64::from(self.input.channels) {
            return Err(OperatorError::SliceRange { end, channels: self.input.channels });
        }
        Ok(())
    }

    fn extent(&self) -> Shape {
        self.input
    }

    fn output(&self) -> Shape {
        self.input.with_channels(self.channels)
    }

    fn is_view(&self) -> bool {
        true
    }

    fn over(&self, extent: Shape) -> Operator {
        Self { input: extent, ..*self }.into()
    }
}

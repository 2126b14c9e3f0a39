//! Slices of tensors.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Axis, BatchOf, Checked, Class, Definition, Movement, Operator, OperatorError, Pick, UNKNOWN, bounds,
    first, is_one, of_one_input,
};
use crate::workload::{Dimension, Shape};

/// A slice of a tensor along a dimension: `[first, count]` channels, or a table with the dimension
/// and, optionally, the step between elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(from = "Written", into = "Written")]
pub struct Slice {
    /// Input extent.
    pub input: Shape,
    /// The dimension along which it is taken.
    pub dimension: Dimension,
    /// First position taken.
    pub first: u32,
    /// Number of positions taken.
    pub count: u32,
    /// Step from one position to the next; may be negative.
    pub step: i32,
}

/// The form of a slice in files.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected [first, count], or a table with dimension, first and count")]
enum Written {
    /// First channel and number of channels.
    Channels([u32; 2]),
    Along(Along),
}

/// A slice along any dimension.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Along {
    dimension: Dimension,
    first: u32,
    count: u32,
    #[serde(default = "forward", skip_serializing_if = "is_one")]
    step: i32,
}

fn forward() -> i32 {
    1
}

impl From<Written> for Slice {
    fn from(written: Written) -> Self {
        match written {
            Written::Channels([first, count]) => Self::of_channels(UNKNOWN, first, count),
            Written::Along(Along { dimension, first, count, step }) => {
                Self { input: UNKNOWN, dimension, first, count, step }
            }
        }
    }
}

impl From<Slice> for Written {
    fn from(slice: Slice) -> Self {
        let Slice { dimension, first, count, step, .. } = slice;
        if (dimension, step) == (Dimension::Channels, 1) {
            Self::Channels([first, count])
        } else {
            Self::Along(Along { dimension, first, count, step })
        }
    }
}

impl Slice {
    /// `count` adjacent channels from `first` on.
    pub const fn of_channels(input: Shape, first: u32, count: u32) -> Self {
        Self { input, dimension: Dimension::Channels, first, count, step: 1 }
    }

    /// The source of each output element.
    pub fn pick(&self) -> Pick {
        let mut pick = Pick::all(self.input);
        pick.axes[self.dimension as usize] =
            Axis { along: self.dimension, first: i64::from(self.first), step: i64::from(self.step) };
        pick
    }
}

impl Definition for Slice {
    fn class(&self) -> Class<'_> {
        Class::Movement(Movement::Range(self))
    }

    fn check(&self) -> Checked {
        bounds::shape("the input", self.input)?;
        bounds::dimension("the count of a slice", self.count)?;
        let last = i64::from(self.first) + i64::from(self.step) * (i64::from(self.count) - 1);
        let extent = self.input.along(self.dimension);
        for position in [i64::from(self.first), last] {
            if position < 0 || position >= i64::from(extent) {
                return Err(OperatorError::SliceRange { position, dimension: self.dimension, extent });
            }
        }
        Ok(())
    }

    of_one_input!();

    fn output(&self) -> Shape {
        self.input.with(self.dimension, self.count)
    }

    fn is_view(&self) -> bool {
        true
    }

    fn batched(&self, batch: &BatchOf<'_>) -> Option<Operator> {
        let input = first(batch.given, self.input);
        if self.dimension == Dimension::Width && input.is_tokens() {
            // Tokens of all sequences are rows of one matrix: one token per sequence is a strided slice.
            let step = i32::try_from(self.input.width).ok()?;
            return (self.count == 1).then(|| Self { input, count: batch.count, step, ..*self }.into());
        }
        (self.dimension != Dimension::Batch).then(|| self.reading(batch.given))
    }
}

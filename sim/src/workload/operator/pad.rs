//! Zero padding of tensors.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Axis, BatchOf, Class, Definition, Movement, Operator, Pick, first, of_one_input};
use crate::workload::{Dimension, Shape};

/// Zeros before and after a tensor along each dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Pad {
    /// Input extent.
    #[serde(skip)]
    pub input: Shape,
    /// Positions before: batch, height, width, channels.
    pub before: [u32; 4],
    /// Positions after.
    pub after: [u32; 4],
}

impl Pad {
    /// The source of each output element.
    pub fn pick(&self) -> Pick {
        let mut pick = Pick::all(self.input);
        for (axis, before) in pick.axes.iter_mut().zip(self.before) {
            *axis = Axis { first: -i64::from(before), ..*axis };
        }
        pick
    }
}

impl Definition for Pad {
    fn class(&self) -> Class<'_> {
        Class::Movement(Movement::Padded(self))
    }

    of_one_input!();

    fn output(&self) -> Shape {
        let mut extents = <[u32; 4]>::from(self.input);
        for (extent, around) in extents.iter_mut().zip(self.before.iter().zip(self.after)) {
            *extent = extent.saturating_add(*around.0).saturating_add(around.1);
        }
        extents.into()
    }

    fn batched(&self, batch: &BatchOf<'_>) -> Option<Operator> {
        let around =
            |dimension: Dimension| self.before[dimension as usize].max(self.after[dimension as usize]) > 0;
        let of_tokens = around(Dimension::Width) && first(batch.given, self.input).is_tokens();
        (!around(Dimension::Batch) && !of_tokens).then(|| self.reading(batch.given))
    }
}

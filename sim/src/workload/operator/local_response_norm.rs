//! Local response normalisation.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Checked, Class, Definition, Reduction, Statistic, UNKNOWN, bounds, of_one_input};
use crate::workload::Shape;

/// Each element divided by a power of the mean square of its neighbours along channels (`AlexNet`).
/// The exponent and the two constants do not affect the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct LocalResponseNorm {
    /// Input extent.
    #[serde(skip)]
    pub input: Shape,
    /// Channels of a neighbourhood, centred on the element's own; if even, with one more after it.
    pub size: u32,
}

impl From<u32> for LocalResponseNorm {
    fn from(size: u32) -> Self {
        Self { input: UNKNOWN, size }
    }
}

impl Definition for LocalResponseNorm {
    fn class(&self) -> Class<'_> {
        Class::Reduction(Reduction::Normalisation(Statistic::NeighbourSquares { channels: self.size }))
    }

    fn check(&self) -> Checked {
        bounds::shape("the input", self.input)?;
        bounds::dimension("size", self.size)?;
        let Shape { batch, height, width, channels } = self.input;
        bounds::work(&[batch, height, width, channels, self.size])
    }

    of_one_input!();
}

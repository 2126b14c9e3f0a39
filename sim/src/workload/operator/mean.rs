//! Means over images.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{BatchOf, ChannelCut, Class, Definition, Operator, Reduction, first, flag, of_one_input};
use crate::workload::Shape;

/// The mean of each channel over all pixels (global average pooling): `true`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Mean {
    /// Input extent.
    #[serde(with = "flag")]
    #[schemars(with = "bool")]
    pub input: Shape,
}

impl Definition for Mean {
    fn class(&self) -> Class<'_> {
        Class::Reduction(Reduction::Pixels { input: self.input })
    }

    of_one_input!();

    fn output(&self) -> Shape {
        Shape { height: 1, width: 1, ..self.input }
    }

    fn channel_cut(&self) -> ChannelCut {
        ChannelCut::Separate
    }

    fn batched(&self, batch: &BatchOf<'_>) -> Option<Operator> {
        // A mean over the tokens of one matrix would mix the sequences.
        let mixes = first(batch.given, self.input).is_tokens() && self.input.width > 1;
        (!mixes).then(|| self.reading(batch.given))
    }
}

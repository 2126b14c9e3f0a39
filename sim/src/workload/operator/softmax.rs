//! Softmax.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Class, Definition, Flag, Operator, Reduction};
use crate::workload::Shape;

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

    fn extent(&self) -> Shape {
        self.input
    }

    fn own_lines(&self) -> Option<u32> {
        Some(self.input.lines())
    }

    fn over(&self, extent: Shape) -> Operator {
        Self { input: extent }.into()
    }
}

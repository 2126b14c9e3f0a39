//! Softmax.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Class, Definition, Reduction, flag, of_one_input};
use crate::workload::Shape;

/// Softmax over the channels of each pixel (or token): `true`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Softmax {
    /// Input extent.
    #[serde(with = "flag")]
    #[schemars(with = "bool")]
    pub input: Shape,
}

impl Definition for Softmax {
    fn class(&self) -> Class<'_> {
        Class::Reduction(Reduction::Exponentials)
    }

    of_one_input!();
}

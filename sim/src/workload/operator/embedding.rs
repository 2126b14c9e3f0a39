//! Table look-ups.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{BatchOf, Checked, Class, Definition, Operator, dimensions, of_own_extents, tensor};
use crate::workload::Shape;

/// A table look-up: `rows` indices into a table of vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Embedding {
    /// Indices looked up.
    pub rows: u32,
    /// Vectors in the table.
    pub vocabulary: u32,
    /// Features of one vector.
    pub features: u32,
}

impl Definition for Embedding {
    fn class(&self) -> Class<'_> {
        Class::Gather(self)
    }

    fn check(&self) -> Checked {
        let Self { rows, vocabulary, features } = *self;
        dimensions([("rows", rows), ("vocabulary", vocabulary), ("features", features)])?;
        tensor("the table", &[vocabulary, features])?;
        tensor("the output", &[rows, features])
    }

    fn extent(&self) -> Shape {
        Shape::tokens(self.rows, 1)
    }

    fn output(&self) -> Shape {
        Shape::tokens(self.rows, self.features)
    }

    fn weights(&self) -> [u64; 2] {
        [u64::from(self.vocabulary) * u64::from(self.features), 0]
    }

    of_own_extents!();

    fn batched(&self, batch: &BatchOf<'_>) -> Option<Operator> {
        Some(Self { rows: batch.times(self.rows), ..*self }.into())
    }
}

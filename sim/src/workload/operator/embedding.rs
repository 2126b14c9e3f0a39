//! Table look-ups.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{BatchOf, Checked, Class, Definition, Operator, dimension, tensor};
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
    fn name(&self) -> &'static str {
        "embedding"
    }

    fn class(&self) -> Class<'_> {
        Class::Gather { rows: self.rows, features: self.features }
    }

    fn check(&self) -> Checked {
        let Self { rows, vocabulary, features } = *self;
        dimension("rows", rows)?;
        dimension("vocabulary", vocabulary)?;
        dimension("features", features)?;
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

    fn over(&self, _: Shape) -> Operator {
        (*self).into()
    }

    fn takes_extents(&self) -> bool {
        false
    }

    fn batched(&self, batch: &BatchOf<'_>) -> Option<Operator> {
        Some(Self { rows: batch.times(self.rows), ..*self }.into())
    }
}

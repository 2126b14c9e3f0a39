//! Products of two activations.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{BatchOf, Checked, Class, Definition, Operator, Product, dimension, is_one, one, tensor, work};
use crate::workload::Shape;

/// A batched product of two activations, `[m, k] x [k, n]` (attention).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MatMul {
    /// Independent products (attention heads).
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub batch: u32,
    /// Rows of the left operand.
    pub m: u32,
    /// Columns of the left, rows of the right operand.
    pub k: u32,
    /// Columns of the right operand.
    pub n: u32,
}

impl Definition for MatMul {
    fn name(&self) -> &'static str {
        "matmul"
    }

    fn class(&self) -> Class<'_> {
        let Self { batch, m: rows, k: inner, n: outputs } = *self;
        Class::Product(Product { batch, rows, inner, outputs, trained: false })
    }

    fn check(&self) -> Checked {
        let Self { batch, m, k, n } = *self;
        for (name, value) in [("batch", batch), ("m", m), ("k", k), ("n", n)] {
            dimension(name, value)?;
        }
        tensor("the left operand", &[batch, m, k])?;
        tensor("the right operand", &[batch, k, n])?;
        tensor("the output", &[batch, m, n])?;
        work(&[batch, m, k, n])
    }

    fn extent(&self) -> Shape {
        Shape { batch: self.batch, height: 1, width: self.m, channels: self.k }
    }

    fn input(&self, index: usize) -> Option<Shape> {
        let right = Shape { batch: self.batch, height: 1, width: self.k, channels: self.n };
        [self.extent(), right].get(index).copied()
    }

    fn output(&self) -> Shape {
        Shape { batch: self.batch, height: 1, width: self.m, channels: self.n }
    }

    fn macs(&self) -> u64 {
        [self.batch, self.m, self.k, self.n].map(u64::from).iter().product()
    }

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { batch, m, k, n } = self;
        write!(f, "matmul {batch}x [{m}, {k}] x [{k}, {n}]")
    }

    fn over(&self, _: Shape) -> Operator {
        (*self).into()
    }

    fn takes_extents(&self) -> bool {
        false
    }

    fn batched(&self, batch: &BatchOf<'_>) -> Option<Operator> {
        Some(Self { batch: batch.times(self.batch), ..*self }.into())
    }
}

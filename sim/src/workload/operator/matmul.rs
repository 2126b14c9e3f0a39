//! Products of two activations.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    BatchOf, Checked, Class, Definition, Operator, Product, dimensions, is_one, of_own_extents, one, tensor,
    work,
};
use crate::workload::Shape;

/// A batched product of two activations, `[m, k] x [k, n]` (attention).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MatMul {
    /// Images or sequences, each with `batch` products. TFLite's GPU delegate merges several images
    /// into one before the products and splits them afterwards. It treats each product of a
    /// three-dimensional tensor as an image.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub images: u32,
    /// Independent products per image (attention heads).
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub batch: u32,
    /// Rows of the left operand.
    pub m: u32,
    /// Columns of the left, rows of the right operand.
    pub k: u32,
    /// Columns of the right operand.
    pub n: u32,
}

impl MatMul {
    /// Products of all images.
    fn products(&self) -> u32 {
        self.images.saturating_mul(self.batch)
    }

    /// Extents of a tensor's batch and height: images and heads, or, for a single image, heads and 1.
    fn along(&self) -> [u32; 2] {
        if self.images == 1 { [self.batch, 1] } else { [self.images, self.batch] }
    }
}

impl Definition for MatMul {
    fn class(&self) -> Class<'_> {
        let Self { images, m: rows, k: inner, n: outputs, .. } = *self;
        Class::Product(Product { images, batch: self.products(), rows, inner, outputs, trained: false })
    }

    fn check(&self) -> Checked {
        let Self { images, m, k, n, .. } = *self;
        let all = self.products();
        dimensions([("images", images), ("batch", all), ("m", m), ("k", k), ("n", n)])?;
        tensor("the left operand", &[all, m, k])?;
        tensor("the right operand", &[all, k, n])?;
        tensor("the output", &[all, m, n])?;
        work(&[all, m, k, n])
    }

    fn extent(&self) -> Shape {
        let [batch, height] = self.along();
        Shape { batch, height, width: self.m, channels: self.k }
    }

    fn input(&self, index: usize) -> Option<Shape> {
        let left = self.extent();
        [left, Shape { width: self.k, channels: self.n, ..left }].get(index).copied()
    }

    fn output(&self) -> Shape {
        self.extent().with_channels(self.n)
    }

    fn macs(&self) -> u64 {
        [self.products(), self.m, self.k, self.n].map(u64::from).iter().product()
    }

    fn describe(&self, name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { m, k, n, .. } = self;
        write!(f, "{name} {}x [{m}, {k}] x [{k}, {n}]", self.products())
    }

    of_own_extents!();

    fn batched(&self, batch: &BatchOf<'_>) -> Option<Operator> {
        let [images, heads] = self.along();
        Some(Self { images: batch.times(images), batch: heads, ..*self }.into())
    }
}

//! Linear layers.

use std::fmt;
use std::ops::Range;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    BatchOf, ChannelCut, Checked, Class, Definition, Operator, Product, dimensions, is_true, of_own_extents,
    tensor, work, yes,
};
use crate::workload::Shape;

/// A linear layer: `rows` tokens times a weight matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Linear {
    /// Tokens (or images) that the weights are applied to.
    pub rows: u32,
    /// Features of one input token.
    pub input_features: u32,
    /// Features of one output token: the output channels.
    pub output_features: u32,
    /// Whether a bias is added.
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    pub bias: bool,
}

impl Definition for Linear {
    fn class(&self) -> Class<'_> {
        let Self { rows, input_features: inner, output_features: outputs, .. } = *self;
        Class::Product(Product { images: 1, batch: 1, rows, inner, outputs, trained: true })
    }

    fn check(&self) -> Checked {
        let Self { rows, input_features, output_features, .. } = *self;
        dimensions([
            ("rows", rows),
            ("input features", input_features),
            ("output features", output_features),
        ])?;
        tensor("the input", &[rows, input_features])?;
        tensor("the output", &[rows, output_features])?;
        tensor("the weights", &[input_features, output_features])?;
        work(&[rows, input_features, output_features])
    }

    fn extent(&self) -> Shape {
        Shape::tokens(self.rows, self.input_features)
    }

    fn output(&self) -> Shape {
        Shape::tokens(self.rows, self.output_features)
    }

    fn macs(&self) -> u64 {
        u64::from(self.rows) * u64::from(self.input_features) * u64::from(self.output_features)
    }

    fn weights(&self) -> [u64; 2] {
        let outputs = u64::from(self.output_features);
        [u64::from(self.input_features) * outputs, if self.bias { outputs } else { 0 }]
    }

    fn describe(&self, name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{name} {}x{} -> {}", self.rows, self.input_features, self.output_features)
    }

    fn applies_bounds(&self) -> bool {
        true
    }

    fn with_bias(&self) -> Option<Operator> {
        Some(Self { bias: true, ..*self }.into())
    }

    fn channel_cut(&self) -> ChannelCut {
        ChannelCut::OfWeights
    }

    fn part_of_channels(&self, channels: u32) -> Operator {
        Self { output_features: channels, ..*self }.into()
    }

    fn own_lines(&self) -> Option<u32> {
        Some(self.rows)
    }

    fn part_of_lines(&self, lines: Range<u32>) -> Operator {
        Self { rows: lines.end - lines.start, ..*self }.into()
    }

    of_own_extents!();

    fn batched(&self, batch: &BatchOf<'_>) -> Option<Operator> {
        Some(Self { rows: batch.times(self.rows), ..*self }.into())
    }
}

//! Depthwise convolutions.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    ChannelCut, Checked, Class, Definition, Operator, Window, at_most_max, dimension, is_one, is_true,
    of_one_input, one, tensor, under_window, work, yes,
};
use crate::workload::Shape;
use crate::workload::shape::image;

/// A convolution of each channel with its own window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DepthwiseConv2d {
    /// Input height, width and channels, or batch, height, width and channels.
    #[serde(with = "image")]
    #[schemars(with = "image::Extents")]
    pub input: Shape,
    /// Output channels per input channel.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub multiplier: u32,
    /// The window.
    #[serde(flatten)]
    pub window: Window,
    /// Whether a bias is added.
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    pub bias: bool,
}

impl DepthwiseConv2d {
    /// One output channel per input channel, with a bias.
    pub const fn new(input: Shape, window: Window) -> Self {
        Self { input, multiplier: 1, window, bias: true }
    }

    /// With this number of output channels per input channel.
    #[must_use]
    pub const fn multiplier(self, multiplier: u32) -> Self {
        Self { multiplier, ..self }
    }

    /// With a bias, or without one.
    #[must_use]
    pub const fn bias(self, bias: bool) -> Self {
        Self { bias, ..self }
    }

    /// Output extent.
    pub fn output(&self) -> Shape {
        self.window.output(self.input, self.input.channels * self.multiplier)
    }
}

impl Definition for DepthwiseConv2d {
    fn class(&self) -> Class<'_> {
        Class::Depthwise(self)
    }

    fn check(&self) -> Checked {
        let [height, width] = self.window.check(self.input)?;
        dimension("channel multiplier", self.multiplier)?;
        let channels = u64::from(self.input.channels) * u64::from(self.multiplier);
        at_most_max("output channels", channels)?;
        let ([rows, columns], channels, batch) = (self.window.kernel, channels as u32, self.input.batch);
        tensor("the output", &[batch, height, width, channels])?;
        tensor("the weights", &[rows, columns, channels])?;
        work(&[batch, height, width, channels, rows, columns])
    }

    under_window!();

    fn macs(&self) -> u64 {
        self.output().elements() * self.window.taps()
    }

    fn weights(&self) -> [u64; 2] {
        let channels = u64::from(self.input.channels * self.multiplier);
        [self.window.taps() * channels, if self.bias { channels } else { 0 }]
    }

    fn describe(&self, name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [height, width] = self.window.kernel;
        write!(f, "{name} {height}x{width} {} -> {}", self.input, self.output())
    }

    fn with_bias(&self) -> Option<Operator> {
        Some(self.bias(true).into())
    }

    fn channel_cut(&self) -> ChannelCut {
        ChannelCut::Separate
    }

    fn part_of_channels(&self, channels: u32) -> Operator {
        self.over(self.input.with_channels((channels / self.multiplier).max(1)))
    }
}

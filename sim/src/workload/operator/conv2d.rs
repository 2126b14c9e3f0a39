//! Convolutions.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    ChannelCut, Checked, Class, Definition, Operator, OperatorError, Window, dimension, dimensions, is_one,
    is_true, of_one_input, one, tensor, under_window, work, yes,
};
use crate::workload::Shape;
use crate::workload::shape::image;

/// A two-dimensional convolution, possibly grouped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Conv2d {
    /// Input height, width and channels, or batch, height, width and channels.
    #[serde(with = "image")]
    #[schemars(with = "image::Extents")]
    pub input: Shape,
    /// Output channels, over all groups.
    pub output_channels: u32,
    /// The window.
    #[serde(flatten)]
    pub window: Window,
    /// Groups; 1 for a dense convolution.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub groups: u32,
    /// Whether a bias is added.
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    pub bias: bool,
    /// For a convolution over volumes, the slices under its window; absent for images. The channels of
    /// each image of the input are the slices under one position side by side, arranged by a movement
    /// before this operator. A processor that convolves volumes directly needs no such movement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slices: Option<u32>,
    /// For a transposed convolution, the pixels of its output that each pixel of this one represents,
    /// side by side as channels; a movement after this operator rearranges them. 1 otherwise. XNNPACK
    /// computes the phases one by one.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub phases: u32,
}

impl Conv2d {
    /// A dense convolution with a bias.
    pub const fn new(input: Shape, output_channels: u32, window: Window) -> Self {
        Self { input, output_channels, window, groups: 1, bias: true, slices: None, phases: 1 }
    }

    /// With this number of groups.
    #[must_use]
    pub const fn groups(self, groups: u32) -> Self {
        Self { groups, ..self }
    }

    /// With this number of phases of a transposed convolution.
    #[must_use]
    pub const fn phases(self, phases: u32) -> Self {
        Self { phases, ..self }
    }

    /// With a bias, or without one.
    #[must_use]
    pub const fn bias(self, bias: bool) -> Self {
        Self { bias, ..self }
    }

    /// Output extent.
    pub fn output(&self) -> Shape {
        self.window.output(self.input, self.output_channels)
    }

    /// Input channels of one group.
    pub fn group_channels(&self) -> u32 {
        self.input.channels / self.groups
    }
}

impl Definition for Conv2d {
    fn special_name(&self) -> Option<&'static str> {
        match (self.slices, self.groups) {
            (Some(_), _) => Some("conv3d"),
            (None, 1) => None,
            (None, _) => Some("grouped conv2d"),
        }
    }

    fn class(&self) -> Class<'_> {
        Class::Convolution(self)
    }

    fn check(&self) -> Checked {
        let [height, width] = self.window.check(self.input)?;
        let Self { output_channels, groups, .. } = *self;
        dimensions([("output channels", output_channels), ("groups", groups), ("phases", self.phases)])?;
        for (which, channels) in [("input", self.input.channels), ("output", output_channels)] {
            if channels % groups != 0 {
                return Err(OperatorError::Groups { which, channels, groups });
            }
        }
        if let Some(slices) = self.slices {
            dimension("slices", slices)?;
            if !self.group_channels().is_multiple_of(slices) {
                return Err(OperatorError::Slices { channels: self.group_channels(), slices });
            }
        }
        let ([rows, columns], depth, batch) = (self.window.kernel, self.group_channels(), self.input.batch);
        tensor("the output", &[batch, height, width, output_channels])?;
        tensor("the weights", &[rows, columns, depth, output_channels])?;
        work(&[batch, height, width, output_channels, rows, columns, depth])
    }

    under_window!();

    fn macs(&self) -> u64 {
        self.output().elements() * self.window.taps() * u64::from(self.group_channels())
    }

    fn weights(&self) -> [u64; 2] {
        let outputs = u64::from(self.output_channels);
        let kernel = self.window.taps() * u64::from(self.group_channels()) * outputs;
        [kernel, if self.bias { outputs } else { 0 }]
    }

    fn describe(&self, name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [height, width] = self.window.kernel;
        write!(f, "{name} ")?;
        let mut input = self.input;
        if let Some(slices) = self.slices {
            write!(f, "{slices}x")?;
            input.channels /= slices.max(1);
        }
        write!(f, "{height}x{width} {input} -> {}", self.output())
    }

    fn with_bias(&self) -> Option<Operator> {
        Some(self.bias(true).into())
    }

    fn channel_cut(&self) -> ChannelCut {
        if self.groups == 1 { ChannelCut::OfWeights } else { ChannelCut::None }
    }

    fn part_of_channels(&self, channels: u32) -> Operator {
        Self { output_channels: channels, ..*self }.into()
    }
}

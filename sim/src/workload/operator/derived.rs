//! Methods of all operators, derived from [`Definition`](super::Definition).

use std::fmt;
use std::ops::Range;

use super::{ChannelCut, Class, Operator, Product};
use crate::workload::Shape;

impl Operator {
    /// Extents of the tensors it reads, in order. Weights are not inputs.
    pub fn inputs(&self) -> Vec<Shape> {
        self.input_shapes().collect()
    }

    /// [`Self::inputs`] as an iterator.
    pub fn input_shapes(&self) -> impl Iterator<Item = Shape> {
        (0..).map_while(|index| self.input(index))
    }

    /// Elements of all inputs together.
    pub fn input_elements(&self) -> u64 {
        self.input_shapes().map(|shape| shape.elements()).sum()
    }

    /// Trained parameters.
    pub fn parameters(&self) -> u64 {
        self.weights().iter().sum()
    }

    /// Its product of activations and weights; `None` if it is another kind of operator.
    pub fn product_with_weights(&self) -> Option<Product> {
        if let Class::Product(product) = self.class() { product.trained.then_some(product) } else { None }
    }

    /// Whether it multiplies activations with each other, so that each image of a batch has
    /// its own matrices.
    pub fn multiplies_activations(&self) -> bool {
        matches!(self.class(), Class::Product(product) if !product.trained)
    }
}

/// Parts of an operator: the axes along which it can be cut, and what a part reads. Along
/// the output's lines (rows of pixels, or the tokens of a matrix) a part reads the lines
/// that its windows reach. Along channels it reads the whole input, unless the operator
/// computes channels independently.
impl Operator {
    /// Output channels of an operator whose weights can be cut along them: each processor then
    /// computes its own channels from the whole input. `None` otherwise.
    pub fn splittable_channels(&self) -> Option<u32> {
        (self.channel_cut() == ChannelCut::OfWeights).then(|| self.output().channels)
    }

    /// Output channels of an operator that computes channels independently: those of a part
    /// depend only on the same part of the input's channels. `None` otherwise.
    pub fn separate_channels(&self) -> Option<u32> {
        (self.channel_cut() == ChannelCut::Separate).then(|| self.output().channels)
    }

    /// Lines of each image of the output (rows of pixels, or the tokens of a linear layer), if the
    /// operator has multiply-accumulates and can be cut along them.
    pub fn splittable_rows(&self) -> Option<u32> {
        self.separate_rows().filter(|_| self.macs() > 0)
    }

    /// Lines of the output, if each depends only on some lines of the input. This includes
    /// cheap operators, which [`Self::splittable_rows`] excludes but chains may contain.
    pub fn separate_rows(&self) -> Option<u32> {
        self.own_lines().filter(|&rows| rows > 1)
    }

    /// The part that computes `channels` of the output channels; the operator itself if it
    /// cannot be cut along them.
    #[must_use]
    pub fn with_output_channels(&self, channels: u32) -> Self {
        if self.channel_cut() == ChannelCut::None { self.clone() } else { self.part_of_channels(channels) }
    }

    /// The part that computes `rows` of the output from the rows of the input that their
    /// windows reach (adjacent parts share the halo); the operator itself if it cannot be cut
    /// along rows.
    #[must_use]
    pub fn with_output_rows(&self, rows: Range<u32>) -> Self {
        if self.own_lines().is_none() { self.clone() } else { self.part_of_lines(rows) }
    }

    /// Lines of the input that `rows` of the output depend on; the same lines for operators
    /// without a window.
    pub fn rows_reached(&self, rows: Range<u32>) -> Range<u32> {
        match self.window() {
            Some(window) if !rows.is_empty() => window.reached(self.extent(), rows).0,
            Some(_) | None => rows,
        }
    }
}

impl fmt::Display for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.describe(self.name(), f)
    }
}

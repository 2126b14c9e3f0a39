//! What is known of any operator.

use std::fmt;
use std::ops::Range;

use super::{ChannelCut, Class, Operator, Product};
use crate::workload::Shape;

impl Operator {
    /// Extents of the tensors it reads, in order. Weights are not inputs.
    pub fn inputs(&self) -> Vec<Shape> {
        self.input_shapes().collect()
    }

    /// [`Self::inputs`] without a list.
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

    /// The product of activations and weights that it is, if it is one.
    pub fn product_with_weights(&self) -> Option<Product> {
        if let Class::Product(product) = self.class() { product.trained.then_some(product) } else { None }
    }

    /// Whether it multiplies activations with each other, so that each of its batch has
    /// matrices of its own.
    pub fn multiplies_activations(&self) -> bool {
        matches!(self.class(), Class::Product(product) if !product.trained)
    }
}

/// Parts of an operator: what can be cut along what, and what a part reads. Along the
/// output's lines (rows of pixels, or the tokens of a matrix) a part reads the lines its
/// windows reach; along channels it reads everything, but for operators that keep
/// channels apart.
impl Operator {
    /// Output channels along which the operator can be cut, if it can: each
    /// processor then computes its own channels from the whole input.
    pub fn splittable_channels(&self) -> Option<u32> {
        (self.channel_cut() == ChannelCut::OfWeights).then(|| self.output().channels)
    }

    /// Output channels of an operator that keeps channels apart: those of a part depend
    /// on the same part of the input's alone.
    pub fn separate_channels(&self) -> Option<u32> {
        (self.channel_cut() == ChannelCut::Separate).then(|| self.output().channels)
    }

    /// Lines of each image of the output, where the operator has weights and can be cut
    /// along them: rows of pixels, or the tokens of a linear layer.
    pub fn splittable_rows(&self) -> Option<u32> {
        self.separate_rows().filter(|_| self.macs() > 0)
    }

    /// Lines of the output, where each depends on some lines of the input only. Besides
    /// [`Self::splittable_rows`] those of operators that are cheap, which a chain may go
    /// through.
    pub fn separate_rows(&self) -> Option<u32> {
        self.own_lines().filter(|&rows| rows > 1)
    }

    /// The part of an operator that computes `channels` of its output channels; the
    /// operator itself where it can be cut along them in no way.
    #[must_use]
    pub fn with_output_channels(&self, channels: u32) -> Self {
        if self.channel_cut() == ChannelCut::None { self.clone() } else { self.part_of_channels(channels) }
    }

    /// The part of an operator that computes `rows` of its output, on the rows of the
    /// input that their windows reach (parts that are neighbours share some, the halo);
    /// the operator itself where it cannot be cut there.
    #[must_use]
    pub fn with_output_rows(&self, rows: Range<u32>) -> Self {
        if self.own_lines().is_none() { self.clone() } else { self.part_of_lines(rows) }
    }

    /// Lines of its input that `rows` of the output depend on; for operators without a
    /// window the same lines.
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

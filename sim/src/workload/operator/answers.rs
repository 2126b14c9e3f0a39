//! What is known of any operator.

use std::fmt;
use std::ops::Range;

use super::definition::ChannelCut;
use super::{BatchOf, Class, Operator, OperatorError, Product, Window};
use crate::workload::shape::Shape;

/// All but `check` assume that it succeeds.
impl Operator {
    /// Checks everything about it that does not depend on a graph.
    ///
    /// # Errors
    /// The first [`OperatorError`] found: a zero or oversized dimension, a window
    /// larger than its padded input, channels that do not divide into groups,
    /// operands that do not broadcast, a reshape to another size, a slice out of
    /// range.
    pub fn check(&self) -> Result<(), OperatorError> {
        self.definition().check()
    }

    /// The field's word for the operator.
    pub fn name(&self) -> &'static str {
        self.definition().name()
    }

    /// What kind of work it is.
    pub fn class(&self) -> Class<'_> {
        self.definition().class()
    }

    /// Extents of the tensors it reads, in order. Weights are not inputs.
    pub fn inputs(&self) -> Vec<Shape> {
        self.input_shapes().collect()
    }

    /// [`Self::inputs`] without a list.
    pub fn input_shapes(&self) -> impl Iterator<Item = Shape> {
        let definition = self.definition();
        (0..).map_while(|index| definition.input(index))
    }

    /// Elements of all inputs together.
    pub fn input_elements(&self) -> u64 {
        self.input_shapes().map(|shape| shape.elements()).sum()
    }

    /// Multiply-accumulates of the matrix products and convolutions; zero for
    /// everything else, as the papers count.
    pub fn macs(&self) -> u64 {
        self.definition().macs()
    }

    /// Trained parameters.
    pub fn parameters(&self) -> u64 {
        self.weights().iter().sum()
    }

    /// Trained parameters: the weights proper, and what is added to each output channel.
    pub fn weights(&self) -> [u64; 2] {
        self.definition().weights()
    }

    /// The window that slides over its input, where one does.
    pub fn window(&self) -> Option<Window> {
        self.definition().window().map(|(_, window)| *window)
    }

    /// Whether inference frameworks fold it into the weights of the operator before it.
    pub fn folds(&self) -> bool {
        self.definition().folds()
    }

    /// Whether its kernels keep results within the bounds of a rectifier for free. What is
    /// folded leaves that to the operator it is folded into.
    pub fn applies_bounds(&self) -> bool {
        self.definition().applies_bounds()
    }

    /// Whether element-wise functions can run in its epilogue.
    pub fn takes_functions(&self) -> bool {
        self.definition().takes_functions()
    }

    /// Whether its result is a part or another extent of what is there, so that an engine
    /// may run nothing.
    pub fn is_view(&self) -> bool {
        self.definition().is_view()
    }

    /// The product of activations and weights that it is, if it is one.
    pub fn product_with_weights(&self) -> Option<Product> {
        match self.class() {
            Class::Product(product) => product.trained.then_some(product),
            Class::Convolution(_)
            | Class::Depthwise(_)
            | Class::Pool(_)
            | Class::Reduction(_)
            | Class::Elementwise(_)
            | Class::Movement(_)
            | Class::Gather { .. } => None,
        }
    }

    /// Whether it multiplies activations with each other, so that each of its batch has
    /// matrices of its own.
    pub fn multiplies_activations(&self) -> bool {
        matches!(self.class(), Class::Product(product) if !product.trained)
    }

    /// The operator with a bias, where it has weights that a normalisation folds into.
    pub fn with_bias(&self) -> Option<Self> {
        self.definition().with_bias()
    }

    /// Whether a file leaves its extents to what it reads.
    pub fn takes_extents(&self) -> bool {
        self.definition().takes_extents()
    }

    /// The operator on inputs of these extents, where it takes its own from them.
    #[must_use]
    pub fn reading(&self, given: &[Shape]) -> Self {
        self.definition().reading(given)
    }

    /// The operator for a batch; `None` where it would mix what belongs to different
    /// parts of the batch.
    pub(in crate::workload) fn batched(&self, batch: &BatchOf<'_>) -> Option<Self> {
        self.definition().batched(batch)
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
        let cut = self.definition().channel_cut();
        (cut == ChannelCut::OfWeights).then(|| self.output().channels)
    }

    /// Output channels of an operator that keeps channels apart: those of a part depend
    /// on the same part of the input's alone.
    pub fn separate_channels(&self) -> Option<u32> {
        let cut = self.definition().channel_cut();
        (cut == ChannelCut::Separate).then(|| self.output().channels)
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
        Some(self.definition().separate_rows()).filter(|&rows| rows > 1)
    }

    /// The part of an operator that computes `channels` of its output channels; the
    /// operator itself where it can be cut along them in no way.
    #[must_use]
    pub fn with_output_channels(&self, channels: u32) -> Self {
        self.definition().with_channels(channels).unwrap_or_else(|| self.clone())
    }

    /// The part of an operator that computes `rows` of its output, on the rows of the
    /// input that their windows reach (parts that are neighbours share some, the halo);
    /// the operator itself where it cannot be cut there.
    #[must_use]
    pub fn with_output_rows(&self, rows: Range<u32>) -> Self {
        self.definition().with_rows(rows).unwrap_or_else(|| self.clone())
    }

    /// Lines of its input that `rows` of the output depend on; for operators without a
    /// window the same lines.
    pub fn rows_reached(&self, rows: Range<u32>) -> Range<u32> {
        match self.definition().window() {
            Some((input, window)) if !rows.is_empty() => window.reached(input, rows).0,
            Some(_) | None => rows,
        }
    }
}

impl fmt::Display for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.definition().describe(f)
    }
}

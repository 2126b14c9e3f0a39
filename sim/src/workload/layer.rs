//! A layer: an operator and the element-wise functions in its epilogue.

use std::ops::Range;

use arrayvec::ArrayVec;

use super::operator::Operator;
use super::{Class, DataType, Function};

/// Most functions in one epilogue.
const MAX_LINKED: usize = 6;

/// Element-wise functions that run in an operator's epilogue, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Linked(ArrayVec<Function, MAX_LINKED>);

impl Linked {
    /// Appends `function`; if the epilogue is full, returns false and changes nothing.
    pub fn push(&mut self, function: Function) -> bool {
        self.0.try_push(function).is_ok()
    }

    /// The functions, in order.
    pub fn functions(&self) -> &[Function] {
        &self.0
    }

    /// Linked sums: each reads one more tensor of the output's size.
    pub fn additions(&self) -> u32 {
        self.count(|function| function == Function::Add)
    }

    /// Linked products, and other functions of two tensors that cost the same as a product.
    pub fn multiplications(&self) -> u32 {
        self.count(|function| function.is_binary() && function != Function::Add)
    }

    /// Linked functions of one tensor.
    pub fn activations(&self) -> u32 {
        self.count(|function| !function.is_binary())
    }

    fn count(&self, which: impl Fn(Function) -> bool) -> u32 {
        self.0.iter().filter(|&&function| which(function)).count() as u32
    }
}

impl FromIterator<Function> for Linked {
    /// Keeps the first functions that fit.
    fn from_iter<I: IntoIterator<Item = Function>>(functions: I) -> Self {
        Self(functions.into_iter().take(MAX_LINKED).collect())
    }
}

/// The unit that a processor executes, and that a kernel model prices.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Layer {
    /// The operator.
    pub operator: Operator,
    /// The functions in its epilogue.
    pub linked: Linked,
    /// Its number format.
    pub data_type: DataType,
}

impl Layer {
    /// A layer without linked functions.
    pub fn new(operator: Operator, data_type: DataType) -> Self {
        Self { operator, linked: Linked::default(), data_type }
    }

    /// Whether engines of language models have a kernel for it, with integer weights and float
    /// activations. They have none for convolutions.
    pub fn is_of_language_engine(&self) -> bool {
        let convolves = matches!(self.operator.class(), Class::Convolution(_) | Class::Depthwise(_));
        self.data_type.is_weight_only() && !convolves
    }

    /// The part of the layer that computes `channels` output channels.
    #[must_use]
    pub fn with_output_channels(&self, channels: u32) -> Self {
        Self { operator: self.operator.with_output_channels(channels), ..self.clone() }
    }

    /// The part of this layer that computes `rows` of the output; see
    /// [`Operator::with_output_rows`].
    #[must_use]
    pub fn with_output_rows(&self, rows: Range<u32>) -> Self {
        Self { operator: self.operator.with_output_rows(rows), ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linked_functions_are_counted_by_what_they_cost() {
        let linked: Linked = [Function::Add, Function::Relu, Function::Multiply].into_iter().collect();
        assert_eq!((linked.additions(), linked.multiplications(), linked.activations()), (1, 1, 1));
    }

    #[test]
    fn a_full_epilogue_rejects_further_functions() {
        let mut linked: Linked = std::iter::repeat_n(Function::Relu, MAX_LINKED).collect();
        assert!(!linked.push(Function::Add));
        assert_eq!(linked.functions().len(), MAX_LINKED);
    }
}

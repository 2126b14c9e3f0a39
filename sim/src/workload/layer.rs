//! A layer: an operator and the element-wise functions in its epilogue.

use std::ops::Range;

use arrayvec::ArrayVec;

use super::operator::Operator;
use super::{Class, DataType, Elementwise, Function, Shape};

/// Most functions in one epilogue.
const MAX_LINKED: usize = 6;

/// Element-wise functions that run in an operator's epilogue, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Linked {
    functions: ArrayVec<Function, MAX_LINKED>,
    /// Of each function, whether its second operand is broadcast.
    broadcast: ArrayVec<bool, MAX_LINKED>,
}

impl Linked {
    /// Appends `function`; if the epilogue is full, returns false and changes nothing. The second operand
    /// of a function of two has the size of the output, or if `is_broadcast` a few values.
    pub fn push(&mut self, function: Function, is_broadcast: bool) -> bool {
        self.functions.try_push(function).is_ok() && self.broadcast.try_push(is_broadcast).is_ok()
    }

    /// The functions, in order.
    pub fn functions(&self) -> &[Function] {
        &self.functions
    }

    /// The functions as operators on `output`, the result of the operator before them.
    pub fn operators(&self, output: Shape) -> impl Iterator<Item = Elementwise> {
        let per_channel = Shape::image(1, 1, output.channels);
        self.functions.iter().zip(&self.broadcast).map(move |(&function, &is_broadcast)| {
            let other = function.is_binary().then_some(if is_broadcast { per_channel } else { output });
            Elementwise { function, input: output, other }
        })
    }

    /// Linked functions of two operands.
    pub fn of_two_operands(&self) -> u32 {
        self.functions.iter().filter(|function| function.is_binary()).count() as u32
    }

    /// Second operands of the output's size, each one more tensor that the layer reads.
    pub fn tensor_operands(&self) -> u32 {
        let reads = |&(function, &is_broadcast): &(&Function, &bool)| function.is_binary() && !is_broadcast;
        self.functions.iter().zip(&self.broadcast).filter(reads).count() as u32
    }

    /// Linked functions of one tensor.
    pub fn activations(&self) -> u32 {
        self.functions.len() as u32 - self.of_two_operands()
    }
}

impl FromIterator<Function> for Linked {
    /// Keeps the first functions that fit. No operand is broadcast.
    fn from_iter<I: IntoIterator<Item = Function>>(functions: I) -> Self {
        let functions: ArrayVec<_, MAX_LINKED> = functions.into_iter().take(MAX_LINKED).collect();
        Self { broadcast: functions.iter().map(|_| false).collect(), functions }
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
    fn linked_functions_are_counted_by_what_they_read() {
        let mut linked: Linked = [Function::Add, Function::Relu].into_iter().collect();
        assert!(linked.push(Function::Multiply, true));
        let counts = (linked.of_two_operands(), linked.tensor_operands(), linked.activations());
        assert_eq!(counts, (2, 1, 1));
        let is_broadcast = linked.operators(Shape::image(8, 8, 16)).map(|operator| operator.is_broadcast());
        assert!(is_broadcast.eq([false, false, true]));
    }

    #[test]
    fn a_full_epilogue_rejects_further_functions() {
        let mut linked: Linked = std::iter::repeat_n(Function::Relu, MAX_LINKED).collect();
        assert!(!linked.push(Function::Add, false));
        assert_eq!(linked.functions().len(), MAX_LINKED);
    }
}

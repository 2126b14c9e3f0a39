//! A layer: an operator and the element-wise functions in its epilogue.

use std::ops::Range;

use arrayvec::ArrayVec;

use super::operator::Operator;
use super::{Class, DataType, Elementwise, Function, SecondOperand, Shape};

/// Most functions in one epilogue.
const MAX_LINKED: usize = 6;

/// Element-wise functions that run in an operator's epilogue, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Linked {
    functions: ArrayVec<Function, MAX_LINKED>,
    /// The second operand of each function, if it has one.
    operands: ArrayVec<Option<SecondOperand>, MAX_LINKED>,
}

impl Linked {
    /// Appends `function`, which reads a second operand as `operand` says if it has one; if the epilogue
    /// is full, returns false and changes nothing.
    pub fn push(&mut self, function: Function, operand: SecondOperand) -> bool {
        let operand = function.is_binary().then_some(operand);
        self.functions.try_push(function).is_ok() && self.operands.try_push(operand).is_ok()
    }

    /// The functions, in order.
    pub fn functions(&self) -> &[Function] {
        &self.functions
    }

    /// The functions as operators on `output`, the result of the operator before them.
    pub fn operators(&self, output: Shape) -> impl Iterator<Item = Elementwise> {
        self.functions.iter().zip(&self.operands).map(move |(&function, operand)| {
            let other = operand.map(|operand| operand.beside(output));
            Elementwise { function, input: output, other }
        })
    }

    /// Linked functions of two operands.
    pub fn of_two_operands(&self) -> u32 {
        self.operands.iter().flatten().count() as u32
    }

    /// Second operands that the layer reads, in tensors of the size of `output`.
    pub fn operand_tensors(&self, output: Shape) -> f64 {
        self.operators(output).map(|function| function.operand_tensors()).sum()
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
        let operands = functions.iter().map(|function| function.is_binary().then_some(SecondOperand::WHOLE));
        Self { operands: operands.collect(), functions }
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

    /// Extents of the tensors that it reads: its operator's, then the second operands of linked functions.
    pub fn read_shapes(&self) -> impl Iterator<Item = Shape> + '_ {
        let linked = self.linked.operators(self.operator.output()).filter_map(|function| function.other);
        self.operator.input_shapes().chain(linked)
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
        assert!(linked.push(Function::Multiply, SecondOperand::PER_CHANNEL));
        let image = Shape::image(8, 8, 16);
        assert_eq!((linked.of_two_operands(), linked.activations()), (2, 1));
        let is_broadcast = linked.operators(image).map(|operator| operator.is_broadcast());
        assert!(is_broadcast.eq([false, false, true]));
        assert!((linked.operand_tensors(image) - 1.0).abs() < f64::EPSILON);
        assert!(linked.push(Function::Add, SecondOperand::new(image.images(4), image.images(2))));
        assert!(
            (linked.operand_tensors(image.images(4)) - 1.5).abs() < f64::EPSILON,
            "every image is read twice"
        );
    }

    #[test]
    fn a_full_epilogue_rejects_further_functions() {
        let mut linked: Linked = std::iter::repeat_n(Function::Relu, MAX_LINKED).collect();
        assert!(!linked.push(Function::Add, SecondOperand::WHOLE));
        assert_eq!(linked.functions().len(), MAX_LINKED);
    }
}

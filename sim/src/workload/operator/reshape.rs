//! Reshapes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    BatchOf, Checked, Class, Definition, Movement, Operator, OperatorError, bounds, first, of_one_input,
};
use crate::workload::Shape;

/// A reshape to another extent (also transposes): `[batch, height, width, channels]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Reshape {
    /// Input extent.
    #[serde(skip)]
    pub input: Shape,
    /// Output extent, with the same number of elements.
    pub output: Shape,
}

impl Definition for Reshape {
    fn class(&self) -> Class<'_> {
        Class::Movement(Movement::Rearranged(self))
    }

    fn check(&self) -> Checked {
        bounds::shape("the input", self.input)?;
        bounds::shape("the output", self.output)?;
        if self.input.elements() != self.output.elements() {
            return Err(OperatorError::ElementCount { input: self.input, output: self.output });
        }
        Ok(())
    }

    of_one_input!();

    fn output(&self) -> Shape {
        self.output
    }

    fn is_view(&self) -> bool {
        true
    }

    fn takes_functions(&self) -> bool {
        // It is free as long as no kernel runs, and then there is no epilogue.
        false
    }

    fn batched(&self, batch: &BatchOf<'_>) -> Option<Operator> {
        let input = first(batch.given, self.input);
        // A product of two activations has its heads along the batch.
        let output = if batch.feeds_product {
            self.output.images(batch.count)
        } else {
            self.output.repeated(batch.count)
        };
        Some(Self { input, output }.into())
    }
}

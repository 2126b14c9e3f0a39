//! Transpositions.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Axis, BatchOf, Checked, Class, Definition, Movement, Operator, OperatorError, Pick, UNKNOWN, bounds,
    first, one,
};
use crate::workload::{Dimension, Shape};

/// A transposition: the input's dimension for each of batch, height, width and channels of the
/// output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Transpose {
    /// Extent of one image.
    #[serde(skip)]
    pub input: Shape,
    /// Images that follow each other along the batch, each transposed on its own.
    #[serde(skip, default = "one")]
    pub images: u32,
    /// Dimensions of the input, in the order of the output, outermost first.
    pub order: [Dimension; 4],
}

impl From<[Dimension; 4]> for Transpose {
    fn from(order: [Dimension; 4]) -> Self {
        Self { input: UNKNOWN, images: 1, order }
    }
}

impl Transpose {
    /// The source of each output element.
    pub fn pick(&self) -> Pick {
        let mut axes = Pick::all(self.input).axes;
        for (along, from) in Dimension::ALL.into_iter().zip(self.order) {
            axes[from as usize] = Axis { along, first: 0, step: 1 };
        }
        Pick { input: self.input, images: self.images, axes }
    }

    fn one(&self) -> Shape {
        Shape::from(self.order.map(|dimension| self.input.along(dimension)))
    }
}

impl Definition for Transpose {
    fn class(&self) -> Class<'_> {
        Class::Movement(Movement::Transposed(self))
    }

    fn check(&self) -> Checked {
        bounds::shape("the input", self.extent())?;
        if Dimension::ALL.iter().all(|dimension| self.order.contains(dimension)) {
            bounds::shape("the output", self.output())
        } else {
            Err(OperatorError::Order)
        }
    }

    fn extent(&self) -> Shape {
        self.input.images(self.images)
    }

    fn output(&self) -> Shape {
        self.one().images(self.images)
    }

    fn describe(&self, name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{name} {} -> {}", self.extent(), self.output())
    }

    fn over(&self, extent: Shape) -> Operator {
        Self { input: extent, images: 1, ..*self }.into()
    }

    fn batched(&self, batch: &BatchOf<'_>) -> Option<Operator> {
        let given = first(batch.given, self.extent());
        if given == self.extent().images(batch.count) {
            return Some(Self { images: batch.times(self.images), ..*self }.into());
        }
        // Images in another layout can share one transposition if the batch stays outermost.
        (self.order[0] == Dimension::Batch && !given.is_tokens()).then(|| self.over(given))
    }
}

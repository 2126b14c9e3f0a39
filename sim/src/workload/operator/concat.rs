//! Concatenations.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    BatchOf, Checked, Class, Definition, Movement, Operator, OperatorError, UNKNOWN, bounds, first, flag,
};
use crate::workload::{Dimension, Shape};

/// A concatenation: `true` along channels, else the dimension.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(from = "Written", into = "Written")]
pub struct Concat {
    /// Extent of the inputs; the one along `dimension` is unused.
    pub extent: Shape,
    /// The dimension along which the inputs are concatenated.
    pub dimension: Dimension,
    /// Extent of each input along it, in order.
    pub extents: Vec<u32>,
}

/// The form of a concatenation in files.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected `true`, \"batch\", \"height\", \"width\" or \"channels\"")]
enum Written {
    Channels(
        #[serde(with = "flag")]
        #[schemars(with = "bool")]
        Shape,
    ),
    Along(Dimension),
}

impl From<Written> for Concat {
    fn from(written: Written) -> Self {
        let dimension = match written {
            Written::Channels(_) => Dimension::Channels,
            Written::Along(dimension) => dimension,
        };
        Self { extent: UNKNOWN, dimension, extents: Vec::new() }
    }
}

impl From<Concat> for Written {
    fn from(concat: Concat) -> Self {
        match concat.dimension {
            Dimension::Channels => Self::Channels(UNKNOWN),
            dimension => Self::Along(dimension),
        }
    }
}

impl Concat {
    /// A concatenation along channels of inputs with these numbers of channels.
    pub fn of_channels(extent: Shape, channels: Vec<u32>) -> Self {
        Self { extent, dimension: Dimension::Channels, extents: channels }
    }

    /// For each input, the number of elements that are contiguous in the output's memory.
    pub fn runs(&self) -> impl Iterator<Item = u64> {
        let step = self.extent.inside(self.dimension);
        self.extents.iter().map(move |&extent| u64::from(extent) * step)
    }

    fn of(&self, extent: u32) -> Shape {
        self.extent.with(self.dimension, extent)
    }
}

impl Definition for Concat {
    fn class(&self) -> Class<'_> {
        Class::Movement(Movement::Joined(self))
    }

    fn check(&self) -> Checked {
        if self.extents.is_empty() {
            return Err(OperatorError::NothingToJoin);
        }
        let what = match self.dimension {
            Dimension::Batch => "output images",
            Dimension::Height => "output rows",
            Dimension::Width => "output columns",
            Dimension::Channels => "output channels",
        };
        let mut total = 0_u64;
        for &extent in &self.extents {
            bounds::shape("an input", self.of(extent))?;
            total += u64::from(extent);
            // Checked in the loop, since a file may list any number of inputs.
            bounds::at_most_max(what, total)?;
        }
        bounds::shape("the output", self.of(total as u32))
    }

    fn extent(&self) -> Shape {
        self.extent
    }

    fn input(&self, index: usize) -> Option<Shape> {
        self.extents.get(index).map(|&extent| self.of(extent))
    }

    fn output(&self) -> Shape {
        self.of(self.extents.iter().sum())
    }

    fn own_lines(&self) -> Option<u32> {
        let output = self.output();
        (output.line_dimension() != self.dimension).then(|| output.lines())
    }

    fn over(&self, extent: Shape) -> Operator {
        Self { extent, ..self.clone() }.into()
    }

    fn reading(&self, given: &[Shape]) -> Operator {
        let extent = first(given, self.extent);
        let extents = given.iter().map(|shape| shape.along(self.dimension)).collect();
        Self { extent, extents, ..*self }.into()
    }

    fn batched(&self, batch: &BatchOf<'_>) -> Option<Operator> {
        let joined = self.reading(batch.given);
        // One input may be rows of a matrix where another is separate images.
        let is_alike = (0..).zip(batch.given).all(|(index, &given)| joined.input(index) == Some(given));
        is_alike.then_some(joined)
    }
}

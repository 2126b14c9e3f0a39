//! Resizing of images.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{BatchOf, Class, Definition, Movement, Operator, first, of_one_input};
use crate::workload::Shape;

/// How the elements of a resized image are interpolated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[derive(Serialize, Deserialize, JsonSchema, strum::Display)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Interpolation {
    /// From the element at or before its position.
    #[default]
    Nearest,
    /// From the four elements around its position, with pixel centres at halves.
    Bilinear,
}

impl Interpolation {
    /// Input elements per output element.
    pub fn taps(self) -> u32 {
        match self {
            Self::Nearest => 1,
            Self::Bilinear => 4,
        }
    }
}

/// A resize to another height and width.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Resize {
    /// Input extent.
    #[serde(skip)]
    pub input: Shape,
    /// Rows of the output.
    pub height: u32,
    /// Columns of the output.
    pub width: u32,
    /// The interpolation.
    #[serde(default)]
    pub interpolation: Interpolation,
}

impl Definition for Resize {
    fn class(&self) -> Class<'_> {
        Class::Movement(Movement::Resized(self))
    }

    of_one_input!();

    fn output(&self) -> Shape {
        Shape { height: self.height, width: self.width, ..self.input }
    }

    fn batched(&self, batch: &BatchOf<'_>) -> Option<Operator> {
        (!first(batch.given, self.input).is_tokens()).then(|| self.reading(batch.given))
    }
}

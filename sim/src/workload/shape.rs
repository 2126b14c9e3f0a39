//! Shapes, data types, layouts and padding of tensors.

use std::fmt;
use std::ops::Range;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::units::Bytes;

/// The number format of a model or operator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[derive(Serialize, Deserialize, JsonSchema, strum::Display, strum::VariantArray)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum DataType {
    /// 32-bit floating point. Mobile GPUs compute such models in 16 bits.
    #[default]
    F32,
    /// 16-bit floating point.
    F16,
    /// 8-bit integer weights and activations, one scale per channel (static quantisation).
    I8,
    /// 8-bit weights and 32-bit activations, which a CPU quantises to 8 bits before each product with
    /// weights, one scale per row (dynamic quantisation). Everything else is computed in 32 bits.
    #[serde(rename = "i8-dynamic")]
    #[strum(serialize = "i8-dynamic")]
    I8Dynamic,
    /// As `i8-dynamic` with 4-bit weights, which matrix products unpack to 8 bits on the fly.
    #[serde(rename = "i4-dynamic")]
    #[strum(serialize = "i4-dynamic")]
    I4Dynamic,
    /// 4-bit weights, 16-bit activations (weight-only quantisation).
    W4A16,
    /// 8-bit weights, 16-bit activations.
    W8A16,
}

impl DataType {
    /// All formats.
    pub const ALL: &[Self] = <Self as strum::VariantArray>::VARIANTS;

    /// Bytes of one activation element.
    pub fn activation_bytes(self) -> u64 {
        match self {
            Self::F32 | Self::I8Dynamic | Self::I4Dynamic => 4,
            Self::F16 | Self::W4A16 | Self::W8A16 => 2,
            Self::I8 => 1,
        }
    }

    /// Whether a CPU quantises the activations of products with weights at run time.
    pub fn is_dynamic(self) -> bool {
        matches!(self, Self::I8Dynamic | Self::I4Dynamic)
    }

    /// Whether only the weights are integers, which engines of language models dequantise.
    pub fn is_weight_only(self) -> bool {
        matches!(self, Self::W4A16 | Self::W8A16)
    }

    /// Bits of a weight.
    pub fn weight_bits(self) -> u64 {
        match self {
            Self::F32 => 32,
            Self::F16 => 16,
            Self::I8 | Self::I8Dynamic | Self::W8A16 => 8,
            Self::I4Dynamic | Self::W4A16 => 4,
        }
    }

    /// Bytes of `count` weights.
    pub fn weight_bytes(self, count: u64) -> Bytes {
        Bytes((count * self.weight_bits()).div_ceil(8))
    }
}

/// Memory layout of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// A plain buffer, channels innermost: what CPU kernels read and write.
    Buffer,
    /// A two-dimensional image of four-channel texels (Adreno, Mali, `PowerVR`).
    Image,
    /// A buffer of four-channel slices (Apple).
    SlicedBuffer,
}

/// A tensor's extent: batch, height, width, channels.
///
/// A matrix of `rows` tokens and `features` is `[1, 1, rows, features]`, as in
/// the TFLite GPU delegate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(from = "[u32; 4]", into = "[u32; 4]")]
#[schemars(inline)]
pub struct Shape {
    /// Images (or attention heads) in the batch.
    pub batch: u32,
    /// Rows of pixels.
    pub height: u32,
    /// Columns of pixels, or tokens.
    pub width: u32,
    /// Channels, or features.
    pub channels: u32,
}

/// One of the four dimensions of a [`Shape`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[derive(Serialize, Deserialize, JsonSchema, strum::Display)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Dimension {
    /// Images.
    Batch,
    /// Rows of pixels.
    Height,
    /// Pixels of a row, or tokens.
    Width,
    /// Channels, or features.
    #[default]
    Channels,
}

impl Dimension {
    /// All, outermost in memory first.
    pub const ALL: [Self; 4] = [Self::Batch, Self::Height, Self::Width, Self::Channels];
}

impl Shape {
    /// One image.
    pub const fn image(height: u32, width: u32, channels: u32) -> Self {
        Self { batch: 1, height, width, channels }
    }

    /// A matrix: `rows` tokens of `features` elements.
    pub const fn tokens(rows: u32, features: u32) -> Self {
        Self { batch: 1, height: 1, width: rows, channels: features }
    }

    /// Number of pixels (or tokens): everything but the channels.
    pub fn pixels(&self) -> u64 {
        u64::from(self.batch) * u64::from(self.height) * u64::from(self.width)
    }

    /// Number of elements.
    pub fn elements(&self) -> u64 {
        self.pixels() * u64::from(self.channels)
    }

    /// The extent along a dimension.
    pub fn along(self, dimension: Dimension) -> u32 {
        <[u32; 4]>::from(self)[dimension as usize]
    }

    /// The same shape with another extent along a dimension.
    #[must_use]
    pub fn with(self, dimension: Dimension, extent: u32) -> Self {
        let mut extents = <[u32; 4]>::from(self);
        extents[dimension as usize] = extent;
        extents.into()
    }

    /// Stride of a dimension in elements: the product of the inner extents.
    pub fn inside(self, dimension: Dimension) -> u64 {
        <[u32; 4]>::from(self)[dimension as usize + 1..].iter().copied().map(u64::from).product()
    }

    /// The dimension of [`lines`](Self::lines).
    pub fn line_dimension(self) -> Dimension {
        if self.height == 1 { Dimension::Width } else { Dimension::Height }
    }

    /// Lines that a cut along the height divides: rows of pixels, or tokens if there is
    /// only one row.
    pub fn lines(&self) -> u32 {
        self.along(self.line_dimension())
    }

    /// The same shape with as many lines as are in the range `lines`.
    pub(super) fn with_lines(self, lines: &Range<u32>) -> Self {
        self.with(self.line_dimension(), lines.end - lines.start)
    }

    /// Whether it is a matrix of tokens.
    pub(super) fn is_tokens(&self) -> bool {
        (self.batch, self.height) == (1, 1)
    }

    /// The same shape with `count` times as many images.
    #[must_use]
    pub fn images(self, count: u32) -> Self {
        Self { batch: self.batch.saturating_mul(count), ..self }
    }

    /// The same shape with `count` times as many tokens if it is a matrix, else `count` times as many
    /// images.
    pub(super) fn repeated(self, count: u32) -> Self {
        if self.is_tokens() {
            Self { width: self.width.saturating_mul(count), ..self }
        } else {
            self.images(count)
        }
    }

    /// The same shape with other channels.
    #[must_use]
    pub const fn with_channels(self, channels: u32) -> Self {
        Self { channels, ..self }
    }
}

impl From<[u32; 4]> for Shape {
    fn from([batch, height, width, channels]: [u32; 4]) -> Self {
        Self { batch, height, width, channels }
    }
}

impl From<Shape> for [u32; 4] {
    fn from(Shape { batch, height, width, channels }: Shape) -> Self {
        [batch, height, width, channels]
    }
}

/// The form of images in files: `[height, width, channels]`, with a leading `batch` if there are
/// several.
pub(super) mod image {
    use schemars::JsonSchema;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::Shape;

    /// The list in the file.
    #[derive(Serialize, Deserialize, JsonSchema)]
    #[serde(untagged, expecting = "expected [height, width, channels] or [batch, height, width, channels]")]
    pub(in crate::workload) enum Extents {
        /// Height, width, channels.
        One([u32; 3]),
        /// Batch, height, width, channels.
        Several([u32; 4]),
    }

    pub(in crate::workload) fn serialize<S: Serializer>(shape: &Shape, to: S) -> Result<S::Ok, S::Error> {
        match *shape {
            Shape { batch: 1, height, width, channels } => Extents::One([height, width, channels]),
            several => Extents::Several(several.into()),
        }
        .serialize(to)
    }

    pub(in crate::workload) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Shape, D::Error> {
        Ok(match Extents::deserialize(from)? {
            Extents::One([height, width, channels]) => Shape::image(height, width, channels),
            Extents::Several(extents) => extents.into(),
        })
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = if self.batch == 1 {
            format!("{}x{}x{}", self.height, self.width, self.channels)
        } else {
            format!("{}x{}x{}x{}", self.batch, self.height, self.width, self.channels)
        };
        f.pad(&text)
    }
}

/// Rows and columns added around an image before a window slides over it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[derive(derive_more::Add)]
#[serde(deny_unknown_fields)]
pub struct Padding {
    /// Rows above.
    pub top: u32,
    /// Rows below.
    pub bottom: u32,
    /// Columns before.
    pub left: u32,
    /// Columns after.
    pub right: u32,
}

impl Padding {
    /// No padding ("VALID").
    pub const NONE: Self = Self { top: 0, bottom: 0, left: 0, right: 0 };

    /// Whether all sides are zero.
    pub fn is_none(&self) -> bool {
        *self == Self::NONE
    }

    /// `vertical` rows above and below, `horizontal` columns before and after.
    pub const fn symmetric(vertical: u32, horizontal: u32) -> Self {
        Self { top: vertical, bottom: vertical, left: horizontal, right: horizontal }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_bit_weights_pack_two_to_a_byte() {
        assert_eq!(DataType::W4A16.weight_bytes(7), Bytes(4));
        assert_eq!(DataType::F32.weight_bytes(7), Bytes(28));
    }
}

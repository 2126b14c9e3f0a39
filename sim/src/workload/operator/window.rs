//! Windows that slide over images.
//!
//! Responsible for: the rows and columns of an image that a window visits. Not for: the
//! function computed under it.

use std::ops::Range;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Checked, OperatorError, bounds};
use crate::workload::{Padding, Shape};

/// A window that slides over an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Window {
    /// Height and width.
    pub kernel: [u32; 2],
    /// Vertical and horizontal stride.
    #[serde(default = "ones", skip_serializing_if = "is_ones")]
    pub stride: [u32; 2],
    /// Vertical and horizontal dilation, 1 for none.
    #[serde(default = "ones", skip_serializing_if = "is_ones")]
    pub dilation: [u32; 2],
    /// Padding around the image, `{ top, bottom, left, right }`.
    #[serde(default, skip_serializing_if = "Padding::is_none")]
    pub padding: Padding,
}

fn ones() -> [u32; 2] {
    [1, 1]
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_ones(sides: &[u32; 2]) -> bool {
    *sides == ones()
}

impl Window {
    /// A window of `kernel` rows and columns without padding.
    pub const fn of(kernel: [u32; 2]) -> Self {
        Self { kernel, stride: [1, 1], dilation: [1, 1], padding: Padding::NONE }
    }

    /// A square window without padding.
    pub const fn valid(size: u32) -> Self {
        Self::of([size, size])
    }

    /// A square window, padded by half its size: with an odd `size` and stride
    /// 1 the output has the input's extent.
    pub const fn same(size: u32) -> Self {
        Self::valid(size).padding(Padding::symmetric(size / 2, size / 2))
    }

    /// With one stride for both directions.
    #[must_use]
    pub const fn stride(self, stride: u32) -> Self {
        Self { stride: [stride, stride], ..self }
    }

    /// With other padding.
    #[must_use]
    pub const fn padding(self, padding: Padding) -> Self {
        Self { padding, ..self }
    }

    /// Number of elements under the window.
    pub fn taps(&self) -> u64 {
        u64::from(self.kernel[0]) * u64::from(self.kernel[1])
    }

    /// Whether the window is one pixel in every sense: 1x1, stride 1, undilated, unpadded.
    pub fn is_pointwise(&self) -> bool {
        *self == Self::valid(1)
    }

    /// Extent of the output of the window over `input`, with `channels` channels.
    pub(super) fn output(&self, input: Shape, channels: u32) -> Shape {
        let Padding { top, bottom, left, right } = self.padding;
        let positions = |axis: usize, padded: u32| {
            let reach = self.dilation[axis] * (self.kernel[axis] - 1) + 1;
            (padded - reach) / self.stride[axis] + 1
        };
        let height = positions(0, input.height + top + bottom);
        let width = positions(1, input.width + left + right);
        Shape { batch: input.batch, height, width, channels }
    }

    /// Rows of `input` that the window reaches for `rows` of the output, and the remaining
    /// padding. At least one row: a window over padding alone reads nothing, but counts as if it
    /// read one row.
    pub(super) fn reached(&self, input: Shape, rows: Range<u32>) -> (Range<u32>, Padding) {
        let ([kernel, _], [stride, _], [dilation, _]) = (self.kernel, self.stride, self.dilation);
        let padding = self.padding;
        let reach = dilation * (kernel - 1) + 1;
        // In rows of the padded input.
        let (first, end) = (rows.start * stride, (rows.end - 1) * stride + reach);
        let low = first.saturating_sub(padding.top).min(input.height - 1);
        let high = end.saturating_sub(padding.top).clamp(low + 1, input.height);
        let top = padding.top.saturating_sub(first).min(end - first);
        // The rest is padding, so that the part has the right number of rows.
        let bottom = (end - first).saturating_sub(high - low + top);
        (low..high, Padding { top, bottom, ..padding })
    }

    /// The part of the input, and the window, that compute only `rows` of the output.
    pub(super) fn of_rows(&self, input: Shape, rows: Range<u32>) -> (Shape, Self) {
        let (reached, padding) = self.reached(input, rows);
        (Shape { height: reached.end - reached.start, ..input }, self.padding(padding))
    }

    /// Checks the window over `input`, and returns the height and width of the output.
    pub(super) fn check(&self, input: Shape) -> Result<[u32; 2], OperatorError> {
        bounds::shape("the input", input)?;
        let Padding { top, bottom, left, right } = self.padding;
        for value in [top, bottom, left, right] {
            bounds::at_most_max("padding", u64::from(value))?;
        }
        let rows = self.check_axis(0, "rows", input.height, top + bottom)?;
        Ok([rows, self.check_axis(1, "columns", input.width, left + right)?])
    }

    fn check_axis(&self, axis: usize, name: &'static str, input: u32, padding: u32) -> Checked<u32> {
        let (kernel, stride, dilation) = (self.kernel[axis], self.stride[axis], self.dilation[axis]);
        bounds::dimensions([("kernel", kernel), ("stride", stride), ("dilation", dilation)])?;
        let reach = u64::from(dilation) * u64::from(kernel - 1) + 1;
        let padded = u64::from(input) + u64::from(padding);
        if reach > padded {
            return Err(OperatorError::WindowTooLarge { axis: name, reach, padded });
        }
        let output = (padded - reach) / u64::from(stride) + 1;
        bounds::at_most_max("output extent", output)?;
        Ok(output as u32)
    }
}

//! The source of each output element, for operators that only move elements.
//!
//! Responsible for: one description of slices, transposes and paddings, by which kernels are
//! chosen and hardware moves elements. Not for: movements that do not map dimension to
//! dimension (reshapes).
//! Invariant: each dimension of the input follows one of the output's.

use crate::workload::{CHANNELS_PER_SLICE, Dimension, Shape};

/// Positions along one dimension of the input as a function of the position along a dimension of
/// the output: `first + step * position`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Axis {
    /// The dimension of the output that it follows.
    pub along: Dimension,
    /// Input position of the output's first position.
    pub first: i64,
    /// Input positions per output position.
    pub step: i64,
}

/// The input element of each output element; zero outside the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pick {
    /// Extent of one image.
    pub input: Shape,
    /// Images that follow each other along the batch, each moved in the same way.
    pub images: u32,
    /// The axes of the input, outermost first.
    pub axes: [Axis; 4],
}

impl Pick {
    /// The identity.
    pub fn all(input: Shape) -> Self {
        let axes = Dimension::ALL.map(|along| Axis { along, first: 0, step: 1 });
        Self { input, images: 1, axes }
    }

    /// Whether adjacent channels of the output are adjacent in the input.
    pub fn keeps_channels_together(&self) -> bool {
        let [.., channels] = self.axes;
        (channels.along, channels.step) == (Dimension::Channels, 1)
    }

    /// Whether the four channels of every output texel are those of one input texel.
    pub fn moves_whole_texels(&self) -> bool {
        let [.., channels] = self.axes;
        self.keeps_channels_together() && channels.first % i64::from(CHANNELS_PER_SLICE) == 0
    }

    /// Index in memory of the input element for position `at` of an output of `batch` images; `None`
    /// for a zero.
    pub fn element(&self, batch: u32, at: [u32; 4]) -> Option<usize> {
        let own = (batch / self.images.max(1)).max(1);
        let image = at[0] / own;
        let at = [at[0] % own, at[1], at[2], at[3]];
        let mut number = i64::from(image);
        for (axis, extent) in self.axes.iter().zip(<[u32; 4]>::from(self.input)) {
            let position = axis.first + axis.step * i64::from(at[axis.along as usize]);
            if position < 0 || position >= i64::from(extent) {
                return None;
            }
            number = number * i64::from(extent) + position;
        }
        usize::try_from(number).ok()
    }
}

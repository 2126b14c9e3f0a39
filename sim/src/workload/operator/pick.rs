//! Where the elements come from of operators that only move them.
//!
//! Responsible for: one description of ranges, transposes and paddings, by which kernels are
//! chosen and hardware moves elements. Not for: what is no position of a position (reshapes).
//! Invariant: each dimension of the input follows one of the output's.

use crate::workload::{CHANNELS_PER_SLICE, Dimension, Shape};

/// The positions along one dimension of the input, by those of an output dimension:
/// `first + step * position`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Axis {
    /// The dimension of the output that it follows.
    pub along: Dimension,
    /// Position in the input of the output's first.
    pub first: i64,
    /// Positions of the input from one of the output's to the next.
    pub step: i64,
}

/// The element of the input that each element of the output is; zero where that lies outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pick {
    /// Extent of one of the inputs.
    pub input: Shape,
    /// Inputs one behind the other along the batch, each moved alike.
    pub images: u32,
    /// The axes of the input, outermost first.
    pub axes: [Axis; 4],
}

impl Pick {
    /// Every element, where it is.
    pub fn all(input: Shape) -> Self {
        let axes = Dimension::ALL.map(|along| Axis { along, first: 0, step: 1 });
        Self { input, images: 1, axes }
    }

    /// Whether channels that are neighbours in the output are so in the input.
    pub fn keeps_channels_together(&self) -> bool {
        let [.., channels] = self.axes;
        (channels.along, channels.step) == (Dimension::Channels, 1)
    }

    /// Whether the four channels of every texel of the output are those of one texel of the
    /// input.
    pub fn moves_whole_texels(&self) -> bool {
        let [.., channels] = self.axes;
        self.keeps_channels_together() && channels.first % i64::from(CHANNELS_PER_SLICE) == 0
    }

    /// Number of the element, as memory has them, that is the one at `at` of an output of `batch`
    /// images; none for a zero.
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

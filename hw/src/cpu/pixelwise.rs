//! Operators that compute one output pixel after another.
//!
//! Responsible for: counting the pixels of a part and handing out the channels of
//! each to be written. Not for: what is written, or who computes which pixels.
//! Invariant: two pixels have different elements, so parts of the pixels may be
//! computed on different threads.

use std::ops::Range;

use coexec_sim::{Region, Shape};

use crate::operands::{Stretches, indices, row_pixels};

/// The elements of an output tensor that are computed.
pub(super) struct Results<T> {
    /// The whole tensor's first element.
    pub(super) first: *mut T,
    /// Channels of the tensor.
    all_channels: usize,
    /// Channels computed.
    pub(super) channels: Range<usize>,
    /// Pixels computed.
    pub(super) stretches: Stretches,
    /// Pixels of a row.
    pub(super) row: usize,
}

// SAFETY: different pixels have different elements (this module's
// invariant), and whoever makes results vouches for the pointer.
unsafe impl<T: Send> Sync for Results<T> {}

impl<T> Results<T> {
    /// The elements of `part` in a tensor of `shape` that starts at `first`.
    pub(super) fn new(first: *mut T, shape: Shape, part: Region) -> Self {
        Self {
            first,
            all_channels: shape.channels as usize,
            channels: indices(part.channels),
            stretches: Stretches::new(shape, part.rows),
            row: row_pixels(shape),
        }
    }

    /// Pixels computed.
    pub(super) fn pixels(&self) -> usize {
        self.stretches.length * self.stretches.count
    }

    /// Number `index` of the pixels computed: its number in the tensor, and its
    /// channels.
    ///
    /// # Safety
    /// The tensor is valid for reads and writes of the part, and nobody else
    /// accesses this pixel's part as long as the channels are borrowed.
    #[inline(always)]
    #[expect(clippy::mut_from_ref, reason = "the caller sees to it that nobody else has the pixel")]
    pub(super) unsafe fn pixel(&self, index: usize) -> (usize, &mut [T]) {
        let Stretches { first, length, count, step } = self.stretches;
        let (stretch, offset) = if count == 1 { (0, index) } else { (index / length, index % length) };
        let pixel = first + stretch * step + offset;
        // SAFETY: the caller vouches for the part, of which these are a pixel's channels.
        let channels = unsafe {
            let start = self.first.add(pixel * self.all_channels + self.channels.start);
            std::slice::from_raw_parts_mut(start, self.channels.len())
        };
        (pixel, channels)
    }
}

#[cfg(test)]
mod tests {
    use coexec_sim::plan::Span;

    use super::*;

    fn visited(shape: Shape, part: Region) -> Vec<u32> {
        let mut tensor = vec![0; shape.elements() as usize];
        let results = Results::new(tensor.as_mut_ptr(), shape, part);
        for index in 0..results.pixels() {
            // SAFETY: the tensor outlives the results and is accessed by nothing else.
            let (pixel, channels) = unsafe { results.pixel(index) };
            for channel in channels {
                *channel += 1 + pixel as u32;
            }
        }
        tensor
    }

    #[test]
    fn a_part_of_the_lines_is_taken_from_every_image() {
        let shape = Shape { batch: 2, height: 3, width: 1, channels: 2 };
        let part = Region { channels: Span::new(1, 2), rows: Span::new(1, 3) };
        assert_eq!(visited(shape, part), [0, 0, 0, 2, 0, 3, 0, 0, 0, 5, 0, 6]);
    }

    #[test]
    fn whole_images_are_one_stretch() {
        let shape = Shape { batch: 2, height: 1, width: 2, channels: 1 };
        let part = Region::of(shape);
        assert_eq!(visited(shape, part), [1, 2, 3, 4]);
        assert_eq!(Results::new(std::ptr::null_mut::<f32>(), shape, part).stretches.count, 1);
    }
}

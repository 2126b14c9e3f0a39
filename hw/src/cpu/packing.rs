//! Weights in the order in which the micro-kernels read them.
//!
//! A panel holds the weights of as many output channels as a tile is wide: their biases, then one
//! weight per channel for each step of the depth. Channels beyond the last are zero. Panels of
//! whole cache lines start on cache lines.

use std::slice;

use super::Element;

/// Bytes of a cache line on most x86-64 and Arm processors.
const CACHE_LINE_BYTES: usize = 64;

/// One cache line of bytes; a boxed slice of them is aligned to cache lines.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(crate) struct CacheLine {
    _bytes: [u8; CACHE_LINE_BYTES],
}

/// Elements in memory aligned to a cache line.
pub(crate) struct Aligned<T> {
    lines: Box<[CacheLine]>,
    length: usize,
    element: std::marker::PhantomData<T>,
}

impl<T: Element> Aligned<T> {
    /// `length` zeros.
    pub(crate) fn zeros(length: usize) -> Self {
        let lines = (length * size_of::<T>()).div_ceil(CACHE_LINE_BYTES);
        Self {
            lines: vec![CacheLine { _bytes: [0; CACHE_LINE_BYTES] }; lines].into_boxed_slice(),
            length,
            element: std::marker::PhantomData,
        }
    }

    /// A copy of `elements`.
    pub(crate) fn of(elements: &[T]) -> Self {
        let mut copy = Self::zeros(elements.len());
        copy.as_mut_slice().copy_from_slice(elements);
        copy
    }

    pub(crate) fn as_slice(&self) -> &[T] {
        // SAFETY: the lines hold at least `length` elements and are aligned for either format, and
        // every bit pattern is a valid number.
        unsafe { slice::from_raw_parts(self.lines.as_ptr().cast(), self.length) }
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [T] {
        // SAFETY: as above, and the lines are borrowed exclusively.
        unsafe { slice::from_raw_parts_mut(self.lines.as_mut_ptr().cast(), self.length) }
    }
}

impl<T> Aligned<T> {
    /// The raw cache lines, for access by address.
    pub(crate) fn into_lines(self) -> Box<[CacheLine]> {
        self.lines
    }
}

/// A weight matrix packed into panels.
pub(super) struct Panels<T> {
    data: Aligned<T>,
    /// Output channels of a panel.
    pub(super) width: usize,
    /// Output channels of the matrix.
    pub(super) channels: usize,
    /// Depth of the matrix.
    pub(super) depth: usize,
}

impl<T: Element> Panels<T> {
    /// Zeroed panels of `width` channels for a matrix of `channels x depth`.
    pub(super) fn zeros(width: usize, channels: usize, depth: usize) -> Self {
        let data = Aligned::zeros(channels.div_ceil(width) * width * (depth + 1));
        Self { data, width, channels, depth }
    }

    /// Packs the matrix whose element (channel, k) is `weight(channel, k)`.
    pub(super) fn fill(&mut self, weight: impl Fn(usize, usize) -> T, bias: impl Fn(usize) -> T) {
        let (width, channels) = (self.width, self.channels);
        let panel_length = width * (self.depth + 1);
        for (panel, data) in self.data.as_mut_slice().chunks_exact_mut(panel_length).enumerate() {
            let first = panel * width;
            let count = width.min(channels - first);
            for (lane, to) in data[..count].iter_mut().enumerate() {
                *to = bias(first + lane);
            }
            for (k, column) in data[width..].chunks_exact_mut(width).enumerate() {
                for (lane, to) in column[..count].iter_mut().enumerate() {
                    *to = weight(first + lane, k);
                }
            }
        }
    }

    /// Packs a row-major matrix of `depth x channels`; biases stay zero.
    pub(super) fn fill_from_rows(&mut self, rows: &[T]) {
        let (width, channels) = (self.width, self.channels);
        let panel_length = width * (self.depth + 1);
        for (panel, data) in self.data.as_mut_slice().chunks_exact_mut(panel_length).enumerate() {
            let first = panel * width;
            let count = width.min(channels - first);
            for (column, row) in data[width..].chunks_exact_mut(width).zip(rows.chunks_exact(channels)) {
                column[..count].copy_from_slice(&row[first..first + count]);
            }
        }
    }

    /// The bias of `panel`'s channels.
    pub(super) fn bias(&self, panel: usize) -> &[T] {
        let first = panel * self.width * (self.depth + 1);
        &self.data.as_slice()[first..first + self.width]
    }

    /// The weights of `panel` from depth step `k` on.
    pub(super) fn weights(&self, panel: usize, k: usize) -> &[T] {
        let first = panel * self.width * (self.depth + 1);
        &self.data.as_slice()[first + self.width * (k + 1)..first + self.width * (self.depth + 1)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panel_is_its_bias_and_then_a_row_of_channels_a_step() {
        let mut panels = Panels::<f32>::zeros(4, 6, 3);
        panels.fill(|channel, k| (10 * channel + k) as f32, |channel| -(channel as f32));
        assert_eq!(panels.bias(0), [0.0, -1.0, -2.0, -3.0]);
        assert_eq!(panels.weights(0, 2), [2.0, 12.0, 22.0, 32.0]);
        assert_eq!(panels.bias(1), [-4.0, -5.0, 0.0, 0.0]);
        assert_eq!(panels.weights(1, 1), [41.0, 51.0, 0.0, 0.0, 42.0, 52.0, 0.0, 0.0]);
    }

    #[test]
    fn a_transposed_matrix_packs_the_same() {
        let rows: Vec<f32> = (0..21).map(|n| n as f32).collect();
        let [mut by_rows, mut by_element] = [0; 2].map(|_| Panels::<f32>::zeros(4, 7, 3));
        by_rows.fill_from_rows(&rows);
        by_element.fill(|channel, k| rows[k * 7 + channel], |_| 0.0);
        assert_eq!(by_rows.data.as_slice(), by_element.data.as_slice());
    }

    #[test]
    fn panels_start_on_cache_lines() {
        let panels = Panels::<f32>::zeros(16, 40, 5);
        for panel in 0..3 {
            assert_eq!(panels.bias(panel).as_ptr() as usize % CACHE_LINE_BYTES, 0);
        }
    }
}

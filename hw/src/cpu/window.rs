//! Sliding windows over images: where the inputs of an output pixel are.
//!
//! Responsible for: the positions that a window reads for each output pixel, and which of them fall
//! into the padding. A matrix is an image of height 1, read through a 1x1 window.

use std::ops::Range;

use coexec_sim::workload::{Shape, Window};

/// A window that slides over images.
#[derive(Clone, Copy, Debug)]
pub(super) struct SlidingWindow {
    /// Height, width and channels of an input image.
    input: [usize; 3],
    /// Height and width of an output image.
    output: [usize; 2],
    kernel: [usize; 2],
    stride: [usize; 2],
    dilation: [usize; 2],
    /// Rows above and columns before the image.
    padding: [usize; 2],
}

/// An output pixel: its image, row and column.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Position {
    image: usize,
    row: usize,
    column: usize,
}

/// A strided two-dimensional set of elements of a tensor.
#[derive(Clone, Copy, Debug)]
pub(super) struct ElementGrid {
    /// Offset of the first element.
    pub(super) start: usize,
    pub(super) rows: usize,
    /// Elements from one row to the next.
    pub(super) row_step: usize,
    pub(super) columns: usize,
    /// Elements from one column to the next.
    pub(super) column_step: usize,
}

impl ElementGrid {
    /// Offset of the element at `row` and `column`, in elements.
    #[inline(always)]
    pub(super) fn offset(&self, row: usize, column: usize) -> usize {
        self.start + row * self.row_step + column * self.column_step
    }
}

impl SlidingWindow {
    /// `window` over `input`, with the given output extent.
    pub(super) fn new(window: &Window, input: Shape, output: Shape) -> Self {
        let sides = |sides: [u32; 2]| sides.map(|side| side as usize);
        Self {
            input: [input.height, input.width, input.channels].map(|extent| extent as usize),
            output: sides([output.height, output.width]),
            kernel: sides(window.kernel),
            stride: sides(window.stride),
            dilation: sides(window.dilation),
            padding: sides([window.padding.top, window.padding.left]),
        }
    }

    /// Number of positions in the window.
    pub(super) fn taps(&self) -> usize {
        self.kernel[0] * self.kernel[1]
    }

    /// Elements from one input pixel to the next.
    pub(super) fn pixel_stride(&self) -> usize {
        self.input[2]
    }

    /// Whether output pixel `n` reads input pixel `n` and nothing else.
    pub(super) fn is_pointwise(&self) -> bool {
        self.taps() == 1 && self.stride == [1; 2] && self.padding == [0; 2] && self.output == self.input[..2]
    }

    /// The output pixel with index `pixel`, counted over all images.
    pub(super) fn position(&self, pixel: usize) -> Position {
        let [height, width] = self.output;
        let line = pixel / width;
        Position { image: line / height, row: line % height, column: pixel % width }
    }

    /// The output pixel after `position`.
    pub(super) fn next(&self, position: Position) -> Position {
        let [height, width] = self.output;
        let Position { image, row, column } = position;
        if column + 1 < width {
            Position { column: column + 1, ..position }
        } else if row + 1 < height {
            Position { row: row + 1, column: 0, ..position }
        } else {
            Position { image: image + 1, row: 0, column: 0 }
        }
    }

    /// The window's rows and columns that are inside the image, not in the padding.
    #[inline(always)]
    pub(super) fn inside(&self, output: Position) -> [Range<usize>; 2] {
        let axis = |axis: usize, at: usize| {
            let (start, padding) = (at * self.stride[axis], self.padding[axis]);
            let dilation = self.dilation[axis];
            let first = padding.saturating_sub(start).div_ceil(dilation);
            let end = (padding + self.input[axis]).saturating_sub(start).div_ceil(dilation);
            first..end.min(self.kernel[axis])
        };
        [axis(0, output.row), axis(1, output.column)]
    }

    /// The input elements at the positions that [`SlidingWindow::inside`] returned.
    #[inline(always)]
    pub(super) fn inputs(&self, output: Position, [rows, columns]: &[Range<usize>; 2]) -> ElementGrid {
        let [height, width, channels] = self.input;
        let y = output.row * self.stride[0] + rows.start * self.dilation[0] - self.padding[0];
        let x = output.column * self.stride[1] + columns.start * self.dilation[1] - self.padding[1];
        ElementGrid {
            start: ((output.image * height + y) * width + x) * channels,
            rows: rows.len(),
            row_step: self.dilation[0] * width * channels,
            columns: columns.len(),
            column_step: self.dilation[1] * channels,
        }
    }

    /// The weights at these positions, with `channels` weights each.
    #[inline(always)]
    pub(super) fn weights(&self, [rows, columns]: &[Range<usize>; 2], channels: usize) -> ElementGrid {
        ElementGrid {
            start: (rows.start * self.kernel[1] + columns.start) * channels,
            rows: rows.len(),
            row_step: self.kernel[1] * channels,
            columns: columns.len(),
            column_step: channels,
        }
    }

    /// Offset, in elements, of the input pixel at window position `tap`; `None` in the padding.
    #[inline(always)]
    pub(super) fn input_offset(&self, output: Position, tap: usize) -> Option<usize> {
        let [height, width, channels] = self.input;
        let [tap_row, tap_column] = [tap / self.kernel[1], tap % self.kernel[1]];
        // Negative rows and columns wrap around to values beyond the image.
        let row = (output.row * self.stride[0] + tap_row * self.dilation[0]).wrapping_sub(self.padding[0]);
        let column =
            (output.column * self.stride[1] + tap_column * self.dilation[1]).wrapping_sub(self.padding[1]);
        (row < height && column < width).then(|| ((output.image * height + row) * width + column) * channels)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use coexec_sim::workload::{Conv2d, Padding};

    fn window() -> SlidingWindow {
        let padding = Padding { top: 1, bottom: 0, left: 1, right: 1 };
        let input = Shape { batch: 2, height: 4, width: 5, channels: 3 };
        let conv = Conv2d::new(input, 1, Window::valid(3).stride(2).padding(padding));
        SlidingWindow::new(&conv.window, conv.input, conv.output())
    }

    #[test]
    fn stepping_agrees_with_counting() {
        let window = window();
        let mut position = Position::default();
        for pixel in 0..2 * 2 * 3 {
            assert_eq!(window.position(pixel), position);
            position = window.next(position);
        }
    }

    #[test]
    fn the_first_window_starts_in_the_padding() {
        let window = window();
        let first = Position::default();
        let offsets: Vec<Option<usize>> = (0..9).map(|tap| window.input_offset(first, tap)).collect();
        assert_eq!(offsets, [None, None, None, None, Some(0), Some(3), None, Some(5 * 3), Some(6 * 3)]);
    }

    #[test]
    fn the_positions_inside_are_those_with_an_offset() {
        let window = window();
        for position in (0..12).map(|pixel| window.position(pixel)) {
            let inside = window.inside(position);
            let grid = window.inputs(position, &inside);
            let weights = window.weights(&inside, 1);
            let offsets = (0..9).filter_map(|tap| Some((tap, window.input_offset(position, tap)?)));
            let of_grid = (0..grid.rows)
                .flat_map(|row| (0..grid.columns).map(move |column| (row, column)))
                .map(|(row, column)| (weights.offset(row, column), grid.offset(row, column)));
            assert!(of_grid.eq(offsets));
        }
    }

    #[test]
    fn the_last_window_of_the_second_image_ends_in_the_right_padding() {
        let window = window();
        let last = window.position(11);
        assert_eq!(window.input_offset(last, 8), None);
        assert_eq!(window.input_offset(last, 7), Some((20 + 3 * 5 + 4) * 3));
    }
}

//! Parts of an operator: what can be cut along what, and what a part reads.
//!
//! Along the output's lines (rows of pixels, or the tokens of a matrix) a part reads
//! the lines its windows reach; along channels it reads everything, but for
//! operators that keep channels apart. All methods assume an operator that
//! `graph::check_operator` accepted.

use std::ops::Range;

use super::{Concat, Conv2d, DepthwiseConv2d, Elementwise, Linear, Norm, NormKind, Operator, Pool, Softmax};
use crate::workload::shape::{Padding, Shape};

/// The vertical window of an operator: `[kernel, stride, dilation]`.
type Window = [u32; 3];

/// What `window` reaches of `input` for `rows` of the output, and the padding that is
/// left. At least one row: windows of padding alone read nothing, and are counted as if
/// they did.
fn reached(
    input: Shape,
    padding: Padding,
    [kernel, stride, dilation]: Window,
    rows: Range<u32>,
) -> (Range<u32>, Padding) {
    let reach = dilation * (kernel - 1) + 1;
    // In rows of the padded input.
    let (first, end) = (rows.start * stride, (rows.end - 1) * stride + reach);
    let low = first.saturating_sub(padding.top).min(input.height - 1);
    let high = end.saturating_sub(padding.top).clamp(low + 1, input.height);
    let top = padding.top.saturating_sub(first).min(end - first);
    // So that the part has as many rows as it should.
    let bottom = (end - first).saturating_sub(high - low + top);
    (low..high, Padding { top, bottom, ..padding })
}

fn with_height(shape: Shape, rows: &Range<u32>) -> Shape {
    Shape { height: rows.end - rows.start, ..shape }
}

/// `shape` with as many lines as `lines` counts: tokens of a matrix, else rows.
fn with_lines(shape: Shape, lines: &Range<u32>) -> Shape {
    if shape.height == 1 {
        Shape { width: lines.end - lines.start, ..shape }
    } else {
        with_height(shape, lines)
    }
}

impl Shape {
    /// Lines a cut along the height goes through: rows of pixels, or tokens where there
    /// is one row only.
    pub fn lines(&self) -> u32 {
        if self.height == 1 { self.width } else { self.height }
    }
}

impl Operator {
    /// Input, padding and vertical window, of an operator that has one.
    fn window(&self) -> Option<(Shape, Padding, Window)> {
        match self {
            Self::Conv2d(conv) => {
                Some((conv.input, conv.padding, [conv.kernel[0], conv.stride[0], conv.dilation[0]]))
            }
            Self::DepthwiseConv2d(conv) => {
                Some((conv.input, conv.padding, [conv.kernel[0], conv.stride[0], conv.dilation[0]]))
            }
            Self::Pool(pool) => Some((pool.input, pool.padding, [pool.kernel[0], pool.stride[0], 1])),
            _ => None,
        }
    }

    /// Output channels along which the operator can be cut, if it can: each
    /// processor then computes its own channels from the whole input.
    pub fn splittable_channels(&self) -> Option<u32> {
        match self {
            Self::Linear(linear) => Some(linear.output_features),
            Self::Conv2d(conv) if conv.groups == 1 => Some(conv.output_channels),
            _ => None,
        }
    }

    /// Output channels of an operator that keeps channels apart: those of a part depend
    /// on the same part of the input's alone.
    pub fn separate_channels(&self) -> Option<u32> {
        match self {
            Self::DepthwiseConv2d(_) | Self::Pool(_) | Self::Elementwise(_) | Self::Mean(_) => {
                Some(self.output().channels)
            }
            _ => None,
        }
    }

    /// The part of an operator that computes `channels` of its output channels; the
    /// operator itself where it can be cut along them in no way.
    #[must_use]
    pub fn with_output_channels(&self, channels: u32) -> Self {
        let narrow = |shape: Shape| shape.with_channels(channels);
        match self {
            Self::Linear(linear) => Self::Linear(Linear { output_features: channels, ..*linear }),
            Self::Conv2d(conv) if conv.groups == 1 => {
                Self::Conv2d(Conv2d { output_channels: channels, ..*conv })
            }
            Self::DepthwiseConv2d(conv) => Self::DepthwiseConv2d(DepthwiseConv2d {
                input: narrow(conv.input).with_channels((channels / conv.multiplier).max(1)),
                ..*conv
            }),
            Self::Pool(pool) => Self::Pool(Pool { input: narrow(pool.input), ..*pool }),
            Self::Mean(mean) => Self::Mean(super::Mean { input: narrow(mean.input) }),
            Self::Elementwise(elementwise) => Self::Elementwise(Elementwise {
                input: narrow(elementwise.input),
                other: elementwise.other.map(narrow),
                ..*elementwise
            }),
            _ => self.clone(),
        }
    }

    /// Lines of each image of the output, where the operator has weights and can be cut
    /// along them: rows of pixels, or the tokens of a linear layer.
    pub fn splittable_rows(&self) -> Option<u32> {
        match self {
            Self::Linear(_) | Self::Conv2d(_) | Self::DepthwiseConv2d(_) => self.separate_rows(),
            _ => None,
        }
    }

    /// Lines of the output, where each depends on some lines of the input only. Besides
    /// [`Self::splittable_rows`] those of operators that are cheap, which a chain may go
    /// through.
    pub fn separate_rows(&self) -> Option<u32> {
        let rows = match self {
            Self::Linear(linear) => linear.rows,
            Self::Conv2d(conv) => conv.output().height,
            Self::DepthwiseConv2d(conv) => conv.output().height,
            Self::Pool(pool) => pool.output().height,
            Self::Norm(norm) if norm.kind != NormKind::Batch => norm.input.lines(),
            Self::Concat(_) | Self::Elementwise(_) | Self::Softmax(_) => self.output().lines(),
            _ => return None,
        };
        (rows > 1).then_some(rows)
    }

    /// The part of an operator that computes `rows` of its output, on the rows of the
    /// input that their windows reach (parts that are neighbours share some, the halo);
    /// the operator itself where it cannot be cut there.
    #[must_use]
    pub fn with_output_rows(&self, rows: Range<u32>) -> Self {
        if let Some((input, padding, window)) = self.window() {
            let (reached, padding) = reached(input, padding, window, rows);
            let input = with_height(input, &reached);
            return match self {
                Self::Conv2d(conv) => Self::Conv2d(Conv2d { input, padding, ..*conv }),
                Self::DepthwiseConv2d(conv) => {
                    Self::DepthwiseConv2d(DepthwiseConv2d { input, padding, ..*conv })
                }
                Self::Pool(pool) => Self::Pool(Pool { input, padding, ..*pool }),
                _ => self.clone(),
            };
        }
        match self {
            Self::Linear(linear) => Self::Linear(Linear { rows: rows.end - rows.start, ..*linear }),
            Self::Concat(concat) => Self::Concat(Concat {
                extent: with_lines(concat.extent, &rows),
                channels: concat.channels.clone(),
            }),
            Self::Elementwise(elementwise) => {
                let whole = elementwise.input;
                let part = |other| if other == whole { with_lines(other, &rows) } else { other };
                Self::Elementwise(Elementwise {
                    input: part(whole),
                    other: elementwise.other.map(part),
                    ..*elementwise
                })
            }
            Self::Softmax(softmax) => Self::Softmax(Softmax { input: with_lines(softmax.input, &rows) }),
            Self::Norm(norm) => Self::Norm(Norm { input: with_lines(norm.input, &rows), ..*norm }),
            _ => self.clone(),
        }
    }

    /// Lines of its input that `rows` of the output depend on; for operators without a
    /// window the same lines.
    pub fn rows_reached(&self, rows: Range<u32>) -> Range<u32> {
        match self.window() {
            Some((input, padding, window)) if !rows.is_empty() => reached(input, padding, window, rows).0,
            _ => rows,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{Function, PoolKind};
    use super::*;

    /// One column of a convolution, at each row of the output.
    fn column(input: &[i64], [kernel, stride, dilation]: [u32; 3], top: u32, rows: u32) -> Vec<i64> {
        let weight = |tap: u32| i64::from(tap * tap + 1);
        let read = |row: i64| usize::try_from(row).ok().and_then(|row| input.get(row)).copied().unwrap_or(0);
        let at = |row: u32, tap: u32| i64::from(row * stride + tap * dilation) - i64::from(top);
        (0..rows).map(|row| (0..kernel).map(|tap| weight(tap) * read(at(row, tap))).sum()).collect()
    }

    proptest! {
        #[test]
        fn parts_along_the_height_cover_the_output_once_and_compute_the_same(
            (height, kernel, stride, dilation) in (1_u32..40, 1_u32..6, 1_u32..4, 1_u32..3),
            (top, bottom) in (0_u32..5, 0_u32..5),
            place in 0_u32..1_000,
        ) {
            let reach = dilation * (kernel - 1) + 1;
            // As checked operators have it: a window is never all padding.
            prop_assume!(top < reach && bottom < reach && height + top + bottom >= reach);
            let conv = Conv2d {
                input: Shape::image(height, 3, 4),
                output_channels: 8,
                kernel: [kernel, 1],
                stride: [stride, 1],
                dilation: [dilation, 1],
                padding: Padding { top, bottom, left: 0, right: 0 },
                groups: 1,
                bias: false,
            };
            let operator = Operator::Conv2d(conv);
            let Some(rows) = operator.splittable_rows() else { return Ok(()) };
            let cut = 1 + place % (rows - 1);
            let input: Vec<i64> = (0..i64::from(height)).map(|row| row * row + 3).collect();
            let whole = column(&input, [kernel, stride, dilation], top, rows);
            let mut joined = Vec::new();
            for range in [0..cut, cut..rows] {
                let Operator::Conv2d(part) = operator.with_output_rows(range.clone()) else { unreachable!() };
                prop_assert_eq!(part.output().height, range.end - range.start);
                prop_assert_eq!((part.output().width, part.output().channels), (3, 8));
                let read = operator.rows_reached(range);
                prop_assert_eq!(read.end - read.start, part.input.height);
                let halo = &input[read.start as usize..read.end as usize];
                joined.extend(column(halo, [kernel, stride, dilation], part.padding.top, part.output().height));
            }
            prop_assert_eq!(joined, whole);
        }
    }

    #[test]
    fn neighbouring_parts_share_the_rows_that_windows_of_both_reach() {
        let conv = Conv2d {
            input: Shape::image(8, 8, 4),
            output_channels: 4,
            kernel: [3, 3],
            stride: [1, 1],
            dilation: [1, 1],
            padding: Padding { top: 1, bottom: 1, left: 1, right: 1 },
            groups: 1,
            bias: true,
        };
        let heights =
            [0..4, 4..8].map(|rows| Operator::Conv2d(conv).with_output_rows(rows).inputs()[0].height);
        assert_eq!(heights, [5, 5], "four rows and a row of halo each");
        let linear = Linear { rows: 12, input_features: 8, output_features: 4, bias: true };
        let part = Operator::Linear(linear).with_output_rows(5..12);
        assert_eq!(part, Operator::Linear(Linear { rows: 7, ..linear }));
    }

    #[test]
    fn operators_that_keep_channels_apart_read_their_own_channels_only() {
        let pool = Operator::Pool(Pool {
            kind: PoolKind::Max,
            input: Shape::image(8, 8, 12),
            kernel: [2, 2],
            stride: [2, 2],
            padding: Padding::NONE,
        });
        assert_eq!(pool.separate_channels(), Some(12));
        assert_eq!(pool.with_output_channels(5).inputs(), [Shape::image(8, 8, 5)]);
        assert_eq!(pool.splittable_channels(), None, "nothing is gained by cutting it alone");
        assert_eq!(pool.rows_reached(1..3), 2..6);
        let sum = Operator::Elementwise(Elementwise {
            function: Function::Multiply,
            input: Shape::image(8, 8, 12),
            other: Some(Shape::image(1, 1, 12)),
        });
        let part = sum.with_output_rows(2..5);
        assert_eq!(part.inputs(), [Shape::image(3, 8, 12), Shape::image(1, 1, 12)]);
    }
}

//! Regions of an operator's output: those that a plan gives to a processor, and those that a reader
//! needs.

use std::ops::Range;

use crate::workload::{CHANNELS_PER_SLICE, Layer, Operator, Shape};

/// The axis along which an operator is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Axis {
    /// Output channels.
    Channels,
    /// The output's height, or the tokens of a matrix.
    Height,
}

impl Axis {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Channels, Self::Height];

    /// Channels or rows of the output of `operator`; `None` if a plan cannot cut it along this axis.
    pub fn extent(self, operator: &Operator) -> Option<u32> {
        match self {
            Self::Channels => operator.splittable_channels().or_else(|| operator.separate_channels()),
            Self::Height => operator.separate_rows(),
        }
    }

    /// Channels or rows that GPU kernels compute together: a GPU's part starts at a multiple of them,
    /// and ends at a multiple or with the output.
    pub const fn unit(self) -> u32 {
        match self {
            Self::Channels => CHANNELS_PER_SLICE,
            Self::Height => 1,
        }
    }
}

/// Rows or channels from `start` up to, but excluding, `end`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Span {
    /// The first.
    pub start: u32,
    /// One past the last.
    pub end: u32,
}

impl Span {
    /// All of them, however many there are.
    pub const ALL: Self = Self { start: 0, end: u32::MAX };

    /// From `start` up to, but excluding, `end`.
    pub const fn new(start: u32, end: u32) -> Self {
        Self { start, end }
    }

    /// Number of rows or channels.
    pub fn length(self) -> u32 {
        self.end.saturating_sub(self.start)
    }

    /// Whether it is empty.
    pub fn is_empty(self) -> bool {
        self.end <= self.start
    }

    /// The intersection.
    #[must_use]
    pub fn common(self, other: Self) -> Self {
        Self { start: self.start.max(other.start), end: self.end.min(other.end) }
    }

    /// The shortest span that contains both.
    #[must_use]
    pub fn hull(self, other: Self) -> Self {
        match (self.is_empty(), other.is_empty()) {
            (true, _) => other,
            (_, true) => self,
            _ => Self { start: self.start.min(other.start), end: self.end.max(other.end) },
        }
    }

    /// As a range.
    pub fn range(self) -> Range<u32> {
        self.start..self.end
    }
}

impl From<Range<u32>> for Span {
    fn from(range: Range<u32>) -> Self {
        Self { start: range.start, end: range.end }
    }
}

/// A box of an output: some rows of each image (or tokens, if the output is one row high),
/// and some of their channels. A region may reach beyond the output, so that [`Span::ALL`]
/// stands for all of any operator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Region {
    /// Rows, or tokens.
    pub rows: Span,
    /// Channels.
    pub channels: Span,
}

impl Region {
    /// All of any output.
    pub const ALL: Self = Self { rows: Span::ALL, channels: Span::ALL };

    /// Nothing.
    pub const NONE: Self = Self { rows: Span::new(0, 0), channels: Span::new(0, 0) };

    /// All of an output of `shape`.
    pub fn of(shape: Shape) -> Self {
        Self { rows: Span::new(0, shape.lines()), channels: Span::new(0, shape.channels) }
    }

    /// All rows of some channels, or all channels of some rows.
    pub fn along(axis: Axis, span: Span) -> Self {
        match axis {
            Axis::Channels => Self { channels: span, ..Self::ALL },
            Axis::Height => Self { rows: span, ..Self::ALL },
        }
    }

    /// Its rows or channels.
    pub fn span(self, axis: Axis) -> Span {
        match axis {
            Axis::Channels => self.channels,
            Axis::Height => self.rows,
        }
    }

    /// Whether it is empty.
    pub fn is_empty(self) -> bool {
        self.rows.is_empty() || self.channels.is_empty()
    }

    /// Rows times channels.
    pub fn size(self) -> u64 {
        u64::from(self.rows.length()) * u64::from(self.channels.length())
    }

    /// The intersection.
    #[must_use]
    pub fn common(self, other: Self) -> Self {
        Self { rows: self.rows.common(other.rows), channels: self.channels.common(other.channels) }
    }

    /// The smallest region that contains both.
    #[must_use]
    pub fn hull(self, other: Self) -> Self {
        match (self.is_empty(), other.is_empty()) {
            (true, _) => other,
            (_, true) => self,
            _ => Self { rows: self.rows.hull(other.rows), channels: self.channels.hull(other.channels) },
        }
    }

    /// The layer that computes only this region of the output of `layer`, which is cut. A region of
    /// all rows is a part whose halo reaches all other rows: it reads only the inputs that their
    /// windows reach.
    pub fn part_of(self, layer: &Layer) -> Layer {
        let whole = Self::of(layer.operator.output());
        let Self { rows, channels } = self.common(whole);
        if channels == whole.channels {
            return layer.with_output_rows(rows.range());
        }
        let part = layer.with_output_channels(channels.length());
        if rows == whole.rows { part } else { part.with_output_rows(rows.range()) }
    }
}

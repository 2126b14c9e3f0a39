//! What nodes do whose results have extents by a rule of their own.
//!
//! Responsible for: windows, attention, rules of extents, and how nodes are priced for which no
//! operator of the workload stands. Not for: what other nodes do, which `model.rs` says.

use serde::Deserialize;

use super::model::{SourceNode, TensorId, Work};
use coexec_sim::workload::{GenericKind, Operator};

/// Most nodes after functions and graphs were put in the place of those that call them; models
/// have some ten thousands.
pub(super) const MOST_NODES: usize = 200_000;

/// How deep functions and graphs may call each other; both formats forbid those that call themselves.
pub(super) const MOST_LEVELS: u32 = 32;

/// Extents of what an operator without a kernel of its own writes.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Extents {
    /// Those of an operand.
    Like(usize),
    /// Those that all operands broadcast to.
    Broadcast,
    /// Those of operand 0 without an axis.
    Reduced { axis: i64, keep: bool },
    /// Those of operand 0, but for the last axis, which has as many as operand 1 has elements; in one row at least.
    Picked,
    /// Those of operand 0, but for an axis, perhaps a new one, of as many elements as operand 1 says.
    Counted { axis: i64, is_new: bool },
    /// Slices of operand 0 at the places in the last axis of operand 1, behind so many axes that
    /// both have.
    Places { shared: usize },
    /// A row of so many numbers for each row of operand 0; a kind for each row first, where rows are
    /// put into kinds.
    Rows { numbers: u32, has_kinds: bool },
    /// Frequencies of operand 0, a pair of numbers each.
    Spectrum(Spectrum),
    /// Batch and channels of operand 0, then all but batch and the last of operand 1.
    Grid,
    /// For each region in operand 1 the channels of operand 0, over so many pixels.
    Regions { height: u32, width: u32 },
    /// Those of operand 0; what is beside is a number that is folded into what comes behind, as
    /// frameworks fold it.
    Quantised,
    /// As many places as elements there can be that are not 0: a row for each axis.
    NonZero,
    /// Those of operand 0, as all elements along the axis can be chosen; in one row where none is said.
    Chosen { axis: Option<i64> },
    /// As many boxes as can be left of all in operand 0, or as operand 2 says of each kind in operand 1.
    Boxes,
    /// Those that the file says.
    Said,
}

/// A Fourier transform, as far as the extents of its result depend on it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Spectrum {
    /// Of operand 0 along an axis, of as many points as operand 1 says or the axis has; of real
    /// numbers the half that says all.
    Whole { axis: i64, is_half: bool },
    /// Of windows over operand 0, a step apart that operand 1 says, as long as operand 2 or as
    /// operand 3 says.
    Windows { is_half: bool },
    /// Of the last two axes of operand 0, of as many points as operand 1 says, a number each.
    Plane,
}

/// How a window is padded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Pads {
    /// Before each spatial axis, then after each.
    Explicit(Vec<u32>),
    /// So that as many windows fit as the stride goes into the input; what is
    /// left over goes to the end.
    Same,
    /// As before, what is left over goes to the beginning.
    SameLower,
    /// As many before as the window reaches, none behind.
    Causal,
}

/// A reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Reduction {
    Mean,
    Sum,
    Max,
    Min,
    Product,
}

/// How a node changes extents.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Reshaping {
    /// To the extents in operand 1 (0 keeps one, -1 is what is left).
    ToOperand { zero_is_zero: bool },
    /// To a matrix, rows from the axes before that one.
    Flatten { axis: i64 },
    /// Drops the axes in operand 1, or all of extent 1 where that says none.
    Squeeze,
    /// Adds the axes in operand 1.
    Unsqueeze,
}

/// Where a slice is said to be.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Slicing {
    /// Starts, ends, axes and steps in operands 1 to 4.
    Operands,
    /// Starts and sizes in operands 1 and 2.
    BySize,
    /// Begin, end and strides in operands 1 to 3, with TFLite's masks.
    Strided { begin_mask: u32, end_mask: u32, new_axes: u32, shrink: u32 },
}

/// A window over an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Windowed {
    /// Height and width; that of the weights where empty.
    pub(super) kernel: Vec<u32>,
    /// Strides, 1 where empty.
    pub(super) stride: Vec<u32>,
    /// Dilations, 1 where empty.
    pub(super) dilation: Vec<u32>,
    /// Padding.
    pub(super) pads: Pads,
    /// Whether a window that the input fills in part counts.
    pub(super) ceil: bool,
}

/// How a file has the query, key and value of attention.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Packing {
    /// In operands 0, 1 and 2.
    #[default]
    Apart,
    /// So, or all in operand 0 where there is no operand 1.
    ApartOrTogether,
    /// As what the weights in operand 6 make of operand 0.
    Projected,
}

/// Attention, as far as its work depends on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Attention {
    /// Heads of queries; 0 where they are an axis, and need no number.
    pub(super) heads: u32,
    /// Heads of keys and values, which queries share.
    pub(super) shared_heads: u32,
    /// How the file has them.
    pub(super) packing: Packing,
    /// Features of query, key and value in one tensor, where not each head has as many.
    pub(super) widths: Option<[u32; 3]>,
    /// Whether queries and keys are rotated by their places.
    pub(super) rotates: bool,
    /// Whether scores are kept within bounds.
    pub(super) is_capped: bool,
    /// More functions of the scores; of a state, whether what it holds is taken from it.
    pub(super) functions: u32,
}

/// What is done with a list of tensors, which is none at run time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Listing {
    /// All operands are one.
    Make,
    /// Operand 1 more in operand 0, before the place in operand 2 or at the end.
    Insert,
    /// The one in operand 0 at the place in operand 1.
    At,
    /// How many there are in operand 0.
    Length,
    /// Joins those in operand 0 along an axis, perhaps a new one.
    Join { axis: i64, is_new: bool },
    /// Parts of operand 0 along an axis: of the sizes in operand 1, or of one element each, whose axis may go.
    Cut { axis: i64, keep: bool },
}

/// Nodes that run again and again. Operands of the node are how often at most, whether at all, and what is
/// carried from round to round; its results what was carried, then what all rounds wrote.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Rounds {
    /// The nodes of one round.
    pub(super) nodes: Vec<SourceNode>,
    /// What they read: the number of the round, whether it runs, what is carried.
    pub(super) inputs: Vec<Option<TensorId>>,
    /// What they write: whether another round runs, what is carried, what each round writes.
    pub(super) outputs: Vec<Option<TensorId>>,
}

impl Extents {
    /// Whether they are the largest that there can be, as the network computes them.
    pub(super) fn is_bound(&self) -> bool {
        matches!(self, Self::NonZero | Self::Chosen { .. } | Self::Boxes)
    }
}

impl Work {
    /// What goes over its elements once.
    pub(super) fn once(kind: GenericKind, extents: Extents) -> Self {
        Self::Generic { kind, extents, passes: 1 }
    }

    /// An operator over channels along `axis`.
    pub(super) fn along_axis(operator: impl Into<Operator>, axis: i64, to_the_end: bool) -> Self {
        Self::AlongAxis { operator: operator.into(), axis, to_the_end }
    }

    /// Whether it reads its operands as matrices.
    pub(super) fn reads_matrices(&self) -> bool {
        matches!(self, Self::Product { .. } | Self::Attention(_) | Self::LinearAttention(_))
    }

    /// Whether elements that are neighbours along an axis stay so, as they are: parts of tensors,
    /// and tensors put together.
    pub(super) fn keeps_places(&self) -> bool {
        matches!(self, Self::Concat { .. } | Self::Slice(_) | Self::Split { .. } | Self::Identity)
    }

    /// Whether it turns an image with channels last, or looks along its channels.
    pub(super) fn has_channels_last(&self) -> bool {
        matches!(self, Self::Transpose | Self::AlongAxis { axis: -1 | 3, .. })
    }

    /// Of rounds, what each hands on to the next and to those that read the node.
    pub(super) fn hands_on(&self) -> &[Option<TensorId>] {
        if let Self::Rounds(rounds) = self { &rounds.outputs } else { &[] }
    }

    /// Whether it multiplies by weights, or may.
    pub(super) fn multiplies(&self) -> bool {
        matches!(
            self,
            Self::Convolution { .. }
                | Self::TransposedConvolution { .. }
                | Self::Product { .. }
                | Self::Linear { .. }
                | Self::Recurrent { .. }
                | Self::Attention(_)
                | Self::Einsum(_)
        )
    }

    /// Whether it has its operands put in the order that it needs, or leaves that to its readers.
    pub(super) fn arranges(&self) -> bool {
        matches!(
            self,
            Self::Reshape(_)
                | Self::Transpose
                | Self::Identity
                | Self::Product { .. }
                | Self::Convolution { .. }
                | Self::TransposedConvolution { .. }
                | Self::Pool { .. }
                | Self::GlobalPool(_)
                | Self::Resize(_)
                | Self::BlockRearrangement { .. }
        )
    }

    /// As what a node is priced for which no other operator stands, and how often it goes over
    /// its elements; none of those whose work is more than that.
    pub(super) fn generic(&self) -> Option<(GenericKind, u32)> {
        match self {
            Self::Generic { kind, passes, .. } => Some((*kind, *passes)),
            Self::Function(_) | Self::Arithmetic(_) | Self::BatchNorm | Self::Identity | Self::Where => {
                Some((GenericKind::Elementwise, 1))
            }
            Self::Pool { window, .. } => {
                let taps = window.kernel.iter().fold(1_u32, |taps, &side| taps.saturating_mul(side));
                Some((GenericKind::Reduction, taps.max(1)))
            }
            Self::GlobalPool(_) | Self::Reduce { .. } | Self::AlongAxis { .. } => {
                Some((GenericKind::Reduction, 1))
            }
            Self::Concat { .. }
            | Self::Reshape(_)
            | Self::Transpose
            | Self::Slice(_)
            | Self::Split { .. }
            | Self::Pad
            | Self::Expand
            | Self::Tile
            | Self::BlockRearrangement { .. }
            | Self::ConstantOfShape(_)
            | Self::Range => Some((GenericKind::Movement, 1)),
            Self::Gather { .. } => Some((GenericKind::Gather, 1)),
            // Four pixels of the image for one of the result.
            Self::Resize(_) => Some((GenericKind::Gather, 4)),
            Self::Convolution { .. }
            | Self::TransposedConvolution { .. }
            | Self::Product { .. }
            | Self::SkipNorm { .. }
            | Self::Linear { .. }
            | Self::Recurrent { .. }
            | Self::Attention(_)
            | Self::LinearAttention(_)
            | Self::Einsum(_)
            | Self::GroupNorm { .. }
            | Self::EmbeddingNorm
            | Self::Choice
            | Self::List(_)
            | Self::Rounds(_)
            | Self::Shape { .. }
            | Self::Size
            | Self::Unknown(_) => None,
        }
    }
}

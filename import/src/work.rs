//! Parameters of [`Work`], and properties of it.
//!
//! Responsible for: windows, attention, shape inference rules, and the generic pricing of nodes
//! without an operator of their own in the workload. Not for: the list of all semantics, which is
//! in `model.rs`.

use serde::Deserialize;

use super::model::{Operands, SourceNode, TensorId, Work};
use coexec_sim::workload::{GenericKind, Operator};

/// Maximum number of nodes after inlining functions and subgraphs, counted with what each holds (tensors, attributes);
/// models have some tens of thousands. Also the maximum work of loops and sequences, in nodes.
pub(super) const MAX_NODES: usize = 200_000;

/// Number of operands, extents, values or bytes that count as one node.
pub(super) const NUMBERS_PER_NODE: usize = 64;

/// Maximum call depth of functions and subgraphs; both formats forbid recursion.
pub(super) const MAX_CALL_DEPTH: u32 = 32;

/// Shape inference rule of an operator without a kernel of its own.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Extents {
    /// Those of an operand.
    Like(usize),
    /// The broadcast of all operands.
    Broadcast,
    /// Those of operand 0 reduced along an axis, which `keep` keeps with extent 1.
    Reduced { axis: i64, keep: bool },
    /// Those of operand 0 without its last two axes: one number per matrix.
    Matrices,
    /// Those of operand 0 with the last axis replaced by the number of elements of operand 1; a vector becomes a
    /// matrix of one row.
    Picked,
    /// Those of operand 0 with an axis, perhaps a new one, of the extent that is the value of operand 1.
    Counted { axis: i64, is_new: bool },
    /// `GatherND`: slices of operand 0 at the indices in the last axis of operand 1, after `shared`
    /// batch axes of both.
    Places { shared: usize },
    /// One row of `numbers` values per row of operand 0. With `has_kinds`, the first result is one
    /// class per row.
    Rows { numbers: u32, has_kinds: bool },
    /// A Fourier transform of operand 0.
    Spectrum(Spectrum),
    /// Grid sampling: batch and channels of operand 0, then the axes of operand 1 between its first and its last.
    Grid,
    /// Region pooling: the channels of operand 0 over `height` times `width` pixels, for each region in operand 1.
    Regions { height: u32, width: u32 },
    /// Pixels dealt to images of their own (`to_batch`), or these put together again: the sides of a block are in
    /// operand 1, and the padding or cropping before and after each axis in operand 2.
    Blocks { to_batch: bool },
    /// Those of operand 0. Further results are scalars (scales), which frameworks fold into the next
    /// operator.
    Quantised,
    /// Upper bound of the indices of nonzero elements: one row per axis, one column per element.
    NonZero,
    /// Those of operand 0, as an upper bound of what is selected along the axis; a vector without an axis.
    Chosen { axis: Option<i64> },
    /// Upper bound of the boxes after non-maximum suppression: all boxes of operand 0 per batch and class of operand
    /// 1, limited per class by operand 2.
    Boxes,
    /// Those stated in the file.
    Said,
}

/// Passes of a fast Fourier transform of some hundreds of points, where their number is not known.
const TRANSFORM_PASSES: u32 = 20;

/// A Fourier transform, as far as it determines the extents of its result.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Spectrum {
    /// DFT of operand 0 along an axis, with the number of points in operand 1 or else the axis's extent.
    /// `is_half` keeps the non-redundant half of a real signal's spectrum.
    Whole { axis: i64, is_half: bool },
    /// STFT of operand 0, with the hop size in operand 1 and the length of the window in operand 2 or the
    /// number in operand 3.
    Windows { is_half: bool },
    /// Real 2-D FFT of the last two axes of operand 0, with the numbers of points in operand 1.
    Plane,
}

impl Extents {
    /// Passes of the Fourier transform that writes a result of extents `result` by this rule.
    pub(super) fn transform_passes(&self, result: &[u32]) -> u32 {
        if let Self::Spectrum(spectrum) = self { spectrum.passes(result) } else { TRANSFORM_PASSES }
    }
}

impl Spectrum {
    /// Passes over the numbers of a result of these extents. A fast transform of `n` complex points takes about
    /// 5 n log2 n additions and products (Cooley and Tukey, radix 2), and a point is two numbers.
    fn passes(&self, result: &[u32]) -> u32 {
        let rank = result.len();
        let at = |axis: usize| result.get(axis).copied().map_or(1, u64::from);
        let all =
            |frequencies: u64, is_half| if is_half { 2 * frequencies.saturating_sub(1) } else { frequencies };
        let points = match *self {
            Self::Whole { axis, is_half } => {
                let along = if axis < 0 { axis + rank as i64 } else { axis };
                all(at(usize::try_from(along).unwrap_or(rank)), is_half)
            }
            Self::Windows { is_half } => all(at(rank.wrapping_sub(2)), is_half),
            Self::Plane => at(rank.wrapping_sub(2)) * all(at(rank.wrapping_sub(1)), true),
        };
        (2.5 * (points.max(2) as f64).log2()).round() as u32
    }
}

/// Padding of a window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Pads {
    /// All begins, then all ends, of the spatial axes.
    Explicit(Vec<u32>),
    /// SAME: the output has the input's extent divided by the stride, rounded up; an odd
    /// pixel goes to the end.
    Same,
    /// The same, with an odd pixel at the beginning.
    SameLower,
    /// The window's reach less one at the beginning, none at the end.
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

/// A comparison, or a logical connective.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Comparison {
    Equal,
    NotEqual,
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
    And,
    Or,
    Xor,
}

/// A reshape.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Reshaping {
    /// To the extents in operand 1: -1 is inferred, 0 keeps the input's extent unless `zero_is_zero`.
    ToOperand { zero_is_zero: bool },
    /// To a matrix whose rows are the axes before `axis`.
    Flatten { axis: i64 },
    /// Drops the axes in operand 1, or all axes of extent 1 without it.
    Squeeze,
    /// Adds the axes in operand 1.
    Unsqueeze,
}

/// How the range of a slice is given.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Slicing {
    /// ONNX: starts, ends, axes and steps in operands 1 to 4.
    Operands,
    /// Starts and sizes in operands 1 and 2.
    BySize,
    /// `STRIDED_SLICE`: begin, end and strides in operands 1 to 3, with TFLite's masks.
    Strided { begin_mask: u32, end_mask: u32, new_axes: u32, shrink: u32 },
}

/// A window over an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Windowed {
    /// Kernel extents; those of the weights if empty.
    pub(super) kernel: Vec<u32>,
    /// Strides; 1 if empty.
    pub(super) stride: Vec<u32>,
    /// Dilations; 1 if empty.
    pub(super) dilation: Vec<u32>,
    /// Padding.
    pub(super) pads: Pads,
    /// Whether output extents are rounded up, so that a partial window counts (`ceil_mode`).
    pub(super) ceil: bool,
}

/// A convolution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Convolution {
    pub(super) window: Windowed,
    /// Number of groups; `None` if the depth of the weights implies it.
    pub(super) groups: Option<u32>,
    /// Whether it is TFLite's depthwise convolution, whose weights have their output channels last.
    pub(super) is_depthwise: bool,
}

/// A transposed convolution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TransposedConvolution {
    pub(super) window: Windowed,
    pub(super) groups: u32,
    /// Pixels added at the end of each spatial axis of the output; none if empty.
    pub(super) output_pads: Vec<u32>,
}

/// How query, key and value of attention are packed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Packing {
    /// Separately, in operands 0, 1 and 2.
    #[default]
    Apart,
    /// Separately, or all in operand 0 without operand 1.
    ApartOrTogether,
    /// Projected from operand 0 by the weights in operand 6.
    Projected,
}

/// Attention, as far as it determines the work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Attention {
    /// Number of query heads; 0 where heads are an axis of their own.
    pub(super) heads: u32,
    /// Number of key and value heads, shared by the query heads.
    pub(super) shared_heads: u32,
    /// How query, key and value are packed.
    pub(super) packing: Packing,
    /// Features of query, key and value in one tensor, unless all heads have the same number.
    pub(super) widths: Option<[u32; 3]>,
    /// Whether queries and keys get rotary position embeddings.
    pub(super) rotates: bool,
    /// Whether scores are soft-capped.
    pub(super) is_capped: bool,
    /// Number of further passes over the scores. For linear attention, nonzero if the state follows
    /// the delta rule.
    pub(super) functions: u32,
}

/// An operation on a sequence of tensors. Sequences are resolved during conversion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Listing {
    /// A sequence of all operands.
    Make,
    /// Inserts operand 1 into operand 0, before the index in operand 2 or at the end.
    Insert,
    /// The element of operand 0 at the index in operand 1.
    At,
    /// The length of operand 0.
    Length,
    /// Concatenates the elements of operand 0 along an axis, or stacks them along a new one.
    Join { axis: i64, is_new: bool },
    /// Splits operand 0 along an axis into parts of the sizes in operand 1, or else into single elements, whose
    /// axis is dropped unless `keep`.
    Cut { axis: i64, keep: bool },
}

/// The body of a loop. Operands of the node: the maximum number of iterations, the initial condition, and the
/// initial loop-carried values. Results: the final loop-carried values, then the stacked scan outputs.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Loop {
    /// The nodes of one iteration.
    pub(super) nodes: Vec<SourceNode>,
    /// Inputs of an iteration: its number, the condition, the loop-carried values.
    pub(super) inputs: Operands,
    /// Outputs of an iteration: the condition, the loop-carried values, the scan outputs.
    pub(super) outputs: Operands,
}

impl Extents {
    /// Whether they are an upper bound, since the network computes the actual extents.
    pub(super) fn is_bound(&self) -> bool {
        matches!(self, Self::NonZero | Self::Chosen { .. } | Self::Boxes)
    }
}

impl Work {
    /// A generic operator with one pass over its elements.
    pub(super) fn single_pass(kind: GenericKind, extents: Extents) -> Self {
        Self::Generic { kind, extents, passes: 1 }
    }

    /// An operator over channels along `axis`.
    pub(super) fn along_axis(operator: impl Into<Operator>, axis: i64, to_the_end: bool) -> Self {
        Self::AlongAxis { operator: operator.into(), axis, to_the_end }
    }

    /// Whether it reads its operands as matrices, or repeats them, as is done with those.
    pub(super) fn reads_matrices(&self) -> bool {
        matches!(self, Self::Product { .. } | Self::Attention(_) | Self::LinearAttention(_) | Self::Expand)
    }

    /// Whether it only copies whole ranges of its operands: identities, slices, splits and concatenations.
    pub(super) fn keeps_places(&self) -> bool {
        matches!(self, Self::Concat { .. } | Self::Slice(_) | Self::Split { .. } | Self::Identity)
    }

    /// Whether it transposes an image that has its channels last, or works along its channels.
    pub(super) fn has_channels_last(&self) -> bool {
        matches!(self, Self::Transpose | Self::AlongAxis { axis: -1 | 3, .. })
    }

    /// The outputs of a loop's body; empty for other nodes.
    pub(super) fn loop_outputs(&self) -> &[Option<TensorId>] {
        if let Self::Loop(body) = self { &body.outputs } else { &[] }
    }

    /// Whether it may multiply by weights.
    pub(super) fn multiplies(&self) -> bool {
        matches!(
            self,
            Self::Convolution(_)
                | Self::TransposedConvolution(_)
                | Self::Product { .. }
                | Self::Linear { .. }
                | Self::Recurrent { .. }
                | Self::Attention(_)
                | Self::Einsum(_)
        )
    }

    /// Whether it arranges its operands' axes in the order that it needs, or leaves that to its readers.
    pub(super) fn arranges(&self) -> bool {
        matches!(
            self,
            Self::Reshape(_)
                | Self::Transpose
                | Self::Identity
                | Self::Product { .. }
                | Self::Convolution(_)
                | Self::TransposedConvolution(_)
                | Self::Pool { .. }
                | Self::GlobalPool(_)
                | Self::Resize(_)
                | Self::BlockRearrangement { .. }
        )
    }

    /// Kind and number of passes by which it is priced where it has no operator of its own; `None`
    /// where passes over elements do not describe the work.
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
            // Reads four input pixels per output pixel.
            Self::Resize(_) => Some((GenericKind::Gather, 4)),
            Self::Convolution(_)
            | Self::TransposedConvolution(_)
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
            | Self::Loop(_)
            | Self::Shape { .. }
            | Self::Size
            | Self::Unknown(_) => None,
        }
    }
}

//! A model as a file has it, in words that ONNX and TFLite share.
//!
//! Responsible for: the nodes of a model, what each does ([`Work`]), the tensors
//! between them. Not for: reading a file, nor for what a node costs.
//! Invariant: every tensor number of a node is an index into
//! [`Model::tensors`]; nothing else is promised of what a file says.

use coexec_sim::workload::DataType;
use coexec_sim::workload::{Function, NormKind, Operator, PoolKind};

/// Index into [`Model::tensors`].
pub(super) type TensorId = usize;

/// Most numbers of a constant that are kept: shapes, axes and scalars are
/// shorter, weights are longer and their values do not matter.
pub(super) const MAX_NUMBERS: usize = 4_096;

/// Where the channels of an image are among its extents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ImageOrder {
    /// Batch, channels, height, width: ONNX.
    ChannelsFirst,
    /// Batch, height, width, channels: TFLite.
    ChannelsLast,
}

/// A model as a file has it.
#[derive(Clone, Debug)]
pub(super) struct Model {
    /// Where images have their channels.
    pub(super) order: ImageOrder,
    /// Number format of most of it.
    pub(super) data_type: DataType,
    /// All tensors.
    pub(super) tensors: Vec<SourceTensor>,
    /// Those that a caller gives.
    pub(super) inputs: Vec<TensorId>,
    /// Those that a caller gets.
    pub(super) outputs: Vec<TensorId>,
    /// Nodes; each after those it reads.
    pub(super) nodes: Vec<SourceNode>,
}

/// A tensor of a file.
#[derive(Clone, Debug, Default)]
pub(super) struct SourceTensor {
    /// Its name.
    pub(super) name: String,
    /// Its extents, where the file says them.
    pub(super) extents: Option<Vec<u32>>,
    /// What it holds, of a constant.
    pub(super) constant: Option<Constant>,
}

/// A constant: weights, or numbers that say a shape.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Constant {
    /// Extents; none of a single number.
    pub(super) extents: Vec<u32>,
    /// Its numbers, where they are few and in a format that is read.
    pub(super) numbers: Option<Vec<f64>>,
}

impl Constant {
    /// Whole numbers in a row.
    pub(super) fn list(numbers: impl IntoIterator<Item = i64>) -> Self {
        let numbers: Vec<f64> = numbers.into_iter().map(|number| number as f64).collect();
        Self { extents: vec![numbers.len() as u32], numbers: Some(numbers) }
    }

    /// Its numbers as whole ones, where they are kept.
    pub(super) fn integers(&self) -> Option<Vec<i64>> {
        Some(self.numbers.as_ref()?.iter().map(|&number| number as i64).collect())
    }

    /// Number of elements.
    pub(super) fn elements(&self) -> u64 {
        elements(&self.extents)
    }
}

/// Number of elements; more than `u64` holds saturate.
pub(super) fn elements(extents: &[u32]) -> u64 {
    extents.iter().fold(1, |product: u64, &extent| product.saturating_mul(u64::from(extent)))
}

/// A number as an extent; what is none saturates, and is then too large for one.
pub(super) fn as_extent(number: impl TryInto<u32>) -> u32 {
    number.try_into().unwrap_or(u32::MAX)
}

/// A node of a file.
#[derive(Clone, Debug)]
pub(super) struct SourceNode {
    /// Name, for messages and for the operator it becomes.
    pub(super) name: String,
    /// What the file calls it.
    pub(super) kind: String,
    /// What it does.
    pub(super) work: Work,
    /// What it reads; none where an optional operand is left out.
    pub(super) reads: Vec<Option<TensorId>>,
    /// What it writes; none where nobody wants it.
    pub(super) writes: Vec<Option<TensorId>>,
}

/// Arithmetic on two tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    Power,
    Maximum,
    Minimum,
    SquaredDifference,
    /// Comparisons and logic: of interest in shapes only.
    Equal,
    Compare,
    Modulo,
}

/// A function of one tensor that a pattern or a constant may be about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Elemental {
    /// One that the workload has.
    Known(Function),
    /// `max(min(x, high), low)`.
    Clip,
    Erf,
    Sqrt,
    ReciprocalSqrt,
    Reciprocal,
    Square,
    /// Cheap: a few instructions an element (a leaky rectifier).
    Cheap,
    /// With an exponential or a logarithm (softplus, exp).
    Transcendental,
    /// Rounds down; of interest in shapes.
    Floor,
    Ceil,
    Negate,
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

/// A reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reduction {
    Mean,
    Sum,
    Max,
    Product,
}

/// Axes: written at the node, or in a constant that it reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Axes {
    /// At the node.
    Written(Vec<i64>),
    /// In operand 1; all (or those of extent 1) where that is absent.
    Operand,
}

/// How a resize finds its output extents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResizeTarget {
    /// Operand of ONNX's scales and of its sizes.
    Onnx { scales: usize, sizes: Option<usize> },
    /// Height and width in operand 1.
    HeightWidth,
}

/// What a node does.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Work {
    /// Operands: input, weights, bias.
    Convolution { window: Windowed, groups: u32 },
    /// Depthwise with TFLite's weights, `[1, height, width, channels]`.
    DepthwiseConvolution { window: Windowed },
    /// Operands: input, weights.
    TransposedConvolution { window: Windowed, groups: u32, output_pads: Vec<u32> },
    /// Product over the last two axes, operands perhaps transposed; a bias third.
    Product { transpose: [bool; 2] },
    /// TFLite's: weights `[output, input]`, the input's rows whatever is left.
    FullyConnected { keep_extents: bool },
    /// A function of operand 0.
    Function(Elemental),
    /// Of operands 0 and 1, or of all there are in turn.
    Arithmetic(Arithmetic),
    /// A pooling window.
    Pool { kind: PoolKind, window: Windowed },
    /// A pooling window over all pixels.
    GlobalPool(PoolKind),
    /// A reduction.
    Reduce { reduction: Reduction, axes: Axes, keep: bool },
    /// Joins all operands.
    Concat { axis: i64 },
    /// Joins all operands along a new axis.
    Stack { axis: i64 },
    /// An operator over channels, along that axis; over all behind it as well where `to_the_end`.
    AlongAxis { operator: Operator, axis: i64, to_the_end: bool },
    /// Operand 0 plus operand 1, then a norm (an inference framework's fusion).
    SkipNorm { kind: NormKind },
    /// A scale and a shift a channel.
    BatchNorm,
    /// Elements of operand 0 along an axis, at the indices of operand 1.
    Gather { axis: i64 },
    /// Look-up of operand 1's rows (TFLite: indices first).
    Lookup,
    /// Other extents of the same elements.
    Reshape(Reshaping),
    /// Reorders axes; all reversed where none are written, or as operand 1 says.
    Transpose(Option<Vec<i64>>),
    /// A part of each axis.
    Slice(Slicing),
    /// As many parts as outputs, of equal size unless written or in an operand.
    Split { axis: SplitAxis, sizes: SplitSizes, squeeze: bool },
    /// Zeros around; ONNX's order (all before, all after) or pairs.
    Pad { pairs: bool, written: Option<Vec<i64>> },
    /// To the extents in operand 1.
    Expand,
    /// So many copies along each axis, in operand 1.
    Tile,
    /// Another height and width.
    Resize(ResizeTarget),
    /// Channels to pixels or back; by a block of so many pixels a side.
    BlockRearrangement { block: u32, to_space: bool },
    /// The extents of operand 0, from an axis to before another.
    Shape { from: i64, to: i64 },
    /// Number of elements of operand 0.
    Size,
    /// Operand 0 as it is (dropout, casts, quantisation).
    Identity,
    /// So many equal numbers, the extents in operand 0.
    ConstantOfShape(f64),
    /// Start, limit, step.
    Range,
    /// Operand 1 where operand 0 holds, else operand 2.
    Where,
    /// Operand 0 with other elements at some places.
    Scatter,
    /// Nothing that is known; what would help.
    Unknown(&'static str),
}

impl Work {
    /// An operator over channels along `axis`.
    pub(super) fn along_axis(operator: impl Into<Operator>, axis: i64, to_the_end: bool) -> Self {
        Self::AlongAxis { operator: operator.into(), axis, to_the_end }
    }
}

/// How a node changes extents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reshaping {
    /// To the extents in operand 1 (0 keeps one, -1 is what is left).
    ToOperand { zero_is_zero: bool },
    /// To extents written at the node.
    To(Vec<i64>),
    /// To a matrix, rows from the axes before that one.
    Flatten { axis: i64 },
    /// Drops axes of extent 1.
    Squeeze(Axes),
    /// Adds axes of extent 1.
    Unsqueeze(Axes),
}

/// Where a slice is said to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Slicing {
    /// Starts, ends, axes and steps in operands 1 to 4.
    Operands,
    /// The same written at the node: starts, ends, axes.
    Written([Vec<i64>; 3]),
    /// Starts and sizes in operands 1 and 2.
    BySize,
    /// Begin, end and strides in operands 1 to 3, with TFLite's masks.
    Strided { begin_mask: u32, end_mask: u32, new_axes: u32, shrink: u32 },
}

/// Axis of a split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SplitAxis {
    /// Written at the node.
    Written(i64),
    /// In that operand.
    Operand(usize),
}

/// Sizes of a split's parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SplitSizes {
    /// As equal as they can be.
    Equal,
    /// Written at the node.
    Written(Vec<i64>),
    /// In that operand, where it is there.
    Operand(usize),
}

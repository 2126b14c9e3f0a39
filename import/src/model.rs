//! The intermediate representation of a model file, common to ONNX and TFLite.
//!
//! Responsible for: the nodes of a model, the semantics of each ([`Work`]), and the tensors between them. Not for:
//! reading a file, or the cost of a node. Invariant: every tensor of a node is a valid index into
//! [`Model::tensors`]; nothing else in a file is trusted.

use serde::Deserialize;

use crate::UnsetDimension;
use coexec_sim::workload::{DataType, Function, GenericKind, Interpolation, NormKind, Operator, PoolKind};

pub(super) use super::work::{
    Attention, Comparison, Convolution, Extents, Listing, Loop, MAX_CALL_DEPTH, MAX_NODES, NUMBERS_PER_NODE,
    Packing, Pads, Reduction, Reshaping, Slicing, Spectrum, TransposedConvolution, Windowed,
};

/// Index into [`Model::tensors`].
pub(super) type TensorId = usize;
/// Operands or results of a node; `None` for those that are absent or unused.
pub(super) type Operands = Vec<Option<TensorId>>;

/// Maximum number of elements for which the values of a constant are kept. Shapes, axes and scalars are smaller;
/// weights are larger, and their values do not matter.
pub(super) const MAX_NUMBERS: usize = 4_096;

/// Layout of images: the position of the channels among the axes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ImageOrder {
    /// Batch, channels, height, width: ONNX.
    ChannelsFirst,
    /// Batch, height, width, channels: TFLite.
    ChannelsLast,
}

/// A model as read from a file.
#[derive(Clone, Debug)]
pub(super) struct Model {
    /// Layout of its images.
    pub(super) order: ImageOrder,
    /// The prevailing number format.
    pub(super) data_type: DataType,
    /// All tensors.
    pub(super) tensors: Vec<SourceTensor>,
    /// Inputs of the model.
    pub(super) inputs: Vec<TensorId>,
    /// Outputs of the model.
    pub(super) outputs: Vec<TensorId>,
    /// Dimensions that need not be set.
    pub(super) unset: Vec<UnsetDimension>,
    /// Nodes in topological order.
    pub(super) nodes: Vec<SourceNode>,
}

/// The domain of operators in ONNX Runtime's layout for one kind of CPU, with which their operator type begins. Weights
/// and tensors have their channels padded to whole vectors.
pub(super) const PADDED: &str = "com.microsoft.nchwc";

/// Marks an extent that the file does not state.
pub(super) const OPEN_EXTENT: u32 = 0;

/// A tensor of a file.
#[derive(Clone, Debug, Default)]
pub(super) struct SourceTensor {
    /// Its name.
    pub(super) name: String,
    /// Its extents, with [`OPEN_EXTENT`] for unknown ones; `None` where the file does not even state the rank.
    pub(super) extents: Option<Vec<u32>>,
    /// Its value, if it is a constant.
    pub(super) constant: Option<Constant>,
    /// The file beside the model's own that holds its values, if these could not be read from there.
    pub(super) unread_file: Option<String>,
}

impl SourceTensor {
    /// Its extents, if the file states all of them.
    pub(super) fn static_extents(&self) -> Option<Vec<u32>> {
        self.extents.clone().filter(|extents| !extents.contains(&OPEN_EXTENT))
    }
}

/// A constant: weights, or values that determine shapes.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Constant {
    /// Extents; empty for a scalar.
    pub(super) extents: Vec<u32>,
    /// Its values in row-major order; `None` if unknown, unsupported or more than [`MAX_NUMBERS`].
    pub(super) numbers: Option<Vec<f64>>,
}

impl Constant {
    /// A vector of integers.
    pub(super) fn list(numbers: impl IntoIterator<Item = i64>) -> Self {
        let numbers: Vec<f64> = numbers.into_iter().map(|number| number as f64).collect();
        Self { extents: vec![numbers.len() as u32], numbers: Some(numbers) }
    }

    /// A scalar.
    pub(super) fn number(number: f64) -> Self {
        Self { extents: Vec::new(), numbers: Some(vec![number]) }
    }

    /// A constant with the values that `numbers` reads, called only for at most [`MAX_NUMBERS`] elements.
    /// `numbers` returns `None` for unsupported formats.
    pub(super) fn read(extents: Vec<u32>, numbers: impl FnOnce() -> Option<Vec<f64>>) -> Self {
        let count = elements(&extents);
        let numbers = (count <= MAX_NUMBERS as u64).then(numbers).flatten();
        Self { extents, numbers: numbers.filter(|numbers| numbers.len() as u64 == count) }
    }

    /// A constant with unknown values.
    pub(super) fn of_extents(extents: Vec<u32>) -> Self {
        Self { extents, numbers: None }
    }

    /// Its values as integers, if known.
    pub(super) fn integers(&self) -> Option<Vec<i64>> {
        Some(self.numbers.as_ref()?.iter().map(|&number| number as i64).collect())
    }

    /// Its first value, if known.
    pub(super) fn first(&self) -> Option<f64> {
        self.numbers.as_ref()?.first().copied()
    }

    /// Number of elements.
    pub(super) fn elements(&self) -> u64 {
        elements(&self.extents)
    }

    /// A constant with the value `at(index)` at each index; unknown if too large or if `at` returns `None` anywhere.
    pub(super) fn built(extents: Vec<u32>, at: impl Fn(&[usize]) -> Option<f64>) -> Self {
        let count = elements(&extents);
        let number = |index: u64| {
            let mut rest = index as usize;
            let mut place = vec![0; extents.len()];
            for (at, &extent) in place.iter_mut().zip(&extents).rev() {
                (*at, rest) = (rest % extent as usize, rest / extent as usize);
            }
            at(&place)
        };
        let numbers = (count <= MAX_NUMBERS as u64).then(|| (0..count).map(number).collect()).flatten();
        Self { extents, numbers }
    }

    /// The value at an index of a tensor that it is broadcast to.
    pub(super) fn at(&self, place: &[usize]) -> Option<f64> {
        let own = &place[place.len().checked_sub(self.extents.len())?..];
        let inside = |index: usize, (&extent, &at): (&u32, &usize)| {
            index * extent as usize + if extent == 1 { 0 } else { at }
        };
        self.numbers.as_ref()?.get(self.extents.iter().zip(own).fold(0, inside)).copied()
    }

    /// `count` elements along an axis, each taken from position `from(position)`.
    pub(super) fn picked(&self, axis: usize, count: u32, from: impl Fn(usize) -> usize) -> Self {
        let mut extents = self.extents.clone();
        extents[axis] = count;
        Self::built(extents, |place| {
            let mut place = place.to_vec();
            place[axis] = from(place[axis]);
            self.at(&place)
        })
    }

    /// The transposed constant; `permutation` has each axis once.
    pub(super) fn transposed(&self, permutation: &[usize]) -> Self {
        Self::built(permutation.iter().map(|&axis| self.extents[axis]).collect(), |place| {
            let mut from = place.to_vec();
            for (&axis, &at) in permutation.iter().zip(place) {
                from[axis] = at;
            }
            self.at(&from)
        })
    }
}

/// Number of elements, saturating.
pub(super) fn elements(extents: &[u32]) -> u64 {
    extents.iter().fold(1, |product: u64, &extent| product.saturating_mul(u64::from(extent)))
}

/// Turns a node's attribute, a list of integers, into a constant operand.
pub(super) fn written(tensors: &mut Vec<SourceTensor>, numbers: Vec<i64>) -> TensorId {
    tensors.push(SourceTensor { constant: Some(Constant::list(numbers)), ..SourceTensor::default() });
    tensors.len() - 1
}

/// A number as an extent; out-of-range numbers become `u32::MAX`, which later checks reject as too large.
pub(super) fn as_extent(number: impl TryInto<u32>) -> u32 {
    number.try_into().unwrap_or(u32::MAX)
}

/// A node of a file.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SourceNode {
    /// Name, for messages and for the operator it becomes.
    pub(super) name: String,
    /// Its operator type in the file.
    pub(super) kind: String,
    /// Number of conditional branches that it is nested in.
    pub(super) branches: u32,
    /// Its semantics.
    pub(super) work: Work,
    /// Its number format, if the file states it.
    pub(super) data_type: Option<DataType>,
    /// Operands; `None` for an absent optional operand.
    pub(super) reads: Operands,
    /// Results; `None` for an unused result.
    pub(super) writes: Operands,
}

impl SourceNode {
    /// The node and, for a loop, all nodes of its body.
    pub(super) fn with_inner(&self) -> Vec<&Self> {
        let inner = if let Work::Loop(body) = &self.work { &body.nodes[..] } else { &[] };
        std::iter::once(self).chain(inner.iter().flat_map(Self::with_inner)).collect()
    }

    /// An operand; `None` if it is absent.
    pub(super) fn operand(&self, index: usize) -> Option<TensorId> {
        self.reads.get(index).copied().flatten()
    }

    /// A result; `None` if it is unused.
    pub(super) fn result(&self, index: usize) -> Option<TensorId> {
        self.writes.get(index).copied().flatten()
    }
}

/// Binary element-wise arithmetic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    /// The sum of all operands divided by their number.
    Mean,
    /// Truncates towards zero where the values of both operands are known and all integers.
    Divide,
    /// Division of operands known to be floats.
    DivideFloats,
    /// Rounds down.
    FloorDivide,
    Power,
    Maximum,
    Minimum,
    SquaredDifference,
    /// `max(x, 0) + slope * min(x, 0)`.
    Prelu,
    /// The remainder of [`Self::FloorDivide`], with the sign of the divisor.
    Modulo,
    Comparison(Comparison),
}

/// A unary element-wise function. Those without a counterpart matter in patterns or constant folding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Elemental {
    /// A function of the workload's vocabulary.
    Known(Function),
    /// `max(min(x, high), low)`.
    Clip,
    Erf,
    Sqrt,
    ReciprocalSqrt,
    Reciprocal,
    Square,
    /// A few instructions per element (leaky `ReLU`).
    Cheap,
    /// With an exponential or a logarithm (softplus, exp).
    Transcendental,
    /// Rounds down; used in shape computations.
    Floor,
    Ceil,
    /// Rounds towards 0, as a cast to integers does; used in shape computations.
    Truncate,
    Negate,
    /// Whether the element is 0; used in shape computations.
    Not,
}

/// Semantics of a node. Parameters such as axes, which are attributes in some versions and constant operands in
/// others, are always operands here.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Work {
    /// Operands: input, weights, bias.
    #[serde(skip)]
    Convolution(Convolution),
    /// Operands: input, weights.
    #[serde(skip)]
    TransposedConvolution(TransposedConvolution),
    /// Matrix product over the last two axes, with a bias as optional third operand; `transpose` says which
    /// operands are transposed. With `flatten`, the input is reshaped to rows as long as the depth of the weights.
    Product { transpose: [bool; 2], flatten: bool },
    /// A function of operand 0.
    Function(Elemental),
    /// A left fold over all operands, usually two.
    Arithmetic(Arithmetic),
    /// A pooling window.
    #[serde(skip)]
    Pool { kind: PoolKind, window: Windowed },
    /// Pooling over all pixels.
    GlobalPool(PoolKind),
    /// A reduction over the axes in operand 1, or over all if that is absent; `keep` leaves them with extent 1.
    Reduce { reduction: Reduction, keep: bool },
    /// Concatenates all operands along an axis, or stacks them along a new one.
    Concat { axis: i64, is_new: bool },
    /// An operator over channels, along `axis`; also over all later axes if `to_the_end`.
    #[serde(skip)]
    AlongAxis { operator: Operator, axis: i64, to_the_end: bool },
    /// Norm of operand 0 plus operand 1 (a fusion of inference frameworks).
    SkipNorm { kind: NormKind },
    /// A scale and a shift per channel.
    BatchNorm,
    /// Elements of operand 0 along an axis, at the indices of operand 1.
    Gather { axis: i64 },
    /// Changes the extents but not the elements.
    Reshape(Reshaping),
    /// Permutes the axes by operand 1; reverses them if that is absent.
    Transpose,
    /// A range of each axis.
    Slice(Slicing),
    /// One part per output along the axis in operand 2, of the sizes in operand 1 or of equal sizes. `squeeze`
    /// drops the axis.
    Split { squeeze: bool },
    /// Zero padding by operand 1: all begins then all ends, or rows of pairs.
    Pad,
    /// Broadcasts to the extents in operand 1.
    Expand,
    /// Repeats along each axis, as often as operand 1 states.
    Tile,
    /// Resizes by the scales in operand 2, or to the extents in operand 3, which may be height and width alone.
    Resize(Interpolation),
    /// Depth to space or back, with `block` pixels per side.
    BlockRearrangement { block: u32, to_space: bool },
    /// The extents of operand 0, from axis `from` up to but excluding axis `to`.
    Shape { from: i64, to: i64 },
    /// Number of elements of operand 0.
    Size,
    /// Operand 0 as it is (dropout, casts, quantisation).
    Identity,
    /// A tensor filled with this value, of the extents in operand 0.
    ConstantOfShape(f64),
    /// Operands: start, limit, step.
    Range,
    /// Operand 1 where operand 0 is true, else operand 2.
    Where,
    /// An operator priced by its traffic alone, with `passes` passes over its elements.
    Generic {
        kind: GenericKind,
        extents: Extents,
        #[serde(default = "once")]
        passes: u32,
    },
    /// A product with block-packed weights of the given depth and number of outputs.
    Linear { depth: u32, outputs: u32 },
    /// A recurrent layer. With `gates`, each weight tensor holds a single gate. `features` is the width of the state
    /// that the file states.
    Recurrent { gates: Option<u32>, features: Option<u32>, batch_first: bool },
    /// Scaled dot-product attention.
    #[serde(skip)]
    Attention(Attention),
    /// Linear attention: a state to which each step adds.
    #[serde(skip)]
    LinearAttention(Attention),
    /// An einsum equation.
    Einsum(String),
    /// Group norm; instance norm without `groups`.
    GroupNorm { groups: Option<u32> },
    /// Norm of the sum of word, position and segment embeddings.
    EmbeddingNorm,
    /// A conditional. Operands: the condition, then every result of the first branch, then of the second.
    Choice,
    /// An operation on a sequence of tensors.
    List(Listing),
    /// A loop over a body of nodes.
    #[serde(skip)]
    Loop(Loop),
    /// Not supported; the text states why, or what would help.
    Unknown(String),
}

fn once() -> u32 {
    1
}

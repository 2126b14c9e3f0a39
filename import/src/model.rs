//! A model as a file has it, in words that ONNX and TFLite share.
//!
//! Responsible for: the nodes of a model, what each does ([`Work`]), the tensors between them. Not for: reading a file,
//! nor for what a node costs. Invariant: every tensor number of a node is an index into [`Model::tensors`]; nothing else
//! is promised of what a file says.

use serde::Deserialize;

use coexec_sim::workload::{DataType, Function, GenericKind, Interpolation, NormKind, Operator, PoolKind};

pub(super) use super::work::{
    Attention, Extents, Listing, MOST_LEVELS, MOST_NODES, Packing, Pads, Reduction, Reshaping, Rounds,
    Slicing, Spectrum, Windowed,
};

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

impl Model {
    /// Gives the input of that name its only number; false where there is none such.
    pub(super) fn give_number(&mut self, name: &str, number: u32) -> bool {
        let of_one = |extents: &Vec<u32>| elements(extents) == 1;
        let is_it = |of: &SourceTensor| of.name == name && of.extents.as_ref().is_some_and(of_one);
        let found = self.inputs.iter().position(|&input| is_it(&self.tensors[input]));
        let Some(place) = found else { return false };
        let tensor = &mut self.tensors[self.inputs.remove(place)];
        let extents = tensor.extents.clone().unwrap_or_default();
        tensor.constant = Some(Constant { extents, numbers: Some(vec![f64::from(number)]) });
        true
    }
}

/// An extent of a result that a file leaves open.
pub(super) const OPEN_EXTENT: u32 = 0;

/// A tensor of a file.
#[derive(Clone, Debug, Default)]
pub(super) struct SourceTensor {
    /// Its name.
    pub(super) name: String,
    /// Its extents, where the file says how many.
    pub(super) extents: Option<Vec<u32>>,
    /// What it holds, of a constant.
    pub(super) constant: Option<Constant>,
}

impl SourceTensor {
    /// Its extents, where the file says all.
    pub(super) fn said(&self) -> Option<Vec<u32>> {
        self.extents.clone().filter(|extents| !extents.contains(&OPEN_EXTENT))
    }
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

    /// A single number.
    pub(super) fn number(number: f64) -> Self {
        Self { extents: Vec::new(), numbers: Some(vec![number]) }
    }

    /// A constant whose numbers `numbers` reads, where they are few; it may not be in a format that is read.
    pub(super) fn read(extents: Vec<u32>, numbers: impl FnOnce() -> Option<Vec<f64>>) -> Self {
        let count = elements(&extents);
        let numbers = (count <= MAX_NUMBERS as u64).then(numbers).flatten();
        Self { extents, numbers: numbers.filter(|numbers| numbers.len() as u64 == count) }
    }

    /// A constant of which nothing more is known.
    pub(super) fn of_extents(extents: Vec<u32>) -> Self {
        Self { extents, numbers: None }
    }

    /// Its numbers as whole ones, where they are kept.
    pub(super) fn integers(&self) -> Option<Vec<i64>> {
        Some(self.numbers.as_ref()?.iter().map(|&number| number as i64).collect())
    }

    /// Its first number, where it is kept.
    pub(super) fn first(&self) -> Option<f64> {
        self.numbers.as_ref()?.first().copied()
    }

    /// Number of elements.
    pub(super) fn elements(&self) -> u64 {
        elements(&self.extents)
    }

    /// A constant of those extents, with the number that `at` says for each place where
    /// they are few and it knows all.
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

    /// The number at a place of the tensor that it is broadcast to.
    pub(super) fn at(&self, place: &[usize]) -> Option<f64> {
        let own = &place[place.len().checked_sub(self.extents.len())?..];
        let inside = |index: usize, (&extent, &at): (&u32, &usize)| {
            index * extent as usize + if extent == 1 { 0 } else { at }
        };
        self.numbers.as_ref()?.get(self.extents.iter().zip(own).fold(0, inside)).copied()
    }

    /// So many elements of an axis, each from the place that `from` says.
    pub(super) fn picked(&self, axis: usize, count: u32, from: impl Fn(usize) -> usize) -> Self {
        let mut extents = self.extents.clone();
        extents[axis] = count;
        Self::built(extents, |place| {
            let mut place = place.to_vec();
            place[axis] = from(place[axis]);
            self.at(&place)
        })
    }

    /// With the axes in another order; `permutation` has each axis once.
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

/// Number of elements; more than `u64` holds saturate.
pub(super) fn elements(extents: &[u32]) -> u64 {
    extents.iter().fold(1, |product: u64, &extent| product.saturating_mul(u64::from(extent)))
}

/// A list of numbers that a file has at a node, as an operand.
pub(super) fn written(tensors: &mut Vec<SourceTensor>, numbers: Vec<i64>) -> TensorId {
    tensors.push(SourceTensor { constant: Some(Constant::list(numbers)), ..SourceTensor::default() });
    tensors.len() - 1
}

/// A number as an extent; what is none saturates, and is then too large for one.
pub(super) fn as_extent(number: impl TryInto<u32>) -> u32 {
    number.try_into().unwrap_or(u32::MAX)
}

/// A node of a file.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SourceNode {
    /// Name, for messages and for the operator it becomes.
    pub(super) name: String,
    /// What the file calls it.
    pub(super) kind: String,
    /// In how many branches it lies, which may not run.
    pub(super) branches: u32,
    /// What it does.
    pub(super) work: Work,
    /// In which number format, where the file says that.
    pub(super) data_type: Option<DataType>,
    /// What it reads; none where an optional operand is left out.
    pub(super) reads: Vec<Option<TensorId>>,
    /// What it writes; none where nobody wants it.
    pub(super) writes: Vec<Option<TensorId>>,
}

impl SourceNode {
    /// The node, and those that it runs in rounds.
    pub(super) fn with_inner(&self) -> Vec<&Self> {
        let inner = if let Work::Rounds(rounds) = &self.work { &rounds.nodes[..] } else { &[] };
        std::iter::once(self).chain(inner.iter().flat_map(Self::with_inner)).collect()
    }

    /// An operand, where it is not left out.
    pub(super) fn operand(&self, index: usize) -> Option<TensorId> {
        self.reads.get(index).copied().flatten()
    }

    /// A result, where somebody wants it.
    pub(super) fn result(&self, index: usize) -> Option<TensorId> {
        self.writes.get(index).copied().flatten()
    }
}

/// Arithmetic on two tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    /// Of whole numbers towards zero, where all of both operands are known and whole.
    Divide,
    /// Of what is known not to be of a whole format.
    DivideFloats,
    Power,
    Maximum,
    Minimum,
    SquaredDifference,
    /// `max(x, 0) + slope * min(x, 0)`.
    Prelu,
    Modulo,
    Comparison(Comparison),
}

/// A comparison, or what joins those.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Comparison {
    Equal,
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
    And,
    Or,
    Xor,
}

/// A function of one tensor that a pattern or a constant may be about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
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
    /// Rounds towards 0, as a cast to whole numbers; of interest in shapes.
    Truncate,
    Negate,
    /// Whether it is 0; of interest in shapes.
    Not,
}

/// What a node does. Numbers that some files have at the node and others in a constant
/// operand, such as axes, always are an operand.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Work {
    /// Operands: input, weights, bias. Without groups, there are as many as the weights fit
    /// in; depthwise weights of TFLite have their output channels last.
    #[serde(skip)]
    Convolution { window: Windowed, groups: Option<u32>, is_depthwise: bool },
    /// Operands: input, weights.
    #[serde(skip)]
    TransposedConvolution { window: Windowed, groups: u32, output_pads: Vec<u32> },
    /// Product over the last two axes, operands perhaps transposed; a bias third. With
    /// `flatten`, the rows of the input are as long as the weights are deep.
    Product { transpose: [bool; 2], flatten: bool },
    /// A function of operand 0.
    Function(Elemental),
    /// Of operands 0 and 1, or of all there are in turn.
    Arithmetic(Arithmetic),
    /// A pooling window.
    #[serde(skip)]
    Pool { kind: PoolKind, window: Windowed },
    /// A pooling window over all pixels.
    GlobalPool(PoolKind),
    /// A reduction over the axes in operand 1, all where that is absent.
    Reduce { reduction: Reduction, keep: bool },
    /// Joins all operands along an axis, perhaps a new one.
    Concat { axis: i64, is_new: bool },
    /// An operator over channels, along that axis; over all behind it as well where `to_the_end`.
    #[serde(skip)]
    AlongAxis { operator: Operator, axis: i64, to_the_end: bool },
    /// Operand 0 plus operand 1, then a norm (an inference framework's fusion).
    SkipNorm { kind: NormKind },
    /// A scale and a shift a channel.
    BatchNorm,
    /// Elements of operand 0 along an axis, at the indices of operand 1.
    Gather { axis: i64 },
    /// Other extents of the same elements.
    Reshape(Reshaping),
    /// Reorders axes as operand 1 says; reverses all where that is absent.
    Transpose,
    /// A part of each axis.
    Slice(Slicing),
    /// As many parts as outputs, of the sizes in operand 1 or of equal ones, along the axis
    /// in operand 2.
    Split { squeeze: bool },
    /// Zeros around, as operand 1 says: all before and all after, or pairs in its rows.
    Pad,
    /// To the extents in operand 1.
    Expand,
    /// So many copies along each axis, in operand 1.
    Tile,
    /// Other extents: scaled by operand 2, or those in operand 3, which may be height and
    /// width alone.
    Resize(Interpolation),
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
    /// What needs no kernel of its own, and goes over its elements so many times.
    Generic {
        kind: GenericKind,
        extents: Extents,
        #[serde(default = "once")]
        passes: u32,
    },
    /// A product with weights of that depth and so many outputs, which files pack in blocks.
    Linear { depth: u32, outputs: u32 },
    /// A recurrent layer; weights are of one gate where the number of gates is said.
    Recurrent { gates: Option<u32>, batch_first: bool },
    /// Attention of queries to keys and values.
    #[serde(skip)]
    Attention(Attention),
    /// Attention by a state that steps add to.
    #[serde(skip)]
    LinearAttention(Attention),
    /// A sum of products over named axes.
    Einsum(String),
    /// A norm of the pixels of as many groups of channels, of each channel where none are said.
    GroupNorm { groups: Option<u32> },
    /// Rows of tables for words, places and segments, their sum and its norm.
    EmbeddingNorm,
    /// One of two branches: operands are the condition, then what each has for every result.
    Choice,
    /// A list of tensors.
    List(Listing),
    /// Nodes that run again and again.
    #[serde(skip)]
    Rounds(Rounds),
    /// Nothing that is known; what would help.
    Unknown(String),
}

fn once() -> u32 {
    1
}

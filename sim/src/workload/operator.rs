//! Operators: their dimensions, output shapes, work, parameters and parts.
//!
//! Responsible for: what operators there are, and what kinds of work. Each stands in a file of
//! its own, as a struct that files contain as it is and that answers [`definition::Definition`];
//! the list below is the only other place where its name is. Kernel models go by the class of an
//! operator, so that a new one is priced on every processor from the day it exists. Not for:
//! connecting operators (`graph.rs`), or time.
//! Invariant: every operator is self-contained plain data; after [`Definition::check`]
//! succeeded, no other method overflows or divides by zero.

mod answers;
mod bounds;
mod concat;
mod conv2d;
mod definition;
mod depthwise_conv2d;
mod elementwise;
mod embedding;
mod error;
mod generic;
mod linear;
mod local_response_norm;
mod matmul;
mod mean;
mod norm;
mod pad;
mod pick;
mod pool;
mod recurrent;
mod reshape;
mod resize;
mod slice;
mod softmax;
mod transpose;
mod window;

use std::ops::Deref;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(super) use bounds::shape as check_shape;
use bounds::{Checked, at_most_max, dimension, dimensions, tensor, work};
pub use bounds::{MAX_DIMENSION, MAX_ELEMENTS, MAX_WORK};
pub use concat::Concat;
pub use conv2d::Conv2d;
pub use definition::{BatchOf, ChannelCut, Definition};
use definition::{
    UNKNOWN, first, flag, is_one, is_true, of_one_input, of_own_extents, one, under_window, yes,
};
pub use depthwise_conv2d::DepthwiseConv2d;
pub use elementwise::{Elementwise, Function};
pub use embedding::Embedding;
pub use error::OperatorError;
pub use generic::{Generic, GenericKind};
pub use linear::Linear;
pub use local_response_norm::LocalResponseNorm;
pub use matmul::MatMul;
pub use mean::Mean;
pub use norm::{Norm, NormKind};
pub use pad::Pad;
pub use pick::{Axis, Pick};
pub use pool::{Pool, PoolKind};
pub use recurrent::Recurrent;
pub use reshape::Reshape;
pub use resize::{Interpolation, Resize};
pub use slice::Slice;
pub use softmax::Softmax;
pub use transpose::Transpose;
pub use window::Window;

use super::{DataType, Shape};

/// Makes the enum of all operators, and the table that a file has for one, of the list of
/// them: what each is, its key in files, its type, the field's word for it.
macro_rules! operators {
    ($($(#[$doc:meta])* $key:ident: $operator:ident = $word:literal,)+) => {
        /// One operator with all its dimensions.
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        pub enum Operator {
            $($(#[$doc])* $operator($operator),)+
        }

        impl Operator {
            /// The field's word for it.
            pub fn name(&self) -> &'static str {
                let word = match self {
                    $(Self::$operator(_) => $word,)+
                };
                self.special_name().unwrap_or(word)
            }

            /// Extent of the tensor it writes. The search asks for it so often that the call
            /// is not left to run time.
            pub fn output(&self) -> Shape {
                match self {
                    $(Self::$operator(operator) => operator.output(),)+
                }
            }
        }

        impl Deref for Operator {
            type Target = dyn Definition;

            fn deref(&self) -> &Self::Target {
                match self {
                    $(Self::$operator(operator) => operator,)+
                }
            }
        }

        $(impl From<$operator> for Operator {
            fn from(operator: $operator) -> Self {
                Self::$operator(operator)
            }
        })+

        /// One operator of a file: its name and exactly one key that says what it is.
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub struct OperatorTable {
            /// Unique name.
            pub name: String,
            /// Names of the operators whose outputs it reads, in order, and of inputs; the
            /// operator above it where absent. `"input"` is the workload's first input.
            pub from: Option<Vec<String>>,
            /// Its number format, where that is not the workload's.
            pub data_type: Option<DataType>,
            /// Whether an operator above has the same weights, as where a layer is computed again and again: they
            /// count once in parameters and memory.
            pub shares_weights: Option<bool>,
            $($(#[$doc])* pub $key: Option<$operator>,)+
        }

        impl OperatorTable {
            /// The keys that say what an operator is.
            pub const KINDS: &[&str] = &[$(stringify!($key)),+];

            /// `operator` under that name. What takes its extents from what it reads does
            /// not say them: the reader is to be given [`Operator::inputs`].
            pub fn new(name: &str, operator: &Operator) -> Self {
                let mut table = Self { name: name.to_owned(), ..Self::default() };
                match operator.clone() {
                    $(Operator::$operator(operator) => table.$key = Some(operator),)+
                }
                table
            }

            /// All that the keys say it is: one operator, where the table is right.
            pub fn operators(&self) -> Vec<Operator> {
                let kinds = [$(self.$key.clone().map(Operator::from)),+];
                kinds.into_iter().flatten().collect()
            }
        }
    };
}

operators! {
    /// A matrix product with weights.
    linear: Linear = "linear",
    /// A batched product of two activations.
    matmul: MatMul = "matmul",
    /// A convolution.
    conv2d: Conv2d = "conv2d",
    /// A depthwise convolution.
    depthwise_conv2d: DepthwiseConv2d = "depthwise conv2d",
    /// A pooling window.
    pool: Pool = "pool",
    /// The mean of each channel: `true`.
    mean: Mean = "mean",
    /// A concatenation: `true` along channels, else the dimension.
    concat: Concat = "concat",
    /// An element-wise function.
    function: Elementwise = "element-wise",
    /// Softmax over channels: `true`.
    softmax: Softmax = "softmax",
    /// A normalisation.
    norm: Norm = "norm",
    /// A local response normalisation: the channels of a neighbourhood.
    local_response_norm: LocalResponseNorm = "local response norm",
    /// A table look-up.
    embedding: Embedding = "embedding",
    /// A range: `[first, count]` of channels, or a table.
    slice: Slice = "slice",
    /// The dimensions in another order.
    transpose: Transpose = "transpose",
    /// Zeros around.
    pad: Pad = "pad",
    /// Another height and width.
    resize: Resize = "resize",
    /// Another extent, `[batch, height, width, channels]`.
    reshape: Reshape = "reshape",
    /// The steps of a recurrent layer.
    recurrent: Recurrent = "recurrent",
    /// An operator without a kernel of its own, priced by what it moves and computes.
    generic: Generic = "generic",
}

/// The kind of work that an operator is, with what decides how much it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class<'a> {
    /// Matrix products.
    Product(Product),
    /// Products under a window that slides over an image.
    Convolution(&'a Conv2d),
    /// A convolution of each channel with a window of its own.
    Depthwise(&'a DepthwiseConv2d),
    /// A window over each channel that keeps one element of many.
    Pool(&'a Pool),
    /// A statistic of many elements, and what becomes of them by it.
    Reduction(Reduction),
    /// A function of each element, or of pairs of elements.
    Elementwise(Elementwise),
    /// Elements moved unchanged.
    Movement(Movement<'a>),
    /// Rows looked up in a table.
    Gather(&'a Embedding),
    /// Steps, each of which multiplies what the one before it left by the same weights.
    Recurrent(&'a Recurrent),
    /// Anything else, by what it moves and computes.
    Generic(&'a Generic),
}

/// `batch` products of `[rows, inner]` activations and an `[inner, outputs]` right operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Product {
    /// Images among which the products are divided.
    pub images: u32,
    /// Independent products.
    pub batch: u32,
    /// Rows of the left operand.
    pub rows: u32,
    /// Columns of the left, rows of the right operand.
    pub inner: u32,
    /// Columns of the right operand.
    pub outputs: u32,
    /// Whether the right operand is weights, and not an activation.
    pub trained: bool,
}

/// What many elements become one by, or are changed by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    /// One element for all pixels of a channel: a mean, a sum, a maximum.
    Pixels {
        /// What is reduced.
        input: Shape,
    },
    /// Maximum and sum of exponentials of each token, and their quotients.
    Exponentials,
    /// A statistic of the channels of each pixel or token, by which its elements are normalised.
    Normalisation(Statistic),
}

/// A statistic that elements are normalised by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Statistic {
    /// Mean and variance of all channels.
    MeanAndVariance {
        /// Whether each step is an operator of its own to a framework.
        in_steps: bool,
    },
    /// Mean square of all channels.
    MeanSquare,
    /// Mean square of so many channels around each, of which a power is taken. Found in one pass, as a
    /// channel enters the sum and another leaves it.
    NeighbourSquares {
        /// Channels of a neighbourhood.
        channels: u32,
    },
}

impl Statistic {
    /// Sums of a token, and functions of each element, of which a normalisation consists: a layer norm as
    /// Keras writes it has two means, the squared differences, the scale by channels, the scaled input, the
    /// scaled mean from the shift, and their sum; the others the squares, their sum and the product.
    pub fn steps(self) -> [u32; 2] {
        match self {
            Self::MeanAndVariance { .. } => [2, 5],
            Self::MeanSquare | Self::NeighbourSquares { .. } => [1, 2],
        }
    }

    /// Passes over the elements that find the statistic.
    pub fn passes(self) -> u32 {
        match self {
            Self::MeanAndVariance { in_steps: false } => 2,
            Self::MeanAndVariance { in_steps: true } => self.steps().into_iter().sum::<u32>() - 1,
            Self::MeanSquare | Self::NeighbourSquares { .. } => 1,
        }
    }

    /// A function that costs what the last pass does, which makes the result of each element.
    pub fn function(self) -> Function {
        match self {
            Self::MeanAndVariance { .. } | Self::MeanSquare => Function::Multiply,
            // A power is an exponential of a logarithm.
            Self::NeighbourSquares { .. } => Function::Sigmoid,
        }
    }
}

/// Where moved elements go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Movement<'a> {
    /// Behind each other.
    Joined(&'a Concat),
    /// A range, on its own.
    Range(&'a Slice),
    /// Where the dimensions in another order say.
    Transposed(&'a Transpose),
    /// Among zeros.
    Padded(&'a Pad),
    /// Spread over more pixels, or fewer.
    Resized(&'a Resize),
    /// Into another extent.
    Rearranged(&'a Reshape),
}

impl Movement<'_> {
    /// Elements that each element of the output is made of.
    pub fn taps(&self) -> u32 {
        if let Self::Resized(resize) = self { resize.interpolation.taps() } else { 1 }
    }
}

#[cfg(test)]
mod tests;

//! Operators: their dimensions, output shapes, work, parameters and parts.
//!
//! Responsible for: the operators, and the classes of work. Each operator has a file of its own
//! with a struct that is also its form in files and that implements [`definition::Definition`];
//! the list below is the only other place with its name. Kernel models depend on the class of an
//! operator only, so a new operator has a price on every processor from the start. Not for:
//! connecting operators (`graph.rs`), or time.
//! Invariant: every operator is self-contained plain data; after [`Definition::check`]
//! succeeded, no other method overflows or divides by zero.

mod bounds;
mod concat;
mod conv2d;
mod definition;
mod depthwise_conv2d;
mod derived;
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
pub use elementwise::{Elementwise, Function, SecondOperand};
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

/// Generates the enum of all operators, and the table of an operator in a file, from a list: for
/// each operator its description, key in files, type, and name.
macro_rules! operators {
    ($($(#[$doc:meta])* $key:ident: $operator:ident = $word:literal,)+) => {
        /// One operator with all its dimensions.
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        pub enum Operator {
            $($(#[$doc])* $operator($operator),)+
        }

        impl Operator {
            /// The usual name of this kind of operator.
            pub fn name(&self) -> &'static str {
                let word = match self {
                    $(Self::$operator(_) => $word,)+
                };
                self.special_name().unwrap_or(word)
            }

            /// Extent of the tensor it writes. Dispatched statically, as the search calls it very
            /// often.
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

        /// One operator of a file: its name, and exactly one key for its kind.
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub struct OperatorTable {
            /// Unique name.
            pub name: String,
            /// Names of the operators whose outputs it reads, and of inputs, in order; by default
            /// the operator above it. `"input"` is the workload's first input.
            pub from: Option<Vec<String>>,
            /// Its number format, if that is not the workload's.
            pub data_type: Option<DataType>,
            /// Whether an operator above has the same weights, as when a layer is applied repeatedly:
            /// they count once in parameters and memory.
            pub shares_weights: Option<bool>,
            $($(#[$doc])* pub $key: Option<$operator>,)+
        }

        impl OperatorTable {
            /// The keys for the kinds of operators.
            pub const KINDS: &[&str] = &[$(stringify!($key)),+];

            /// The table of `operator`. It omits extents that follow from the operator's inputs:
            /// to read it back, [`Operator::inputs`] are needed.
            pub fn new(name: &str, operator: &Operator) -> Self {
                let mut table = Self { name: name.to_owned(), ..Self::default() };
                match operator.clone() {
                    $(Operator::$operator(operator) => table.$key = Some(operator),)+
                }
                table
            }

            /// The operators of all keys present: exactly one if the table is valid.
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
    /// Zero padding.
    pad: Pad = "pad",
    /// Another height and width.
    resize: Resize = "resize",
    /// Another extent, `[batch, height, width, channels]`.
    reshape: Reshape = "reshape",
    /// The steps of a recurrent layer.
    recurrent: Recurrent = "recurrent",
    /// An operator without a kernel of its own, priced by its traffic and the elements it visits.
    generic: Generic = "generic",
}

/// The class of an operator's work, with the parameters that determine its amount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class<'a> {
    /// Matrix products.
    Product(Product),
    /// A convolution, grouped or not, that is not depthwise.
    Convolution(&'a Conv2d),
    /// A convolution of each channel with a window of its own.
    Depthwise(&'a DepthwiseConv2d),
    /// A pooling window over each channel.
    Pool(&'a Pool),
    /// A reduction, or a normalisation by one.
    Reduction(Reduction),
    /// A function of each element, or of pairs of elements.
    Elementwise(Elementwise),
    /// Data movement.
    Movement(Movement<'a>),
    /// A table look-up.
    Gather(&'a Embedding),
    /// Steps that each multiply the state left by the one before by the same weights.
    Recurrent(&'a Recurrent),
    /// Anything else, by its traffic and the elements it visits.
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
    /// Whether the right operand is weights rather than an activation.
    pub trained: bool,
}

/// A reduction of many elements to one, or a normalisation by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    /// One element for all pixels of a channel: a mean, a sum, a maximum.
    Pixels {
        /// Extent of the input.
        input: Shape,
    },
    /// Softmax: maximum and sum of exponentials of each token, and the quotients.
    Exponentials,
    /// A normalisation of each pixel or token by a statistic of its channels.
    Normalisation(Statistic),
}

/// The statistic of a normalisation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Statistic {
    /// Mean and variance of all channels.
    MeanAndVariance {
        /// Whether a framework computes each step as an operator of its own.
        in_steps: bool,
    },
    /// Mean square of all channels.
    MeanSquare,
    /// A power of the mean square of a window of channels around each channel, as a running sum in one
    /// pass.
    NeighbourSquares {
        /// Channels of the window.
        channels: u32,
    },
}

impl Statistic {
    /// Numbers of reductions over a token, and of element-wise functions, that a normalisation consists
    /// of. A layer norm as exported by Keras has two means, and five functions: the squared
    /// differences, the scale by channels, the scaled input, the shift less the scaled mean, and the
    /// sum. The others have the squares, their sum, and the product.
    pub fn steps(self) -> [u32; 2] {
        match self {
            Self::MeanAndVariance { .. } => [2, 5],
            Self::MeanSquare | Self::NeighbourSquares { .. } => [1, 2],
        }
    }

    /// Passes over the elements to compute the statistic.
    pub fn passes(self) -> u32 {
        match self {
            Self::MeanAndVariance { in_steps: false } => 2,
            Self::MeanAndVariance { in_steps: true } => self.steps().into_iter().sum::<u32>() - 1,
            Self::MeanSquare | Self::NeighbourSquares { .. } => 1,
        }
    }

    /// An element-wise function with the cost of the last pass, which computes the result.
    pub fn function(self) -> Function {
        match self {
            Self::MeanAndVariance { .. } | Self::MeanSquare => Function::Multiply,
            // A power is the exponential of a logarithm.
            Self::NeighbourSquares { .. } => Function::Sigmoid,
        }
    }
}

/// The kind of a data movement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Movement<'a> {
    /// A concatenation.
    Joined(&'a Concat),
    /// A slice.
    Range(&'a Slice),
    /// A transposition.
    Transposed(&'a Transpose),
    /// Zero padding.
    Padded(&'a Pad),
    /// A resize to more or fewer pixels.
    Resized(&'a Resize),
    /// A reshape.
    Rearranged(&'a Reshape),
}

impl Movement<'_> {
    /// Input elements per output element.
    pub fn taps(&self) -> u32 {
        if let Self::Resized(resize) = self { resize.interpolation.taps() } else { 1 }
    }
}

#[cfg(test)]
mod tests;

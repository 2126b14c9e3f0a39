//! Operators: their dimensions, output shapes, work and parameters.
//!
//! Every operator is self-contained plain data. Shape rules that a person can
//! break (an operator that does not accept its input) are checked where a graph
//! is built, in `graph.rs`; the methods here assume a checked operator.

mod parts;
mod work;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::shape::{Padding, Shape};

/// A layer of matrix-vector products: `rows` tokens times a weight matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Linear {
    /// Tokens (or images) the weights are applied to.
    pub rows: u32,
    /// Features of one input token.
    pub input_features: u32,
    /// Features of one output token: the output channels.
    pub output_features: u32,
    /// Whether a bias is added.
    pub bias: bool,
}

/// A batched product of two activations, `[m, k] x [k, n]` (attention).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MatMul {
    /// Independent products (attention heads).
    pub batch: u32,
    /// Rows of the left operand.
    pub m: u32,
    /// Columns of the left, rows of the right operand.
    pub k: u32,
    /// Columns of the right operand.
    pub n: u32,
}

/// A two-dimensional convolution, possibly grouped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Conv2d {
    /// Input extent.
    pub input: Shape,
    /// Output channels of all groups together.
    pub output_channels: u32,
    /// Window height and width.
    pub kernel: [u32; 2],
    /// Vertical and horizontal stride.
    pub stride: [u32; 2],
    /// Vertical and horizontal dilation, 1 for none.
    pub dilation: [u32; 2],
    /// Padding around the input.
    pub padding: Padding,
    /// Groups; 1 for a dense convolution.
    pub groups: u32,
    /// Whether a bias is added.
    pub bias: bool,
}

/// A convolution of each channel with its own window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DepthwiseConv2d {
    /// Input extent.
    pub input: Shape,
    /// Output channels per input channel.
    pub multiplier: u32,
    /// Window height and width.
    pub kernel: [u32; 2],
    /// Vertical and horizontal stride.
    pub stride: [u32; 2],
    /// Vertical and horizontal dilation, 1 for none.
    pub dilation: [u32; 2],
    /// Padding around the input.
    pub padding: Padding,
    /// Whether a bias is added.
    pub bias: bool,
}

/// What a pooling window keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PoolKind {
    /// The largest element.
    Max,
    /// The mean.
    Average,
}

/// A pooling window over each channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pool {
    /// What the window keeps.
    pub kind: PoolKind,
    /// Input extent.
    pub input: Shape,
    /// Window height and width.
    pub kernel: [u32; 2],
    /// Vertical and horizontal stride.
    pub stride: [u32; 2],
    /// Padding around the input.
    pub padding: Padding,
}

/// The mean over all pixels of each channel (global average pooling).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mean {
    /// Input extent.
    pub input: Shape,
}

/// A concatenation along channels.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Concat {
    /// Extent of the inputs; its channels are not used.
    pub extent: Shape,
    /// Channels of each input, in order.
    pub channels: Vec<u32>,
}

/// An element-wise function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Function {
    /// Sum of two tensors.
    Add,
    /// Product of two tensors.
    Multiply,
    /// `max(x, 0)`.
    Relu,
    /// `min(max(x, 0), 6)`.
    Relu6,
    /// `x * relu6(x + 3) / 6`.
    HardSwish,
    /// `relu6(x + 3) / 6`.
    HardSigmoid,
    /// `1 / (1 + exp(-x))`.
    Sigmoid,
    /// `x * sigmoid(x)`, also called swish.
    Silu,
    /// Gaussian error linear unit.
    Gelu,
    /// Hyperbolic tangent.
    Tanh,
}

impl Function {
    /// Whether the function reads two tensors.
    pub fn is_binary(self) -> bool {
        matches!(self, Self::Add | Self::Multiply)
    }
}

/// An element-wise function of one tensor, or of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Elementwise {
    /// The function.
    pub function: Function,
    /// Extent of the first operand and of the output.
    pub input: Shape,
    /// Extent of the second operand: the input's, or `1x1xC` where one value a
    /// channel is broadcast. `None` for a function of one tensor.
    pub other: Option<Shape>,
}

/// Softmax over the channels of each pixel (or token).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Softmax {
    /// Input extent.
    pub input: Shape,
}

/// Which statistics a normalisation uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NormKind {
    /// Mean and variance of each token; a scale and a shift a feature.
    Layer,
    /// Root mean square of each token; a scale a feature.
    Rms,
    /// Trained statistics a channel: a scale and a shift that inference
    /// frameworks fold into the preceding convolution.
    Batch,
}

/// A normalisation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Norm {
    /// Which statistics.
    pub kind: NormKind,
    /// Input extent.
    pub input: Shape,
}

/// A table look-up: `rows` indices into a table of vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Embedding {
    /// Indices looked up.
    pub rows: u32,
    /// Vectors in the table.
    pub vocabulary: u32,
    /// Features of one vector.
    pub features: u32,
}

/// A range of channels taken out of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Slice {
    /// Input extent.
    pub input: Shape,
    /// First channel taken.
    pub first_channel: u32,
    /// Channels taken.
    pub channels: u32,
}

/// The same elements under another extent (also transposes).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Reshape {
    /// Input extent.
    pub input: Shape,
    /// Output extent, of as many elements.
    pub output: Shape,
}

/// One operator with all its dimensions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "each variant's type carries the documentation")]
pub enum Operator {
    Linear(Linear),
    MatMul(MatMul),
    Conv2d(Conv2d),
    DepthwiseConv2d(DepthwiseConv2d),
    Pool(Pool),
    Mean(Mean),
    Concat(Concat),
    Elementwise(Elementwise),
    Softmax(Softmax),
    Norm(Norm),
    Embedding(Embedding),
    Slice(Slice),
    Reshape(Reshape),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conv(kernel: u32, stride: u32, dilation: u32, padding: u32) -> Conv2d {
        Conv2d {
            input: Shape::image(56, 56, 64),
            output_channels: 128,
            kernel: [kernel; 2],
            stride: [stride; 2],
            dilation: [dilation; 2],
            padding: Padding::symmetric(padding, padding),
            groups: 1,
            bias: false,
        }
    }

    #[test]
    fn a_window_slides_as_the_textbook_says() {
        assert_eq!(conv(3, 1, 1, 1).output(), Shape::image(56, 56, 128));
        assert_eq!(conv(3, 2, 1, 1).output(), Shape::image(28, 28, 128));
        assert_eq!(conv(3, 1, 2, 0).output(), Shape::image(52, 52, 128));
        assert_eq!(conv(7, 2, 1, 3).output(), Shape::image(28, 28, 128));
    }

    #[test]
    fn work_and_parameters_of_the_first_vgg_convolution() {
        // VGG-16 conv1_1: 86,704,128 multiply-accumulates, 1,792 parameters.
        let operator = Operator::Conv2d(Conv2d {
            input: Shape::image(224, 224, 3),
            output_channels: 64,
            bias: true,
            ..conv(3, 1, 1, 1)
        });
        assert_eq!(operator.macs(), 86_704_128);
        assert_eq!(operator.parameters(), 1_792);
    }

    #[test]
    fn cutting_output_channels_conserves_the_work() {
        let whole = Operator::Conv2d(conv(3, 1, 1, 1));
        let parts = [48, 80].map(|channels| whole.with_output_channels(channels).macs());
        assert_eq!(parts.iter().sum::<u64>(), whole.macs());
    }
}

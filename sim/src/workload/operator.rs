//! Operators: their dimensions, output shapes, work and parameters.
//!
//! Every operator is self-contained plain data. Shape rules that a person can
//! break (an operator that does not accept its input) are checked where a graph
//! is built, in `graph.rs`; the methods here assume a checked operator.

use std::fmt;

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

/// Output extent of a window of `kernel` sliding over `input` pixels.
fn window_output(input: u32, kernel: u32, stride: u32, dilation: u32, padding: u32) -> u32 {
    let reach = dilation * (kernel - 1) + 1;
    (input + padding - reach) / stride + 1
}

impl Conv2d {
    /// Output extent.
    pub fn output(&self) -> Shape {
        let [kernel_height, kernel_width] = self.kernel;
        let padding = self.padding;
        Shape {
            batch: self.input.batch,
            height: window_output(
                self.input.height,
                kernel_height,
                self.stride[0],
                self.dilation[0],
                padding.top + padding.bottom,
            ),
            width: window_output(
                self.input.width,
                kernel_width,
                self.stride[1],
                self.dilation[1],
                padding.left + padding.right,
            ),
            channels: self.output_channels,
        }
    }

    /// Whether the window is one pixel wide in every sense: 1x1, stride 1,
    /// undilated, unpadded.
    pub fn is_pointwise(&self) -> bool {
        self.kernel == [1, 1]
            && self.stride == [1, 1]
            && self.dilation == [1, 1]
            && self.padding == Padding::NONE
    }
}

impl DepthwiseConv2d {
    /// Output extent.
    pub fn output(&self) -> Shape {
        let as_conv = Conv2d {
            input: self.input,
            output_channels: self.input.channels * self.multiplier,
            kernel: self.kernel,
            stride: self.stride,
            dilation: self.dilation,
            padding: self.padding,
            groups: self.input.channels,
            bias: self.bias,
        };
        as_conv.output()
    }
}

impl Pool {
    /// Output extent.
    pub fn output(&self) -> Shape {
        let padding = self.padding;
        Shape {
            height: window_output(
                self.input.height,
                self.kernel[0],
                self.stride[0],
                1,
                padding.top + padding.bottom,
            ),
            width: window_output(
                self.input.width,
                self.kernel[1],
                self.stride[1],
                1,
                padding.left + padding.right,
            ),
            ..self.input
        }
    }
}

impl Operator {
    /// Extents of the tensors it reads, in order.
    pub fn inputs(&self) -> Vec<Shape> {
        match self {
            Self::Linear(linear) => vec![Shape::tokens(linear.rows, linear.input_features)],
            Self::MatMul(product) => vec![
                Shape { batch: product.batch, height: 1, width: product.m, channels: product.k },
                Shape { batch: product.batch, height: 1, width: product.k, channels: product.n },
            ],
            Self::Conv2d(conv) => vec![conv.input],
            Self::DepthwiseConv2d(conv) => vec![conv.input],
            Self::Pool(pool) => vec![pool.input],
            Self::Mean(mean) => vec![mean.input],
            Self::Concat(concat) => {
                concat.channels.iter().map(|&channels| concat.extent.with_channels(channels)).collect()
            }
            Self::Elementwise(elementwise) => {
                std::iter::once(elementwise.input).chain(elementwise.other).collect()
            }
            Self::Softmax(softmax) => vec![softmax.input],
            Self::Norm(norm) => vec![norm.input],
            Self::Embedding(embedding) => vec![Shape::tokens(embedding.rows, 1)],
            Self::Slice(slice) => vec![slice.input],
            Self::Reshape(reshape) => vec![reshape.input],
        }
    }

    /// Elements of all inputs together.
    pub fn input_elements(&self) -> u64 {
        match self {
            Self::Concat(_) => self.output().elements(),
            _ => self.inputs().iter().map(Shape::elements).sum(),
        }
    }

    /// Extent of the tensor it writes.
    pub fn output(&self) -> Shape {
        match self {
            Self::Linear(linear) => Shape::tokens(linear.rows, linear.output_features),
            Self::MatMul(product) => {
                Shape { batch: product.batch, height: 1, width: product.m, channels: product.n }
            }
            Self::Conv2d(conv) => conv.output(),
            Self::DepthwiseConv2d(conv) => conv.output(),
            Self::Pool(pool) => pool.output(),
            Self::Mean(mean) => Shape { height: 1, width: 1, ..mean.input },
            Self::Concat(concat) => concat.extent.with_channels(concat.channels.iter().sum()),
            Self::Elementwise(elementwise) => elementwise.input,
            Self::Softmax(softmax) => softmax.input,
            Self::Norm(norm) => norm.input,
            Self::Embedding(embedding) => Shape::tokens(embedding.rows, embedding.features),
            Self::Slice(slice) => slice.input.with_channels(slice.channels),
            Self::Reshape(reshape) => reshape.output,
        }
    }

    /// Multiply-accumulates of the matrix products and convolutions; zero for
    /// everything else, as the papers count.
    pub fn macs(&self) -> u64 {
        match self {
            Self::Linear(linear) => {
                u64::from(linear.rows) * u64::from(linear.input_features) * u64::from(linear.output_features)
            }
            Self::MatMul(product) => {
                [product.batch, product.m, product.k, product.n].iter().map(|&n| u64::from(n)).product()
            }
            Self::Conv2d(conv) => {
                let window = u64::from(conv.kernel[0]) * u64::from(conv.kernel[1]);
                conv.output().elements() * window * u64::from(conv.input.channels / conv.groups)
            }
            Self::DepthwiseConv2d(conv) => {
                conv.output().elements() * u64::from(conv.kernel[0]) * u64::from(conv.kernel[1])
            }
            _ => 0,
        }
    }

    /// Trained parameters.
    pub fn parameters(&self) -> u64 {
        let bias = |has: bool, channels: u32| if has { u64::from(channels) } else { 0 };
        match self {
            Self::Linear(linear) => {
                u64::from(linear.input_features) * u64::from(linear.output_features)
                    + bias(linear.bias, linear.output_features)
            }
            Self::Conv2d(conv) => {
                let window = u64::from(conv.kernel[0]) * u64::from(conv.kernel[1]);
                window * u64::from(conv.input.channels / conv.groups) * u64::from(conv.output_channels)
                    + bias(conv.bias, conv.output_channels)
            }
            Self::DepthwiseConv2d(conv) => {
                let window = u64::from(conv.kernel[0]) * u64::from(conv.kernel[1]);
                let channels = conv.input.channels * conv.multiplier;
                window * u64::from(channels) + bias(conv.bias, channels)
            }
            Self::Norm(norm) => match norm.kind {
                NormKind::Layer | NormKind::Batch => 2 * u64::from(norm.input.channels),
                NormKind::Rms => u64::from(norm.input.channels),
            },
            Self::Embedding(embedding) => u64::from(embedding.vocabulary) * u64::from(embedding.features),
            _ => 0,
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

    /// The part of a splittable operator that computes `channels` of its output
    /// channels; the operator itself where it cannot be cut.
    #[must_use]
    pub fn with_output_channels(&self, channels: u32) -> Self {
        match self {
            Self::Linear(linear) => Self::Linear(Linear { output_features: channels, ..*linear }),
            Self::Conv2d(conv) if conv.groups == 1 => {
                Self::Conv2d(Conv2d { output_channels: channels, ..*conv })
            }
            _ => self.clone(),
        }
    }

    /// The field's word for the operator.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Linear(_) => "linear",
            Self::MatMul(_) => "matmul",
            Self::Conv2d(conv) if conv.groups > 1 => "grouped conv2d",
            Self::Conv2d(_) => "conv2d",
            Self::DepthwiseConv2d(_) => "depthwise conv2d",
            Self::Pool(_) => "pool",
            Self::Mean(_) => "mean",
            Self::Concat(_) => "concat",
            Self::Elementwise(_) => "element-wise",
            Self::Softmax(_) => "softmax",
            Self::Norm(_) => "norm",
            Self::Embedding(_) => "embedding",
            Self::Slice(_) => "slice",
            Self::Reshape(_) => "reshape",
        }
    }
}

impl fmt::Display for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Linear(l) => write!(f, "linear {}x{} -> {}", l.rows, l.input_features, l.output_features),
            Self::MatMul(p) => write!(f, "matmul {}x [{}, {}] x [{}, {}]", p.batch, p.m, p.k, p.k, p.n),
            Self::Conv2d(c) => {
                let [kernel_height, kernel_width] = c.kernel;
                write!(f, "{} {kernel_height}x{kernel_width} {} -> {}", self.name(), c.input, self.output())
            }
            Self::DepthwiseConv2d(c) => {
                let [kernel_height, kernel_width] = c.kernel;
                write!(f, "depthwise conv2d {kernel_height}x{kernel_width} {} -> {}", c.input, self.output())
            }
            _ => write!(f, "{} -> {}", self.name(), self.output()),
        }
    }
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

//! What follows from an operator's dimensions: extents, work, parameters.
//!
//! All methods assume an operator that `graph::check_operator` accepted.

use std::fmt;

use super::{Conv2d, DepthwiseConv2d, NormKind, Operator, Pool};
use crate::workload::shape::{Padding, Shape};

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

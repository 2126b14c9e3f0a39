//! What follows from an operator's dimensions: extents, work, parameters, cuts.
//!
//! All methods assume an operator that `graph::check_operator` accepted.

use std::fmt;
use std::ops::Range;

use super::{Conv2d, DepthwiseConv2d, Linear, NormKind, Operator, Pool};
use crate::workload::shape::{Padding, Shape};

/// Output extent of a window of `kernel` sliding over `input` pixels.
fn window_output(input: u32, kernel: u32, stride: u32, dilation: u32, padding: u32) -> u32 {
    let reach = dilation * (kernel - 1) + 1;
    (input + padding - reach) / stride + 1
}

/// What a window of `[kernel, stride, dilation]` reaches of `input` for `rows` of the
/// output, and the padding that is left. At least one row: windows of padding alone read
/// nothing, and are counted as if they did.
fn reached(
    input: Shape,
    padding: Padding,
    [kernel, stride, dilation]: [u32; 3],
    rows: Range<u32>,
) -> (Shape, Padding) {
    let reach = dilation * (kernel - 1) + 1;
    // In rows of the padded input.
    let (first, end) = (rows.start * stride, (rows.end - 1) * stride + reach);
    let low = first.saturating_sub(padding.top).min(input.height - 1);
    let high = end.saturating_sub(padding.top).clamp(low + 1, input.height);
    let height = high - low;
    let top = padding.top.saturating_sub(first).min(end - first);
    // So that the part has as many rows as it should.
    let bottom = (end - first).saturating_sub(height + top);
    (Shape { height, ..input }, Padding { top, bottom, ..padding })
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

    /// Lines of each image of the output, where the operator can be cut along them: rows of
    /// pixels, or the tokens of a linear layer.
    pub fn splittable_rows(&self) -> Option<u32> {
        let rows = match self {
            Self::Linear(linear) => linear.rows,
            Self::Conv2d(conv) => conv.output().height,
            Self::DepthwiseConv2d(conv) => conv.output().height,
            _ => return None,
        };
        (rows > 1).then_some(rows)
    }

    /// The part of an operator that computes `rows` of its output, on the rows of the
    /// input that their windows reach (parts that are neighbours share some, the halo);
    /// the operator itself where it cannot be cut there.
    #[must_use]
    pub fn with_output_rows(&self, rows: Range<u32>) -> Self {
        match self {
            Self::Linear(linear) => Self::Linear(Linear { rows: rows.end - rows.start, ..*linear }),
            Self::Conv2d(conv) => {
                let vertical = [conv.kernel[0], conv.stride[0], conv.dilation[0]];
                let (input, padding) = reached(conv.input, conv.padding, vertical, rows);
                Self::Conv2d(Conv2d { input, padding, ..*conv })
            }
            Self::DepthwiseConv2d(conv) => {
                let vertical = [conv.kernel[0], conv.stride[0], conv.dilation[0]];
                let (input, padding) = reached(conv.input, conv.padding, vertical, rows);
                Self::DepthwiseConv2d(DepthwiseConv2d { input, padding, ..*conv })
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
    use proptest::prelude::*;

    use super::*;

    /// One column of a convolution, at each row of the output.
    fn column(input: &[i64], [kernel, stride, dilation]: [u32; 3], top: u32, rows: u32) -> Vec<i64> {
        let weight = |tap: u32| i64::from(tap * tap + 1);
        let read = |row: i64| usize::try_from(row).ok().and_then(|row| input.get(row)).copied().unwrap_or(0);
        let at = |row: u32, tap: u32| i64::from(row * stride + tap * dilation) - i64::from(top);
        (0..rows).map(|row| (0..kernel).map(|tap| weight(tap) * read(at(row, tap))).sum()).collect()
    }

    proptest! {
        #[test]
        fn parts_along_the_height_cover_the_output_once_and_compute_the_same(
            (height, kernel, stride, dilation) in (1_u32..40, 1_u32..6, 1_u32..4, 1_u32..3),
            (top, bottom) in (0_u32..5, 0_u32..5),
            place in 0_u32..1_000,
        ) {
            let reach = dilation * (kernel - 1) + 1;
            // As checked operators have it: a window is never all padding.
            prop_assume!(top < reach && bottom < reach && height + top + bottom >= reach);
            let conv = Conv2d {
                input: Shape::image(height, 3, 4),
                output_channels: 8,
                kernel: [kernel, 1],
                stride: [stride, 1],
                dilation: [dilation, 1],
                padding: Padding { top, bottom, left: 0, right: 0 },
                groups: 1,
                bias: false,
            };
            let operator = Operator::Conv2d(conv);
            let Some(rows) = operator.splittable_rows() else { return Ok(()) };
            let cut = 1 + place % (rows - 1);
            let input: Vec<i64> = (0..i64::from(height)).map(|row| row * row + 3).collect();
            let whole = column(&input, [kernel, stride, dilation], top, rows);
            let mut joined = Vec::new();
            for range in [0..cut, cut..rows] {
                let Operator::Conv2d(part) = operator.with_output_rows(range.clone()) else { unreachable!() };
                prop_assert_eq!(part.output().height, range.end - range.start);
                prop_assert_eq!((part.output().width, part.output().channels), (3, 8));
                let first = (range.start * stride).saturating_sub(top).min(height - 1) as usize;
                let halo = &input[first..first + part.input.height as usize];
                joined.extend(column(halo, [kernel, stride, dilation], part.padding.top, part.output().height));
            }
            prop_assert_eq!(joined, whole);
        }
    }

    #[test]
    fn neighbouring_parts_share_the_rows_that_windows_of_both_reach() {
        let conv = Conv2d {
            input: Shape::image(8, 8, 4),
            output_channels: 4,
            kernel: [3, 3],
            stride: [1, 1],
            dilation: [1, 1],
            padding: Padding { top: 1, bottom: 1, left: 1, right: 1 },
            groups: 1,
            bias: true,
        };
        let heights =
            [0..4, 4..8].map(|rows| Operator::Conv2d(conv).with_output_rows(rows).inputs()[0].height);
        assert_eq!(heights, [5, 5], "four rows and a row of halo each");
        let linear = Linear { rows: 12, input_features: 8, output_features: 4, bias: true };
        let part = Operator::Linear(linear).with_output_rows(5..12);
        assert_eq!(part, Operator::Linear(Linear { rows: 7, ..linear }));
    }
}

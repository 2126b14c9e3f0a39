//! Operators written down as a scenario file has them: the reverse of reading.

use super::inline::{
    InlineConv2d, InlineDepthwise, InlineEmbedding, InlineLinear, InlineMatMul, InlineOperator, InlinePool,
};
use crate::workload::{Embedding, Linear, MatMul, Operator, Pool, Shape};

impl InlineOperator {
    /// `operator` under that name; none for a window over a batch of images, which
    /// the syntax has no words for. What takes its extent from what it reads does
    /// not say it: the reader is to be given [`Operator::inputs`].
    pub(crate) fn of(name: &str, operator: &Operator) -> Option<Self> {
        let mut inline = Self { name: name.to_owned(), ..Self::default() };
        match operator {
            Operator::Linear(linear) => {
                let &Linear { rows, input_features, output_features, bias } = linear;
                inline.linear = Some(InlineLinear { rows, input_features, output_features, bias });
            }
            Operator::MatMul(product) => {
                let &MatMul { batch, m, k, n } = product;
                inline.matmul = Some(InlineMatMul { batch, m, k, n });
            }
            Operator::Conv2d(conv) => {
                inline.conv2d = Some(InlineConv2d {
                    input: image(conv.input)?,
                    output_channels: conv.output_channels,
                    kernel: conv.kernel,
                    stride: conv.stride,
                    dilation: conv.dilation,
                    padding: conv.padding,
                    groups: conv.groups,
                    bias: conv.bias,
                });
            }
            Operator::DepthwiseConv2d(conv) => {
                inline.depthwise_conv2d = Some(InlineDepthwise {
                    input: image(conv.input)?,
                    multiplier: conv.multiplier,
                    kernel: conv.kernel,
                    stride: conv.stride,
                    dilation: conv.dilation,
                    padding: conv.padding,
                    bias: conv.bias,
                });
            }
            Operator::Pool(pool) => {
                let Pool { kind, kernel, stride, padding, .. } = *pool;
                inline.pool = Some(InlinePool { kind, input: image(pool.input)?, kernel, stride, padding });
            }
            Operator::Embedding(table) => {
                let &Embedding { rows, vocabulary, features } = table;
                inline.embedding = Some(InlineEmbedding { rows, vocabulary, features });
            }
            Operator::Mean(_) => inline.mean = Some(true),
            Operator::Concat(_) => inline.concat = Some(true),
            Operator::Elementwise(elementwise) => inline.function = Some(elementwise.function),
            Operator::Softmax(_) => inline.softmax = Some(true),
            Operator::Norm(norm) => inline.norm = Some(norm.kind),
            Operator::Slice(slice) => inline.slice = Some([slice.first_channel, slice.channels]),
            Operator::Reshape(reshape) => {
                let Shape { batch, height, width, channels } = reshape.output;
                inline.reshape = Some([batch, height, width, channels]);
            }
        }
        Some(inline)
    }
}

/// Height, width and channels of one image; none of a batch.
fn image(shape: Shape) -> Option<[u32; 3]> {
    (shape.batch == 1).then_some([shape.height, shape.width, shape.channels])
}

//! Operators as they are written in a scenario file.
//!
//! Each `[[operator]]` has a name and exactly one key that says what it is.
//! It reads the operator above it, or those it names in `from`; the first reads
//! the workload's input. Where an input's extent does not follow from its first
//! reader, or several inputs have names, they are `[[input]]`s.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::workload::{
    Conv2d, DepthwiseConv2d, Embedding, Function, Linear, MatMul, NormKind, Operator, Padding, Pool,
    PoolKind, Shape,
};

/// A tensor that the operators of a scenario file read and none writes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InlineInput {
    /// Name by which operators read it.
    pub name: String,
    /// Its extent, `[batch, height, width, channels]`.
    pub extent: [u32; 4],
}

/// One operator of a scenario file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InlineOperator {
    /// Unique name.
    pub name: String,
    /// Names of the operators whose outputs it reads, in order, and of inputs; the
    /// operator above it where absent. `"input"` is the workload's first input.
    pub from: Option<Vec<String>>,
    /// A matrix product with weights.
    pub linear: Option<InlineLinear>,
    /// A batched product of two activations.
    pub matmul: Option<InlineMatMul>,
    /// A convolution.
    pub conv2d: Option<InlineConv2d>,
    /// A depthwise convolution.
    pub depthwise_conv2d: Option<InlineDepthwise>,
    /// A pooling window.
    pub pool: Option<InlinePool>,
    /// The mean of each channel: `true`.
    pub mean: Option<bool>,
    /// A concatenation along channels: `true`.
    pub concat: Option<bool>,
    /// An element-wise function.
    pub function: Option<Function>,
    /// Softmax over channels: `true`.
    pub softmax: Option<bool>,
    /// A normalisation.
    pub norm: Option<NormKind>,
    /// A table look-up.
    pub embedding: Option<InlineEmbedding>,
    /// A range of channels, `[first, count]`.
    pub slice: Option<[u32; 2]>,
    /// Another extent, `[batch, height, width, channels]`.
    pub reshape: Option<[u32; 4]>,
}

/// `{ rows, input_features, output_features }`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InlineLinear {
    /// Tokens.
    pub rows: u32,
    /// Features of an input token.
    pub input_features: u32,
    /// Features of an output token.
    pub output_features: u32,
    /// Whether a bias is added.
    #[serde(default = "yes")]
    pub bias: bool,
}

/// `{ batch, m, k, n }`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InlineMatMul {
    /// Independent products.
    #[serde(default = "one")]
    pub batch: u32,
    /// Rows of the left operand.
    pub m: u32,
    /// Columns of the left, rows of the right operand.
    pub k: u32,
    /// Columns of the right operand.
    pub n: u32,
}

/// `{ input = [height, width, channels], output_channels, kernel, ... }`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InlineConv2d {
    /// Input height, width and channels.
    pub input: [u32; 3],
    /// Output channels.
    pub output_channels: u32,
    /// Window height and width.
    pub kernel: [u32; 2],
    /// Vertical and horizontal stride.
    #[serde(default = "ones")]
    pub stride: [u32; 2],
    /// Vertical and horizontal dilation.
    #[serde(default = "ones")]
    pub dilation: [u32; 2],
    /// Padding, `{ top, bottom, left, right }`.
    #[serde(default)]
    pub padding: Padding,
    /// Groups.
    #[serde(default = "one")]
    pub groups: u32,
    /// Whether a bias is added.
    #[serde(default = "yes")]
    pub bias: bool,
}

/// `{ input = [height, width, channels], kernel, ... }`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InlineDepthwise {
    /// Input height, width and channels.
    pub input: [u32; 3],
    /// Output channels per input channel.
    #[serde(default = "one")]
    pub multiplier: u32,
    /// Window height and width.
    pub kernel: [u32; 2],
    /// Vertical and horizontal stride.
    #[serde(default = "ones")]
    pub stride: [u32; 2],
    /// Vertical and horizontal dilation.
    #[serde(default = "ones")]
    pub dilation: [u32; 2],
    /// Padding, `{ top, bottom, left, right }`.
    #[serde(default)]
    pub padding: Padding,
    /// Whether a bias is added.
    #[serde(default = "yes")]
    pub bias: bool,
}

/// `{ kind, kernel, stride, padding }`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InlinePool {
    /// What the window keeps.
    pub kind: PoolKind,
    /// Input height, width and channels.
    pub input: [u32; 3],
    /// Window height and width.
    pub kernel: [u32; 2],
    /// Vertical and horizontal stride.
    #[serde(default = "ones")]
    pub stride: [u32; 2],
    /// Padding, `{ top, bottom, left, right }`.
    #[serde(default)]
    pub padding: Padding,
}

/// `{ rows, vocabulary, features }`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InlineEmbedding {
    /// Indices looked up.
    pub rows: u32,
    /// Vectors in the table.
    pub vocabulary: u32,
    /// Features of a vector.
    pub features: u32,
}

fn yes() -> bool {
    true
}

fn one() -> u32 {
    1
}

fn ones() -> [u32; 2] {
    [1, 1]
}

impl From<InlineLinear> for Operator {
    fn from(inline: InlineLinear) -> Self {
        let InlineLinear { rows, input_features, output_features, bias } = inline;
        Self::Linear(Linear { rows, input_features, output_features, bias })
    }
}

impl From<InlineMatMul> for Operator {
    fn from(inline: InlineMatMul) -> Self {
        let InlineMatMul { batch, m, k, n } = inline;
        Self::MatMul(MatMul { batch, m, k, n })
    }
}

impl From<InlineConv2d> for Operator {
    fn from(inline: InlineConv2d) -> Self {
        Self::Conv2d(Conv2d {
            input: image(inline.input),
            output_channels: inline.output_channels,
            kernel: inline.kernel,
            stride: inline.stride,
            dilation: inline.dilation,
            padding: inline.padding,
            groups: inline.groups,
            bias: inline.bias,
        })
    }
}

impl From<InlineDepthwise> for Operator {
    fn from(inline: InlineDepthwise) -> Self {
        Self::DepthwiseConv2d(DepthwiseConv2d {
            input: image(inline.input),
            multiplier: inline.multiplier,
            kernel: inline.kernel,
            stride: inline.stride,
            dilation: inline.dilation,
            padding: inline.padding,
            bias: inline.bias,
        })
    }
}

impl From<InlinePool> for Operator {
    fn from(inline: InlinePool) -> Self {
        let InlinePool { kind, input, kernel, stride, padding } = inline;
        Self::Pool(Pool { kind, input: image(input), kernel, stride, padding })
    }
}

impl From<InlineEmbedding> for Operator {
    fn from(inline: InlineEmbedding) -> Self {
        let InlineEmbedding { rows, vocabulary, features } = inline;
        Self::Embedding(Embedding { rows, vocabulary, features })
    }
}

fn image([height, width, channels]: [u32; 3]) -> Shape {
    Shape::image(height, width, channels)
}

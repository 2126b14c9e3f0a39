//! Whether one operator's dimensions make sense.
//!
//! Invariant: no check overflows, whatever the dimensions; after
//! [`check_operator`] succeeded, no method of the operator does either.

use super::error::OperatorError;
use crate::workload::operator::{
    Concat, Conv2d, DepthwiseConv2d, Elementwise, Embedding, Function, MatMul, Operator, Slice,
};
use crate::workload::shape::{Padding, Shape};

/// Largest extent, kernel, stride, dilation or padding: 2^24, a hundred times
/// what the largest vocabulary needs, so that sums of a few fit `u32`.
pub const MAX_DIMENSION: u32 = 1 << 24;

/// Most elements of one tensor or weight matrix: 2^40.
pub const MAX_ELEMENTS: u64 = 1 << 40;

/// Most multiply-accumulates (or window elements) of one operator and most
/// parameters or multiply-accumulates of one graph: 2^53, up to which counts
/// are exact in floating point.
pub const MAX_WORK: u64 = 1 << 53;

type Check = Result<(), OperatorError>;

/// Checks everything about `operator` that does not depend on a graph.
///
/// # Errors
/// The first [`OperatorError`] found: a zero or oversized dimension, a window
/// larger than its padded input, channels that do not divide into groups,
/// operands that do not broadcast, a reshape to another size, a slice out of
/// range.
pub fn check_operator(operator: &Operator) -> Result<(), OperatorError> {
    match operator {
        Operator::Linear(linear) => {
            dimension("rows", linear.rows)?;
            dimension("input features", linear.input_features)?;
            dimension("output features", linear.output_features)?;
            tensor("the input", &[linear.rows, linear.input_features])?;
            tensor("the output", &[linear.rows, linear.output_features])?;
            tensor("the weights", &[linear.input_features, linear.output_features])?;
            work(&[linear.rows, linear.input_features, linear.output_features])
        }
        Operator::MatMul(product) => matmul(product),
        Operator::Conv2d(conv) => conv2d(conv),
        Operator::DepthwiseConv2d(conv) => depthwise(conv),
        Operator::Pool(pool) => {
            let [height, width] = window(pool.input, pool.kernel, pool.stride, [1, 1], pool.padding)?;
            tensor("the output", &[pool.input.batch, height, width, pool.input.channels])?;
            let [kernel_height, kernel_width] = pool.kernel;
            work(&[pool.input.batch, height, width, pool.input.channels, kernel_height, kernel_width])
        }
        Operator::Mean(mean) => shape("the input", mean.input),
        Operator::Concat(join) => concat(join),
        Operator::Elementwise(function) => elementwise(function),
        Operator::Softmax(softmax) => shape("the input", softmax.input),
        Operator::Norm(norm) => shape("the input", norm.input),
        Operator::Embedding(table) => embedding(*table),
        Operator::Slice(part) => slice(*part),
        Operator::Reshape(reshape) => {
            shape("the input", reshape.input)?;
            shape("the output", reshape.output)?;
            if reshape.input.elements() != reshape.output.elements() {
                return Err(OperatorError::ElementCount { input: reshape.input, output: reshape.output });
            }
            Ok(())
        }
    }
}

/// Checks the extents and the size of a tensor.
pub(super) fn shape(name: &'static str, shape: Shape) -> Check {
    dimension("batch", shape.batch)?;
    dimension("height", shape.height)?;
    dimension("width", shape.width)?;
    dimension("channels", shape.channels)?;
    tensor(name, &[shape.batch, shape.height, shape.width, shape.channels])
}

fn dimension(name: &'static str, value: u32) -> Check {
    if value == 0 {
        return Err(OperatorError::Zero { dimension: name });
    }
    at_most_max(name, u64::from(value))
}

fn at_most_max(name: &'static str, value: u64) -> Check {
    if value > u64::from(MAX_DIMENSION) {
        return Err(OperatorError::DimensionTooLarge { dimension: name, found: value });
    }
    Ok(())
}

/// The product, or `u128::MAX` where even that is too small.
fn product(factors: &[u32]) -> u128 {
    factors.iter().fold(1, |product: u128, &factor| product.saturating_mul(u128::from(factor)))
}

fn tensor(name: &'static str, extents: &[u32]) -> Check {
    let found = product(extents);
    if found > u128::from(MAX_ELEMENTS) {
        return Err(OperatorError::TensorTooLarge { tensor: name, found });
    }
    Ok(())
}

fn work(factors: &[u32]) -> Check {
    let found = product(factors);
    if found > u128::from(MAX_WORK) {
        return Err(OperatorError::TooMuchWork { found });
    }
    Ok(())
}

/// Checks a window over an image and returns the height and width it leaves.
fn window(
    input: Shape,
    kernel: [u32; 2],
    stride: [u32; 2],
    dilation: [u32; 2],
    padding: Padding,
) -> Result<[u32; 2], OperatorError> {
    shape("the input", input)?;
    for value in [padding.top, padding.bottom, padding.left, padding.right] {
        at_most_max("padding", u64::from(value))?;
    }
    let vertical = padding.top + padding.bottom;
    let horizontal = padding.left + padding.right;
    Ok([
        window_extent("rows", input.height, kernel[0], stride[0], dilation[0], vertical)?,
        window_extent("columns", input.width, kernel[1], stride[1], dilation[1], horizontal)?,
    ])
}

fn window_extent(
    axis: &'static str,
    input: u32,
    kernel: u32,
    stride: u32,
    dilation: u32,
    padding: u32,
) -> Result<u32, OperatorError> {
    dimension("kernel", kernel)?;
    dimension("stride", stride)?;
    dimension("dilation", dilation)?;
    let reach = u64::from(dilation) * u64::from(kernel - 1) + 1;
    let padded = u64::from(input) + u64::from(padding);
    if reach > padded {
        return Err(OperatorError::WindowTooLarge { axis, reach, padded });
    }
    let output = (padded - reach) / u64::from(stride) + 1;
    at_most_max("output extent", output)?;
    Ok(output as u32)
}

fn conv2d(conv: &Conv2d) -> Check {
    let [height, width] = window(conv.input, conv.kernel, conv.stride, conv.dilation, conv.padding)?;
    dimension("output channels", conv.output_channels)?;
    dimension("groups", conv.groups)?;
    for (which, channels) in [("input", conv.input.channels), ("output", conv.output_channels)] {
        if channels % conv.groups != 0 {
            return Err(OperatorError::Groups { which, channels, groups: conv.groups });
        }
    }
    let [kernel_height, kernel_width] = conv.kernel;
    let depth = conv.input.channels / conv.groups;
    tensor("the output", &[conv.input.batch, height, width, conv.output_channels])?;
    tensor("the weights", &[kernel_height, kernel_width, depth, conv.output_channels])?;
    work(&[conv.input.batch, height, width, conv.output_channels, kernel_height, kernel_width, depth])
}

fn depthwise(conv: &DepthwiseConv2d) -> Check {
    let [height, width] = window(conv.input, conv.kernel, conv.stride, conv.dilation, conv.padding)?;
    dimension("channel multiplier", conv.multiplier)?;
    let channels = u64::from(conv.input.channels) * u64::from(conv.multiplier);
    at_most_max("output channels", channels)?;
    let channels = channels as u32;
    let [kernel_height, kernel_width] = conv.kernel;
    tensor("the output", &[conv.input.batch, height, width, channels])?;
    tensor("the weights", &[kernel_height, kernel_width, channels])?;
    work(&[conv.input.batch, height, width, channels, kernel_height, kernel_width])
}

fn matmul(product: &MatMul) -> Check {
    let MatMul { batch, m, k, n } = *product;
    for (name, value) in [("batch", batch), ("m", m), ("k", k), ("n", n)] {
        dimension(name, value)?;
    }
    tensor("the left operand", &[batch, m, k])?;
    tensor("the right operand", &[batch, k, n])?;
    tensor("the output", &[batch, m, n])?;
    work(&[batch, m, k, n])
}

fn concat(join: &Concat) -> Check {
    if join.channels.is_empty() {
        return Err(OperatorError::NothingToJoin);
    }
    let mut total = 0_u64;
    for &channels in &join.channels {
        shape("an input", join.extent.with_channels(channels))?;
        total += u64::from(channels);
        // Checked on the way: a list of inputs can be as long as a file.
        at_most_max("output channels", total)?;
    }
    shape("the output", join.extent.with_channels(total as u32))
}

fn elementwise(elementwise: &Elementwise) -> Check {
    shape("the first operand", elementwise.input)?;
    let found = 1 + u32::from(elementwise.other.is_some());
    let expected = 1 + u32::from(elementwise.function.is_binary());
    if found != expected {
        return Err(OperatorError::OperandCount {
            function: function_name(elementwise.function),
            found,
            expected,
        });
    }
    let Some(second) = elementwise.other else { return Ok(()) };
    shape("the second operand", second)?;
    let first = elementwise.input;
    let one_a_channel = Shape::image(1, 1, first.channels);
    let one_an_image = Shape { batch: first.batch, ..one_a_channel };
    if second != first && second != one_a_channel && second != one_an_image {
        return Err(OperatorError::Broadcast { first, second });
    }
    Ok(())
}

/// The function's word in messages and node names.
pub(super) fn function_name(function: Function) -> String {
    format!("{function:?}").to_lowercase()
}

fn embedding(table: Embedding) -> Check {
    dimension("rows", table.rows)?;
    dimension("vocabulary", table.vocabulary)?;
    dimension("features", table.features)?;
    tensor("the table", &[table.vocabulary, table.features])?;
    tensor("the output", &[table.rows, table.features])
}

fn slice(slice: Slice) -> Check {
    shape("the input", slice.input)?;
    dimension("channels", slice.channels)?;
    let end = u64::from(slice.first_channel) + u64::from(slice.channels);
    if end > u64::from(slice.input.channels) {
        return Err(OperatorError::SliceRange { end, channels: slice.input.channels });
    }
    Ok(())
}

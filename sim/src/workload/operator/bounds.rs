//! Limits of dimensions, tensors and work.
//!
//! Invariant: no check overflows, whatever the dimensions.

use super::OperatorError;
use crate::workload::Shape;

/// Largest extent, kernel, stride, dilation or padding: 2^24, a hundred times
/// the largest vocabulary, and small enough that sums of a few fit `u32`.
pub const MAX_DIMENSION: u32 = 1 << 24;

/// Most elements of one tensor or weight matrix: 2^40.
pub const MAX_ELEMENTS: u64 = 1 << 40;

/// Most multiply-accumulates (or window elements) of one operator and most
/// parameters or multiply-accumulates of one graph: 2^53, up to which counts
/// are exact in floating point.
pub const MAX_WORK: u64 = 1 << 53;

/// The result of a check.
pub(super) type Checked<T = ()> = Result<T, OperatorError>;

/// Checks the extents and the size of a tensor.
pub(in crate::workload) fn shape(name: &'static str, shape: Shape) -> Checked {
    let Shape { batch, height, width, channels } = shape;
    dimensions([("batch", batch), ("height", height), ("width", width), ("channels", channels)])?;
    tensor(name, &[batch, height, width, channels])
}

pub(super) fn dimension(name: &'static str, value: u32) -> Checked {
    if value == 0 {
        return Err(OperatorError::Zero { dimension: name });
    }
    at_most_max(name, u64::from(value))
}

/// Checks all dimensions, in order.
pub(super) fn dimensions<const N: usize>(all: [(&'static str, u32); N]) -> Checked {
    all.into_iter().try_for_each(|(name, value)| dimension(name, value))
}

pub(super) fn at_most_max(name: &'static str, value: u64) -> Checked {
    if value > u64::from(MAX_DIMENSION) {
        return Err(OperatorError::DimensionTooLarge { dimension: name, found: value });
    }
    Ok(())
}

/// The product, saturating at `u128::MAX`.
fn product(factors: &[u32]) -> u128 {
    factors.iter().fold(1, |product: u128, &factor| product.saturating_mul(u128::from(factor)))
}

pub(super) fn tensor(name: &'static str, extents: &[u32]) -> Checked {
    let found = product(extents);
    if found > u128::from(MAX_ELEMENTS) {
        return Err(OperatorError::TensorTooLarge { tensor: name, found });
    }
    Ok(())
}

pub(super) fn work(factors: &[u32]) -> Checked {
    let found = product(factors);
    if found > u128::from(MAX_WORK) {
        return Err(OperatorError::TooMuchWork { found });
    }
    Ok(())
}

//! Sets of single operators: the test operations of EPEW'25 (section 5.3), and the convolutions
//! that `CoDL` profiles.
//!
//! Responsible for: enumerating and sampling them, identically on every machine.
//! Not for: measured latencies, or splitting a set for cross-validation.
//!
//! The paper counts 2,039 linear and 2,051 convolutional test operations. No
//! reading of its printed text gives exactly these counts: the linear text
//! gives 8,610, the convolutional text 2,060, or 2,038 with "SAME" padding.
//! Mean work per operation decides between readings: with 8,610 linear
//! operations (129.5 MFLOP) and 2,060 convolutions (383.1 MFLOP) the latencies
//! that section 5.5 implies give the same GPU rate for both.

use std::ops::Div;

use rand::SeedableRng;
use rand::seq::index;
use rand_chacha::ChaCha8Rng;

use super::operator::Operator;
use super::{Conv2d, Linear, Padding, Shape, Window};

mod codl;

/// Least and most floating-point operations of a test operation, counting two
/// per multiply-accumulate.
const FLOP_RANGE: (u64, u64) = (4_000_000, 1_000_000_000);

/// Linear operations in the paper's test set.
const LINEAR_SAMPLE: usize = 2_039;

/// Seed of the sample; any other is equally good. The paper's own sample, drawn
/// with another generator, cannot be reproduced.
const SEED: u64 = 2_039;

/// Operators and a name for each.
type Operators = Vec<(String, Operator)>;

/// A bundled set of operators: its name, one line about it, and the function that lists them.
pub type OperatorSet = (&'static str, &'static str, fn() -> Operators);

/// All bundled operator sets.
pub const OPERATOR_SETS: &[OperatorSet] = &[
    ("epew-linear", "EPEW'25 linear test operations as printed: 8,610", test_linear),
    ("epew-linear-sample", "EPEW'25 linear test operations, a seeded sample of 2,039", sampled_test_linear),
    ("epew-conv", "EPEW'25 convolutional test operations as printed: 2,060", || test_convs(u32::div)),
    ("epew-conv-same", "EPEW'25 convolutional test operations with \"SAME\" padding: 2,038", || {
        test_convs(u32::div_ceil)
    }),
    ("codl-conv", "Convolutions of CoDL's five networks, its profiling set: 171", codl::convs),
];

/// The operators of the set called `name`, with a name for each; `None` if there is no such
/// set.
pub fn operator_set(name: &str) -> Option<Vec<(String, Operator)>> {
    OPERATOR_SETS.iter().find(|(known, ..)| known.eq_ignore_ascii_case(name)).map(|(_, _, list)| list())
}

/// A linear operation with these rows, input channels and output channels.
fn linear([rows, input_features, output_features]: [u32; 3]) -> (String, Operator) {
    let linear = Linear { rows, input_features, output_features, bias: true };
    (format!("linear {rows}x{input_features} -> {output_features}"), Operator::Linear(linear))
}

/// Every dimension from `i * 2^j`, 4 <= i <= 6, 2 <= j <= 9, within the range
/// of work, in ascending order.
fn test_linear() -> Operators {
    let mut extents: Vec<u32> = (4..=6).flat_map(|i| (2..=9).map(move |j| i << j)).collect();
    extents.sort_unstable();
    let mut found = Vec::new();
    for &rows in &extents {
        for &input in &extents {
            for &output in &extents {
                let dimensions = [rows, input, output];
                if within_range(dimensions.iter().map(|&extent| u64::from(extent)).product()) {
                    found.push(linear(dimensions));
                }
            }
        }
    }
    found
}

fn within_range(macs: u64) -> bool {
    (FLOP_RANGE.0..=FLOP_RANGE.1).contains(&(2 * macs))
}

fn sampled_test_linear() -> Operators {
    let all = test_linear();
    let mut chosen = index::sample(&mut ChaCha8Rng::seed_from_u64(SEED), all.len(), LINEAR_SAMPLE).into_vec();
    chosen.sort_unstable();
    chosen.into_iter().map(|index| all[index].clone()).collect()
}

/// Rounds the quotient of input extent and stride to the output extent: down as in the paper's
/// text, or up as with "SAME" padding.
type Rounding = fn(u32, u32) -> u32;

/// Convolutions of four stages, each with half the extents and twice the channels of the one
/// before. Channels are divided by a factor that depends on the kernel, for similar work.
fn test_convs(rounding: Rounding) -> Vec<(String, Operator)> {
    const EXTENTS: [u32; 4] = [64, 56, 48, 40];
    const CHANNELS: [u32; 5] = [256, 320, 384, 448, 512];
    /// Kernel sizes, and the divisor of the channels for each.
    const KERNELS: [(u32, u32); 4] = [(1, 1), (3, 1), (5, 4), (7, 8)];
    const STAGES: u32 = 4;
    let mut found = Vec::new();
    for stage in 0..STAGES {
        for extent in EXTENTS.map(|extent| extent >> stage) {
            for (kernel, divisor) in KERNELS {
                let channels = CHANNELS.map(|channels| (channels / divisor) << stage);
                for stride in [1, 2] {
                    for input in channels {
                        for output in channels {
                            let shape = Shape::image(extent, extent, input);
                            found.push(conv(shape, output, kernel, stride, rounding));
                        }
                    }
                }
            }
        }
    }
    found.retain(|(_, operator)| within_range(operator.macs()));
    found
}

/// A convolution padded so that its output extent is the input's over `stride`.
fn conv(
    input: Shape,
    output_channels: u32,
    kernel: u32,
    stride: u32,
    rounding: Rounding,
) -> (String, Operator) {
    let name = format!("conv {kernel}x{kernel}/{stride} {input} -> {output_channels}");
    let [(height, top, bottom), (width, left, right)] =
        [input.height, input.width].map(|extent| padded(extent, kernel, stride, rounding));
    let conv = Conv2d::new(
        Shape { height, width, ..input },
        output_channels,
        Window::valid(kernel).stride(stride).padding(Padding { top, bottom, left, right }),
    );
    (name, Operator::Conv2d(conv))
}

/// The extent that is read, and the padding before and after it, for an output of
/// `extent / stride`, rounded. A window narrower than its stride might fit once more:
/// then the last pixels, which no counted output reads, are omitted.
fn padded(extent: u32, kernel: u32, stride: u32, rounding: Rounding) -> (u32, u32, u32) {
    let output = rounding(extent, stride);
    let needed = (output - 1) * stride + kernel;
    let read = extent.min(needed + stride - 1);
    let padding = needed.saturating_sub(read);
    (read, padding / 2, padding - padding / 2)
}

#[cfg(test)]
mod tests;

//! Element-wise functions, as operators or linked to another operator.

use coexec_sim::Function;

use super::Element;

/// Applies `function` to the channels of a pixel in place. `other` holds the second operands of a
/// binary function.
#[inline(always)]
pub(super) fn apply<T: Element>(function: Function, channels: &mut [T], other: &[T]) {
    match function {
        Function::Add => combine(channels, other, |a, b| a + b),
        Function::Multiply => combine(channels, other, |a, b| a * b),
        Function::Divide => combine(channels, other, |a, b| a / b),
        Function::Prelu => combine(channels, other, |x, slope| x.max(0.0) + slope * x.min(0.0)),
        Function::Relu => map(channels, |x| x.max(0.0)),
        Function::Relu6 => map(channels, relu6),
        Function::HardSwish => map(channels, |x| x * relu6(x + 3.0) * (1.0 / 6.0)),
        Function::HardSigmoid => map(channels, |x| relu6(x + 3.0) * (1.0 / 6.0)),
        Function::Sigmoid => map(channels, sigmoid),
        Function::Silu => map(channels, |x| x * sigmoid(x)),
        Function::Gelu => map(channels, gelu),
        Function::Tanh => map(channels, tanh),
    }
}

/// Clamps the channels to `[low, high]`.
#[inline(always)]
pub(super) fn clamp<T: Element>(channels: &mut [T], [low, high]: [T; 2]) {
    for channel in channels {
        *channel = if *channel < low {
            low
        } else if *channel > high {
            high
        } else {
            *channel
        };
    }
}

#[inline(always)]
fn map<T: Element>(channels: &mut [T], function: impl Fn(f32) -> f32) {
    for channel in channels {
        *channel = T::from_f32(function(channel.to_f32()));
    }
}

#[inline(always)]
fn combine<T: Element>(channels: &mut [T], other: &[T], function: impl Fn(f32, f32) -> f32) {
    for (channel, other) in channels.iter_mut().zip(other) {
        *channel = T::from_f32(function(channel.to_f32(), other.to_f32()));
    }
}

#[inline(always)]
fn relu6(x: f32) -> f32 {
    x.clamp(0.0, 6.0)
}

#[inline(always)]
fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

#[inline(always)]
fn tanh(x: f32) -> f32 {
    /// Below this |x| the quotient cancels, and the truncation error of the series is below the
    /// rounding error.
    const SMALL: f32 = 0.25;
    let quotient = 1.0 - 2.0 / (1.0 + exp(2.0 * x));
    let square = x * x;
    let mut series = 62.0 / 2835.0;
    for coefficient in [-17.0 / 315.0, 2.0 / 15.0, -1.0 / 3.0, 1.0] {
        series = series * square + coefficient;
    }
    if x.abs() < SMALL { x * series } else { quotient }
}

/// The tanh approximation of the Gaussian error linear unit (Hendrycks and Gimpel, "Gaussian Error
/// Linear Units", section 2).
#[inline(always)]
fn gelu(x: f32) -> f32 {
    const ROOT_OF_TWO_OVER_PI: f32 = 0.797_884_6;
    const CUBIC: f32 = 0.044_715;
    // 0.5 * (1 + tanh(y)) is the logistic function of 2y.
    x * sigmoid(2.0 * ROOT_OF_TWO_OVER_PI * (x + CUBIC * x * x * x))
}

/// `e^x` within a few ULPs, without a call, so that loops over it vectorise: `2^n * e^r` with
/// `|r| <= ln(2) / 2`, and a Taylor polynomial for `e^r` whose truncation error is below the
/// rounding error.
#[inline(always)]
pub(super) fn exp(x: f32) -> f32 {
    /// Beyond these, the result would overflow or underflow `f32`.
    const MAX_ARGUMENT: f32 = 88.0;
    const MIN_ARGUMENT: f32 = -87.0;
    /// `ln 2` as a sum of two parts. The first ends in zero bits, so its product with `n` is exact.
    const LN_2_HIGH: f32 = 0.693_359_4;
    const LN_2_LOW: f32 = -2.121_944_4e-4;
    /// 1.5 * 2^23: adding it rounds to an integer, which is then in the lowest bits.
    const ROUNDING_OFFSET: f32 = 12_582_912.0;
    const EXPONENT_BIAS: u32 = 127;
    const MANTISSA_BITS: u32 = 23;
    let x = x.clamp(MIN_ARGUMENT, MAX_ARGUMENT);
    let shifted = x * std::f32::consts::LOG2_E + ROUNDING_OFFSET;
    let n = shifted - ROUNDING_OFFSET;
    let r = (x - n * LN_2_HIGH) - n * LN_2_LOW;
    let mut power = 1.0 / 720.0;
    for coefficient in [1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0] {
        power = power * r + coefficient;
    }
    // The clamp above rules out overflow; overflow checks would prevent vectorisation.
    let exponent = shifted.to_bits().wrapping_sub(ROUNDING_OFFSET.to_bits()).wrapping_add(EXPONENT_BIAS);
    power * f32::from_bits(exponent << MANTISSA_BITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exponential_is_within_a_few_units_in_the_last_place() {
        for step in -8_600..8_600 {
            let x = step as f32 * 0.01;
            let expected = f64::from(x).exp();
            let error = (f64::from(exp(x)) / expected - 1.0).abs();
            assert!(error < 6.0 * f64::from(f32::EPSILON), "e^{x} is off by {error}");
        }
    }

    #[test]
    fn the_exponential_stays_finite_and_positive() {
        assert!(exp(1e9).is_finite() && exp(-1e9) > 0.0);
    }

    #[test]
    fn the_hyperbolic_tangent_keeps_its_digits_near_zero() {
        for step in -5_000..5_000 {
            let x = (step as f32 + 0.5) * 0.001;
            let error = (f64::from(tanh(x)) / f64::from(x).tanh() - 1.0).abs();
            assert!(error < 16.0 * f64::from(f32::EPSILON), "tanh {x} is off by {error}");
        }
    }
}

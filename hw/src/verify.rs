//! Checking computed results against a reference.
//!
//! Responsible for: comparing results with plain double-precision loops, one element at a time, so
//! that a sample of a large layer can be checked as well as all of a small one. Not for: speed.
//! Invariant: a result is accepted when its error is within a rounding bound. The bound grows with
//! the number of summed terms, not with the size of the layer, and in single precision one missing
//! term of average size exceeds it.

mod reference;

use coexec_sim::workload::Elementwise;
use coexec_sim::{Layer, Region};
use thiserror::Error;

use super::operands;
use crate::cpu::Element;
use crate::operands::{Result, Weights};

/// Rounding errors of a result in addition to those of its sum: an activation with an exponential
/// (the kernels' own is within a dozen), a division, and the final rounding.
const ROUNDINGS: f64 = 32.0;
/// Rounding errors of a sum of `n` terms grow as the square root of `n`; this is the bound in units
/// of that (Higham and Mary, "A new approach to probabilistic rounding error analysis", SIAM J.
/// Sci. Comput. 2019: with 4, one sum in 1000 exceeds the bound).
const SPREAD: f64 = 4.0;

/// Absolute tolerance: subnormal results are rounded to a fixed step, and the kernels' exponential is
/// clamped slightly above the least normal number.
const UNDERFLOW: f64 = 4.0 * f32::MIN_POSITIVE as f64;

/// The expected value of an element.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Expected {
    /// The value.
    pub value: f64,
    /// Sum of the absolute values of the terms, which rounding errors are relative to.
    pub magnitude: f64,
    /// Number of terms in the longest sum, or of compared values, that contribute to the value: the
    /// cost of computing it.
    pub terms: u64,
}

/// A layer with its operands, computed one element at a time in `f64`.
#[derive(Clone, Debug)]
pub struct Reference<'a> {
    layer: &'a Layer,
    weights: Weights<'a>,
    inputs: &'a [&'a [f32]],
}

/// An element outside its tolerance.
#[derive(Clone, Debug, PartialEq, Error)]
#[error(
    "element {channel} of pixel {pixel} of {operator} is {found}, expected {expected} within {tolerance:.3e}"
)]
pub struct Mismatch {
    /// The operator, with its dimensions.
    pub operator: String,
    /// Output pixel, counted over all images.
    pub pixel: usize,
    /// Output channel.
    pub channel: usize,
    /// The computed value.
    pub found: f64,
    /// The reference value.
    pub expected: f64,
    /// Largest accepted difference.
    pub tolerance: f64,
}

impl Expected {
    /// Largest accepted error of a result in a format with this unit roundoff.
    pub fn tolerance(&self, unit_roundoff: f64) -> f64 {
        let roundings = ROUNDINGS + SPREAD * (self.terms as f64).sqrt();
        roundings * unit_roundoff * self.magnitude + UNDERFLOW
    }
}

impl<'a> Reference<'a> {
    /// A layer whose operator passes `Operator::check`, with `inputs` as for
    /// [`crate::cpu::Prepared::run`].
    ///
    /// # Errors
    /// Where weights or inputs have the wrong size.
    pub fn new(layer: &'a Layer, weights: Weights<'a>, inputs: &'a [&'a [f32]]) -> Result<Self> {
        weights.check(&layer.operator)?;
        operands::check_inputs(layer, inputs.iter().map(|input| input.len()))?;
        Ok(Self { layer, weights, inputs })
    }

    /// The expected value of channel `channel` of output pixel `pixel`, counted over all images.
    pub fn at(&self, pixel: usize, channel: usize) -> Expected {
        let operator = &self.layer.operator;
        let wanted = reference::Wanted { weights: self.weights, inputs: self.inputs, pixel, channel };
        let mut result = wanted.of(operator);
        let mut others = operator.inputs().len()..self.inputs.len();
        for Elementwise { function, input, other } in self.layer.linked.operators(operator.output()) {
            let other = other.and_then(|other| Some(wanted.operand(others.next()?, input, other)));
            result = reference::apply(function, result, other);
        }
        result
    }

    /// Compares every `every`th element of `part` of `actual`, the whole output, and returns how
    /// many were compared.
    ///
    /// # Errors
    /// The first element outside its tolerance.
    pub fn compare<T: Element>(
        &self,
        actual: &[T],
        part: Region,
        every: usize,
    ) -> Result<usize, Box<Mismatch>> {
        let mut elements = 0;
        for (pixel, channel) in operands::elements(self.layer.operator.output(), part).step_by(every.max(1)) {
            let channels = self.layer.operator.output().channels as usize;
            let found = f64::from(actual[pixel * channels + channel].to_f32());
            let expected = self.at(pixel, channel);
            let tolerance = expected.tolerance(T::UNIT_ROUNDOFF);
            let error = (found - expected.value).abs();
            // A division by zero gives the same infinity on every processor.
            let agrees = if expected.value.is_finite() {
                error <= tolerance
            } else {
                found.total_cmp(&expected.value).is_eq()
            };
            if !agrees {
                return Err(Box::new(Mismatch {
                    operator: self.layer.operator.to_string(),
                    pixel,
                    channel,
                    found,
                    expected: expected.value,
                    tolerance,
                }));
            }
            elements += 1;
        }
        Ok(elements)
    }
}

#[cfg(test)]
mod tests {
    use coexec_sim::workload::{
        DataType, Dimension, Function, Linear, Linked, Operator, Pad, SecondOperand, Shape, Slice, Transpose,
    };

    use super::*;

    fn layer(depth: u32) -> Layer {
        let linear = Linear { rows: 2, input_features: depth, output_features: 3, bias: true };
        Layer::new(Operator::Linear(linear), DataType::F32)
    }

    /// Pseudo-random numbers in [-1, 1) (linear congruential).
    fn numbers(count: usize, seed: u32) -> Vec<f32> {
        let mut state = seed;
        std::iter::repeat_with(|| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1 << 23) as f32 - 1.0
        })
        .take(count)
        .collect()
    }

    /// Index of an element in a dense tensor.
    fn number(shape: Shape, at: [usize; 4]) -> usize {
        let extents = <[u32; 4]>::from(shape);
        at.iter().zip(extents).fold(0, |number, (at, extent)| number * extent as usize + at)
    }

    /// The input element that a movement operator's definition puts at a position of its output;
    /// `None` for padding.
    fn picked_element(operator: &Operator, mut at: [usize; 4]) -> Option<usize> {
        match operator {
            Operator::Slice(slice) => {
                let along = &mut at[slice.dimension as usize];
                let apart = *along * slice.step.unsigned_abs() as usize;
                let first = slice.first as usize;
                *along = if slice.step < 0 { first - apart } else { first + apart };
                Some(number(slice.input, at))
            }
            Operator::Transpose(transpose) => {
                let one = transpose.input;
                let batch = one.along(transpose.order[0]) as usize;
                let mut from = [0; 4];
                for (&dimension, own) in transpose.order.iter().zip([at[0] % batch, at[1], at[2], at[3]]) {
                    from[dimension as usize] = own;
                }
                Some(at[0] / batch * one.elements() as usize + number(one, from))
            }
            Operator::Pad(pad) => {
                let from: [_; 4] =
                    std::array::from_fn(|index| at[index].checked_sub(pad.before[index] as usize));
                let extents = <[u32; 4]>::from(pad.input);
                let is_inside =
                    |(from, extent): (&Option<usize>, u32)| from.is_some_and(|at| at < extent as usize);
                let inside = from.iter().zip(extents).all(is_inside);
                inside.then(|| number(pad.input, from.map(Option::unwrap_or_default)))
            }
            other => panic!("{other} picks nothing"),
        }
    }

    #[test]
    fn movements_pick_the_stated_elements() {
        let input = Shape { batch: 2, height: 4, width: 5, channels: 6 };
        let mut operators: Vec<Operator> = Vec::new();
        for dimension in Dimension::ALL {
            let extent = input.along(dimension);
            for step in [1, -1, 2] {
                let (first, count) =
                    if step < 0 { (extent - 1, extent) } else { (0, extent.div_ceil(step as u32)) };
                operators.push(Slice { input, dimension, first, count, step }.into());
            }
        }
        let [batch, height, width, channels] = Dimension::ALL;
        for order in [
            [batch, width, height, channels],
            [batch, height, channels, width],
            [height, batch, width, channels],
            [channels, width, height, batch],
        ] {
            let one = Shape { batch: 1, ..input };
            operators.extend(
                [(input, 1), (one, 2)]
                    .map(|(input, images)| Operator::from(Transpose { input, images, order })),
            );
        }
        for before in [[0, 1, 2, 0], [1, 0, 0, 3]] {
            operators.push(Pad { input, before, after: [0, 2, 1, 2] }.into());
        }
        for operator in &operators {
            let output = operator.output();
            let pick = match operator {
                Operator::Slice(slice) => slice.pick(),
                Operator::Transpose(transpose) => transpose.pick(),
                Operator::Pad(pad) => pad.pick(),
                other => panic!("{other} picks nothing"),
            };
            let [images, rows, columns, channels] = <[u32; 4]>::from(output);
            for image in 0..images {
                for (row, column) in (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column))) {
                    for channel in 0..channels {
                        let at = [image, row, column, channel];
                        let expected = picked_element(operator, at.map(|position| position as usize));
                        assert_eq!(pick.element(output.batch, at), expected, "{operator} at {at:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn one_missing_term_of_average_size_is_noticed() {
        const DEPTH: usize = 4_608;
        let layer = layer(DEPTH as u32);
        let (kernel, input) = (numbers(3 * DEPTH, 1), numbers(2 * DEPTH, 2));
        let weights = Weights { kernel: &kernel, bias: &[0.5; 3] };
        let inputs = [input.as_slice()];
        let reference = Reference::new(&layer, weights, &inputs).unwrap();
        let whole = Region::of(layer.operator.output());
        let mut results: Vec<f32> = operands::elements(layer.operator.output(), whole)
            .map(|(p, c)| reference.at(p, c).value as f32)
            .collect();
        assert_eq!(reference.compare(&results, whole, 1), Ok(6));
        // Each product is a quarter on average.
        results[4] -= 0.25;
        let mismatch = reference.compare(&results, whole, 1).unwrap_err();
        assert_eq!((mismatch.pixel, mismatch.channel), (1, 1));
    }

    #[test]
    fn a_quotient_by_zero_is_what_the_reference_says_and_nothing_else() {
        let input = Shape::image(1, 1, 2);
        let divide = Elementwise { function: Function::Divide, input, other: Some(input) };
        let layer = Layer::new(Operator::Elementwise(divide), DataType::F32);
        let inputs = [&[1.0, -1.0][..], &[0.0, 0.0]];
        let reference = Reference::new(&layer, Weights { kernel: &[], bias: &[] }, &inputs).unwrap();
        let whole = Region::of(input);
        assert_eq!(reference.compare(&[f32::INFINITY, f32::NEG_INFINITY], whole, 1), Ok(2));
        assert!(reference.compare(&[f32::INFINITY, f32::INFINITY], whole, 1).is_err());
        assert!(reference.compare(&[f32::INFINITY, f32::NAN], whole, 1).is_err());
    }

    #[test]
    fn nan_results_are_wrong() {
        let layer = layer(1);
        let inputs = [&[1.0, 2.0][..]];
        let weights = Weights { kernel: &[1.0; 3], bias: &[0.0; 3] };
        let reference = Reference::new(&layer, weights, &inputs).unwrap();
        let part = Region::of(layer.operator.output());
        assert!(reference.compare(&[1.0_f32, 1.0, 1.0, 2.0, 2.0, f32::NAN], part, 1).is_err());
        assert!(reference.compare(&[1.0_f32, 1.0, 1.0, 2.0, 2.0, 2.0], part, 1).is_ok());
    }

    #[test]
    fn linked_functions_apply_in_order() {
        let mut linked = Linked::default();
        for (function, operand) in [
            (Function::Add, SecondOperand::PER_CHANNEL),
            (Function::Relu, SecondOperand::WHOLE),
            (Function::Multiply, SecondOperand::WHOLE),
        ] {
            assert!(linked.push(function, operand));
        }
        let layer = Layer { linked, ..layer(1) };
        let inputs = [&[1.0, -2.0][..], &[0.5, 0.5, 0.5], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]];
        let weights = Weights { kernel: &[1.0, 1.0, -1.0], bias: &[0.0; 3] };
        let reference = Reference::new(&layer, weights, &inputs).unwrap();
        let values: Vec<f64> = (0..6).map(|n| reference.at(n / 3, n % 3).value).collect();
        assert_eq!(values, [1.5, 3.0, 0.0, 0.0, 0.0, 15.0]);
    }
}

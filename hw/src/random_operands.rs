//! Pseudo-random weights and inputs, reproducible from a seed and scaled so that activations
//! neither grow nor vanish along a network.

use coexec_sim::Operator;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::cpu::Element;
use crate::operands::weight_counts;

/// Weights uniform in +-sqrt(gain / fan-in) preserve the magnitude of activations after a `ReLU` (He
/// et al., "Delving deep into rectifiers", ICCV 2015).
const UNIFORM_GAIN: f32 = 6.0;
/// Magnitude of biases, small compared with the results.
const BIAS: f32 = 0.125;

/// Odd multiples of 1/256 in (-1, 1): exact in `f16`, and never zero, so that quotients are finite.
fn uniform(count: usize, seed: u64) -> impl Iterator<Item = f32> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let number = move || (2.0 * f32::from(random.random::<i8>()) + 1.0) / (-2.0 * f32::from(i8::MIN));
    std::iter::repeat_with(number).take(count)
}

/// The kernel and the bias of `operator`.
pub(crate) fn weights(operator: &Operator, seed: u64) -> [Vec<f32>; 2] {
    let [kernel, bias] = weight_counts(operator);
    let channels = operator.output().channels.max(1) as usize;
    let (scale, offset) = if let Operator::Norm(_) = operator {
        // Scales of a normalisation lie around 1.
        (0.5, 1.0)
    } else {
        ((UNIFORM_GAIN * channels as f32 / kernel.max(channels) as f32).sqrt(), 0.0)
    };
    [
        uniform(kernel, seed).map(|number| offset + scale * number).collect(),
        uniform(bias, !seed).map(|number| BIAS * number).collect(),
    ]
}

/// Elements of an input of `operator`: valid indices for an embedding, else uniform in (-1, 1).
pub(crate) fn input<T: Element>(operator: &Operator, count: usize, seed: u64) -> Vec<T> {
    if let Operator::Embedding(table) = operator {
        // Larger whole numbers are rounded, in `f16` up to beyond the table.
        let all = u64::from(table.vocabulary).min((1.0 / T::UNIT_ROUNDOFF) as u64);
        let indices = (0..count as u64).map(|index| (index * 7).wrapping_add(seed) % all);
        return indices.map(|index| T::from_f32(index as f32)).collect();
    }
    uniform(count, seed).map(T::from_f32).collect()
}

#[cfg(test)]
mod tests {
    use coexec_sim::workload::{Embedding, Linear};
    use half::f16;

    use super::*;

    #[test]
    fn results_are_of_the_size_of_inputs() {
        let linear = Linear { rows: 1, input_features: 600, output_features: 400, bias: true };
        let operator = Operator::Linear(linear);
        let ([kernel, bias], input) = (weights(&operator, 1), input::<f32>(&operator, 600, 2));
        assert_eq!((kernel.len(), bias.len()), (240_000, 400));
        let result = |channel: usize| -> f32 {
            kernel[channel * 600..(channel + 1) * 600].iter().zip(&input).map(|(w, x)| w * x).sum()
        };
        let mean_square = (0..400).map(|channel| result(channel).powi(2)).sum::<f32>() / 400.0;
        // The inputs' mean square is 1/3; the gain doubles it, and a `ReLU` would halve it again.
        assert!((0.4..1.0).contains(&mean_square), "{mean_square}");
    }

    #[test]
    fn indices_are_in_the_table_for_every_seed_and_format() {
        for vocabulary in [50, 2_049, 100_003] {
            let operator = Operator::Embedding(Embedding { rows: 3_000, vocabulary, features: 4 });
            for seed in [1, u64::MAX - 12] {
                let half = input::<f16>(&operator, 3_000, seed).into_iter().map(f32::from);
                let indices = input::<f32>(&operator, 3_000, seed).into_iter().chain(half);
                let all = indices.collect::<Vec<_>>();
                assert!(all.iter().all(|&index| index < vocabulary as f32 && index.fract() == 0.0));
            }
        }
    }

    #[test]
    fn numbers_depend_on_the_seed_alone() {
        let draw = |seed| uniform(5, seed).collect::<Vec<_>>();
        assert_eq!(draw(3), draw(3));
        assert_ne!(draw(3), draw(4));
    }
}

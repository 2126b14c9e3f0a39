//! Measured runs in, fitted parameters out.
//!
//! Responsible for: fitting kernel models to runs, and saying how well each
//! parameter is known. Not for: reading runs, or judging predictions on other
//! runs. Invariant: what is fitted is never validated on the same points.

mod conformal;
pub mod cpu;
pub mod gpu;
pub mod host;
pub mod interference;
pub mod learning;
pub mod least_squares;
pub mod npu;

use crate::measure::draw::shuffled;
use coexec_sim::Quantity;

/// Mean error (distance of logarithms) up to which runs are taken for those of the device that was measured: six phones'
/// profiles are 2 to 6 % off their own launches and 29 % or more off another phone's, on the CPU 2 to 4 and 23 %
/// (mobile-ml-benchmark; of four networks at least 19 %).
const SAME_DEVICE_ERROR: f64 = 0.15;

/// What is told how many fits are done, and of how many.
pub type Progress<'a> = &'a (dyn Fn(usize, usize) + Sync);

/// Mean distance of the logarithms of predicted and measured times; no number without any.
fn mean_error(pairs: &[(f64, f64)]) -> f64 {
    let errors = pairs.iter().map(|(predicted, measured)| (predicted / measured).ln().abs());
    errors.sum::<f64>() / pairs.len() as f64
}

/// Changes a value, and the ends of its interval with it.
fn change(quantity: &mut Quantity, to: impl Fn(f64) -> f64) {
    for value in quantity.ci95.iter_mut().flatten().chain([&mut quantity.value]) {
        *value = to(*value);
    }
}

/// The part that each of `networks` is in, in random order but of equal sizes.
fn deal(networks: usize, folds: usize, seed: u64) -> Vec<usize> {
    let mut fold_of = vec![0; networks];
    for (place, network) in shuffled(0..networks, seed, 0).into_iter().enumerate() {
        fold_of[network] = place % folds;
    }
    fold_of
}

#[cfg(test)]
mod tests {
    use super::deal;

    #[test]
    fn parts_are_equal_and_the_same_for_a_seed() {
        let folds = deal(82, 5, 7);
        let sizes: Vec<usize> = (0..5).map(|fold| folds.iter().filter(|&&of| of == fold).count()).collect();
        assert_eq!(sizes, [17, 17, 16, 16, 16]);
        assert_eq!(folds, deal(82, 5, 7));
        assert_ne!(folds, deal(82, 5, 8));
    }
}

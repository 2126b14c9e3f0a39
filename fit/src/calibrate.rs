//! Measured runs in, fitted parameters out.
//!
//! Responsible for: fitting kernel models to runs, with a confidence interval of each
//! parameter. Not for: reading runs, or validating predictions on other runs.
//! Invariant: no fit is validated on the points that it was fitted to.

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

/// Mean absolute log error up to which runs are treated as runs of the device that the base was
/// measured on. The profiles of six phones are 2 to 6 % off their own launches and at least 29 % off
/// another phone's; on the CPU 2 to 4 % and 23 % (mobile-ml-benchmark; with only four networks at least
/// 19 %).
const SAME_DEVICE_ERROR: f64 = 0.15;

/// Callback that receives the number of finished fits and the number of all fits.
pub type Progress<'a> = &'a (dyn Fn(usize, usize) + Sync);

/// Mean absolute log error of pairs of predicted and measured times; NaN for no pairs.
fn mean_error(pairs: &[(f64, f64)]) -> f64 {
    let errors = pairs.iter().map(|(predicted, measured)| (predicted / measured).ln().abs());
    errors.sum::<f64>() / pairs.len() as f64
}

/// Applies `to` to a value and to both ends of its interval.
fn change(quantity: &mut Quantity, to: impl Fn(f64) -> f64) {
    for value in quantity.ci95.iter_mut().flatten().chain([&mut quantity.value]) {
        *value = to(*value);
    }
}

/// The fold of each of `networks` networks, dealt at random into folds whose sizes differ by at most
/// one.
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

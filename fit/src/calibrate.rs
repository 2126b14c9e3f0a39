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

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::measure::draw::shuffled;
use coexec_sim::{Cpu, KernelTable, Library, Quantity};

/// Mean absolute log error up to which runs are treated as runs of the device that the base was
/// measured on. The profiles of six phones are 2 to 6 % off their own launches and at least 29 % off
/// another phone's; on the CPU 2 to 4 % and 23 % (mobile-ml-benchmark; with only four networks at least
/// 19 %).
pub const SAME_DEVICE_ERROR: f64 = 0.15;

/// Largest plausible ratio between measured and predicted times: networks take 17 times as long on the
/// slowest phone's smallest core as on two of the fastest phone's, and 15 times as long on its GPU
/// (`data/mobile-ml-benchmark`). A wrong unit makes it 1,000.
pub const MAX_TIME_RATIO: f64 = 30.0;

/// Usual folds of a cross-validation.
pub const FOLDS: usize = 5;

/// How to calibrate. Each fit reads what concerns it.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// Description of the runs, for the source of each fitted value.
    pub source: &'a str,
    /// Folds of the cross-validation by network. On a GPU at most one per network, and fewer than two
    /// to skip it; on a CPU at least 2.
    pub folds: usize,
    /// Seed of the partition of the networks into folds.
    pub seed: u64,
    /// Whether to refit values of the base that were measured on this device from scratch too. Needed
    /// where the base was fitted to these very runs, which would otherwise validate themselves.
    pub from_scratch: bool,
    /// Tables of a GPU that may have a learned correction of the residuals of their fitted equations.
    pub correctable: &'a [KernelTable],
    /// CPUs of other devices, whose tables are the prior of a core type. Where there are none, the
    /// prior is generic figures of the core's class.
    pub others: &'a [Cpu],
    /// The library whose kernels ran on the CPU. A fit of XNNPACK's rates starts from the base's.
    pub library: Library,
}

impl<'a> Options<'a> {
    /// Without folds, corrections and other CPUs, close to what was measured on this device.
    pub const fn of(source: &'a str) -> Self {
        let (correctable, others): (&[KernelTable], &[Cpu]) = (&[], &[]);
        let library = Library::Xnnpack;
        Self { source, folds: 0, seed: 0, from_scratch: false, correctable, others, library }
    }
}

/// Callback that receives the number of finished fits and the number of all fits.
pub type Progress<'a> = &'a (dyn Fn(usize, usize) + Sync);

/// Mean absolute log error of pairs of predicted and measured times; NaN for no pairs.
fn mean_error(pairs: &[(f64, f64)]) -> f64 {
    let errors = pairs.iter().map(|(predicted, measured)| (predicted / measured).ln().abs());
    errors.sum::<f64>() / pairs.len() as f64
}

/// Panic message of conversions between tables of rates and their keys.
pub(crate) const KEYS: &str = "a test holds that the keys are those of a table";

/// `table` with `to` applied to each of its quantities, given its key.
pub(crate) fn with_quantities<T: Serialize + DeserializeOwned>(
    table: &T,
    to: impl Fn(&str, Quantity) -> Quantity,
) -> T {
    let mut written = toml::Table::try_from(table).expect(KEYS);
    for (key, entry) in written.iter_mut().filter(|(key, _)| !["source", "basis"].contains(&key.as_str())) {
        *entry = toml::Value::try_from(to(key, entry.clone().try_into().expect(KEYS))).expect(KEYS);
    }
    written.try_into().expect(KEYS)
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

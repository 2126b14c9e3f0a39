//! How far predictions may be off, from the errors on networks kept out of the fit.

use crate::calibrate::conformal::factor_interval;
use crate::device::cpu::CoreSetSpread;
use crate::workload::DataType;

/// Measured over predicted time of a network kept out of the fit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ratio<'a> {
    /// Core set it ran on.
    pub(super) core_set: &'a str,
    /// Its number format.
    pub(super) data_type: DataType,
    /// Index of the network.
    pub(super) network: usize,
    /// Measured over predicted time.
    pub(super) factor: f64,
}

/// The intervals of core sets with enough networks, in the order of the runs.
pub(super) fn spreads<'a>(ratios: impl Iterator<Item = &'a Ratio<'a>>) -> Vec<CoreSetSpread> {
    let mut factors: Vec<(&str, DataType, Vec<f64>)> = Vec::new();
    for ratio in ratios {
        let known = |(core_set, data_type, _): &&mut (&str, DataType, Vec<f64>)| {
            *core_set == ratio.core_set && *data_type == ratio.data_type
        };
        match factors.iter_mut().find(known) {
            Some((.., factors)) => factors.push(ratio.factor),
            None => factors.push((ratio.core_set, ratio.data_type, vec![ratio.factor])),
        }
    }
    let spread = |(core_set, data_type, factors): (&str, DataType, Vec<f64>)| {
        let networks = factors.len() as u32;
        let [low_factor, high_factor] = factor_interval(factors)?;
        Some(CoreSetSpread { core_set: core_set.to_owned(), data_type, networks, low_factor, high_factor })
    };
    factors.into_iter().filter_map(spread).collect()
}

//! How far predictions may be off, from the errors on networks kept out of the fit.

use super::fit::rounded;
use crate::device::cpu::CoreSetSpread;
use crate::workload::DataType;

/// Part of the networks beyond each end of an interval.
const TAIL: f64 = 0.05;
/// Fewest networks an interval is made of: the extremes of 10 hold 9 of 11 more.
const LEAST_NETWORKS: usize = 10;

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
        let [low_factor, high_factor] = interval(factors)?;
        Some(CoreSetSpread { core_set: core_set.to_owned(), data_type, networks, low_factor, high_factor })
    };
    factors.into_iter().filter_map(spread).collect()
}

/// The ends of the interval that holds one more network with 90 % (conformal
/// prediction: the ends are values that occurred, counted as if one more had); none
/// of too few networks.
fn interval(mut factors: Vec<f64>) -> Option<[f64; 2]> {
    let count = factors.len();
    if count < LEAST_NETWORKS {
        return None;
    }
    factors.sort_by(f64::total_cmp);
    let beyond = (TAIL * (count + 1) as f64).floor().max(1.0) as usize;
    Some([rounded(factors[beyond - 1]), rounded(factors[count - beyond])])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_network_in_ten_lies_outside() {
        // 99 values: 5 below the low end or on it, 5 above the high end or on it.
        let factors: Vec<f64> = (1..100).map(f64::from).collect();
        assert_eq!(interval(factors), Some([5.0, 95.0]));
    }

    #[test]
    fn few_networks_give_their_extremes_and_too_few_nothing() {
        let factors: Vec<f64> = (1..=10).rev().map(f64::from).collect();
        assert_eq!(interval(factors.clone()), Some([1.0, 10.0]));
        assert_eq!(interval(factors[1..].to_vec()), None);
    }
}

//! Conformal prediction intervals from the errors of held-out networks.
//!
//! Responsible for: one interval of factors that applies to every network. Not for:
//! the intervals of single layers, which widen with the distance from the measured
//! layers (`gpu::spread`).

use coexec_sim::statistics::{VALUE_DIGITS, rounded};

/// Probability beyond each end of an interval.
const TAIL: f64 = 0.05;
/// Fewest networks for an interval: the next lies between the extremes of 10 with probability 9/11.
const MIN_NETWORKS: usize = 10;

/// The 90 % conformal interval of measured over predicted time of one more network, from those
/// `factors` of held-out networks. Its ends are order statistics with ranks counted among one
/// network more; below 19 networks they are the extremes, which cover less than 90 %. None of
/// fewer than 10 networks.
pub(super) fn factor_interval(mut factors: Vec<f64>) -> Option<[f64; 2]> {
    let count = factors.len();
    if count < MIN_NETWORKS {
        return None;
    }
    factors.sort_by(f64::total_cmp);
    let beyond = (TAIL * (count + 1) as f64).floor().max(1.0) as usize;
    Some([factors[beyond - 1], factors[count - beyond]].map(|end| rounded(end, VALUE_DIGITS)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_network_in_ten_lies_outside() {
        // 99 values: 5 below the low end or on it, 5 above the high end or on it.
        let factors: Vec<f64> = (1..100).map(f64::from).collect();
        assert_eq!(factor_interval(factors), Some([5.0, 95.0]));
    }

    #[test]
    fn few_networks_give_their_extremes_and_too_few_nothing() {
        let factors: Vec<f64> = (1..=10).rev().map(f64::from).collect();
        assert_eq!(factor_interval(factors.clone()), Some([1.0, 10.0]));
        assert_eq!(factor_interval(factors[1..].to_vec()), None);
    }
}

//! The model everybody starts with: a constant plus a time per operation.

use std::collections::HashMap;

use nalgebra::{Matrix2, Vector2};

use crate::measure::grouped;
use coexec_sim::Layer;

/// `launch_us + us_per_operation * operations`.
#[derive(Clone, Copy, Debug)]
pub struct FlopsLinear {
    launch_us: f64,
    us_per_operation: f64,
}

impl FlopsLinear {
    /// Least squares of the relative error, of pairs of operations and measured
    /// microseconds; none where there are no pairs, or all have as many operations.
    pub fn fit(pairs: impl Iterator<Item = (f64, f64)>) -> Option<Self> {
        Self::weighted(pairs, |measured_us| 1.0 / measured_us)
    }

    /// Least squares of the error in microseconds: long layers decide.
    pub fn fit_absolute(pairs: impl Iterator<Item = (f64, f64)>) -> Option<Self> {
        Self::weighted(pairs, |_| 1.0)
    }

    fn weighted(pairs: impl Iterator<Item = (f64, f64)>, weight: fn(f64) -> f64) -> Option<Self> {
        // Normal equations of `launch + slope * operations = measured`, each times its weight.
        let (mut normal, mut right) = (Matrix2::zeros(), Vector2::zeros());
        for (operations, measured_us) in pairs {
            let weight = weight(measured_us);
            let row = Vector2::new(1.0, operations) * weight;
            normal += row * row.transpose();
            right += row * (measured_us * weight);
        }
        // With one number of operations the two columns are one, up to rounding.
        let independent = normal.determinant() > f64::EPSILON.sqrt() * normal[(0, 0)] * normal[(1, 1)];
        let solution = independent.then(|| normal.try_inverse())?? * right;
        Some(Self { launch_us: solution[0], us_per_operation: solution[1] })
    }

    /// Time of so many operations, in microseconds.
    pub fn predict(&self, operations: f64) -> f64 {
        self.launch_us + self.us_per_operation * operations
    }
}

/// A model for each group of runs that has one.
pub(crate) struct ByGroup(HashMap<String, FlopsLinear>);

impl ByGroup {
    /// Fitted to operations and measured microseconds, by group.
    pub(crate) fn fit(runs: impl Iterator<Item = (String, (f64, f64))>) -> Self {
        let fit = |(group, pairs): (String, Vec<_>)| Some((group, FlopsLinear::fit(pairs.into_iter())?));
        Self(grouped(runs).into_iter().filter_map(fit).collect())
    }

    /// Time of so many operations in a group, in microseconds.
    pub(crate) fn predict(&self, group: &str, operations: f64) -> Option<f64> {
        Some(self.0.get(group)?.predict(operations))
    }
}

/// Multiply-adds of a layer; elements read where it has none.
pub fn operations(layer: &Layer) -> f64 {
    match layer.operator.macs() {
        0 => layer.operator.input_elements() as f64,
        macs => macs as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_layer_decides_where_the_error_counts_in_microseconds() {
        let pairs = [(1.0, 10.0), (2.0, 11.0), (1000.0, 5000.0)];
        let [relative, absolute] =
            [FlopsLinear::fit(pairs.into_iter()), FlopsLinear::fit_absolute(pairs.into_iter())]
                .map(|fitted| (fitted.unwrap().predict(1.0) / 10.0 - 1.0).abs());
        assert!(relative < absolute, "{relative} {absolute}");
    }
}

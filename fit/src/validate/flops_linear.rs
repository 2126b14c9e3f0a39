//! The FLOPs-linear baseline: a constant plus a time per operation.

use std::collections::HashMap;

use nalgebra::{Matrix2, Vector2};

use crate::measure::grouped;
use coexec_sim::Layer;
use coexec_sim::device::calibration::ErrorGroup;

/// `launch_us + us_per_operation * operations`.
#[derive(Clone, Copy, Debug)]
pub struct FlopsLinear {
    launch_us: f64,
    us_per_operation: f64,
}

impl FlopsLinear {
    /// Least squares on the relative error, for pairs of operations and measured
    /// microseconds; none where there are no pairs, or all have equally many operations.
    pub fn fit(pairs: impl Iterator<Item = (f64, f64)>) -> Option<Self> {
        Self::weighted(pairs, |measured_us| 1.0 / measured_us)
    }

    /// Least squares on the error in microseconds, which long layers dominate.
    pub fn fit_absolute(pairs: impl Iterator<Item = (f64, f64)>) -> Option<Self> {
        Self::weighted(pairs, |_| 1.0)
    }

    fn weighted(pairs: impl Iterator<Item = (f64, f64)>, weight: fn(f64) -> f64) -> Option<Self> {
        // Normal equations of `launch + slope * operations = measured`, each row times its weight.
        let (mut normal, mut right) = (Matrix2::zeros(), Vector2::zeros());
        for (operations, measured_us) in pairs {
            let weight = weight(measured_us);
            let row = Vector2::new(1.0, operations) * weight;
            normal += row * row.transpose();
            right += row * (measured_us * weight);
        }
        // If all pairs have equally many operations, the two columns are collinear up to rounding.
        let independent = normal.determinant() > f64::EPSILON.sqrt() * normal[(0, 0)] * normal[(1, 1)];
        let solution = independent.then(|| normal.try_inverse())?? * right;
        Some(Self { launch_us: solution[0], us_per_operation: solution[1] })
    }

    /// Predicted time of a number of operations, in microseconds.
    pub fn predict(&self, operations: f64) -> f64 {
        self.launch_us + self.us_per_operation * operations
    }
}

/// A FLOPs-linear baseline per group of runs.
pub(crate) struct ByGroup(HashMap<ErrorGroup, FlopsLinear>);

impl ByGroup {
    /// Fits each group's pairs of operations and measured microseconds.
    pub(crate) fn fit(runs: impl Iterator<Item = (ErrorGroup, (f64, f64))>) -> Self {
        let fit = |(group, pairs): (ErrorGroup, Vec<_>)| Some((group, FlopsLinear::fit(pairs.into_iter())?));
        Self(grouped(runs).into_iter().filter_map(fit).collect())
    }

    /// Predicted time of a number of operations, in microseconds; none for a group without a fit.
    pub(crate) fn predict(&self, group: &ErrorGroup, operations: f64) -> Option<f64> {
        Some(self.0.get(group)?.predict(operations))
    }
}

/// Multiply-adds of a layer, or the elements that it reads where it has none.
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

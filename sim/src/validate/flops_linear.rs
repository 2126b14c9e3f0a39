//! The model everybody starts with: a constant plus a time per operation.

use nalgebra::{Matrix2, Vector2};

use crate::workload::Layer;

/// `launch_us + us_per_operation * operations`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlopsLinear {
    launch_us: f64,
    us_per_operation: f64,
}

impl FlopsLinear {
    /// Least squares of the relative error, of pairs of operations and measured
    /// microseconds; none where there are no pairs, or all have as many operations.
    pub(crate) fn fit(pairs: impl Iterator<Item = (f64, f64)>) -> Option<Self> {
        // Normal equations of `(launch + slope * operations) / measured = 1`.
        let (mut normal, mut right) = (Matrix2::zeros(), Vector2::zeros());
        for (operations, measured_us) in pairs {
            let row = Vector2::new(1.0, operations) / measured_us;
            normal += row * row.transpose();
            right += row;
        }
        // With one number of operations the two columns are one, up to rounding.
        let independent = normal.determinant() > f64::EPSILON.sqrt() * normal[(0, 0)] * normal[(1, 1)];
        let solution = independent.then(|| normal.try_inverse())?? * right;
        Some(Self { launch_us: solution[0], us_per_operation: solution[1] })
    }

    /// Time of so many operations, in microseconds.
    pub(crate) fn predict(&self, operations: f64) -> f64 {
        self.launch_us + self.us_per_operation * operations
    }
}

/// Multiply-adds of a layer; elements read where it has none.
pub(crate) fn operations(layer: &Layer) -> f64 {
    match layer.operator.macs() {
        0 => layer.operator.input_elements() as f64,
        macs => macs as f64,
    }
}

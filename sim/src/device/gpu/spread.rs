//! How far the predictions of a kernel table, and of whole inferences, may be off:
//! what a 90 % interval needs.
//!
//! Responsible for: the schema and its checks. Not for: the interval
//! (`validate::interval`) or the fit (`calibrate::gpu`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::KernelTable;
use crate::device::Checker;

/// Largest deviation of a logarithm that an entry may state: a factor of 22,000.
const LARGEST_DEVIATION: f64 = 10.0;
/// Largest multiple of a deviation: what 90 % of errors never need.
const LARGEST_QUANTILE: f64 = 100.0;

/// Spread of the predictions of one kernel table, in logarithms of a time.
///
/// ```text
/// deviation^2 = near^2 + (1 - similarity^2) * (far^2 + gradient' covariance gradient)
/// half width = quantile * deviation
/// ```
///
/// `similarity` is that of the launch to the nearest point of the residual (0
/// without one), `gradient` that of the logarithm of the time in the logarithms of
/// the parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TableSpread {
    /// The kernel table.
    pub table: KernelTable,
    /// Deviation of a prediction beside a point of the residual.
    pub near: f64,
    /// What the physics adds to it far from all points.
    pub far: f64,
    /// Deviations that hold 90 % of the cross-validated errors.
    pub quantile: f64,
    /// Keys of the fitted parameters.
    pub parameters: Vec<String>,
    /// Covariance of their logarithms: the rows of its lower triangle.
    pub covariance: Vec<Vec<f64>>,
}

/// Measured over predicted times of whole inferences of networks that neither the
/// kernels' fit nor the host path's had seen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InferenceSpread {
    /// Networks behind the quantiles.
    pub networks: u32,
    /// Measured over predicted time that 5 % of networks stay below.
    pub low_factor: f64,
    /// The same that 5 % exceed.
    pub high_factor: f64,
}

impl InferenceSpread {
    pub(crate) fn check(&self, checker: &mut Checker) {
        checker.factors(self.low_factor, self.high_factor);
    }

    /// Ends of the 90 % interval of a prediction, in its unit.
    pub fn interval(&self, predicted: f64) -> [f64; 2] {
        [predicted * self.low_factor, predicted * self.high_factor]
    }
}

impl TableSpread {
    pub(crate) fn check(&self, checker: &mut Checker) {
        let limits = [
            ("near", self.near, LARGEST_DEVIATION),
            ("far", self.far, LARGEST_DEVIATION),
            ("quantile", self.quantile, LARGEST_QUANTILE),
        ];
        for (key, value, most) in limits {
            if !(0.0..=most).contains(&value) {
                checker.violation(key, value, format!("a number from 0 to {most}"));
            }
        }
        let triangle = self.covariance.iter().enumerate().all(|(index, row)| row.len() == index + 1);
        if self.covariance.len() != self.parameters.len() || !triangle {
            let expected = format!("{} rows, of 1, 2, 3, ... numbers", self.parameters.len());
            checker.violation("covariance", format!("{} rows", self.covariance.len()), expected);
        }
        if self.covariance.iter().flatten().any(|value| !value.is_finite()) {
            checker.violation("covariance", "a value that is no number", "numbers");
        }
    }
}

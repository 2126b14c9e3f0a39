//! Error model of a kernel table's predictions and of whole inferences, for 90 % prediction
//! intervals.
//!
//! Responsible for: the schema and its checks. Not for: the interval
//! (`validate::interval`) or the fit (`calibrate::gpu`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::KernelTable;
use crate::device::Checker;

/// Maximum standard deviation of a logarithm that an entry may state: a factor of 22,000.
const MAX_DEVIATION: f64 = 10.0;
/// Maximum `quantile`, far above what 90 % of errors need.
const MAX_QUANTILE: f64 = 100.0;

/// Spread of the prediction errors of one kernel table, in natural logarithms of a time.
///
/// ```text
/// deviation^2 = near^2 + (1 - similarity^2) * (far^2 + gradient' covariance gradient)
/// half width = quantile * deviation
/// ```
///
/// `similarity` is that of the launch to the nearest point of the residual model (0
/// without one), `gradient` the derivatives of the logarithm of the time with respect to the
/// logarithms of the parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TableSpread {
    /// The kernel table.
    pub table: KernelTable,
    /// Standard deviation of a prediction at a point of the residual model.
    pub near: f64,
    /// Additional standard deviation of the white-box model, far from all points.
    pub far: f64,
    /// Number of standard deviations that cover 90 % of the cross-validated errors.
    pub quantile: f64,
    /// Keys of the fitted parameters, in the order of `covariance`.
    pub parameters: Vec<String>,
    /// Covariance of the parameters' logarithms, as the rows of its lower triangle.
    pub covariance: Vec<Vec<f64>>,
}

/// Quantiles of measured over predicted times of whole inferences, on networks held out of
/// the fits of the kernels and of the host path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InferenceSpread {
    /// Networks from which the quantiles were computed.
    pub networks: u32,
    /// 5 % quantile of measured over predicted time.
    pub low_factor: f64,
    /// 95 % quantile of measured over predicted time.
    pub high_factor: f64,
}

impl InferenceSpread {
    pub(crate) fn check(&self, checker: &mut Checker) {
        checker.factors(self.low_factor, self.high_factor);
    }

    /// Ends of the 90 % interval of a prediction, in the unit of `predicted`.
    pub fn interval(&self, predicted: f64) -> [f64; 2] {
        [predicted * self.low_factor, predicted * self.high_factor]
    }
}

impl TableSpread {
    pub(crate) fn check(&self, checker: &mut Checker) {
        let limits = [
            ("near", self.near, MAX_DEVIATION),
            ("far", self.far, MAX_DEVIATION),
            ("quantile", self.quantile, MAX_QUANTILE),
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
            checker.violation("covariance", "a value that is not finite", "finite numbers");
        }
    }
}

//! Error model of predictions on a core set, for 90 % prediction intervals.
//!
//! Responsible for: the schema, its check, and the interval of a prediction. Not
//! for: the quantiles, which calibration computes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::device::Checker;
use crate::workload::DataType;

/// Quantiles of measured over predicted times of held-out networks, on one core set in one
/// number format. They include model error, parameter uncertainty and run-to-run variance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CoreSetSpread {
    /// The core set: `1large2med`.
    pub core_set: String,
    /// Number format of the networks.
    pub data_type: DataType,
    /// Networks from which the quantiles were computed.
    pub networks: u32,
    /// 5 % quantile of measured over predicted time.
    pub low_factor: f64,
    /// 95 % quantile of measured over predicted time.
    pub high_factor: f64,
}

impl CoreSetSpread {
    pub(crate) fn check(&self, checker: &mut Checker) {
        checker.factors(self.low_factor, self.high_factor);
    }

    /// Ends of the 90 % interval of a prediction, in the unit of `predicted`.
    pub fn interval(&self, predicted: f64) -> [f64; 2] {
        [predicted * self.low_factor, predicted * self.high_factor]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn violations(low_factor: f64, high_factor: f64) -> Vec<String> {
        let spread = CoreSetSpread {
            core_set: "1large".into(),
            data_type: DataType::F32,
            networks: 82,
            low_factor,
            high_factor,
        };
        let mut checker = Checker::default();
        spread.check(&mut checker);
        checker.violations.into_iter().map(|violation| violation.key).collect()
    }

    #[test]
    fn an_interval_has_its_ends_in_order_and_above_zero() {
        assert_eq!(violations(0.95, 1.06), [""; 0]);
        assert_eq!(violations(1.06, 0.95), ["high_factor"]);
        assert_eq!(violations(0.0, 1.0), ["low_factor"]);
        assert_eq!(violations(0.9, f64::INFINITY), ["high_factor"]);
        assert_eq!(violations(f64::NAN, 1.0).first().map(String::as_str), Some("low_factor"));
    }
}

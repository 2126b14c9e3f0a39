//! How far predictions on a core set may be off: what a 90 % interval needs.
//!
//! Responsible for: the schema, its check, and the interval of a prediction. Not
//! for: the quantiles, which calibration finds.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::device::Checker;
use crate::workload::DataType;

/// Measured over predicted times of networks kept out of the fit, on one core set
/// in one number format. Their quantiles hold what the equations miss, how uncertain
/// the parameters are and how much runs differ, all at once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CoreSetSpread {
    /// The core set: `1large2med`.
    pub core_set: String,
    /// Number format of the networks.
    pub data_type: DataType,
    /// Networks behind the quantiles.
    pub networks: u32,
    /// Measured over predicted time that 5 % of networks stay below.
    pub low_factor: f64,
    /// The same that 5 % exceed.
    pub high_factor: f64,
}

impl CoreSetSpread {
    pub(crate) fn check(&self, checker: &mut Checker) {
        checker.factors(self.low_factor, self.high_factor);
    }

    /// Ends of the 90 % interval of a prediction, in its unit.
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

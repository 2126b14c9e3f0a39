//! Where a profile's values come from: the fit behind them, and the published numbers.
//!
//! Responsible for: what a profile says of its own accuracy and origin. Not for: fitting,
//! or computing an error figure. Invariant: nothing here changes a prediction, but for the
//! intervals around it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cpu::CoreSetSpread;
use super::gpu::{InferenceSpread, TableSpread};

/// The fit behind a profile's values.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Calibration {
    /// The measured runs.
    pub source: String,
    /// Digest of the runs, by which `validate` knows them again.
    pub runs_digest: Option<String>,
    /// When the fit was made, as its maker wrote it.
    pub date: Option<String>,
    /// Cross-validated errors: each network predicted by a fit without it. Worst first.
    #[serde(default)]
    pub error: Vec<Group>,
    /// How far predictions of each GPU kernel table may be off.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpu_table: Vec<TableSpread>,
    /// How far predictions of whole inferences on the GPU may be off.
    pub gpu_inference: Option<InferenceSpread>,
    /// How far predictions on each CPU core set may be off.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cpu_core_set: Vec<CoreSetSpread>,
}

/// The errors of the predictions of one group of runs. An error is predicted over
/// measured time, less one; APE is its absolute value. All but `n` are not
/// numbers where the group is empty.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// `gpu/<family>/all`, `gpu/<family>/unseen` (family `end_to_end` for whole
    /// inferences), `cpu/<core set>/<float|quant>`, or `cut/all`, of operators that are cut, given what both
    /// processors take for them alone.
    pub name: String,
    /// Runs.
    pub n: usize,
    /// Mean absolute percentage error.
    pub mape_percent: f64,
    /// Median absolute percentage error.
    pub median_ape_percent: f64,
    /// Runs predicted within 10 %.
    pub within_10_percent: f64,
    /// 95th percentile of the absolute percentage errors.
    pub p95_ape_percent: f64,
    /// Mean error, with its sign: above zero where predictions are too long.
    pub bias_percent: f64,
}

/// A published number that a value of the profile was set from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UsedFact {
    /// Paper: `EPEW25`.
    pub paper: String,
    /// Section, table or figure.
    #[serde(rename = "where")]
    pub place: String,
    /// What the number is.
    pub quantity: String,
    /// The number.
    pub value: f64,
    /// Its unit.
    pub unit: String,
    /// Keys of this profile it set.
    pub sets: Vec<String>,
    /// Ids of the facts in the papers' tables that the number is or follows from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub facts: Vec<String>,
}

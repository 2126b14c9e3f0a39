//! Provenance of a profile's values: the fit behind them, and the published numbers.
//!
//! Responsible for: the schema of a profile's accuracy and provenance. Not for: fitting, or computing
//! errors. Invariant: nothing here changes a prediction, only the intervals around it.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{Display, EnumString};

use super::cpu::CoreSetSpread;
use super::gpu::{InferenceSpread, TableSpread};
use super::{Checker, ProcessorKind};
use crate::workload::DataType;

/// The fit behind a profile's values.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Calibration {
    /// The measured runs.
    pub source: String,
    /// Digest of the runs, by which `validate` recognises them.
    pub runs_digest: Option<String>,
    /// Date of the fit, as its author wrote it.
    pub date: Option<String>,
    /// Cross-validated errors, with each network held out of the fit that predicts it. Worst first.
    #[serde(default)]
    pub error: Vec<Group>,
    /// Error model of predictions by each GPU kernel table.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpu_table: Vec<TableSpread>,
    /// Error model of predictions of whole inferences on the GPU.
    pub gpu_inference: Option<InferenceSpread>,
    /// Error model of predictions on each CPU core set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cpu_core_set: Vec<CoreSetSpread>,
}

impl Calibration {
    pub(super) fn check(&self, checker: &mut Checker) {
        checker.sourced(&self.source);
        checker.each("gpu_table", &self.gpu_table, TableSpread::check);
        checker.optional("gpu_inference", self.gpu_inference.as_ref(), InferenceSpread::check);
        checker.each("cpu_core_set", &self.cpu_core_set, CoreSetSpread::check);
    }
}

/// A group of predictions with common error statistics; written in files as its name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum ErrorGroup {
    /// `cut/all`: split operators, given the measured times of the whole operator on both processors.
    Cuts,
    /// `plan/all`: networks under a plan of several processors, given the measured times of each
    /// processor alone.
    Plans,
    /// `<cpu|gpu|npu>/<what>`, followed by `/<which>` if runs are distinguished further.
    On {
        /// The processor.
        processor: ProcessorKind,
        /// What it computed.
        what: Computed,
        /// The subset of runs; `None` for an undivided group.
        runs: Option<Which>,
    },
    /// `<cpu|gpu|npu>/<runtime>/<format>/<first_token|next_token>`.
    LanguageModel {
        /// The processor.
        processor: ProcessorKind,
        /// The runtime, such as `genie`.
        runtime: String,
        /// Number format, such as `w4a16`.
        format: String,
        /// The time that is predicted.
        answer: AnswerPart,
    },
    /// An unknown group, by its name in the file.
    Other(String),
}

/// What a processor computed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Display, EnumString)]
pub enum Computed {
    /// Whole networks.
    #[strum(serialize = "end_to_end")]
    Networks,
    /// Launches of a kernel family, or all runs on a core set or of a runtime.
    #[strum(default)]
    Kind(String),
}

/// Subset of the runs of a group.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Display, EnumString)]
pub enum Which {
    /// All runs, including shapes that the fit has seen.
    #[strum(serialize = "all")]
    All,
    /// Only shapes that the fit has not seen.
    #[strum(serialize = "unseen")]
    Unseen,
    /// Runs in one number format.
    #[strum(default)]
    Format(String),
}

/// Part of a language model's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Display, EnumString)]
#[strum(serialize_all = "snake_case")]
pub enum AnswerPart {
    /// Time from the prompt to the first token (TTFT).
    FirstToken,
    /// Time of each further token.
    NextToken,
}

impl ErrorGroup {
    /// The processor whose times are predicted; `None` for groups of several processors.
    pub fn processor(&self) -> Option<ProcessorKind> {
        match self {
            Self::On { processor, .. } | Self::LanguageModel { processor, .. } => Some(*processor),
            Self::Cuts | Self::Plans | Self::Other(_) => None,
        }
    }

    /// Whether both groups are computed from the same runs: either the whole networks of one processor,
    /// or its kernels. Any other group shares runs only with itself.
    pub fn shares_runs_with(&self, other: &Self) -> bool {
        if let (Self::On { processor, .. }, Self::On { processor: others, .. }) = (self, other) {
            return processor == others && self.is_of_networks() == other.is_of_networks();
        }
        self == other
    }

    /// Whether the group is of whole networks.
    pub fn is_of_networks(&self) -> bool {
        matches!(self, Self::On { what: Computed::Networks, .. })
    }

    /// Whether the group includes runs that the fit has seen.
    pub fn is_of_all(&self) -> bool {
        matches!(self, Self::On { runs: Some(Which::All), .. })
    }

    /// Whether the group is of runs in this number format, or of all formats.
    pub fn is_of_format(&self, format: DataType) -> bool {
        let Self::On { runs: Some(Which::Format(name)), .. } = self else { return true };
        let names: &[&str] = match format {
            DataType::F32 | DataType::F16 => &["float"],
            DataType::I8 | DataType::I8Dynamic | DataType::I4Dynamic => &["quant", "w8a8"],
            DataType::W8A16 => &["w8a16"],
            DataType::W4A16 => &["w4a16"],
        };
        names.contains(&name.as_str())
    }

    /// The group with this name, if known.
    fn known(name: &str) -> Option<Self> {
        let parts: Vec<&str> = name.split('/').collect();
        let on = |processor, what: &str, runs| {
            Some(Self::On { processor: ProcessorKind::named(processor)?, what: what.parse().ok()?, runs })
        };
        match *parts.as_slice() {
            ["cut", "all"] => Some(Self::Cuts),
            ["plan", "all"] => Some(Self::Plans),
            [processor, what] => on(processor, what, None),
            [processor, what, runs] if !runs.is_empty() => on(processor, what, Some(runs.parse().ok()?)),
            [processor, runtime, format, answer] => Some(Self::LanguageModel {
                processor: ProcessorKind::named(processor)?,
                runtime: runtime.to_owned(),
                format: format.to_owned(),
                answer: answer.parse().ok()?,
            }),
            _ => None,
        }
    }
}

impl Default for ErrorGroup {
    fn default() -> Self {
        Self::Other(String::new())
    }
}

impl From<&str> for ErrorGroup {
    fn from(name: &str) -> Self {
        Self::known(name).unwrap_or_else(|| Self::Other(name.to_owned()))
    }
}

impl From<String> for ErrorGroup {
    fn from(name: String) -> Self {
        name.as_str().into()
    }
}

impl From<ErrorGroup> for String {
    fn from(group: ErrorGroup) -> Self {
        group.to_string()
    }
}

impl fmt::Display for ErrorGroup {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cuts => out.write_str("cut/all"),
            Self::Plans => out.write_str("plan/all"),
            Self::On { processor, what, runs: None } => write!(out, "{}/{what}", processor.name()),
            Self::On { processor, what, runs: Some(runs) } => {
                write!(out, "{}/{what}/{runs}", processor.name())
            }
            Self::LanguageModel { processor, runtime, format, answer } => {
                write!(out, "{}/{runtime}/{format}/{answer}", processor.name())
            }
            Self::Other(name) => out.write_str(name),
        }
    }
}

/// Error statistics of one group of predictions. An error is predicted over measured time, minus one;
/// APE is its absolute value. All fields but `n` are NaN if the group is empty.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// What is predicted: `gpu/<family>/all`, `gpu/<family>/unseen` (family `end_to_end` for whole
    /// inferences), `cpu/<core set>/<float|quant>`, `npu/<runtime>/<format>/<first_token|next_token>`,
    /// `cut/all` for split operators, given the times of the whole operator on both processors, or
    /// `plan/all` for networks under a plan of several processors.
    #[schemars(with = "String")]
    pub name: ErrorGroup,
    /// Number of runs.
    pub n: usize,
    /// Mean absolute percentage error.
    pub mape_percent: f64,
    /// Median absolute percentage error.
    pub median_ape_percent: f64,
    /// Percentage of runs predicted within 10 %.
    pub within_10_percent: f64,
    /// 95th percentile of the absolute percentage errors.
    pub p95_ape_percent: f64,
    /// Mean signed error; positive if predictions are too long.
    pub bias_percent: f64,
}

/// A published number from which a value of the profile was set.
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
    /// Keys of this profile that were set from it.
    pub sets: Vec<String>,
    /// Ids of the facts in the papers' tables to which the number is equal or from which it follows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub facts: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_survive_writing_and_reading_and_unknown_names_stay_text() {
        let names = [
            "cut/all",
            "plan/all",
            "gpu/conv2d",
            "gpu/conv2d/unseen",
            "gpu/end_to_end/all",
            "cpu/1large2med/quant",
            "npu/genie/w4a16/next_token",
            "npu/genie/w4a16/last_token",
            "split/linear",
            "gpu/",
            "gpu/conv2d/",
            "mine",
            "",
        ];
        for name in names {
            assert_eq!(ErrorGroup::from(name).to_string(), name);
        }
        let is_text = |name: &&&str| matches!(ErrorGroup::from(**name), ErrorGroup::Other(_));
        let others: Vec<&&str> = names.iter().filter(is_text).collect();
        assert_eq!(others, [&"npu/genie/w4a16/last_token", &"split/linear", &"gpu/conv2d/", &"mine", &""]);
        assert!(ErrorGroup::from("gpu/end_to_end/all").is_of_networks());
    }
}

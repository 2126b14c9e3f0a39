//! Where a profile's values come from: the fit behind them, and the published numbers.
//!
//! Responsible for: what a profile says of its own accuracy and origin. Not for: fitting,
//! or computing an error figure. Invariant: nothing here changes a prediction, but for the
//! intervals around it.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{Display, EnumString};

use super::cpu::CoreSetSpread;
use super::gpu::{InferenceSpread, TableSpread};
use super::{Checker, ProcessorKind};

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

impl Calibration {
    pub(super) fn check(&self, checker: &mut Checker) {
        checker.sourced(&self.source);
        checker.each("gpu_table", &self.gpu_table, TableSpread::check);
        checker.optional("gpu_inference", self.gpu_inference.as_ref(), InferenceSpread::check);
        checker.each("cpu_core_set", &self.cpu_core_set, CoreSetSpread::check);
    }
}

/// What the errors of a group are of, which is its name in files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum ErrorGroup {
    /// `cut/all`: operators that are cut, given what both processors take for them alone.
    Cuts,
    /// `plan/all`: networks under a plan of several processors, given what each takes for them alone.
    Plans,
    /// `<cpu|gpu|npu>/<what>`, and `/<which>` where not all runs are alike.
    On {
        /// Who computed.
        processor: ProcessorKind,
        /// What it computed.
        what: Computed,
        /// Which runs of it.
        runs: Option<Which>,
    },
    /// `<cpu|gpu|npu>/<runtime>/<format>/<first_token|next_token>`.
    LanguageModel {
        /// Who computed.
        processor: ProcessorKind,
        /// Who ran it.
        runtime: String,
        /// How the weights are stored.
        format: String,
        /// Which time.
        answer: AnswerPart,
    },
    /// What a file calls so.
    Other(String),
}

/// What a processor computed.
#[derive(Clone, Debug, PartialEq, Eq, Display, EnumString)]
pub enum Computed {
    /// Whole networks.
    #[strum(serialize = "end_to_end")]
    Networks,
    /// Launches of a family of kernels, or whatever ran on a set of cores or by a runtime.
    #[strum(default)]
    Kind(String),
}

/// Which runs.
#[derive(Clone, Debug, PartialEq, Eq, Display, EnumString)]
pub enum Which {
    /// Those that a fit has seen, and others.
    #[strum(serialize = "all")]
    All,
    /// Those alone that it has not seen.
    #[strum(serialize = "unseen")]
    Unseen,
    /// Those in a number format.
    #[strum(default)]
    Format(String),
}

/// Which time of a language model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Display, EnumString)]
#[strum(serialize_all = "snake_case")]
pub enum AnswerPart {
    /// From the prompt to the first token.
    FirstToken,
    /// Of each token behind it.
    NextToken,
}

impl ErrorGroup {
    /// The processor alone whose times the errors are of.
    pub fn processor(&self) -> Option<ProcessorKind> {
        match self {
            Self::On { processor, .. } | Self::LanguageModel { processor, .. } => Some(*processor),
            Self::Cuts | Self::Plans | Self::Other(_) => None,
        }
    }

    /// Whether both are found from the same runs: those of whole networks of a processor, or of its kernels; others
    /// each from their own.
    pub fn is_found_with(&self, other: &Self) -> bool {
        if let (Self::On { processor, .. }, Self::On { processor: others, .. }) = (self, other) {
            return processor == others && self.is_of_networks() == other.is_of_networks();
        }
        self == other
    }

    /// Whether the errors are of whole networks.
    pub fn is_of_networks(&self) -> bool {
        matches!(self, Self::On { what: Computed::Networks, .. })
    }

    /// Whether runs are among them that a fit has seen.
    pub fn is_of_all(&self) -> bool {
        matches!(self, Self::On { runs: Some(Which::All), .. })
    }

    /// The group that has this name, if it is one of those known.
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

/// The errors of the predictions of one group of runs. An error is predicted over
/// measured time, less one; APE is its absolute value. All but `n` are not
/// numbers where the group is empty.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// What is predicted: `gpu/<family>/all`, `gpu/<family>/unseen` (family `end_to_end` for whole
    /// inferences), `cpu/<core set>/<float|quant>`, `npu/<runtime>/<format>/<first_token|next_token>`,
    /// `cut/all`, of operators that are cut, given what both processors take for them alone, or `plan/all`, of networks
    /// under a plan of several processors.
    #[schemars(with = "String")]
    pub name: ErrorGroup,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_written_as_it_was_read_and_names_that_nobody_knows_stay_text() {
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

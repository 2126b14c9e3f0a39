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

/// What the errors of a group are of, which is its name in files.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum ErrorGroup {
    /// `cut/all`: operators that are cut, given what both processors take for them alone.
    Cuts,
    /// `plan/all`: networks under a plan of several processors, given what each takes for them alone.
    Plans,
    /// `<cpu|gpu|npu>/<what>/<of>`: launches of a kind of kernel, on a set of cores, as a runtime had it, or
    /// whole networks ([`Self::NETWORKS`]); of all runs, of those not seen, of a number format, or of what has no word.
    On {
        /// `cpu`, `gpu` or `npu`.
        processor: String,
        /// Family of kernels, set of cores, or runtime.
        what: String,
        /// `all`, `unseen`, a number format, or nothing.
        of: String,
    },
    /// `<cpu|gpu|npu>/<runtime>/<format>/<first_token|next_token>`.
    LanguageModel {
        /// `cpu`, `gpu` or `npu`.
        processor: String,
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

/// Which time of a language model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Display, EnumString)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum AnswerPart {
    /// From the prompt to the first token.
    FirstToken,
    /// Of each token behind it.
    NextToken,
}

impl ErrorGroup {
    /// What is in place of a kind of kernels where the group is of whole networks.
    pub const NETWORKS: &str = "end_to_end";
    /// Of runs that a fit has seen, and others.
    pub const ALL: &str = "all";
    /// Of those alone that it has not seen.
    pub const UNSEEN: &str = "unseen";

    /// On a processor.
    pub fn on(processor: &str, what: &str, of: &str) -> Self {
        Self::On { processor: processor.to_owned(), what: what.to_owned(), of: of.to_owned() }
    }

    /// The processor alone whose times the errors are of.
    pub fn processor(&self) -> Option<&str> {
        match self {
            Self::On { processor, .. } | Self::LanguageModel { processor, .. } => Some(processor),
            Self::Cuts | Self::Plans | Self::Other(_) => None,
        }
    }

    /// What stands for all groups that are found from the same runs: whole networks of a processor, or its kernels;
    /// others for themselves.
    #[must_use]
    pub fn found_with(&self) -> Self {
        match self {
            Self::On { processor, what, .. } if what == Self::NETWORKS => Self::on(processor, what, ""),
            Self::On { processor, .. } => Self::on(processor, "", ""),
            Self::Cuts | Self::Plans | Self::LanguageModel { .. } | Self::Other(_) => self.clone(),
        }
    }

    /// Whether the errors are of whole networks.
    pub fn is_of_networks(&self) -> bool {
        matches!(self, Self::On { what, .. } if what == Self::NETWORKS)
    }

    /// Whether runs are among them that a fit has seen.
    pub fn is_of_all(&self) -> bool {
        matches!(self, Self::On { of, .. } if of == Self::ALL)
    }
}

impl From<&str> for ErrorGroup {
    fn from(name: &str) -> Self {
        let parts: Vec<&str> = name.split('/').collect();
        match parts.as_slice() {
            ["cut", "all"] => Self::Cuts,
            ["plan", "all"] => Self::Plans,
            ["cpu" | "gpu" | "npu", what] => Self::on(parts[0], what, ""),
            ["cpu" | "gpu" | "npu", what, of] if !of.is_empty() => Self::on(parts[0], what, of),
            ["cpu" | "gpu" | "npu", runtime, format, answer] => match answer.parse() {
                Ok(answer) => Self::LanguageModel {
                    processor: parts[0].to_owned(),
                    runtime: (*runtime).to_owned(),
                    format: (*format).to_owned(),
                    answer,
                },
                Err(_) => Self::Other(name.to_owned()),
            },
            _ => Self::Other(name.to_owned()),
        }
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
            Self::On { processor, what, of } if of.is_empty() => write!(out, "{processor}/{what}"),
            Self::On { processor, what, of } => write!(out, "{processor}/{what}/{of}"),
            Self::LanguageModel { processor, runtime, format, answer } => {
                write!(out, "{processor}/{runtime}/{format}/{answer}")
            }
            Self::Other(name) => out.write_str(name),
        }
    }
}

/// By its name.
impl<T: AsRef<str>> PartialEq<T> for ErrorGroup {
    fn eq(&self, name: &T) -> bool {
        let own = self.to_string();
        own == name.as_ref()
    }
}

/// The errors of the predictions of one group of runs. An error is predicted over
/// measured time, less one; APE is its absolute value. All but `n` are not
/// numbers where the group is empty.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// What is predicted: `gpu/<family>/all`, `gpu/<family>/unseen` (family `end_to_end` for whole
    /// inferences), `cpu/<core set>/<float|quant>`, `npu/<runtime>/<format>/<first_token|next_token>`, or
    /// `cut/all`, of operators that are cut, given what both processors take for them alone.
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

//! Our numbers compared with theirs: rows, groups of rows with a limit, and summaries.

use serde::{Deserialize, Serialize};

use super::fact::{Fact, FactGroup, Published};
use super::{Paper, mean};
use coexec_plots::figure::Picture;
use coexec_sim::statistics::median;

/// coexec's counterpart of a published fact.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Ours {
    /// A number in the fact's unit.
    Number(f64),
    /// A finding, for a fact that is text, a range or a bound.
    Finding {
        /// The finding in words.
        text: String,
        /// Whether it agrees with what was published.
        agrees: bool,
    },
}

/// How a row counts.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "role", rename_all = "kebab-case")]
pub enum Role {
    /// Nothing was set from the published number.
    Predicted,
    /// The published number set a value: the row shows how well that fits, and is not counted.
    Fitted {
        /// The values it set.
        sets: Vec<String>,
    },
    /// Ours is shown but not counted: it contains a published number, or repeats another row's.
    NotCounted {
        /// The reason.
        because: String,
    },
    /// coexec does not predict this quantity.
    NotReproduced {
        /// The reason.
        because: String,
    },
}

/// How ours and theirs are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// Ours relative to theirs, minus one, in percent.
    #[default]
    Percent,
    /// Ours minus theirs in percentage points, for facts in percent.
    Points,
}

impl Measure {
    /// Signed deviation of `ours` from `theirs`.
    fn deviation(self, ours: f64, theirs: f64) -> f64 {
        match self {
            Self::Percent => 100.0 * (ours / theirs - 1.0),
            Self::Points => ours - theirs,
        }
    }

    /// The unit of a deviation.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Percent => "%",
            Self::Points => "points",
        }
    }
}

/// A published number compared with ours.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// What was published.
    pub fact: &'static Fact,
    /// coexec's number or finding.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ours: Option<Ours>,
    /// Signed deviation of ours, in the group's measure; none unless both are numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deviation: Option<f64>,
    /// How the row counts.
    #[serde(flatten)]
    pub role: Role,
}

impl Row {
    pub(super) fn new(fact: &'static Fact, ours: Option<Ours>, role: Role, measure: Measure) -> Self {
        let deviation = match (&ours, &fact.value) {
            (Some(Ours::Number(ours)), Published::Number(theirs)) => Some(measure.deviation(*ours, *theirs)),
            (None | Some(Ours::Finding { .. }), _) | (_, Published::Words(_)) => None,
        };
        Self { fact, ours, deviation, role }
    }

    /// Whether a finding disagrees with what was published.
    pub fn disagrees(&self) -> bool {
        matches!(self.ours, Some(Ours::Finding { agrees: false, .. }))
    }
}

/// Largest accepted deviations of a group's predicted rows, in its measure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limit {
    /// Mean absolute deviation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean: Option<f64>,
    /// Median absolute deviation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub median: Option<f64>,
    /// Largest absolute deviation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worst: Option<f64>,
    /// Whether the limit was chosen after the results were known.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub chosen_after_results: bool,
}

/// The rows of a group of facts.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Group {
    /// The group of facts.
    #[serde(flatten)]
    pub published: &'static FactGroup,
    /// One row per fact.
    pub rows: Vec<Row>,
}

/// Summary of a group. Deviations are in the group's measure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Rows whose number coexec predicts.
    pub predicted: usize,
    /// Rows whose published number set a value.
    pub fitted: usize,
    /// Rows whose number of ours contains a published one or repeats another row's.
    pub not_counted: usize,
    /// Rows of quantities that coexec does not predict.
    pub not_reproduced: usize,
    /// Findings of predicted rows that disagree with what was published.
    pub disagreeing: usize,
    /// Mean absolute deviation of predicted numbers; none without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean: Option<f64>,
    /// Median absolute deviation of predicted numbers; none without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub median: Option<f64>,
    /// Largest absolute deviation of predicted numbers; none without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worst: Option<f64>,
}

impl Group {
    /// Summary of the group's rows.
    pub fn summary(&self) -> Summary {
        let predicted = || self.rows.iter().filter(|row| row.role == Role::Predicted);
        let count = |wanted: fn(&Role) -> bool| self.rows.iter().filter(|row| wanted(&row.role)).count();
        let mut deviations: Vec<f64> = predicted().filter_map(|row| row.deviation).map(f64::abs).collect();
        deviations.sort_by(f64::total_cmp);
        Summary {
            predicted: predicted().count(),
            fitted: count(|role| matches!(role, Role::Fitted { .. })),
            not_counted: count(|role| matches!(role, Role::NotCounted { .. })),
            not_reproduced: count(|role| matches!(role, Role::NotReproduced { .. })),
            disagreeing: predicted().filter(|row| row.disagrees()).count(),
            mean: (!deviations.is_empty()).then(|| mean(&deviations)),
            median: median(&deviations),
            worst: deviations.last().copied(),
        }
    }

    /// Whether the predicted rows are within the limit and their findings agree.
    pub fn holds(&self) -> bool {
        let (summary, limit) = (self.summary(), self.published.limit);
        let within = |found: Option<f64>, limit: Option<f64>| {
            found.is_none_or(|found| limit.is_none_or(|limit| found <= limit))
        };
        summary.disagreeing == 0
            && within(summary.mean, limit.mean)
            && within(summary.median, limit.median)
            && within(summary.worst, limit.worst)
    }

    /// The rows by role (predicted, fitted, not counted, not reproduced), and within each role
    /// by deviation, largest first.
    pub fn worst_first(&self) -> Vec<&Row> {
        let mut rows: Vec<&Row> = self.rows.iter().collect();
        let rank = |row: &Row| match row.role {
            Role::Predicted => 0,
            Role::Fitted { .. } => 1,
            Role::NotCounted { .. } => 2,
            Role::NotReproduced { .. } => 3,
        };
        let off = |row: &Row| match row.deviation {
            _ if row.disagrees() => f64::INFINITY,
            Some(deviation) => deviation.abs(),
            None => -1.0,
        };
        rows.sort_by(|one, other| rank(one).cmp(&rank(other)).then(off(other).total_cmp(&off(one))));
        rows
    }
}

/// All published numbers of a paper compared with ours.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// The paper.
    pub paper: Paper,
    /// The paper's numbers, each in one row.
    pub groups: Vec<Group>,
    /// The paper's figures, redrawn from ours.
    pub figures: Vec<Picture>,
}

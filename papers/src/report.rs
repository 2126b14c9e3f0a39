//! Ours beside theirs: rows, groups of rows with a limit, and what they come to.

use serde::{Deserialize, Serialize};

use super::fact::{Fact, FactGroup, Published};
use super::{Paper, mean};
use coexec_plots::figure::Picture;
use coexec_sim::statistics::median;

/// What coexec says of a published fact.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Ours {
    /// A number in the fact's unit.
    Number(f64),
    /// A finding, of a fact that is words, a range or a bound.
    Finding {
        /// What was found.
        text: String,
        /// Whether it is as published.
        agrees: bool,
    },
}

/// What a row counts for.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "role", rename_all = "kebab-case")]
pub enum Role {
    /// Nothing was set from the published number.
    Predicted,
    /// The published number set a value: a row shows how well, and counts for nothing.
    Fitted {
        /// The values it set.
        sets: Vec<String>,
    },
    /// Ours is shown and counts for nothing: it holds a published number, or stands in another
    /// row.
    NotCounted {
        /// Which.
        because: String,
    },
    /// It is not a quantity that coexec predicts.
    NotReproduced {
        /// Why not.
        because: String,
    },
}

/// How ours and theirs are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// Ours over theirs, less one, in percent.
    #[default]
    Percent,
    /// Ours less theirs, of facts in percent: percentage points.
    Points,
}

impl Measure {
    /// How far `ours` is from `theirs`.
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

/// A published number beside ours.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// What was published.
    pub fact: &'static Fact,
    /// What coexec says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ours: Option<Ours>,
    /// How far ours is off, in the measure of its group, where both are numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deviation: Option<f64>,
    /// What the row counts for.
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

    /// Whether a finding is other than published.
    pub fn disagrees(&self) -> bool {
        matches!(self.ours, Some(Ours::Finding { agrees: false, .. }))
    }
}

/// How far predicted rows of a group may be off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limit {
    /// Mean absolute deviation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean: Option<f64>,
    /// Median absolute deviation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub median: Option<f64>,
    /// Absolute deviation of any row.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worst: Option<f64>,
    /// Whether it was chosen when the results were known.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub chosen_after_results: bool,
}

/// Rows of one kind.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Group {
    /// What they are of.
    #[serde(flatten)]
    pub published: &'static FactGroup,
    /// One for each fact.
    pub rows: Vec<Row>,
}

/// What the predicted rows of a group come to. A deviation is in the group's measure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Rows whose number coexec predicts.
    pub predicted: usize,
    /// Rows whose published number set a value.
    pub fitted: usize,
    /// Rows that hold a published number, or whose number stands in another row.
    pub not_counted: usize,
    /// Rows of what coexec does not predict.
    pub not_reproduced: usize,
    /// Findings of predicted rows that are other than published.
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
    /// What its predicted rows come to.
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

    /// Whether its predicted rows are within the limit and its findings as published.
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

    /// Its rows, what is farthest off first: predicted ones, then fitted ones, then those
    /// that are not counted, then those of what is not predicted.
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

/// All published numbers of a paper beside ours.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// The paper.
    pub paper: Paper,
    /// Its numbers, each in one row.
    pub groups: Vec<Group>,
    /// Its figures, drawn from ours.
    pub figures: Vec<Picture>,
}

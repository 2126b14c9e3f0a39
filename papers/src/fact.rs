//! Published numbers, as listed in the files of `facts/`: group by group, with notes for the reader.

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use coexec_sim::input::from_toml;

use super::Paper;
use super::report::{Limit, Measure};

/// A published value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Published {
    /// A number.
    Number(f64),
    /// Words or a range.
    Words(String),
}

/// One published number with its place in the paper.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fact {
    /// Identifier in the program and in `[[used_fact]]`, unique within the paper.
    pub id: String,
    /// Section, table or figure.
    #[serde(rename = "where")]
    pub place: String,
    /// Device it was measured on; `all` if it is not specific to one.
    pub device: String,
    /// What ran.
    pub workload: String,
    /// The quantity that was published.
    pub quantity: String,
    /// The published value.
    pub value: Published,
    /// Unit of the value; `words` for text without one.
    pub unit: String,
    /// Note on the row for a reader.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
    /// Why coexec does not predict it.
    #[serde(default, skip_serializing)]
    pub(crate) because: Option<String>,
    /// Id of the fact whose row has the same number of ours.
    #[serde(default, skip_serializing)]
    pub(crate) repeats: Option<String>,
    /// Values set from this fact, other than those of profiles, which `[[used_fact]]` lists.
    #[serde(default, skip_serializing)]
    pub(crate) sets: Vec<String>,
}

/// Facts whose deviations share one limit.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FactGroup {
    /// Name of the group.
    pub name: String,
    /// Largest accepted deviations.
    #[serde(default)]
    pub limit: Limit,
    /// Why there is no limit.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub no_limit: String,
    /// Unit of the deviations.
    #[serde(default)]
    pub measure: Measure,
    /// Note on the whole group for a reader.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
    /// Why none of its facts is predicted.
    #[serde(skip_serializing)]
    pub(crate) because: Option<String>,
    /// Why a fact has no number of ours without the folder of measured data.
    #[serde(skip_serializing)]
    pub(crate) without_data: Option<String>,
    #[serde(skip_serializing)]
    pub(crate) fact: Vec<Fact>,
}

/// A bar chart of facts, each next to ours.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FactBars {
    pub(crate) name: String,
    pub(crate) title: String,
    pub(crate) subtitle: String,
    pub(crate) y: String,
    /// Added to every number: 100 converts "percent more" to "percent of".
    #[serde(default)]
    pub(crate) added: f64,
    pub(crate) categories: Vec<String>,
    pub(crate) series: Vec<FactSeries>,
}

/// A series of bars: ids of facts, one per category.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FactSeries {
    pub(crate) name: String,
    pub(crate) facts: Vec<String>,
}

/// A file of facts: what one paper published.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FactFile {
    pub(crate) group: Vec<FactGroup>,
    #[serde(default)]
    pub(crate) figure: Vec<FactBars>,
}

/// The facts of a file embedded in the crate.
macro_rules! facts {
    ($name:literal) => {{
        static FACTS: LazyLock<FactFile> = LazyLock::new(|| {
            from_toml(include_str!(concat!("facts/", $name, ".toml")))
                .expect("a test checks that the files of facts in this crate parse")
        });
        &FACTS
    }};
}

/// The file of a paper.
pub(crate) fn of(paper: Paper) -> &'static FactFile {
    match paper {
        Paper::Epew25 => facts!("epew25"),
        Paper::Codl => facts!("codl"),
        Paper::UnifiedSplitting => facts!("unified_splitting"),
        Paper::EdgeSys24 => facts!("edgesys24"),
        Paper::HeteroInfer => facts!("heteroinfer"),
    }
}

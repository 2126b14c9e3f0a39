//! Published numbers, as the files in `facts/` list them: group by group, with what a reader
//! should know of each.

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use coexec_sim::input::from_toml;

use super::Paper;
use super::report::{Limit, Measure};

/// What a paper published.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Published {
    /// A number.
    Number(f64),
    /// Words or a range.
    Words(String),
}

/// One published number and its place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fact {
    /// What the program and `[[used_fact]]` call it; no two of a paper are the same.
    pub id: String,
    /// Section, table or figure.
    #[serde(rename = "where")]
    pub place: String,
    /// Device it was measured on; `all` where it is of none in particular.
    pub device: String,
    /// What ran.
    pub workload: String,
    /// What the number is.
    pub quantity: String,
    /// The number.
    pub value: Published,
    /// Its unit; `words` where it is none.
    pub unit: String,
    /// What a reader should know of its row.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
    /// Why coexec does not predict it.
    #[serde(default, skip_serializing)]
    pub(crate) because: Option<String>,
    /// The fact in whose row the same number of ours stands.
    #[serde(default, skip_serializing)]
    pub(crate) repeats: Option<String>,
    /// What was set from it beside values of profiles, which say so themselves.
    #[serde(default, skip_serializing)]
    pub(crate) sets: Vec<String>,
}

/// Facts whose deviations are held against one limit.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FactGroup {
    /// What they are.
    pub name: String,
    /// How far ours may be off.
    #[serde(default)]
    pub limit: Limit,
    /// Why there is no limit.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub no_limit: String,
    /// How a deviation is counted.
    #[serde(default)]
    pub measure: Measure,
    /// What a reader should know of all of them.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
    /// Why none of its facts is predicted.
    #[serde(skip_serializing)]
    pub(crate) because: Option<String>,
    /// Why a fact has no number of ours where the folder of measured data is not given.
    #[serde(skip_serializing)]
    pub(crate) without_data: Option<String>,
    #[serde(skip_serializing)]
    pub(crate) fact: Vec<Fact>,
}

/// A bar chart of facts, each beside ours.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FactBars {
    pub(crate) name: String,
    pub(crate) title: String,
    pub(crate) subtitle: String,
    pub(crate) y: String,
    /// Added to every number: 100 turns percent more into percent of.
    #[serde(default)]
    pub(crate) added: f64,
    pub(crate) categories: Vec<String>,
    pub(crate) series: Vec<FactSeries>,
}

/// Bars of one kind: ids of facts, one a category.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FactSeries {
    pub(crate) name: String,
    pub(crate) facts: Vec<String>,
}

/// What one paper published.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FactFile {
    pub(crate) group: Vec<FactGroup>,
    #[serde(default)]
    pub(crate) figure: Vec<FactBars>,
}

/// The facts of a file that is part of the crate.
macro_rules! facts {
    ($name:literal) => {{
        static FACTS: LazyLock<FactFile> = LazyLock::new(|| {
            from_toml(include_str!(concat!("facts/", $name, ".toml")))
                .expect("a test holds that the files of facts in this crate parse")
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

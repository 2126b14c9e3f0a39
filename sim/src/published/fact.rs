//! Published numbers, as the files in `facts/` list them.

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use super::Paper;

/// What a paper published.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Published {
    /// A number.
    Number(f64),
    /// Words or a range.
    Words(String),
}

impl Published {
    /// The number, where it is one.
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Words(_) => None,
        }
    }
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
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    fact: Vec<Fact>,
}

/// The facts of a file that is part of the crate.
macro_rules! facts {
    ($name:literal) => {{
        static FACTS: LazyLock<Vec<Fact>> = LazyLock::new(|| {
            let file: File = toml::from_str(include_str!(concat!("facts/", $name, ".toml")))
                .expect("a test holds that the files of facts in this crate parse");
            file.fact
        });
        &FACTS
    }};
}

/// The facts of a paper, in the order of their file.
pub(super) fn of(paper: Paper) -> &'static [Fact] {
    match paper {
        Paper::Epew25 => facts!("epew25"),
        Paper::Codl => facts!("codl"),
        Paper::UnifiedSplitting => facts!("unified_splitting"),
        Paper::EdgeSys24 => facts!("edgesys24"),
        Paper::HeteroInfer => facts!("heteroinfer"),
    }
}

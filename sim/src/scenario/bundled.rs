//! Bundled scenarios, networks, operator sets and language models.

use serde::Serialize;
use strum::VariantArray;

use super::{LanguageTable, ScenarioFile};
use crate::input::Text;
use crate::workload::{OPERATOR_SETS, language_models, networks};

/// Default device of bundled language models: the phone of `HeteroInfer` (SOSP'25).
const LANGUAGE_DEVICE: &str = "snapdragon-8gen3";

/// Name and content of every bundled scenario, by name: the files in `scenarios/`.
pub(super) const BUNDLED: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/scenarios.rs"));

/// Kind of a bundled workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, VariantArray, strum::Display)]
#[serde(rename_all = "kebab-case")]
pub enum BundledKind {
    /// A scenario file.
    #[strum(to_string = "scenario")]
    Scenario,
    /// A network, run as a whole inference.
    #[strum(to_string = "network")]
    Network,
    /// Single operators, each run on its own.
    #[strum(to_string = "operator set")]
    OperatorSet,
    /// A language model.
    #[strum(to_string = "language model")]
    LanguageModel,
}

/// A bundled workload that [`super::Scenario::load`] accepts by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Bundled {
    /// Its kind.
    pub kind: BundledKind,
    /// Its name.
    pub name: &'static str,
    /// A short description.
    pub title: String,
}

/// All bundled workloads that [`super::Scenario::load`] accepts by name.
pub fn bundled() -> Vec<Bundled> {
    let scenarios = BUNDLED.iter().map(|(name, content)| {
        let text = Text { name: (*name).to_owned(), content: (*content).to_owned() };
        let title = text.parse::<ScenarioFile>().map_or_else(|error| error.to_string(), |file| file.title);
        Bundled { kind: BundledKind::Scenario, name, title }
    });
    let of =
        |kind| move |(name, title): (&'static str, &str)| Bundled { kind, name, title: title.to_owned() };
    let sets = OPERATOR_SETS.iter().map(|&(name, summary, _)| (name, summary));
    scenarios
        .chain(networks().map(of(BundledKind::Network)))
        .chain(sets.map(of(BundledKind::OperatorSet)))
        .chain(language_models().map(of(BundledKind::LanguageModel)))
        .collect()
}

impl BundledKind {
    /// All kinds.
    pub const ALL: &[Self] = Self::VARIANTS;
}

impl ScenarioFile {
    /// Canonical name and scenario of the bundled network, operator set or language model called `wanted`;
    /// `None` where there is none.
    pub(super) fn of_bundled(wanted: &str) -> Option<(&'static str, Self)> {
        let is_wanted = |bundled: &Bundled| bundled.name.eq_ignore_ascii_case(wanted);
        let Bundled { kind, name, title } = bundled().into_iter().find(is_wanted)?;
        let file = Self { title, ..Self::default() };
        let file = match kind {
            BundledKind::Scenario => return None,
            BundledKind::Network => Self { network: Some(name.to_owned()), ..file },
            BundledKind::OperatorSet => Self { operator_set: Some(name.to_owned()), ..file },
            BundledKind::LanguageModel => {
                let table = LanguageTable { model: name.to_owned(), ..LanguageTable::default() };
                Self { device: Some(LANGUAGE_DEVICE.to_owned()), language_model: Some(table), ..file }
            }
        };
        Some((name, file))
    }
}

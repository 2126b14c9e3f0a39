//! A scenario: a workload on a device, resolved and checked.
//!
//! Responsible for: the scenario file, the bundled scenarios, and turning names
//! into stages, a profile and search options. Not for: running anything.
//! Invariant: a [`Scenario`] is valid: its graph is consistent, and its core sets
//! exist on its device.

mod applications;
mod bundled;
mod language;
mod overrides;
mod resolve;
mod workload;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use applications::ApplicationTable;
pub use bundled::{Bundled, BundledKind, bundled};
pub use language::LanguageTable;
pub use overrides::{Overrides, Threads};
use resolve::{refused, unknown};

use crate::device::Profile;
use crate::explore::{Answer, Applications, Effort, Objective, SearchOptions, Strategy, explore_stream};
use crate::input::{InputError, Result, Text};
use crate::kernel::Library;
use crate::plan::Mechanism;
use crate::simulate::{Measure, Pipeline, SimulateError, Simulator};
pub use crate::workload::InputTable;
use crate::workload::{DataType, LanguageTask, OperatorTable, Stage};
use bundled::BUNDLED;

/// Help for a scenario without a workload, or with several.
const WORKLOADS: &str =
    "write exactly one of network, operator_set, [[operator]], [language_model] or [[application]]";

/// A scenario file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScenarioFile {
    /// A short description of the scenario.
    pub title: String,
    /// Where the workload comes from.
    pub source: Option<String>,
    /// Name of a bundled network. A scenario has exactly one workload: `network`,
    /// `operator_set`, `operator`, `language_model` or `application`.
    pub network: Option<String>,
    /// Name of a bundled set of single operators, each run on its own.
    pub operator_set: Option<String>,
    /// Inputs of the operators, where the operators do not imply them.
    pub input: Option<Vec<InputTable>>,
    /// Operators, in order.
    pub operator: Option<Vec<OperatorTable>>,
    /// A language model with its prompts and answers.
    pub language_model: Option<LanguageTable>,
    /// Number format of the model.
    pub data_type: Option<DataType>,
    /// Batch size: images or token sequences per inference; 1 unless given.
    pub batch: Option<u32>,
    /// Device profile to use unless the command line names one.
    pub device: Option<String>,
    /// Maximum number of CPU threads a search may use.
    pub threads: Option<u32>,
    /// CPU kernels.
    pub library: Option<Library>,
    /// Synchronisation between processors.
    pub synchronisation: Option<Mechanism>,
    /// What a time covers. Unless given, a `network` is timed as a whole inference, and
    /// operators from their first launch on.
    pub measure: Option<Measure>,
    /// How to find a plan.
    pub strategy: Option<Strategy>,
    /// What the search minimises.
    pub objective: Option<Objective>,
    /// Step of the grid of output channels at which operators are cut.
    pub step: Option<u32>,
    /// Search effort of `optimal` for its plan and its bound.
    pub effort: Option<Effort>,
    /// How batches are pipelined; a single batch is predicted unless given.
    pub pipeline: Option<Pipeline>,
    /// Several applications at once, in place of one workload.
    pub application: Option<Vec<ApplicationTable>>,
    /// Length of the interval in which requests of applications arrive, in seconds; 10 unless given.
    pub duration_s: Option<f64>,
    /// Seed of random request arrivals; 0 unless given.
    pub seed: Option<u64>,
}

impl ScenarioFile {
    /// The scenario as TOML.
    ///
    /// # Errors
    /// A value has no TOML representation; values parsed from TOML always have one.
    pub fn to_toml(&self) -> Result<String, toml::ser::Error> {
        toml::to_string(self)
    }

    /// The bundled scenario called `name`, or else the one in the file at `path`: its canonical name, its text and
    /// its content.
    ///
    /// # Errors
    /// The name or the file is invalid.
    pub fn named(name: &str, path: &str) -> Result<(String, Text, Self)> {
        if let Some((name, content)) = BUNDLED.iter().find(|(bundled, _)| bundled.eq_ignore_ascii_case(name))
        {
            let text = Text { name: format!("{name}.toml"), content: (*content).to_owned() };
            let file = text.parse()?;
            return Ok(((*name).to_owned(), text, file));
        }
        if let Some((name, file)) = Self::of_bundled(name) {
            let text = Text { name: name.to_owned(), content: String::new() };
            return Ok((name.to_owned(), text, file));
        }
        if let Some(text) = Text::of_file(path) {
            let text = text?;
            if text.content.trim_start().starts_with('{') {
                let message = "a scenario is TOML, and this looks like JSON";
                let help = "of a language model's config.json, write a scenario with `[language_model]` and \
                            `model = \"config.json\"`";
                return Err(text.refuse("", message, help));
            }
            let file = text.parse()?;
            return Ok((name.to_owned(), text, file));
        }
        Err(InputError::Unknown {
            what: "scenario",
            name: name.to_owned(),
            known: bundled().into_iter().map(|bundled| bundled.name.to_owned()).collect(),
            or_file: true,
        })
    }
}

/// The workload of a scenario.
#[derive(Clone, Debug, PartialEq)]
pub enum Workload {
    /// One model or operator: its stages in order.
    Model(Vec<Stage>),
    /// Independent operators, each run on its own.
    Set(Vec<Stage>),
    /// A language model with its prompts and answers.
    Language(LanguageTask),
    /// Several applications at once, each with requests of its own.
    Applications(Applications),
}

/// A workload on a device, resolved and checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// Bundled name or file path.
    pub name: String,
    /// A short description.
    pub title: String,
    /// The workload.
    pub workload: Workload,
    /// The device.
    pub device: Profile,
    /// CPU kernels.
    pub library: Library,
    /// What a time covers.
    pub measure: Measure,
    /// Options of the search.
    pub options: SearchOptions,
    /// The strategy stated in the file or by the caller; `None` where the default applies.
    pub stated_strategy: Option<Strategy>,
    /// How batches are pipelined.
    pub pipeline: Option<Pipeline>,
}

impl Scenario {
    /// The scenario called `name`: a bundled scenario, network, operator set or language model, in any case, or
    /// a file.
    ///
    /// # Errors
    /// The name, the file, the device or the overrides are invalid.
    pub fn load(name: &str, overrides: &Overrides) -> Result<Self> {
        let (name, text, file) = ScenarioFile::named(name, name)?;
        file.resolve(&name, &text, overrides)
    }

    /// Parses and resolves a scenario file.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn parse(name: &str, text: &Text, overrides: &Overrides) -> Result<Self> {
        text.parse::<ScenarioFile>()?.resolve(name, text, overrides)
    }

    /// The scenario called `name` on `device`, with the defaults of the command line. Both are a bundled name
    /// or a path.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn on(name: &str, device: &str) -> Result<Self> {
        Self::load(name, &Overrides { device: Some(device.to_owned()), ..Overrides::default() })
    }

    /// A simulator with the scenario's measure: whole inferences of a network, or operators alone.
    pub fn simulator(&self) -> Simulator<'_> {
        Simulator::new(&self.device, self.library).measuring(self.measure)
    }

    /// The operators of the model or of the set; empty for a language model or several applications.
    pub fn stages(&self) -> &[Stage] {
        match &self.workload {
            Workload::Model(stages) | Workload::Set(stages) => stages,
            Workload::Language(_) | Workload::Applications(_) => &[],
        }
    }

    /// The plan that the scenario's strategy finds for its model, and its prediction, as in `coexec explore`.
    ///
    /// # Errors
    /// The workload is not one model of operators, or the device has no kernel for one of them.
    pub fn explore(&self) -> Result<Answer, SimulateError> {
        let Workload::Model(stages) = &self.workload else {
            return Err(SimulateError::OtherWorkload {
                strategy: self.options.strategy.name(),
                plans: "a single model of operators here",
            });
        };
        explore_stream(&mut self.simulator(), stages, &self.options, self.pipeline.as_ref())
    }
}

//! A scenario: a workload on a device, resolved and checked.
//!
//! Responsible for: the scenario file, the bundled scenarios, and turning names
//! into stages, a profile and search options. Not for: running anything.
//! Invariant: a [`Scenario`] is valid: its graph chains, its core sets exist on
//! its device, its processors are there.

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

/// What a scenario must have.
const WORKLOADS: &str =
    "write exactly one of network, operator_set, [[operator]], [language_model] or [[application]]";

/// A scenario as it is written.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScenarioFile {
    /// What it is, in a few words.
    pub title: String,
    /// Where the workload comes from.
    pub source: Option<String>,
    /// Name of a bundled network. A scenario has this, `operator_set` or
    /// `operator`.
    pub network: Option<String>,
    /// Name of a bundled set of single operators, each run on its own.
    pub operator_set: Option<String>,
    /// Inputs of the operators, where they have to be said.
    pub input: Option<Vec<InputTable>>,
    /// Operators, in order.
    pub operator: Option<Vec<OperatorTable>>,
    /// A language model and what it is asked.
    pub language_model: Option<LanguageTable>,
    /// Number format of the model.
    pub data_type: Option<DataType>,
    /// Images (or sequences of tokens) at once; one unless this says otherwise.
    pub batch: Option<u32>,
    /// Device profile to use unless the command line names one.
    pub device: Option<String>,
    /// Most CPU threads a search may use.
    pub threads: Option<u32>,
    /// CPU kernels.
    pub library: Option<Library>,
    /// Synchronisation between processors.
    pub synchronisation: Option<Mechanism>,
    /// What a time covers. A `network` is timed as a whole inference, operators from
    /// their first launch on, unless this says otherwise.
    pub measure: Option<Measure>,
    /// How to find a plan.
    pub strategy: Option<Strategy>,
    /// What the search minimises.
    pub objective: Option<Objective>,
    /// Grid of output channels.
    pub step: Option<u32>,
    /// What `optimal` may do for its plan and its bound.
    pub effort: Option<Effort>,
    /// How batches follow each other, where more than one is of interest.
    pub pipeline: Option<Pipeline>,
    /// Several applications at once, in place of one workload.
    pub application: Option<Vec<ApplicationTable>>,
    /// How long requests of applications come, in seconds; 10 unless given.
    pub duration_s: Option<f64>,
    /// Seed of requests that come at random; 0 unless given.
    pub seed: Option<u64>,
}

impl ScenarioFile {
    /// The file as it is written.
    ///
    /// # Errors
    /// A value that TOML cannot say; what was parsed all can be said.
    pub fn to_toml(&self) -> Result<String, toml::ser::Error> {
        toml::to_string(self)
    }

    /// What `name` stands for, how it is written, and the text of it.
    fn named(name: &str) -> Result<(String, Text, Self)> {
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
        if let Some(text) = Text::of_file(name) {
            let text = text?;
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

/// What is run.
#[derive(Clone, Debug, PartialEq)]
pub enum Workload {
    /// One model (or operator), its stages in order.
    Model(Vec<Stage>),
    /// Independent operators, each run on its own.
    Set(Vec<Stage>),
    /// A language model and what it is asked.
    Language(LanguageTask),
    /// Several applications at once, each with requests of its own.
    Applications(Applications),
}

/// A workload on a device, resolved and checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// Bundled name or file path.
    pub name: String,
    /// What it is.
    pub title: String,
    /// What is run.
    pub workload: Workload,
    /// The device.
    pub device: Profile,
    /// CPU kernels.
    pub library: Library,
    /// What a time covers.
    pub measure: Measure,
    /// What a search may use.
    pub options: SearchOptions,
    /// The strategy among them, where the file or the caller says it rather than leaving it to what is usual.
    pub stated_strategy: Option<Strategy>,
    /// How batches follow each other.
    pub pipeline: Option<Pipeline>,
}

impl Scenario {
    /// The scenario called `name`, in whatever case: bundled, a bundled network or operator set, or a file.
    ///
    /// # Errors
    /// What is wrong with the name, the file, the device or the overrides.
    pub fn load(name: &str, overrides: &Overrides) -> Result<Self> {
        let (name, text, file) = ScenarioFile::named(name)?;
        file.resolve(&name, &text, overrides)
    }

    /// Parses and resolves a scenario file.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn parse(name: &str, text: &Text, overrides: &Overrides) -> Result<Self> {
        text.parse::<ScenarioFile>()?.resolve(name, text, overrides)
    }

    /// What the command takes `name` for on `device`, with everything else as it is by default: both are a
    /// bundled name or a path.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn on(name: &str, device: &str) -> Result<Self> {
        Self::load(name, &Overrides { device: Some(device.to_owned()), ..Overrides::default() })
    }

    /// A simulator that measures what the command measures of the scenario: a network's whole inference, or
    /// operators alone.
    pub fn simulator(&self) -> Simulator<'_> {
        Simulator::new(&self.device, self.library).measuring(self.measure)
    }

    /// The operators of the model, or of the set; none of a language model or of several applications.
    pub fn stages(&self) -> &[Stage] {
        match &self.workload {
            Workload::Model(stages) | Workload::Set(stages) => stages,
            Workload::Language(_) | Workload::Applications(_) => &[],
        }
    }

    /// The plan that the scenario's strategy finds for its model, and what it predicts: what `coexec explore`
    /// answers.
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

//! A scenario: a workload on a device, resolved and checked.
//!
//! Responsible for: the scenario file, the bundled scenarios, and turning names
//! into stages, a profile and search options. Not for: running anything.
//! Invariant: a [`Scenario`] is valid: its graph chains, its core sets exist on
//! its device, its processors are there.

mod assemble;
mod import;
mod inline;
mod language;
mod overrides;
mod workload;
mod written;

use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use import::ImportedScenario;
pub use inline::{InlineInput, InlineOperator};
pub use language::{LanguageTable, TurnTable};
pub use overrides::Overrides;

use crate::device::check::{Checker, Violation};
use crate::device::profile::Profile;
use crate::explore::language::LanguageStrategy;
use crate::explore::{Objective, Options, Strategy};
use crate::input::{InputError, Text};
use crate::kernel::cpu::{CoreSet, Library, MAX_THREADS};
use crate::plan::synchronisation::Mechanism;
use crate::simulate::{BackgroundWork, Measure, Pipeline};
use crate::workload::import::{ImportOptions, ModelFormat};
use crate::workload::{DataType, LANGUAGE_MODELS, LanguageTask, NETWORKS, OPERATOR_SETS, Stage};

/// CPU threads a search may use unless the scenario says otherwise: EPEW'25
/// evaluates one to three.
const DEFAULT_THREADS: u32 = 3;

/// Grid of output channels unless the scenario says otherwise: the step of
/// EPEW'25's grid search (section 5.3).
const DEFAULT_STEP: u32 = 8;

/// Device a scenario runs on when neither it nor the caller names one.
const DEFAULT_DEVICE: &str = "oneplus11";

/// Device of a bundled language model: the phone of `HeteroInfer` (SOSP'25).
const LANGUAGE_DEVICE: &str = "snapdragon-8gen3";

/// What a scenario must have.
const WORKLOADS: &str = "write exactly one of network, operator_set, [[operator]] or [language_model]";

/// A scenario as it is written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Vec<InlineInput>>,
    /// Operators, in order.
    pub operator: Option<Vec<InlineOperator>>,
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
    /// How batches follow each other, where more than one is of interest.
    pub pipeline: Option<Pipeline>,
    /// Somebody else's work on the same device: a game. Plans are made without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub background: Option<BackgroundWork>,
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
    pub options: Options,
    /// How to find a plan of a language model.
    pub language_strategy: LanguageStrategy,
    /// How batches follow each other.
    pub pipeline: Option<Pipeline>,
    /// Somebody else's work beside the workload.
    pub background: Option<BackgroundWork>,
}

/// Bundled scenario files, by name.
const BUNDLED: [(&str, &str); 6] = [
    ("vit-b32-fc1", include_str!("../../scenarios/vit-b32-fc1.toml")),
    ("conv3x3-64x64x128", include_str!("../../scenarios/conv3x3-64x64x128.toml")),
    ("llama3-8b-ffn-down", include_str!("../../scenarios/llama3-8b-ffn-down.toml")),
    ("llama2-7b-multi-turn", include_str!("../../scenarios/llama2-7b-multi-turn.toml")),
    ("llama3-8b-simple-qa", include_str!("../../scenarios/llama3-8b-simple-qa.toml")),
    ("llama3-8b-beside-game", include_str!("../../scenarios/llama3-8b-beside-game.toml")),
];

/// Names of everything `load` knows: bundled scenarios, networks, sets.
pub fn names() -> Vec<(&'static str, String)> {
    let scenarios = BUNDLED.iter().map(|(name, content)| {
        let text = Text { name: (*name).to_owned(), content: (*content).to_owned() };
        (*name, text.parse::<ScenarioFile>().map_or_else(|error| error.to_string(), |file| file.title))
    });
    let networks = NETWORKS.iter().map(|(name, summary, _)| (*name, (*summary).to_owned()));
    let sets = OPERATOR_SETS.iter().map(|(name, summary)| (*name, (*summary).to_owned()));
    let models = LANGUAGE_MODELS.iter().map(|(name, summary)| (*name, (*summary).to_owned()));
    scenarios.chain(networks).chain(sets).chain(models).collect()
}

impl Scenario {
    /// The scenario called `name`: bundled, a bundled network or operator set,
    /// a model to import, or a file.
    ///
    /// # Errors
    /// What is wrong with the name, the file, the device or the overrides.
    pub fn load(name: &str, overrides: &Overrides) -> Result<Self, InputError> {
        if let Some((name, content)) = BUNDLED.iter().find(|(bundled, _)| *bundled == name) {
            let text = Text { name: format!("{name}.toml"), content: (*content).to_owned() };
            return Self::parse(name, &text, overrides);
        }
        if let Some(text) = generated(name) {
            return Self::parse(name, &text, overrides);
        }
        if ModelFormat::of_name(name).is_some() {
            let imported = ImportedScenario::load(Path::new(name), &ImportOptions::default())?;
            return Self::parse(name, &imported.into_text(name), overrides);
        }
        if let Some(text) = Text::of_file(name) {
            return Self::parse(name, &text?, overrides);
        }
        Err(InputError::Unknown {
            what: "scenario",
            name: name.to_owned(),
            known: names().into_iter().map(|(name, _)| name.to_owned()).collect(),
        })
    }

    /// Parses and resolves a scenario file.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn parse(name: &str, text: &Text, overrides: &Overrides) -> Result<Self, InputError> {
        let file: ScenarioFile = text.parse()?;
        let device = file.device(text, overrides)?;
        let workload = file.workload(name, text, overrides)?;
        let core_sets = file.core_sets(text, overrides, &device)?;
        let step = file.grid_step(text, overrides)?;
        let objective = file.objective(text, overrides, &device)?;
        let measure = file.measure(text)?;
        file.check_pipeline(text)?;
        let of_language = matches!(workload, Workload::Language(_));
        overrides.check_strategy(of_language)?;
        let usual = if of_language { Mechanism::SleepThenPoll } else { Mechanism::SvmPolling };
        let background = file.background(text, &device)?;
        let options = Options {
            strategy: overrides.strategy.or(file.strategy).unwrap_or_default(),
            objective,
            synchronisation: overrides.synchronisation.or(file.synchronisation).unwrap_or(usual),
            core_sets,
            step,
        };
        Ok(Self {
            name: name.to_owned(),
            title: file.title,
            workload,
            library: overrides.library.or(file.library).unwrap_or_else(|| Library::default_for(&device.cpu)),
            measure,
            device,
            options,
            language_strategy: overrides
                .language_strategy
                .or(file.language_model.and_then(|table| table.strategy))
                .unwrap_or_default(),
            pipeline: file.pipeline,
            background,
        })
    }
}

/// A bundled network, operator set or language model as a scenario file.
fn generated(name: &str) -> Option<Text> {
    let network = NETWORKS.iter().find(|(network, _, _)| *network == name);
    let set = OPERATOR_SETS.iter().find(|(set, _)| *set == name);
    let model = LANGUAGE_MODELS.iter().find(|(model, _)| *model == name);
    let content = match (network, set, model) {
        (Some((name, summary, _)), ..) => format!("title = {summary:?}\nnetwork = {name:?}\n"),
        (_, Some((name, summary)), _) => format!("title = {summary:?}\noperator_set = {name:?}\n"),
        (_, _, Some((name, summary))) => {
            format!("title = {summary:?}\ndevice = {LANGUAGE_DEVICE:?}\n[language_model]\nmodel = {name:?}\n")
        }
        (None, None, None) => return None,
    };
    Some(Text { name: name.to_owned(), content })
}

impl ScenarioFile {
    /// The device the caller names, else the one the file names.
    fn device(&self, text: &Text, overrides: &Overrides) -> Result<Profile, InputError> {
        match (&overrides.device, &self.device) {
            (Some(name), _) => Profile::load(name),
            (None, None) => Profile::load(DEFAULT_DEVICE),
            (None, Some(name)) => Profile::load(name).map_err(|error| match error {
                // The name stands in this file; what is wrong in a profile does not.
                InputError::Unknown { .. } | InputError::Unreadable { .. } => {
                    text.refuse("device", error.to_string(), error.help())
                }
                other => other,
            }),
        }
    }

    /// One core set for each thread count up to the most allowed, fastest cores
    /// first.
    fn core_sets(
        &self,
        text: &Text,
        overrides: &Overrides,
        device: &Profile,
    ) -> Result<Vec<CoreSet>, InputError> {
        let most = device.cpu.cores().min(MAX_THREADS as u32);
        let threads = overrides.threads.or(self.threads).unwrap_or(DEFAULT_THREADS.min(most));
        let sets: Option<Vec<CoreSet>> =
            (1..=threads).map(|threads| CoreSet::fastest(&device.cpu, threads)).collect();
        sets.ok_or_else(|| {
            let expected = format!("at most {most}, the threads that {} can run", device.name);
            match overrides.threads {
                Some(threads) => {
                    InputError::Option { option: "--threads", found: threads.to_string(), expected }
                }
                None => text.reject(violation("threads", threads.to_string(), expected)),
            }
        })
    }

    /// What the search minimises; energy only where the device's power is known.
    fn objective(
        &self,
        text: &Text,
        overrides: &Overrides,
        device: &Profile,
    ) -> Result<Objective, InputError> {
        let objective = overrides.objective.or(self.objective).unwrap_or_default();
        if objective == Objective::Latency || device.power.is_some() {
            return Ok(objective);
        }
        let expected = format!("\"latency\": the profile of {} has no [power] table", device.name);
        let found = format!("{:?}", objective.name());
        Err(match overrides.objective {
            Some(_) => InputError::Option { option: "--objective", found, expected },
            None => text.reject(violation("objective", found, expected)),
        })
    }

    /// Somebody else's work, which needs a GPU.
    fn background(&self, text: &Text, device: &Profile) -> Result<Option<BackgroundWork>, InputError> {
        let Some(work) = &self.background else { return Ok(None) };
        let mut checker = Checker::default();
        checker.table("background", |checker| {
            work.check(checker);
            if device.gpu.is_none() {
                checker.violation(
                    "gpu_us",
                    work.gpu_us.value,
                    format!("a device with a GPU, not {}", device.name),
                );
            }
        });
        match checker.finish().into_iter().next() {
            Some(violation) => Err(text.reject(violation)),
            None => Ok(Some(work.clone())),
        }
    }

    /// What a time covers.
    fn measure(&self, text: &Text) -> Result<Measure, InputError> {
        let usual = if self.network.is_some() { Measure::Inference } else { Measure::Operators };
        match self.measure {
            Some(Measure::Inference) if self.operator_set.is_some() => Err(text.reject(violation(
                "measure",
                "\"inference\"",
                "\"operators\": each operator of a set is run on its own",
            ))),
            written => Ok(written.unwrap_or(usual)),
        }
    }

    /// That batches can be streamed as the file says, and that there is a model to stream.
    fn check_pipeline(&self, text: &Text) -> Result<(), InputError> {
        let Some(pipeline) = &self.pipeline else { return Ok(()) };
        if self.operator_set.is_some() {
            let expected = "no [pipeline]: each operator of a set is run on its own";
            return Err(text.reject(violation("pipeline", "a table", expected)));
        }
        let mut checker = Checker::default();
        checker.table("pipeline", |checker| pipeline.check(checker));
        checker.finish().into_iter().next().map_or(Ok(()), |violation| Err(text.reject(violation)))
    }

    /// The grid of output channels.
    fn grid_step(&self, text: &Text, overrides: &Overrides) -> Result<u32, InputError> {
        let expected = || "a whole number of at least 1".to_owned();
        match (overrides.step, self.step) {
            (Some(0), _) => {
                Err(InputError::Option { option: "--step", found: "0".to_owned(), expected: expected() })
            }
            (None, Some(0)) => Err(text.reject(violation("step", "0", expected()))),
            (step, written) => Ok(step.or(written).unwrap_or(DEFAULT_STEP)),
        }
    }
}

fn violation(key: impl Into<String>, found: impl Into<String>, expected: impl Into<String>) -> Violation {
    Violation { key: key.into(), found: found.into(), expected: expected.into() }
}

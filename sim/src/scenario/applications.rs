//! The applications of a scenario file.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{LanguageTable, Overrides, ScenarioFile, Workload};
use crate::device::check::repeated;
use crate::device::{Checker, Profile};
use crate::engine::{Backpressure, MAX_QUEUE_DEPTH};
use crate::explore::{Application, Applications, Job, LanguageJob, ModelJob, Strategy};
use crate::input::{InputError, Result, Text, Violation};
use crate::plan::{Plan, PlanFile};
use crate::simulate::{Arrivals, DEFAULT_QUEUE_DEPTH, Frames, MAX_APPLICATIONS, planned_stages};
use crate::units::{MICROS_PER_SECOND, MILLIS_PER_DAY, Picos};
use crate::workload::Stage;

/// Default length of the interval in which requests arrive: 300 frames of a camera.
const DEFAULT_DURATION_S: f64 = 10.0;
/// Maximum length of that interval: one hour.
const MAX_DURATION_S: f64 = 3_600.0;
/// Shortest deadline: one microsecond.
const MIN_DEADLINE_MS: f64 = 1e-3;
/// Help for an application without a job, or with several.
const JOBS: &str = "write exactly one of scenario, language_model or frames for each [[application]]";

/// One of several applications on one phone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApplicationTable {
    /// Name of the application.
    pub name: String,
    /// What each request runs: a bundled network, language model or scenario, or the path of a scenario, whose
    /// device is ignored. An application has exactly one of this, `language_model` and `frames`.
    pub scenario: Option<String>,
    /// A language model with the prompts and answers of each request.
    pub language_model: Option<LanguageTable>,
    /// GPU time and memory traffic of a renderer, per frame.
    pub frames: Option<Frames>,
    /// Strategy that plans the application as if it were alone.
    pub strategy: Option<Strategy>,
    /// Path of its plan; a plan is searched for unless given.
    pub plan: Option<String>,
    /// When requests arrive.
    pub arrivals: Arrivals,
    /// What happens to requests that arrive while an earlier one is computed. Unless given, `queue`, and for frames
    /// `block-producer`.
    pub backpressure: Option<Backpressure>,
    /// Longest acceptable time from a request's arrival to its end, in milliseconds.
    pub deadline_ms: Option<f64>,
    /// Maximum number of its commands in a processor's queue. Unless given, 15, as in the KGSL driver, and for
    /// frames 1.
    pub queue_depth: Option<u32>,
}

impl ScenarioFile {
    /// The applications, on `device`.
    pub(super) fn applications(
        &self,
        tables: &[ApplicationTable],
        text: &Text,
        (overrides, device): (&Overrides, &Profile),
    ) -> Result<Workload> {
        self.check_applications(tables, text)?;
        let profile = Some(Box::new(device.clone()));
        let of_all = Overrides { device: None, profile, ..overrides.clone() };
        let application = |(index, table): (usize, &ApplicationTable)| {
            let frames = table.frames.is_some();
            let usual = if frames { Backpressure::BlockProducer } else { Backpressure::Queue };
            Ok(Application {
                name: table.name.clone(),
                job: table.job(&format!("application[{index}]"), text, (&of_all, device))?,
                arrivals: table.arrivals,
                backpressure: table.backpressure.unwrap_or(usual),
                queue_depth: table.queue_depth.unwrap_or(if frames { 1 } else { DEFAULT_QUEUE_DEPTH }),
                deadline: table.deadline_ms.map(Picos::from_millis),
            })
        };
        let duration_s = self.duration_s.unwrap_or(DEFAULT_DURATION_S);
        Ok(Workload::Applications(Applications {
            applications: tables.iter().enumerate().map(application).collect::<Result<_>>()?,
            duration: Picos::from_micros(duration_s * MICROS_PER_SECOND),
            seed: self.seed.unwrap_or_default(),
        }))
    }

    fn check_applications(&self, tables: &[ApplicationTable], text: &Text) -> Result<()> {
        self.refuse_keys(
            text,
            |key| !["duration_s", "seed"].contains(&key),
            "a key of a single model, next to [[application]]",
            "write it in the scenario that an application names",
        )?;
        if tables.is_empty() || tables.len() > MAX_APPLICATIONS {
            let expected = format!("1 to {MAX_APPLICATIONS} applications");
            return Err(text.reject(Violation::new("application", tables.len(), expected)));
        }
        let mut checker = Checker::default();
        checker.within("duration_s", self.duration_s, [1e-3, MAX_DURATION_S]);
        let duration_s = self.duration_s.unwrap_or(DEFAULT_DURATION_S);
        checker.each("application", tables, |table, checker| table.check(duration_s, checker));
        for (index, table) in repeated(tables, |table| &table.name) {
            let key = format!("application[{index}].name");
            checker.violation(&key, &table.name, "a name of its own for each application");
        }
        checker.refuse(text)
    }
}

fn not_one_model(key: &str, name: &str, text: &Text) -> InputError {
    let message = format!("{name} is not one model that each request runs once");
    text.refuse(key, message, "name a network, a language model or a scenario with one model")
}

impl ApplicationTable {
    fn check(&self, duration_s: f64, checker: &mut Checker) {
        if self.name.trim().is_empty() {
            checker.violation("name", format_args!("{:?}", self.name), "a name");
        }
        checker.table("arrivals", |checker| self.arrivals.check(duration_s, checker));
        checker.optional("frames", self.frames.as_ref(), Frames::check);
        if let (Some(plan), Some(_)) = (&self.plan, self.strategy) {
            checker.violation("plan", format_args!("{plan:?}"), "either a plan or a strategy");
        }
        checker.within("deadline_ms", self.deadline_ms, [MIN_DEADLINE_MS, MILLIS_PER_DAY]);
        if let Some(depth) = self.queue_depth {
            checker.count("queue_depth", depth, MAX_QUEUE_DEPTH as u32);
        }
    }

    /// The job of each request; `at` is the key of the table.
    fn job(&self, at: &str, text: &Text, (of_all, device): (&Overrides, &Profile)) -> Result<Job> {
        let overrides = Overrides { strategy: self.strategy, ..of_all.clone() };
        let (key, found) = match (&self.scenario, &self.language_model, &self.frames) {
            (Some(name), None, None) => ("scenario", ScenarioFile::named(name, &text.path(name))),
            (None, Some(table), None) => {
                // Checked here so that errors point into this table; the result is resolved below.
                table.task(text, &format!("{at}.language_model"))?;
                let (title, language_model) = (self.name.clone(), Some(table.clone()));
                let file = ScenarioFile { title, language_model, ..ScenarioFile::default() };
                ("language_model", Ok((self.name.clone(), text.clone(), file)))
            }
            (None, None, Some(frames)) => return self.of_frames(at, text, frames, device),
            (scenario, model, frames) => {
                let is_open = scenario.is_none() && model.is_none() && frames.is_none();
                let what = if is_open { "does not say what its requests run" } else { "runs several things" };
                return Err(text.refuse(&format!("{at}.name"), format!("{:?} {what}", self.name), JOBS));
            }
        };
        let key = format!("{at}.{key}");
        let refused = |error: InputError| match error {
            InputError::Option { option: "--strategy", found, expected } => {
                text.reject(Violation::new(format!("{at}.strategy"), format!("{found:?}"), expected))
            }
            InputError::Refused { message, help, .. } if self.language_model.is_some() => {
                text.refuse(&format!("{key}.strategy"), message, help)
            }
            error => text.refuse(&key, error.to_string(), error.help()),
        };
        let (name, own_text, file) = found.map_err(refused)?;
        // Checked before resolving, since a scenario of applications could name itself.
        if file.application.is_some() {
            return Err(not_one_model(&key, &name, text));
        }
        let scenario = file.resolve(&name, &own_text, &overrides).map_err(refused)?;
        let library = scenario.library;
        match scenario.workload {
            Workload::Model(stages) if scenario.pipeline.is_none() => {
                let plan = self.plan(text, &stages, device)?;
                let (measure, options) = (scenario.measure, scenario.options);
                Ok(Job::Model(ModelJob { stages, library, measure, options, plan }))
            }
            Workload::Language(task) => {
                let plan = self.plan(text, &planned_stages(&task), device)?;
                let synchronisation = scenario.options.synchronisation;
                let strategy = scenario.stated_strategy;
                Ok(Job::Language(LanguageJob { task, library, strategy, synchronisation, plan }))
            }
            Workload::Model(_) | Workload::Set(_) | Workload::Applications(_) => {
                Err(not_one_model(&key, &scenario.name, text))
            }
        }
    }

    fn of_frames(&self, at: &str, text: &Text, frames: &Frames, device: &Profile) -> Result<Job> {
        let refuse = |key: &str, found: &str, expected: String| {
            Err(text.reject(Violation::new(format!("{at}.{key}"), found, expected)))
        };
        if self.strategy.is_some() || self.plan.is_some() {
            let expected = "neither strategy nor plan: frames always run on the GPU";
            return refuse("frames", "planned", expected.to_owned());
        }
        if device.gpu.is_none() {
            return refuse("frames", "on no GPU", format!("a device with a GPU, not {}", device.name));
        }
        Ok(Job::Frames(frames.clone()))
    }

    fn plan(&self, text: &Text, stages: &[Stage], device: &Profile) -> Result<Option<Plan>> {
        let Some(path) = &self.plan else { return Ok(None) };
        let text = Text::read(text.path(path).as_ref())?;
        text.parse::<PlanFile>()?.resolve(&text, stages, device).map(Some)
    }
}

//! Options of the commands that plan and simulate: `coexec simulate`, `coexec explore` and `coexec
//! compare`.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use coexec_hw::fingerprint::is_date;
use coexec_sim::explore::advice::{CONFIDENCE, Regret};
use coexec_sim::{
    InputError, Library, Mechanism, Overrides, Plan, PlanFile, ProcessorKind, Profile, Scenario, Strategy,
};

use super::{one_or_all, picture, quoted};
use crate::{Failure, ModelOptions, OneOrAll, PicturePath, Result, output};
use coexec_sim::explore::{Effort, Objective};
use coexec_sim::scenario::Threads;

/// The options that `simulate`, `explore` and `run` share.
#[derive(Debug, Args)]
pub(crate) struct ScenarioOptions {
    /// Bundled scenario or network (see `coexec devices`), or a file: .toml, .onnx or .tflite
    pub(crate) scenario: String,
    #[command(flatten)]
    pub(crate) overrides: Overrides,
    #[command(flatten)]
    how: ModelOptions,
    /// How to find the plan (default: the scenario's; else optimal for a model of operators)
    #[arg(long, value_name = "NAME|all", value_parser = one_or_all::<Strategy>())]
    pub(crate) strategy: Option<OneOrAll<Strategy>>,
}

impl ScenarioOptions {
    /// Refuses `--strategy all` where a single plan is needed, and options that the file of `plan`
    /// already sets.
    pub(crate) fn check_one_plan(&self, plan: Option<&Path>) -> Result {
        if self.strategy == Some(OneOrAll::All) {
            return Err(Failure::usage(
                "--strategy all compares plans, and this command uses one",
                "name a strategy, or use `coexec explore --strategy all`",
            ));
        }
        match plan {
            Some(plan) if self.overrides.synchronisation.is_some() => Err(Failure::usage(
                "--synchronisation cannot be used with --plan: the plan file sets it",
                format!("edit `synchronisation` in {}", plan.display()),
            )),
            _ => Ok(()),
        }
    }

    /// Reads or imports the scenario.
    pub(crate) fn load(&self) -> Result<Scenario, InputError> {
        self.overridden(self.overrides.profile.clone(), None)
    }

    /// Reads or imports the scenario, on the device that `plan` was made for unless another one is named.
    pub(crate) fn load_for(&self, plan: Option<&PlanFile>) -> Result<Scenario, InputError> {
        // A profile in a file may have another name, or be gone.
        let made_for = plan.map(|plan| &plan.device).filter(|device| Profile::load(device).is_ok());
        self.overridden(self.overrides.profile.clone(), made_for.cloned())
    }

    /// Reads or imports the scenario, on `device` instead of the one it names.
    pub(crate) fn load_on(&self, device: Profile) -> Result<Scenario, InputError> {
        self.overridden(Some(Box::new(device)), None)
    }

    fn overridden(
        &self,
        profile: Option<Box<Profile>>,
        usual_device: Option<String>,
    ) -> Result<Scenario, InputError> {
        let strategy = self.strategy.and_then(OneOrAll::one);
        let overrides = Overrides { strategy, profile, usual_device, ..self.overrides.clone() };
        coexec_import::load(&self.scenario, &overrides, &self.how.import()?)
    }

    /// Refuses an `output` that would overwrite an input: the scenario or model, the profile, or
    /// `plan`.
    pub(crate) fn check_distinct(&self, output: Option<&Path>, plan: Option<&Path>) -> Result {
        let device = self.overrides.device.as_deref().map(Path::new);
        output::check_all_distinct(&[output], &[Some(Path::new(&self.scenario)), device, plan])
    }

    /// The options that only a search over operators has, and whether each was given.
    pub(crate) fn of_search(&self) -> [(&'static str, bool); 4] {
        let Overrides { threads, step, effort, library, .. } = &self.overrides;
        [
            ("--threads", threads.is_some()),
            ("--step", step.is_some()),
            ("--effort", effort.is_some()),
            ("--library", library.is_some()),
        ]
    }

    /// The `coexec run` command that measures `scenario` on its device, with the options given here.
    /// `plan` is read from `file` if there is one, searched for again if `run` can (`is_searched`), and
    /// otherwise read from a file that the user has yet to write. A plan that uses the NPU is replaced
    /// by `cpu-only`, as `run` has no NPU. What follows the first ": " can be pasted into a shell, unless `run`
    /// has no kernels for the number format.
    pub(crate) fn verification(
        &self,
        scenario: &Scenario,
        plan: &Plan,
        file: Option<&Path>,
        is_searched: bool,
    ) -> String {
        let Overrides { device, batch, threads, library, synchronisation, objective, step, effort, .. } =
            &self.overrides;
        if let Err(error) = coexec_hw::execute::check_kernels(scenario.stages()) {
            return format!(
                "Verify on the device with the framework's own benchmark and coexec validate; coexec run has no \
                 kernels for it: {error}"
            );
        }
        // `run` cannot execute on an NPU, so another processor is measured.
        let is_on_npu = plan.placements.iter().any(|placement| placement.uses(ProcessorKind::Npu));
        // A plan file excludes the options of a search.
        let is_missing = file.is_none() && !is_searched;
        let written = is_missing.then_some(Path::new("PLAN.toml"));
        let file = file.or(written).filter(|_| !is_on_npu);
        let strategy = self.strategy.and_then(OneOrAll::one).filter(|_| !is_on_npu && file.is_none());
        let strategy = strategy.or_else(|| is_on_npu.then_some(Strategy::CpuOnly));
        let flags = [
            ("device", Some(device.clone().unwrap_or_else(|| scenario.device.name.clone()))),
            ("batch", batch.map(|batch| batch.to_string())),
            (
                "threads",
                threads.map(|threads| match threads {
                    Threads::AtMost(count) => count.to_string(),
                    Threads::All => "all".to_owned(),
                }),
            ),
            ("library", library.map(word)),
            ("synchronisation", synchronisation.map(word)),
            ("objective", objective.map(word).filter(|_| file.is_none())),
            ("step", step.map(|step| step.to_string()).filter(|_| file.is_none())),
            ("effort", effort.map(word)),
            ("strategy", strategy.map(|strategy| strategy.name().to_owned())),
            ("plan", file.map(|file| file.display().to_string())),
        ];
        let given = flags
            .into_iter()
            .filter_map(|(flag, value)| value.map(|value| format!(" --{flag} {}", quoted(&value))));
        let but = match (is_on_npu, is_missing) {
            (true, _) => ", where no part on an NPU can be run",
            (false, true) => ", under the plan that --out PLAN.toml writes",
            (false, false) => "",
        };
        format!(
            "Verify on the device{but}: coexec run {}{}{} --out runs.csv",
            quoted(&scenario.name),
            given.collect::<String>(),
            self.how.as_typed()
        )
    }
}

/// A value's name on the command line.
fn word<V: ValueEnum + Copy>(value: V) -> String {
    value.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

/// `coexec simulate`.
#[derive(Debug, Args)]
pub(crate) struct Simulate {
    #[command(flatten)]
    pub(crate) place: ScenarioOptions,
    /// Plan file to simulate instead of searching for a plan
    #[arg(long, value_name = "FILE", conflicts_with_all = ["threads", "strategy", "objective", "step"])]
    pub(crate) plan: Option<PathBuf>,
    /// Write a trace of the run for ui.perfetto.dev (Chrome JSON format)
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    /// Write a picture of the timeline (.svg or .png)
    #[arg(long, value_name = "FILE", value_parser = picture())]
    pub(crate) plot: Option<PicturePath>,
    /// Simulate N runs with the profile's jitter, and print their mean and percentiles
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) samples: Option<u32>,
    /// Seed of the jitter
    #[arg(long, value_name = "S", default_value_t = 0, requires = "samples")]
    pub(crate) seed: u64,
}

/// `coexec explore`.
#[derive(Debug, Args)]
pub(crate) struct Explore {
    #[command(flatten)]
    pub(crate) place: ScenarioOptions,
    /// Write the plan found, for `simulate --plan` and `run --plan`
    #[arg(long, value_name = "PLAN.toml")]
    pub(crate) out: Option<PathBuf>,
    /// Write a trace of the run for ui.perfetto.dev (Chrome JSON format)
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    /// Write a picture of latency against the GPU's output channels or, with --strategy all, of each
    /// strategy's latency and energy (.svg or .png)
    #[arg(long, value_name = "FILE", value_parser = picture())]
    pub(crate) plot: Option<PicturePath>,
    /// Write a picture of the timeline (.svg or .png)
    #[arg(long, value_name = "FILE", value_parser = picture())]
    pub(crate) timeline: Option<PicturePath>,
    /// Write a picture of each processor's share of each operator, with chains outlined, for the plan
    /// found or, with --strategy all, for every strategy (.svg or .png)
    #[arg(long, value_name = "FILE", value_parser = picture())]
    pub(crate) shares: Option<PicturePath>,
    /// Fraction of draws of the profile's errors in which the plan must beat the best single processor;
    /// otherwise that processor is advised. With --strategy NAME its plan is shown regardless
    #[arg(long, value_name = "0..1", default_value_t = CONFIDENCE, value_parser = within(0.0..=1.0))]
    pub(crate) confidence: f64,
    /// Take the best plan under the profile's nominal values, ignoring their errors
    #[arg(long, conflicts_with_all = ["robust", "confidence"])]
    pub(crate) nominal: bool,
    /// Choose the plan with the least regret, by mean or 95th percentile, over draws of the profile's
    /// errors
    #[arg(long, value_enum, value_name = "mean|p95", conflicts_with = "strategy")]
    pub(crate) robust: Option<Regret>,
    /// Mean error of each processor's times and of hand-overs, instead of the profile's. All operators
    /// of a processor share one error and have none of their own, so intervals are narrower than with a
    /// profile that states the same percentage
    #[arg(long, value_name = "PERCENT", value_parser = within(ERRORS))]
    pub(crate) profile_error: Option<f64>,
    /// Operator that --plot shows (default: the first that is cut, else the first that can be)
    #[arg(long, value_name = "NAME", requires = "plot")]
    pub(crate) operator: Option<String>,
}

/// Limits on errors, spreads or gains, in percent; the largest limits no error.
pub(super) const LIMITS: RangeInclusive<f64> = 0.0..=1e9;

/// Parses a calendar date, `YYYY-MM-DD`, as written into a profile.
pub(super) fn date(text: &str) -> Result<String, &'static str> {
    if is_date(text) { Ok(text.to_owned()) } else { Err("expected a date such as 2026-05-01") }
}

/// Mean errors, in percent; beyond 200 % a draw is meaningless.
const ERRORS: RangeInclusive<f64> = 0.0..=200.0;

/// Parses a number within `range`.
pub(super) fn within(range: RangeInclusive<f64>) -> impl Fn(&str) -> Result<f64, String> + Clone {
    move |text| {
        let number = text.parse().ok().filter(|number| range.contains(number));
        number.ok_or_else(|| format!("expected a number from {} to {}", range.start(), range.end()))
    }
}

/// `coexec compare`.
#[derive(Debug, Args)]
pub(crate) struct Compare {
    /// Bundled networks, language models or scenarios, or files, separated by commas; `all` is every
    /// bundled network
    #[arg(default_value = "all", value_delimiter = ',')]
    pub(crate) scenarios: Vec<String>,
    #[command(flatten)]
    pub(crate) how: ModelOptions,
    /// Device profiles: bundled names, aliases or files, separated by commas. `unified` is every
    /// bundled device whose CPU and GPU share one memory, except those known only from a specification;
    /// `all` is every one with a GPU. Both omit devices of unknown power where plans minimise energy
    #[arg(
        long,
        alias = "device",
        value_name = "NAME|FILE,...",
        default_value = "unified",
        value_delimiter = ','
    )]
    pub(crate) devices: Vec<String>,
    /// Strategies to show in addition to `optimal` and the baseline, separated by commas
    #[arg(long, value_name = "NAME,...", value_parser = one_or_all::<Strategy>(), default_value = "all", value_delimiter = ',')]
    pub(crate) strategies: Vec<OneOrAll<Strategy>>,
    /// Strategy that the gains of `optimal` are relative to
    #[arg(long, value_name = "NAME", value_enum, default_value_t = DEFAULT_BASELINE)]
    pub(crate) baseline: Strategy,
    /// What plans minimise (default: latency)
    #[arg(long, value_enum)]
    pub(crate) objective: Option<Objective>,
    /// How processors synchronise (default: the scenario's, else svm-polling)
    #[arg(long, value_enum)]
    pub(crate) synchronisation: Option<Mechanism>,
    /// CPU kernels whose times are predicted (default: xnnpack; coexec if the profile has only
    /// coexec's)
    #[arg(long, value_enum)]
    pub(crate) library: Option<Library>,
    /// Most CPU threads a plan may use (default: the scenario's, else 3)
    #[arg(long, value_name = "N|all")]
    pub(crate) threads: Option<Threads>,
    /// Step between the cuts that searches try, in output channels (default: the scenario's, else 8);
    /// `optimal` tries every channel, and cuts along the height have their own step
    #[arg(long, value_name = "CHANNELS")]
    pub(crate) step: Option<u32>,
    /// Search effort of `optimal` for its plan and its bound (default: the scenario's, else normal)
    #[arg(long, value_enum)]
    pub(crate) effort: Option<Effort>,
    /// Write a picture of the gains of `optimal` over the baseline, models by devices (.svg or .png)
    #[arg(long, value_name = "FILE", value_parser = picture())]
    pub(crate) plot: Option<PicturePath>,
    /// Exit with status 2 if the mean gain of `optimal` over the baseline is below --limit
    #[arg(long)]
    pub(crate) check: bool,
    /// Least mean gain over the baseline for --check, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 5.0, value_parser = within(LIMITS), requires = "check")]
    pub(crate) limit: f64,
}

/// The default baseline of `compare`: the strategy of CoDL (MobiSys'22).
const DEFAULT_BASELINE: Strategy = Strategy::Codl;

impl Compare {
    /// The options that only a comparison of networks has, and whether each was given.
    pub(crate) fn of_networks(&self) -> [(&'static str, bool); 8] {
        [
            ("--plot", self.plot.is_some()),
            ("--check", self.check),
            ("--strategies", self.strategies != [OneOrAll::All]),
            ("--baseline", self.baseline != DEFAULT_BASELINE),
            ("--threads", self.threads.is_some()),
            ("--step", self.step.is_some()),
            ("--effort", self.effort.is_some()),
            ("--library", self.library.is_some()),
        ]
    }

    /// The options that override each scenario's file.
    pub(crate) fn overrides(&self, device: &str) -> Overrides {
        Overrides {
            device: Some(device.to_owned()),
            threads: self.threads,
            library: self.library,
            synchronisation: self.synchronisation,
            // One for all files, which may state others.
            objective: Some(self.objective.unwrap_or_default()),
            step: self.step,
            effort: self.effort,
            ..Overrides::default()
        }
    }
}

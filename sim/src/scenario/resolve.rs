//! Resolves a scenario file and a caller's overrides to a valid scenario.

use std::fmt::Display;

use super::{Overrides, Scenario, ScenarioFile, Threads, Workload};
use crate::device::{Checker, Profile};
use crate::explore::{DEFAULT_STEP, DEFAULT_THREADS, Objective, SearchOptions, Strategy, core_sets};
use crate::input::{InputError, Result, Text, Violation};
use crate::kernel::{CoreSet, Library, MAX_THREADS};
use crate::plan::Mechanism;
use crate::simulate::Measure;

/// Device of a scenario where neither the file nor the caller names one.
const DEFAULT_DEVICE: &str = "oneplus11";

impl ScenarioFile {
    /// The resolved scenario; `text` is the text that the file was parsed from.
    ///
    /// # Errors
    /// As [`Scenario::load`].
    pub fn resolve(self, name: &str, text: &Text, overrides: &Overrides) -> Result<Scenario> {
        let device = self.device(text, overrides)?;
        let workload = match &self.application {
            Some(tables) => self.applications(tables, text, (overrides, &device))?,
            None => self.workload(name, text, overrides)?,
        };
        let objective = self.objective(text, overrides, &device)?;
        let core_sets = self.core_sets(text, overrides, (&device, objective))?;
        let step = self.grid_step(text, overrides)?;
        let measure = self.measure(text)?;
        self.check_pipeline(text)?;
        let usual_strategy = usual_strategy(&workload);
        let stated_strategy = self.strategy(text, overrides, usual_strategy)?;
        let of_language = matches!(workload, Workload::Language(_));
        let usual = if of_language { Mechanism::SleepThenPoll } else { Mechanism::SvmPolling };
        let options = SearchOptions {
            strategy: stated_strategy.unwrap_or(usual_strategy),
            objective,
            synchronisation: overrides.synchronisation.or(self.synchronisation).unwrap_or(usual),
            core_sets,
            step,
            effort: overrides.effort.or(self.effort).unwrap_or_default(),
        };
        Ok(Scenario {
            name: name.to_owned(),
            title: self.title,
            workload,
            library: overrides.library.or(self.library).unwrap_or_else(|| Library::default_for(&device.cpu)),
            measure,
            device,
            options,
            stated_strategy,
            pipeline: self.pipeline,
        })
    }

    /// The device named by the caller, else by the file, else the caller's usual one, else [`DEFAULT_DEVICE`].
    fn device(&self, text: &Text, overrides: &Overrides) -> Result<Profile> {
        if let Some(profile) = &overrides.profile {
            return Ok(Profile::clone(profile));
        }
        match (&overrides.device, &self.device) {
            (Some(name), _) => Profile::load(name),
            (None, None) => Profile::load(overrides.usual_device.as_deref().unwrap_or(DEFAULT_DEVICE)),
            // The error points to the key in the scenario, with the message of the profile's error.
            (None, Some(name)) => Profile::named(name, &text.path(name))
                .map_err(|error| text.refuse("device", error.to_string(), error.help())),
        }
    }

    /// The core sets up to the stated number of threads.
    fn core_sets(
        &self,
        text: &Text,
        overrides: &Overrides,
        (device, objective): (&Profile, Objective),
    ) -> Result<Vec<CoreSet>> {
        let most = device.cpu.cores().min(MAX_THREADS as u32);
        let threads = match overrides.threads {
            Some(Threads::All) => most,
            Some(Threads::AtMost(threads)) => threads.get(),
            None => self.threads.unwrap_or(DEFAULT_THREADS.min(most)),
        };
        if !(1..=most).contains(&threads) {
            let expected = format!("at least 1 and at most {most}, the threads that {} can run", device.name);
            return Err(refused(text, overrides.threads.is_some(), "--threads", threads, expected));
        }
        Ok(core_sets(&device.cpu, threads, objective))
    }

    /// What the search minimises. Anything but latency requires a profile with power.
    fn objective(&self, text: &Text, overrides: &Overrides, device: &Profile) -> Result<Objective> {
        let objective = overrides.objective.or(self.objective).unwrap_or_default();
        if objective == Objective::Latency || device.power.is_some() {
            return Ok(objective);
        }
        let expected = format!("\"latency\": the profile of {} has no [power] table", device.name);
        let found = format!("{:?}", objective.name());
        Err(refused(text, overrides.objective.is_some(), "--objective", found, expected))
    }

    /// The strategy stated in the file or by the caller; it must plan the same kind of workload as `usual`.
    fn strategy(&self, text: &Text, overrides: &Overrides, usual: Strategy) -> Result<Option<Strategy>> {
        let table = self.language_model.as_ref().and_then(|model| model.strategy);
        let written = [("language_model.strategy", table), ("strategy", self.strategy)];
        let written = written.into_iter().find_map(|(key, strategy)| Some((key, strategy?)));
        let stated = overrides.strategy.or(written.map(|(_, strategy)| strategy));
        let Some(strategy) = stated else { return Ok(None) };
        let (plans, what): (fn(Strategy) -> bool, _) = if usual.plans_operators() {
            (Strategy::plans_operators, "anything but a language model")
        } else {
            (Strategy::plans_language_models, "a language model")
        };
        if plans(strategy) {
            return Ok(stated);
        }
        let known = Strategy::ALL.iter().filter(|known| plans(**known)).map(|known| known.name());
        let expected = format!("one of {}, for {what}", known.collect::<Vec<_>>().join(", "));
        Err(match (overrides.strategy, written) {
            (None, Some((key, _))) => {
                text.reject(Violation::new(key, format!("{:?}", strategy.name()), expected))
            }
            _ => InputError::Option { option: "--strategy", found: strategy.name().to_owned(), expected },
        })
    }

    /// What a time covers.
    fn measure(&self, text: &Text) -> Result<Measure> {
        let usual = if self.network.is_some() { Measure::Inference } else { Measure::Operators };
        match self.measure {
            Some(Measure::Inference) if self.operator_set.is_some() => {
                let expected = "\"operators\": each operator of a set is run on its own";
                Err(text.reject(Violation::new("measure", "\"inference\"", expected)))
            }
            written => Ok(written.unwrap_or(usual)),
        }
    }

    /// Checks the `[pipeline]` table.
    fn check_pipeline(&self, text: &Text) -> Result<()> {
        let Some(pipeline) = &self.pipeline else { return Ok(()) };
        let mut checker = Checker::default();
        checker.table("pipeline", |checker| pipeline.check(checker));
        checker.refuse(text)
    }

    /// The step of the grid of output channels.
    fn grid_step(&self, text: &Text, overrides: &Overrides) -> Result<u32> {
        let step = overrides.step.or(self.step).unwrap_or(DEFAULT_STEP);
        if step == 0 {
            let expected = "a whole number of at least 1";
            return Err(refused(text, overrides.step.is_some(), "--step", step, expected));
        }
        Ok(step)
    }
}

/// The default strategy: for a model the best one, for a set of operators the one that papers compare.
fn usual_strategy(workload: &Workload) -> Strategy {
    match workload {
        Workload::Model(_) | Workload::Applications(_) => Strategy::Optimal,
        Workload::Set(_) => Strategy::ChannelSplit,
        Workload::Language(_) => Strategy::HeteroTensor,
    }
}

/// The error for a value that comes from a command-line option (`is_option`), or from the key of the same name.
pub(super) fn refused(
    text: &Text,
    is_option: bool,
    option: &'static str,
    found: impl Display,
    expected: impl Into<String>,
) -> InputError {
    if is_option {
        return InputError::Option { option, found: found.to_string(), expected: expected.into() };
    }
    text.reject(Violation::new(option.trim_start_matches('-'), found, expected))
}

/// The error for a value of `key` that names nothing bundled.
pub(super) fn unknown<'a>(
    text: &Text,
    key: &str,
    found: &str,
    known: impl Iterator<Item = &'a str>,
    or: &str,
) -> InputError {
    let expected = format!("one of {}{or}", known.collect::<Vec<_>>().join(", "));
    text.reject(Violation::new(key, format!("{found:?}"), expected))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slower_cores_alone_are_tried_where_energy_counts() {
        let sets = |objective| {
            let threads = std::num::NonZeroU32::new(2).map(Threads::AtMost);
            let device = Some("galaxy-s10".to_owned());
            let overrides = Overrides { device, objective: Some(objective), threads, ..Overrides::default() };
            let scenario = Scenario::load("mobilenet-v2", &overrides).unwrap();
            scenario.options.core_sets.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(sets(Objective::Latency), ["1large", "2large"]);
        assert_eq!(sets(Objective::Energy), ["1small", "2small", "1med", "2med", "1large", "2large"]);
    }
}

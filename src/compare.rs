//! `coexec compare`: every strategy on many models and devices.

mod language;
mod show;

use coexec_import::ReadScenario;
use coexec_sim::explore::comparison::{Gain, StrategyRow, gain, gains};
use coexec_sim::workload::networks;
use coexec_sim::{Basis, Objective, Profile, Strategy, Workload};
use rayon::prelude::*;
use serde::Serialize;

use crate::language::Case;
use crate::output::{listed, record};
use crate::trust::streamed;
use crate::{Common, Compare, Failure, OneOrAll, Result, output};

use language::LanguageRow;

/// The gain over a named group of rows.
#[derive(Debug, Serialize)]
struct Group {
    name: String,
    gain: Gain,
}

#[derive(Debug, Serialize)]
struct SkippedCase {
    scenario: String,
    device: String,
    reason: String,
}

/// The strategies and the objective of a comparison.
struct Task {
    strategies: Vec<Strategy>,
    baseline: Strategy,
    objective: Objective,
}

pub(crate) fn run(options: &Compare, common: &Common) -> Result {
    let task = Task::new(options)?;
    let Rows { operators: rows, language_models, left_out } = rows(options, &task, common)?;
    if rows.is_empty() && !language_models.is_empty() {
        let what = "for networks: the strategy of a language model is the one that `explore` advises";
        Failure::refuse_given(&options.of_networks(), what, "leave it out, or compare networks too")?;
    }
    if let Some(picture) = &options.plot {
        output::write(
            &[picture.file(|format| coexec_plots::picture(&show::picture(&rows, &task), format))?],
        )?;
    }
    if common.json {
        output::json(&record!(Document {
            objective: task.objective,
            baseline: task.baseline,
            rows: &rows,
            /// Rows of language models.
            #[serde(skip_serializing_if = "output::is_null")]
            language_models: (!language_models.is_empty()).then_some(language_models),
            /// Gains of `optimal` over each other strategy, over all rows.
            gains: gains(&rows, Strategy::Optimal),
            /// Gains of `optimal` over the baseline on each device, smallest first.
            devices: groups(&rows, &task, |row| &row.device),
            /// Gains of `optimal` over the baseline for each model, smallest first.
            scenarios: groups(&rows, &task, |row| &row.scenario),
            /// Models without any plan on a device, and why.
            left_out,
        }))?;
    } else {
        if !rows.is_empty() || language_models.is_empty() {
            show::print(&rows, &task);
        }
        if !rows.is_empty() && !language_models.is_empty() {
            output::line("");
        }
        language::show(&language_models);
    }
    if options.check { check(&rows, &task, options.limit) } else { Ok(()) }
}

impl Task {
    fn new(options: &Compare) -> Result<Self> {
        let baseline = planned(options.baseline)?;
        if baseline == Strategy::Optimal {
            return Err(Failure::usage("optimal gains nothing over itself", "name another --baseline"));
        }
        let shown: Vec<Strategy> = if options.strategies.contains(&OneOrAll::All) {
            Strategy::of_operators().collect()
        } else {
            let named = options.strategies.iter().filter_map(|named| named.one());
            named.map(planned).collect::<Result<_, _>>()?
        };
        let is_asked = |strategy: &Strategy| {
            shown.contains(strategy) || [baseline, Strategy::Optimal].contains(strategy)
        };
        let strategies = Strategy::of_operators().filter(is_asked).collect();
        let objective = options.objective.unwrap_or_default();
        Ok(Self { strategies, baseline, objective })
    }
}

/// The strategy, or a failure if it only plans language models.
fn planned(strategy: Strategy) -> Result<Strategy> {
    if strategy.plans_operators() {
        return Ok(strategy);
    }
    Err(Failure::usage(
        format!(
            "{} is for language models, whose strategy is the one that `explore` advises",
            strategy.name()
        ),
        format!("choose from {}", listed(Strategy::of_operators().map(Strategy::name))),
    ))
}

/// One row for each model and device, in the order given, by kind.
#[derive(Default)]
struct Rows {
    operators: Vec<StrategyRow>,
    language_models: Vec<LanguageRow>,
    left_out: Vec<SkippedCase>,
}

fn rows(options: &Compare, task: &Task, common: &Common) -> Result<Rows> {
    let scenarios = names(&options.scenarios, &|name| {
        (name == "all").then(|| networks().map(|(name, _)| name.to_owned()).collect())
    });
    let bundled = Profile::bundled()?;
    let devices = names(&options.devices, &|name| {
        let is_wanted = |device: &&Profile| match &device.gpu {
            Some(_) if task.objective != Objective::Latency && device.power.is_none() => false,
            // A GPU transferred from other devices would count those twice.
            Some(gpu) => {
                name == "all" || (gpu.memory.is_none() && gpu.conv_generic.basis != Basis::Transferred)
            }
            None => false,
        };
        let wanted = || bundled.iter().filter(is_wanted).map(|device| device.name.clone()).collect();
        ["all", "unified"].contains(&name).then(wanted)
    });
    let scenarios = coexec_import::read_each(&scenarios, &options.how.import()?)?;
    let pairs: Vec<(&ReadScenario, &str)> = scenarios
        .iter()
        .flat_map(|scenario| devices.iter().map(move |device| (scenario, device.as_str())))
        .collect();
    common.note(format_args!("planning {} models on {} devices", scenarios.len(), devices.len()));
    // All outcomes are collected first, so that the error reported does not depend on the number of
    // threads.
    let outcomes: Vec<_> = pairs.par_iter().map(|&pair| row(pair, options, task)).collect();
    let mut rows = Rows::default();
    for outcome in outcomes {
        let Rows { operators, language_models, left_out } = outcome?;
        rows.operators.extend(operators);
        rows.language_models.extend(language_models);
        rows.left_out.extend(left_out);
    }
    for SkippedCase { scenario, device, reason } in &rows.left_out {
        common.note(format_args!("note: {scenario} has no plan on {device}: {reason}"));
    }
    Ok(rows)
}

/// The names given, with groups such as `all` replaced by their members, without duplicates.
fn names(given: &[String], members: &dyn Fn(&str) -> Option<Vec<String>>) -> Vec<String> {
    output::distinct(given.iter().flat_map(|name| members(name).unwrap_or_else(|| vec![name.clone()])))
}

/// The row of a model on a device; one left out where the device has no plan for it.
fn row((read, device): (&ReadScenario, &str), options: &Compare, task: &Task) -> Result<Rows> {
    let (name, text, file) = read;
    let scenario = file.clone().resolve(name, text, &options.overrides(device))?;
    let mut rows = Rows::default();
    let planned = match &scenario.workload {
        Workload::Model(_) if streamed(&scenario).is_some() => {
            return Err(Failure::usage(
                format!("{name} has a [pipeline], whose periods this command does not compare"),
                format!("use `coexec explore {name} --strategy all`, or leave the [pipeline] out"),
            ));
        }
        Workload::Model(stages) => {
            let model = (scenario.name.as_str(), stages.as_slice());
            let row = StrategyRow::of(model, &mut scenario.simulator(), &scenario.options, &task.strategies);
            row.map(|row| rows.operators.push(row))
        }
        Workload::Language(task) => {
            LanguageRow::of(Case { scenario: &scenario, task }).map(|row| rows.language_models.push(row))
        }
        Workload::Set(_) | Workload::Applications(_) => {
            return Err(Failure::usage(
                format!("{name} is not a model"),
                "compare networks, operators or language models; explore a set or applications by itself",
            ));
        }
    };
    if let Err(error) = planned {
        let (scenario, device) = (scenario.name.clone(), scenario.device.name.clone());
        rows.left_out.push(SkippedCase { scenario, device, reason: error.to_string() });
    }
    Ok(rows)
}

/// Gains of `optimal` over the baseline in each group of rows, smallest first.
fn groups(rows: &[StrategyRow], task: &Task, name: impl Fn(&StrategyRow) -> &str) -> Vec<Group> {
    let names = output::distinct(rows.iter().map(&name));
    let group = |wanted: &str| {
        let members: Vec<StrategyRow> = rows.iter().filter(|row| name(row) == wanted).cloned().collect();
        let gain = gain(&members, Strategy::Optimal, task.baseline)?;
        Some(Group { name: wanted.to_owned(), gain })
    };
    let mut groups: Vec<Group> = names.into_iter().filter_map(group).collect();
    groups.sort_by(|one, other| one.gain.mean_percent.total_cmp(&other.gain.mean_percent));
    groups
}

/// Fails unless the mean gain of `optimal` over the baseline reaches the limit, in percent.
fn check(rows: &[StrategyRow], task: &Task, limit: f64) -> Result {
    let baseline = task.baseline.name();
    let Some(Gain { mean_percent: mean, .. }) = gain(rows, Strategy::Optimal, task.baseline) else {
        return Err(Failure::usage(format!("no row has a plan of {baseline}"), "name another --baseline"));
    };
    if mean < limit {
        let problem = format!("the mean gain over {baseline} is {mean:.1} %, below {limit} %");
        return Err(Failure::limit_missed(problem, "see the rows (`coexec compare`), or lower --limit"));
    }
    Ok(())
}

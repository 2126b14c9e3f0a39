//! `coexec compare`: every strategy on many models and devices.

mod show;

use coexec_plots::Format;
use coexec_sim::device::profile::Profile;
use coexec_sim::explore::side_by_side::{Gain, Row, beaten, gain, gains};
use coexec_sim::explore::{Objective, Strategy};
use coexec_sim::scenario::{Scenario, Workload};
use coexec_sim::simulate::Simulator;
use coexec_sim::workload::NETWORKS;
use rayon::prelude::*;
use serde::Serialize;

use crate::cli::{Common, Compare, StrategyName};
use crate::failure::Failure;
use crate::output::{self, OutputFile};

#[derive(Serialize)]
struct Document<'a> {
    objective: Objective,
    baseline: Strategy,
    rows: &'a [Row],
    /// What the optimal plan gains over each other strategy, over all rows.
    gains: Vec<Gain>,
    /// What it gains over the baseline on each device, smallest first.
    devices: Vec<Group>,
    /// What it gains over the baseline for each model, smallest first.
    scenarios: Vec<Group>,
    /// Rows where another strategy is better: none, or the planner is broken.
    beaten: Vec<Beaten<'a>>,
    /// Rows that no strategy has a plan for, and why.
    left_out: &'a [LeftOut],
}

/// Gains over some of the rows.
#[derive(Debug, Serialize)]
struct Group {
    name: String,
    gain: Gain,
}

#[derive(Serialize)]
struct Beaten<'a> {
    scenario: &'a str,
    device: &'a str,
    by: Strategy,
}

#[derive(Debug, Serialize)]
struct LeftOut {
    scenario: String,
    device: String,
    reason: String,
}

/// What is asked, resolved.
struct Task {
    strategies: Vec<Strategy>,
    baseline: Strategy,
    objective: Objective,
}

pub(crate) fn run(options: &Compare, common: &Common) -> Result<(), Failure> {
    let format = options.plot.as_deref().map(Format::of).transpose()?;
    let task = Task::new(options)?;
    let (rows, left_out) = rows(options, &task, common)?;
    if let (Some(path), Some(format)) = (&options.plot, format) {
        let content = coexec_plots::picture(&show::picture(&rows, &task), format)?;
        output::write(&[OutputFile { path, content }])?;
    }
    if common.json {
        output::json(&document(&rows, &left_out, &task));
    } else {
        show::print(&rows, &task);
    }
    if options.check { check(&rows, &task, options.limit) } else { Ok(()) }
}

impl Task {
    fn new(options: &Compare) -> Result<Self, Failure> {
        let baseline = planned(options.baseline)?;
        if baseline == Strategy::Optimal {
            return Err(Failure::Usage {
                problem: "the optimal plan gains nothing over itself".to_owned(),
                help: "name another --baseline".to_owned(),
            });
        }
        let shown: Vec<Strategy> = if options.strategies.contains(&StrategyName::All) {
            Strategy::ALL.to_vec()
        } else {
            options.strategies.iter().map(|&name| planned(name)).collect::<Result<_, _>>()?
        };
        let is_asked = |strategy: &Strategy| {
            shown.contains(strategy) || [baseline, Strategy::Optimal].contains(strategy)
        };
        let strategies = Strategy::ALL.into_iter().filter(is_asked).collect();
        let objective = options.objective.map(Into::into).unwrap_or_default();
        Ok(Self { strategies, baseline, objective })
    }
}

/// The strategy of a name that is not of language models alone.
fn planned(name: StrategyName) -> Result<Strategy, Failure> {
    let strategy = if name == StrategyName::All { None } else { name.planned() };
    strategy.ok_or_else(|| Failure::Usage {
        problem: "a strategy for language models, or for all at once, cannot be compared here".to_owned(),
        help: format!("name some of {}", Strategy::ALL.map(Strategy::name).join(", ")),
    })
}

/// One row for each model and device, in the order asked; those without a plan apart.
fn rows(options: &Compare, task: &Task, common: &Common) -> Result<(Vec<Row>, Vec<LeftOut>), Failure> {
    let scenarios = names(&options.scenarios, &|name| {
        (name == "all").then(|| NETWORKS.iter().map(|(name, ..)| (*name).to_owned()).collect())
    });
    let bundled = Profile::bundled()?;
    let devices = names(&options.devices, &|name| {
        let is_wanted = |device: &&Profile| match &device.gpu {
            Some(gpu) => name == "all" || gpu.memory.is_none(),
            None => false,
        };
        let wanted = || bundled.iter().filter(is_wanted).map(|device| device.name.clone()).collect();
        ["all", "unified"].contains(&name).then(wanted)
    });
    let pairs: Vec<(&str, &str)> = scenarios
        .iter()
        .flat_map(|scenario| devices.iter().map(move |device| (scenario.as_str(), device.as_str())))
        .collect();
    if !common.quiet {
        eprintln!("planning {} models on {} devices", scenarios.len(), devices.len());
    }
    // Gathered before the first error is looked for: which one that is must not depend on
    // the number of threads.
    let outcomes: Vec<_> = pairs.par_iter().map(|pair| row(*pair, options, task)).collect();
    let (mut rows, mut left_out) = (Vec::new(), Vec::new());
    for outcome in outcomes {
        match outcome? {
            Ok(row) => rows.push(row),
            Err(reason) => left_out.push(reason),
        }
    }
    for LeftOut { scenario, device, reason } in left_out.iter().filter(|_| !common.quiet) {
        eprintln!("note: {scenario} has no plan on {device}: {reason}");
    }
    Ok((rows, left_out))
}

/// Names, those of groups replaced by their members, each once.
fn names(given: &[String], members: &dyn Fn(&str) -> Option<Vec<String>>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for name in given.iter().flat_map(|name| members(name).unwrap_or_else(|| vec![name.clone()])) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// What can be wrong with a row: the input, which ends the command, or that the device has
/// no plan for the model.
type RowOrReason = Result<Result<Row, LeftOut>, Failure>;

fn row((name, device): (&str, &str), options: &Compare, task: &Task) -> RowOrReason {
    let scenario = Scenario::load(name, &options.overrides(device))?;
    let Workload::Model(stages) = &scenario.workload else {
        return Err(Failure::Usage {
            problem: format!("{name} is no model of which operators are planned"),
            help: "compare networks or operators; explore a set or a language model by itself".to_owned(),
        });
    };
    let mut simulator = Simulator::new(&scenario.device, scenario.library).measuring(scenario.measure);
    let search = coexec_sim::explore::Options { objective: task.objective, ..scenario.options.clone() };
    let row = Row::of((name, stages), &mut simulator, &search, &task.strategies);
    Ok(row.map_err(|error| LeftOut {
        scenario: name.to_owned(),
        device: scenario.device.name.clone(),
        reason: error.to_string(),
    }))
}

/// What the optimal plan gains over the baseline in each group of rows, smallest first.
fn groups(rows: &[Row], task: &Task, name: impl Fn(&Row) -> &str) -> Vec<Group> {
    let mut names: Vec<&str> = Vec::new();
    for row in rows {
        if !names.contains(&name(row)) {
            names.push(name(row));
        }
    }
    let group = |wanted: &str| {
        let members: Vec<Row> = rows.iter().filter(|row| name(row) == wanted).cloned().collect();
        let gain = gain(&members, Strategy::Optimal, task.baseline)?;
        Some(Group { name: wanted.to_owned(), gain })
    };
    let mut groups: Vec<Group> = names.into_iter().filter_map(group).collect();
    groups.sort_by(|one, other| one.gain.mean_percent.total_cmp(&other.gain.mean_percent));
    groups
}

fn document<'a>(rows: &'a [Row], left_out: &'a [LeftOut], task: &Task) -> Document<'a> {
    Document {
        objective: task.objective,
        baseline: task.baseline,
        rows,
        gains: gains(rows, Strategy::Optimal),
        devices: groups(rows, task, |row| &row.device),
        scenarios: groups(rows, task, |row| &row.scenario),
        beaten: beaten(rows, Strategy::Optimal)
            .into_iter()
            .map(|(row, by)| Beaten { scenario: &row.scenario, device: &row.device, by })
            .collect(),
        left_out,
    }
}

/// That no strategy is better than the optimal one, and that this gains enough.
fn check(rows: &[Row], task: &Task, limit: f64) -> Result<(), Failure> {
    let beaten = beaten(rows, Strategy::Optimal);
    if let Some((row, by)) = beaten.first() {
        let (count, by, Row { scenario, device, .. }) = (beaten.len(), by.name(), row);
        return Err(Failure::Beaten {
            problem: format!("{count} plans are better than the optimal one: {scenario} on {device} by {by}"),
        });
    }
    let mean = gain(rows, Strategy::Optimal, task.baseline).map_or(0.0, |gain| gain.mean_percent);
    if mean < limit {
        let baseline = task.baseline.name();
        return Err(Failure::Beaten {
            problem: format!("the mean gain over {baseline} is {mean:.1} %, below {limit} %"),
        });
    }
    Ok(())
}

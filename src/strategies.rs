//! `coexec explore --strategy all`: the plans of all strategies, side by side.

use std::time::{Duration, Instant};

use coexec_sim::explore::{Answer, Explorer, Found, Objective, Strategy};
use coexec_sim::plan::{Plan, shares};
use coexec_sim::published::{BarSeries, Bars, Choice, Choices, Drawing, Picture, ShareMap, ShareRow};
use coexec_sim::scenario::Scenario;
use coexec_sim::simulate::{SimulateError, Simulator};
use coexec_sim::units::{Bytes, Joules, Picos};
use coexec_sim::workload::Stage;
use serde::Serialize;

use crate::cli::Common;
use crate::failure::Failure;
use crate::output;

/// One strategy beside the others.
#[derive(Debug, Serialize)]
pub(crate) struct Entry {
    strategy: &'static str,
    latency_ps: Picos,
    /// Latency over that of the best plan.
    relative_to_plan: f64,
    energy_joules: Option<Joules>,
    /// Energy-delay product.
    edp_joule_seconds: Option<f64>,
    /// What the plan adds to the memory of weights and results.
    extra_memory_bytes: Bytes,
    extra_memory_percent: f64,
    /// Operators computed by two processors.
    cut_operators: usize,
    /// Operators that share nothing with the one before or behind.
    chained_operators: usize,
    /// Whether no other strategy is better in latency and energy.
    is_on_pareto_front: bool,
    #[serde(skip)]
    plan: Plan,
}

/// Asks every strategy; tells on standard error how long each took, and which cannot.
pub(crate) fn compare(
    scenario: &Scenario,
    simulator: &mut Simulator<'_>,
    stages: &[Stage],
    common: &Common,
) -> Result<(Answer, Vec<Entry>), Failure> {
    let mut explorer =
        Explorer::new(simulator, stages, &scenario.options).streaming(scenario.pipeline.as_ref());
    let mut found: Vec<Found> = Vec::new();
    let mut last_error = SimulateError::NothingToUse;
    for strategy in Strategy::ALL {
        let start = Instant::now();
        let outcome = explorer.find(strategy);
        tell(strategy, start.elapsed(), outcome.as_ref().err(), common);
        match outcome {
            Ok(answer) => found.push(answer),
            Err(error) => last_error = error,
        }
    }
    let cost =
        |found: &Found| scenario.options.objective.cost(found.prediction.latency, found.prediction.energy);
    // The first of equals: simpler strategies come first.
    let best = found.iter().reduce(|best, other| if cost(other) < cost(best) { other } else { best });
    let Some(Found { plan, prediction, considered, .. }) = best.cloned() else {
        return Err(last_error.into());
    };
    let entries = found.iter().map(|one| entry(one, &found, prediction.latency)).collect();
    let searches = explorer.searches(Strategy::AnySplit)?;
    let baselines = explorer.baselines();
    Ok((Answer { plan, prediction, baselines, searches, considered }, entries))
}

fn tell(strategy: Strategy, took: Duration, error: Option<&SimulateError>, common: &Common) {
    if common.quiet {
        return;
    }
    let millis = took.as_secs_f64() * 1e3;
    match error {
        None => eprintln!("note: {} planned in {millis:.1} ms", strategy.name()),
        Some(error) => eprintln!("note: {} has no plan: {error}", strategy.name()),
    }
}

fn entry(found: &Found, all: &[Found], best: Picos) -> Entry {
    let Found { strategy, plan, prediction, .. } = found;
    let latency = prediction.latency;
    Entry {
        strategy: strategy.name(),
        latency_ps: latency,
        relative_to_plan: if best == Picos::ZERO { 1.0 } else { latency.0 as f64 / best.0 as f64 },
        energy_joules: prediction.energy,
        edp_joule_seconds: prediction.energy.map(|energy| Objective::Edp.cost(latency, Some(energy))),
        extra_memory_bytes: prediction.memory.extra(),
        extra_memory_percent: prediction.memory.extra_percent(),
        cut_operators: plan.placements.iter().filter(|placement| placement.is_cut()).count(),
        chained_operators: plan.chains.iter().flatten().count(),
        plan: plan.clone(),
        is_on_pareto_front: !all.iter().any(|other| dominates(other, found)),
    }
}

/// Whether `other` is as good as `found` in latency and energy, and better in one.
fn dominates(other: &Found, found: &Found) -> bool {
    let of = |found: &Found| {
        let energy = found.prediction.energy.map_or(0.0, |energy| energy.0);
        (found.prediction.latency.0, energy)
    };
    let (one, two) = (of(other), of(found));
    one.0 <= two.0 && one.1 <= two.1 && one != two
}

/// The table; strategies on the Pareto front of latency and energy have a star.
pub(crate) fn table(entries: &[Entry]) {
    let rows: Vec<Vec<String>> = entries
        .iter()
        .map(|entry| {
            vec![
                entry.strategy.to_owned(),
                entry.latency_ps.to_string(),
                format!("{:.2}x", entry.relative_to_plan),
                entry.energy_joules.map_or("-".to_owned(), |energy| energy.to_string()),
                entry.edp_joule_seconds.map_or("-".to_owned(), |product| format!("{product:.3e} Js")),
                format!("{} ({:.0} %)", entry.extra_memory_bytes, entry.extra_memory_percent),
                entry.cut_operators.to_string(),
                entry.chained_operators.to_string(),
                if entry.is_on_pareto_front { "*" } else { "" }.to_owned(),
            ]
        })
        .collect();
    let header =
        ["strategy", "latency", "relative", "energy", "EDP", "extra memory", "cut", "chained", "Pareto"];
    output::table(&header, &rows);
}

/// The figure: energy over latency with the Pareto front; latencies where no energy is
/// known.
pub(crate) fn picture(scenario: &Scenario, entries: &[Entry]) -> Picture {
    let millis = |entry: &Entry| entry.latency_ps.as_micros() / 1e3;
    let drawing = if entries.iter().all(|entry| entry.energy_joules.is_some()) {
        let point = |entry: &Entry| Choice {
            name: entry.strategy.to_owned(),
            x: millis(entry),
            y: entry.energy_joules.map_or(0.0, |energy| energy.0 * 1e3),
            is_on_front: entry.is_on_pareto_front,
        };
        Drawing::Choices(Choices {
            x: "latency, ms".to_owned(),
            y: "energy, mJ".to_owned(),
            points: entries.iter().map(point).collect(),
        })
    } else {
        Drawing::GroupedBars(Bars {
            y: "latency, ms".to_owned(),
            categories: entries.iter().map(|entry| entry.strategy.to_owned()).collect(),
            series: vec![BarSeries {
                name: "predicted".to_owned(),
                is_published: false,
                values: entries.iter().map(|entry| Some(millis(entry))).collect(),
            }],
        })
    };
    Picture {
        name: "strategies".to_owned(),
        title: format!("Strategies for {}", scenario.title),
        subtitle: format!("on {}", scenario.device.title),
        drawing,
    }
}

/// Who computes how much under one plan.
pub(crate) fn share_row(name: &str, plan: &Plan) -> ShareRow {
    ShareRow { name: name.to_owned(), operators: shares(plan) }
}

/// The same for every strategy.
pub(crate) fn share_rows(entries: &[Entry]) -> Vec<ShareRow> {
    entries.iter().map(|entry| share_row(entry.strategy, &entry.plan)).collect()
}

/// The figure of who computes how much of each operator.
pub(crate) fn share_map(scenario: &Scenario, rows: Vec<ShareRow>) -> Picture {
    Picture {
        name: "shares".to_owned(),
        title: format!("Who computes {}", scenario.title),
        subtitle: format!("on {}", scenario.device.title),
        drawing: Drawing::Shares(ShareMap { rows }),
    }
}

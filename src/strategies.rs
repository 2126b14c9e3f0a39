//! `coexec explore --strategy all`: compares the plans of all strategies.

use std::time::Instant;

use coexec_plots::figure::{BarSeries, Bars, Drawing, Picture};
use coexec_plots::palette::{MUTED, look};
use coexec_plots::{Figure, Format, Mark, PlotError};
use coexec_sim::explore::{Answer, Explorer, Found, Objective, Strategy};
use coexec_sim::simulate::{Composition, Prediction, SimulateError, Simulator};
use coexec_sim::units::{Bytes, Joules, Picos};
use coexec_sim::{Plan, Scenario};
use serde::Serialize;

use crate::explore::relative;
use crate::output::{note_too_large, row, with_mark};
use crate::{Common, Result, or_dash, output};

/// One strategy of a comparison.
#[derive(Debug, Serialize)]
pub(crate) struct Entry {
    strategy: &'static str,
    latency_ps: Picos,
    /// Period between batches, if the scenario has a pipeline and the objective is latency.
    #[serde(skip_serializing_if = "Option::is_none")]
    period_ps: Option<Picos>,
    /// Period, or latency without one, relative to the best plan's.
    relative_to_plan: f64,
    /// Composition of the latency.
    composition: Composition,
    energy_joules: Option<Joules>,
    /// Energy-delay product.
    edp_joule_seconds: Option<f64>,
    /// Memory that the plan adds to that of weights and results.
    extra_memory_bytes: Bytes,
    extra_memory_percent: f64,
    /// Whether the plan fits into the device's memory; none where the size of that is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    fits_memory: Option<bool>,
    /// Operators computed by two processors.
    cut_operators: usize,
    /// Operators in chains, inside which processors exchange nothing.
    chained_operators: usize,
    /// Whether no other plan dominates this one in latency and energy.
    is_on_pareto_front: bool,
    #[serde(skip)]
    plan: Plan,
}

/// Runs every strategy; reports on standard error the planning time of each, and which ones have no
/// plan.
pub(crate) fn compare(
    scenario: &Scenario,
    simulator: &mut Simulator<'_>,
    common: &Common,
) -> Result<(Answer, Vec<Entry>)> {
    let mut explorer =
        Explorer::new(simulator, scenario.stages(), &scenario.options).streaming(scenario.pipeline.as_ref());
    let mut found: Vec<Found> = Vec::new();
    let mut last_error = SimulateError::NothingToUse;
    for strategy in Strategy::of_operators() {
        let (name, start) = (strategy.name(), Instant::now());
        match explorer.find(strategy) {
            Ok(answer) => {
                let millis = start.elapsed().as_secs_f64() * 1e3;
                common.note(format_args!("note: {name} planned in {millis:.1} ms"));
                found.push(answer);
            }
            Err(error) => {
                common.note(format_args!("note: {name} has no plan: {error}"));
                last_error = error;
            }
        }
    }
    // Of equals the first is taken, as simpler strategies come first.
    let best = explorer.best(found.iter().cloned()).map_err(|_| last_error)?;
    let bound = Some(explorer.bound(&best)?);
    let Found { plan, prediction, considered, period, .. } = best;
    let entries = entries(&found, (&prediction, period));
    let searches = explorer.searches(Strategy::AnySplit)?;
    let baselines = explorer.baselines();
    Ok((Answer { plan, prediction, baselines, searches, considered, period, bound }, entries))
}

/// The comparison of the plans found with each other and with the best one.
pub(crate) fn entries(found: &[Found], (best, shortest): (&Prediction, Option<Picos>)) -> Vec<Entry> {
    let all: Vec<&Prediction> = found.iter().map(|found| &found.prediction).chain([best]).collect();
    let entry = |Found { strategy, plan, prediction, period, .. }: &Found| {
        let latency = prediction.latency;
        Entry {
            strategy: strategy.name(),
            latency_ps: latency,
            period_ps: *period,
            relative_to_plan: relative((latency, *period), (best.latency, shortest)),
            composition: prediction.composition,
            energy_joules: prediction.energy,
            edp_joule_seconds: prediction.energy.map(|energy| Objective::Edp.cost(latency, Some(energy))),
            extra_memory_bytes: prediction.memory.extra(),
            extra_memory_percent: prediction.memory.extra_percent(),
            fits_memory: prediction.fits_memory,
            cut_operators: plan.placements.iter().filter(|placement| placement.is_cut()).count(),
            chained_operators: plan.chains.iter().flatten().count(),
            plan: plan.clone(),
            is_on_pareto_front: !all.iter().any(|other| dominates(other, prediction)),
        }
    };
    found.iter().map(entry).collect()
}

/// Whether `other` dominates `one`: no worse in latency and energy, and better in at least one of them.
fn dominates(other: &Prediction, one: &Prediction) -> bool {
    let of = |run: &Prediction| (run.latency.0, run.energy.map_or(0.0, |energy| energy.0));
    let (one, two) = (of(other), of(one));
    one.0 <= two.0 && one.1 <= two.1 && one != two
}

/// Prints the table; a star marks strategies on the Pareto front of latency and energy.
pub(crate) fn table(entries: &[Entry]) {
    let parts = Composition::named_parts(entries.iter().map(|entry| &entry.composition));
    let rows = entries.iter().map(|entry| {
        let Entry { latency_ps, cut_operators, chained_operators, .. } = entry;
        let strategy = with_mark(entry.strategy, entry.fits_memory);
        let (relative, energy) = (format!("{:.2}x", entry.relative_to_plan), or_dash(entry.energy_joules));
        let edp = or_dash(entry.edp_joule_seconds.map(|product| format!("{product:.3e} Js")));
        let memory = entry.extra_memory_bytes;
        let star = if entry.is_on_pareto_front { "*" } else { "" };
        let mut row = row![strategy, latency_ps];
        row.extend(entry.period_ps.map(|period| period.to_string()));
        row.extend(row![relative, energy, edp, memory, cut_operators, chained_operators, star]);
        let parts = entry.composition.parts().into_iter().filter(|(name, _)| parts.contains(name));
        row.extend(parts.map(|(_, length)| length.to_string()));
        row
    });
    let mut header = vec!["strategy", "latency"];
    header.extend(entries.iter().any(|entry| entry.period_ps.is_some()).then_some("period"));
    header.extend(["relative", "energy", "EDP", "extra memory", "cut", "chained", "Pareto"]);
    header.extend(&parts);
    output::keyed_table(&header, 1, rows);
    note_too_large(entries.iter().map(|entry| entry.fits_memory));
}

/// Width and height of the plot of energy over latency, in figure pixels.
const PLOT: (f64, f64) = (560.0, 340.0);
const FRONT_WIDTH: f64 = 1.5;

/// The figure of energy against latency with the Pareto front, or bars of latencies if an energy is
/// unknown.
pub(crate) fn picture(scenario: &Scenario, entries: &[Entry], format: Format) -> Result<Vec<u8>, PlotError> {
    let millis = |entry: &Entry| entry.latency_ps.as_micros() / 1e3;
    let (title, subtitle) = titles("Strategies for", scenario);
    let places: Option<Vec<(f64, f64)>> =
        entries.iter().map(|entry| Some((millis(entry), entry.energy_joules?.0 * 1e3))).collect();
    let Some(places) = places else {
        let bars = Bars {
            y: "latency, ms".to_owned(),
            categories: entries.iter().map(|entry| entry.strategy.to_owned()).collect(),
            series: vec![BarSeries {
                name: "predicted".to_owned(),
                is_published: false,
                values: entries.iter().map(|entry| Some(millis(entry))).collect(),
            }],
        };
        let drawing = Drawing::GroupedBars(bars);
        return coexec_plots::picture(
            &Picture { name: "strategies".to_owned(), title, subtitle, drawing },
            format,
        );
    };
    let marked = entries.iter().zip(&places);
    let mut front: Vec<(f64, f64)> =
        marked.clone().filter(|(entry, _)| entry.is_on_pareto_front).map(|(_, &place)| place).collect();
    front.sort_by(|one, other| one.0.total_cmp(&other.0));
    let x = coexec_plots::Axis::from_zero("latency, ms", places.iter().map(|place| place.0));
    let y = coexec_plots::Axis::from_zero("energy, mJ", places.iter().map(|place| place.1));
    let mut figure = Figure::new(PLOT, x, y).titled(&title, &subtitle);
    figure.add("Pareto front", Mark::Dashes(FRONT_WIDTH), MUTED, front);
    for (index, (entry, &place)) in marked.enumerate() {
        let (colour, shape) = look(index);
        figure.add(entry.strategy, Mark::Markers { shape, is_filled: true }, colour, vec![place]);
    }
    figure.draw(format)
}

/// Title and subtitle of a figure of a scenario.
fn titles(what: &str, scenario: &Scenario) -> (String, String) {
    (format!("{what} {}", scenario.title), format!("on {}", scenario.device.title))
}

/// The figure of each processor's share of each operator: under every strategy's plan, or under
/// `of_plan` if strategies were not compared.
pub(crate) fn share_map(
    scenario: &Scenario,
    entries: &[Entry],
    of_plan: (&str, &Plan),
    format: Format,
) -> Result<Vec<u8>, PlotError> {
    let mut plans: Vec<_> = entries.iter().map(|entry| (entry.strategy, &entry.plan)).collect();
    if plans.is_empty() {
        plans.push(of_plan);
    }
    let (title, subtitle) = titles("Who computes", scenario);
    coexec_plots::shares(&plans).titled(&title, &subtitle).draw(format)
}

//! Tables and figure of `coexec compare`.

use coexec_plots::figure::{Drawing, HeatMap, Picture};
use coexec_sim::explore::comparison::{Extreme, Gain, Outcome, StrategyRow, gains, percent, unit};
use coexec_sim::{Objective, Picos, ProcessorKind, Strategy};

use super::{Group, Task, groups};
use crate::output::{listed, note_too_large, row, with_mark};
use crate::trust::{UNCERTAIN_NOTE, basis};
use crate::{known, or_dash, output};

/// The note on bounds that do not cover the plan's order.
const OTHER_ORDER_NOTE: &str =
    "* the plan runs branches in another order; the bound is that of plans in the model's order";

/// Significant digits of a value in a table.
const DIGITS: i32 = 4;

/// Prints the rows, then the gains of `optimal` over each strategy, by device and by model.
pub(super) fn print(rows: &[StrategyRow], task: &Task) {
    each(rows, task);
    output::line("");
    let over = gains(rows, Strategy::Optimal);
    gain_table("optimal over", over.iter().map(|gain| (gain.over.name(), gain)));
    let baseline = task.baseline.name();
    for (what, groups) in [
        ("device", groups(rows, task, |row| &row.device)),
        ("model", groups(rows, task, |row| &row.scenario)),
    ] {
        output::line(&format!("\nGains over {baseline} by {what}"));
        gain_table(what, groups.iter().map(|Group { name, gain }| (name.as_str(), gain)));
    }
}

fn each(rows: &[StrategyRow], task: &Task) {
    let (unit, scale) = unit(task.objective);
    let is_latency = task.objective == Objective::Latency;
    let millis = |time: Picos| time.as_micros() / 1e3;
    output::line(&format!(
        "{} in {unit}; gain of optimal over {}, and its gap to the lower bound",
        task.objective.name(),
        task.baseline.name()
    ));
    let value = |value: f64| {
        let decimals = (DIGITS - 1 - value.max(f64::MIN_POSITIVE).log10().floor() as i32).clamp(0, 6);
        format!("{value:.*}", decimals as usize)
    };
    let cells = |row: &StrategyRow| {
        let mut cells = vec![row.scenario.clone(), row.device.clone()];
        for &strategy in &task.strategies {
            let outcome = row.outcome(strategy);
            let cost = |outcome: &Outcome| with_mark(&value(outcome.cost * scale), outcome.fits_memory);
            cells.push(or_dash(outcome.map(cost)));
        }
        let unknown = listed(row.unknown().map(ProcessorKind::label));
        let is_unsure = |over: &Strategy| is_latency && row.unsure.contains(over);
        let gain = |over| {
            let gain = signed(percent(row.ratio(Strategy::Optimal, over)?));
            Some(if is_unsure(&over) { gain + " ~" } else { gain })
        };
        if is_latency {
            let interval = row.outcome(Strategy::Optimal).map(|optimal| optimal.drawn.interval().map(millis));
            cells.push(or_dash(interval.map(|[low, high]| format!("{} - {}", value(low), value(high)))));
        }
        cells.push(if unknown.is_empty() {
            or_dash(gain(task.baseline))
        } else {
            format!("{unknown} not known")
        });
        let other_order = if row.is_reordered { " *" } else { "" };
        cells.push(or_dash(row.gap_percent().map(|gap| format!("{gap:.2} %{other_order}"))));
        let single = row.best_single().map(|best| best.strategy);
        cells.push(or_dash(single.and_then(|best| Some(format!("{} over {}", gain(best)?, best.name())))));
        cells
    };
    let mut header = vec!["model", "device"];
    header.extend(task.strategies.iter().map(|strategy| strategy.name()));
    header.extend(is_latency.then_some("optimal, 90 %"));
    header.extend(["gain", "to bound", "best processor alone"]);
    output::keyed_table(&header, 2, rows.iter().map(cells));
    note_too_large(rows.iter().flat_map(|row| &row.outcomes).map(|outcome| outcome.fits_memory));
    if rows.iter().any(|row| row.is_reordered) {
        output::line(OTHER_ORDER_NOTE);
    }
    trust(rows, is_latency);
    let is_open = |row: &&StrategyRow| row.unknown().next().is_some();
    for row in rows.iter().filter(is_open) {
        output::line(&format!("\n{} on {}", row.scenario, row.device));
        known::print_missing(&row.known);
    }
}

/// Prints which rows are not certain, the basis of their times, and how to verify them.
fn trust(rows: &[StrategyRow], is_latency: bool) {
    if is_latency && rows.iter().any(|row| !row.unsure.is_empty()) {
        output::line(UNCERTAIN_NOTE);
    }
    let timed: Vec<Timed<'_>> = rows.iter().filter_map(Timed::of_optimal).collect();
    if is_latency {
        rank("Devices under optimal", &timed);
    }
    print_too_large(&timed);
    output::line("");
    let basis = |row: &StrategyRow| row![row.device, basis(&row.known, &row.errors)];
    output::table(&["device", "basis"], output::distinct(rows.iter().map(basis)));
    output::line(
        "\nVerify on the device: coexec run MODEL --device DEVICE --strategy optimal --out runs.csv",
    );
}

/// Latency of a model on a device, with its 90 % interval, and whether the device's memory holds it.
#[derive(Clone, Copy)]
pub(super) struct Timed<'a> {
    pub(super) model: &'a str,
    pub(super) device: &'a str,
    pub(super) latency: Picos,
    pub(super) interval: [Picos; 2],
    pub(super) is_held: bool,
}

impl<'a> Timed<'a> {
    /// The row's latency under the plan of `optimal`, if there is one.
    fn of_optimal(row: &'a StrategyRow) -> Option<Self> {
        let optimal = row.outcome(Strategy::Optimal)?;
        let interval = optimal.drawn.interval();
        let is_held = optimal.fits_memory != Some(false);
        Some(Self { model: &row.scenario, device: &row.device, latency: optimal.latency, interval, is_held })
    }
}

/// Prints the devices that can hold each model that was compared on several, fastest first.
pub(super) fn rank(what: &str, all: &[Timed<'_>]) {
    let models = output::distinct(all.iter().map(|timed| timed.model));
    let ordered = models.into_iter().filter_map(|model| Some(row![model, order(all, model)?]));
    let ordered: Vec<Vec<String>> = ordered.collect();
    if !ordered.is_empty() {
        output::line(&format!("\n{what}, the fastest first; ~ where the 90 % intervals overlap"));
        output::table(&["model", "devices"], ordered);
    }
}

/// Prints the models that are too large for a device.
pub(super) fn print_too_large(all: &[Timed<'_>]) {
    let too_large = all.iter().filter(|timed| !timed.is_held);
    let too_large = listed(too_large.map(|timed| format!("{} on {}", timed.model, timed.device)));
    if !too_large.is_empty() {
        output::line(&format!("The memory cannot hold the model: {too_large}"));
    }
}

/// The devices of a model, fastest first; none if there is only one.
fn order(all: &[Timed<'_>], model: &str) -> Option<String> {
    let is_ranked = |timed: &&Timed<'_>| timed.model == model && timed.is_held;
    let mut of_model: Vec<Timed<'_>> = all.iter().filter(is_ranked).copied().collect();
    of_model.sort_by_key(|timed| timed.latency);
    let behind = of_model.windows(2).map(|pair| {
        let [[_, high], [low, _]] = [pair[0].interval, pair[1].interval];
        format!("{} {}", if low <= high { "~" } else { "<" }, pair[1].device)
    });
    let behind: Vec<String> = behind.collect();
    (!behind.is_empty()).then(|| format!("{} {}", of_model[0].device, behind.join(" ")))
}

/// Prints one row per gain.
fn gain_table<'a>(what: &str, gains: impl Iterator<Item = (&'a str, &'a Gain)>) {
    let cells = gains.map(|(name, gain)| {
        let [mean, geometric] = [gain.mean_percent, gain.geometric_mean_percent].map(signed);
        row![name, gain.rows, mean, geometric, place(&gain.least), place(&gain.most)]
    });
    output::table(&[what, "rows", "mean gain", "geometric", "least", "most"], cells);
}

fn signed(percent: f64) -> String {
    format!("{percent:+.1} %")
}

fn place(Extreme { percent, scenario, device }: &Extreme) -> String {
    format!("{percent:+.1} %, {scenario} on {device}")
}

/// The heat map of gains over the baseline, models by devices.
pub(super) fn picture(rows: &[StrategyRow], task: &Task) -> Picture {
    let columns = output::distinct(rows.iter().map(|row| row.device.clone()));
    let models = output::distinct(rows.iter().map(|row| row.scenario.clone()));
    let value = |scenario: &String, device: &String| {
        let row = rows.iter().find(|row| row.scenario == *scenario && row.device == *device)?;
        row.ratio(Strategy::Optimal, task.baseline).map(percent)
    };
    let is_unsure = |row: &&StrategyRow| row.unsure.contains(&task.baseline);
    let unsure = match rows.iter().filter(is_unsure).count() {
        count if count > 0 && task.objective == Objective::Latency => {
            format!("; {count} of {} gains are not certain", rows.len())
        }
        _ => String::new(),
    };
    let values = models
        .iter()
        .map(|scenario| columns.iter().map(|device| value(scenario, device)).collect())
        .collect();
    Picture {
        name: "gains".to_owned(),
        title: format!("What optimal gains over {}", task.baseline.name()),
        subtitle: format!(
            "{} of {} models on {} devices{unsure}",
            task.objective.name(),
            models.len(),
            columns.len()
        ),
        drawing: Drawing::HeatMap(HeatMap {
            x: "device".to_owned(),
            y: "model".to_owned(),
            value: format!("gain in {}, %", task.objective.name()),
            columns,
            rows: models,
            values,
        }),
    }
}

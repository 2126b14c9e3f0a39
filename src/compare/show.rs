//! The tables and the figure of `coexec compare`.

use coexec_plots::figure::{Drawing, HeatMap, Picture};
use coexec_sim::explore::side_by_side::{Extreme, Gain, StrategyRow, gains, percent, unit};
use coexec_sim::{ProcessorKind, Strategy};

use super::{Group, Task, groups};
use crate::known;
use crate::output::{self, or_dash, row};

/// Digits of a value in a table.
const DIGITS: i32 = 4;

/// Rows, then what `optimal` gains: over each strategy, on each device, for each model.
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
    output::line(&format!(
        "{} in {unit}; gain of optimal over {}, and how far it is from its bound at most",
        task.objective.name(),
        task.baseline.name()
    ));
    let value = |cost: f64| {
        let value = cost * scale;
        let decimals = (DIGITS - 1 - value.max(f64::MIN_POSITIVE).log10().floor() as i32).clamp(0, 6);
        format!("{value:.*}", decimals as usize)
    };
    let cells = |row: &StrategyRow| {
        let mut cells = vec![row.scenario.clone(), row.device.clone()];
        for &strategy in &task.strategies {
            cells.push(or_dash(row.outcome(strategy).map(|outcome| value(outcome.cost))));
        }
        let unknown: Vec<&str> = row.unknown().map(ProcessorKind::label).collect();
        let gain = |over| Some(signed(percent(row.ratio(Strategy::Optimal, over)?)));
        cells.push(if unknown.is_empty() {
            or_dash(gain(task.baseline))
        } else {
            format!("{} not known", unknown.join(", "))
        });
        cells.push(or_dash(row.gap_percent().map(|gap| format!("{gap:.2} %"))));
        let single = row.best_single().map(|best| best.strategy);
        cells.push(or_dash(single.and_then(|best| Some(format!("{} over {}", gain(best)?, best.name())))));
        cells
    };
    let mut header = vec!["model", "device"];
    header.extend(task.strategies.iter().map(|strategy| strategy.name()));
    header.extend(["gain", "to bound", "best processor alone"]);
    output::keyed_table(&header, 2, rows.iter().map(cells));
    let is_open = |row: &&StrategyRow| row.unknown().next().is_some();
    for row in rows.iter().filter(is_open) {
        output::line(&format!("\n{} on {}", row.scenario, row.device));
        known::tell(&row.known);
    }
}

/// A row a gain: its name and its figures.
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

/// The figure: gains over the baseline, models by devices.
pub(super) fn picture(rows: &[StrategyRow], task: &Task) -> Picture {
    let columns = output::distinct(rows.iter().map(|row| row.device.clone()));
    let models = output::distinct(rows.iter().map(|row| row.scenario.clone()));
    let value = |scenario: &String, device: &String| {
        let row = rows.iter().find(|row| row.scenario == *scenario && row.device == *device)?;
        row.ratio(Strategy::Optimal, task.baseline).map(percent)
    };
    let values = models
        .iter()
        .map(|scenario| columns.iter().map(|device| value(scenario, device)).collect())
        .collect();
    Picture {
        name: "gains".to_owned(),
        title: format!("What optimal gains over {}", task.baseline.name()),
        subtitle: format!(
            "{} of {} models on {} devices",
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

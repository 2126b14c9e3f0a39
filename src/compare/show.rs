//! The tables and the figure of `coexec compare`.

use coexec_plots::figure::{Drawing, HeatMap, Picture};
use coexec_sim::explore::Strategy;
use coexec_sim::explore::side_by_side::{Extreme, Gain, StrategyRow, gains, percent, unit};

use super::{Group, Task, groups};
use crate::output::{self, or_dash, row};

/// Digits of a value in a table.
const DIGITS: i32 = 4;

/// Rows, then what `optimal` gains: over each strategy, on each device, for each model.
pub(super) fn print(rows: &[StrategyRow], task: &Task) {
    each(rows, task);
    output::line("");
    over_strategies(rows);
    let baseline = task.baseline.name();
    for (what, groups) in [
        ("device", groups(rows, task, |row| &row.device)),
        ("model", groups(rows, task, |row| &row.scenario)),
    ] {
        output::line(&format!("\nGains over {baseline} by {what}"));
        by_group(what, &groups);
    }
}

fn each(rows: &[StrategyRow], task: &Task) {
    let (unit, scale) = unit(task.objective);
    output::line(&format!(
        "{} in {unit}; gain of optimal over {}",
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
        let gain = row.ratio(Strategy::Optimal, task.baseline);
        cells.push(or_dash(gain.map(|ratio| signed(percent(ratio)))));
        let single = row.best_single().and_then(|best| row.ratio(Strategy::Optimal, best.strategy));
        let single = single.zip(row.best_single());
        cells.push(single.map_or("-".to_owned(), |(ratio, best)| {
            format!("{:+.1} % over {}", percent(ratio), best.strategy.name())
        }));
        cells
    };
    let mut header = vec!["model", "device"];
    header.extend(task.strategies.iter().map(|strategy| strategy.name()));
    header.extend(["gain", "best processor alone"]);
    output::table(&header, rows.iter().map(cells));
}

fn over_strategies(rows: &[StrategyRow]) {
    let gains = gains(rows, Strategy::Optimal);
    let header = ["optimal over", "rows", "mean gain", "geometric", "least", "most"];
    output::table(&header, gains.iter().map(|gain| figures(gain.over.name(), gain)));
}

fn by_group(what: &str, groups: &[Group]) {
    let cells = groups.iter().map(|Group { name, gain }| figures(name, gain));
    output::table(&[what, "rows", "mean gain", "geometric", "least", "most"], cells);
}

/// A name, and the figures of a gain.
fn figures(name: &str, gain: &Gain) -> Vec<String> {
    let [mean, geometric] = [gain.mean_percent, gain.geometric_mean_percent].map(signed);
    row![name, gain.rows, mean, geometric, place(&gain.least), place(&gain.most)]
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

//! The tables and the figure of `coexec compare`.

use coexec_sim::explore::Strategy;
use coexec_sim::explore::side_by_side::{Extreme, Row, beaten, gains, percent, unit};
use coexec_sim::published::{Drawing, HeatMap, Picture};

use super::{Group, Task, groups};
use crate::output;

/// Digits of a value in a table.
const DIGITS: i32 = 4;

/// Rows, then what the optimal plan gains: over each strategy, on each device, for each
/// model.
pub(super) fn print(rows: &[Row], task: &Task) {
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
    let beaten = beaten(rows, Strategy::Optimal);
    let known = rows.len();
    output::line(&format!("\n{} of {known} rows have a better plan than the optimal one", beaten.len()));
    for (row, by) in beaten {
        output::line(&format!("  {} on {}: {}", row.scenario, row.device, by.name()));
    }
}

fn each(rows: &[Row], task: &Task) {
    let (unit, scale) = unit(task.objective);
    output::line(&format!(
        "{} in {unit}; gain of the optimal plan over {}",
        task.objective.name(),
        task.baseline.name()
    ));
    let value = |cost: f64| {
        let value = cost * scale;
        let decimals = (DIGITS - 1 - value.max(f64::MIN_POSITIVE).log10().floor() as i32).clamp(0, 6);
        format!("{value:.*}", decimals as usize)
    };
    let cells = |row: &Row| {
        let mut cells = vec![row.scenario.clone(), row.device.clone()];
        for &strategy in &task.strategies {
            cells.push(row.outcome(strategy).map_or("-".to_owned(), |outcome| value(outcome.cost)));
        }
        let gain = row.ratio(Strategy::Optimal, task.baseline);
        cells.push(gain.map_or("-".to_owned(), |ratio| format!("{:+.1} %", percent(ratio))));
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
    output::table(&header, &rows.iter().map(cells).collect::<Vec<_>>());
}

fn over_strategies(rows: &[Row]) {
    let cells: Vec<Vec<String>> = gains(rows, Strategy::Optimal)
        .iter()
        .map(|gain| {
            vec![
                gain.over.name().to_owned(),
                gain.rows.to_string(),
                signed(gain.mean_percent),
                signed(gain.geometric_mean_percent),
                row(&gain.least),
                row(&gain.most),
                gain.worse.to_string(),
            ]
        })
        .collect();
    let header = ["optimal over", "rows", "mean gain", "geometric", "least", "most", "worse"];
    output::table(&header, &cells);
}

fn by_group(what: &str, groups: &[Group]) {
    let cells: Vec<Vec<String>> = groups
        .iter()
        .map(|Group { name, gain }| {
            vec![
                name.clone(),
                gain.rows.to_string(),
                signed(gain.mean_percent),
                signed(gain.geometric_mean_percent),
                row(&gain.least),
                row(&gain.most),
            ]
        })
        .collect();
    output::table(&[what, "rows", "mean gain", "geometric", "least", "most"], &cells);
}

fn signed(percent: f64) -> String {
    format!("{percent:+.1} %")
}

fn row(Extreme { percent, scenario, device }: &Extreme) -> String {
    format!("{percent:+.1} %, {scenario} on {device}")
}

/// The figure: gains over the baseline, models by devices.
pub(super) fn picture(rows: &[Row], task: &Task) -> Picture {
    let distinct = |name: &dyn Fn(&Row) -> String| {
        let mut names: Vec<String> = Vec::new();
        for name in rows.iter().map(name) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    };
    let columns = distinct(&|row| row.device.clone());
    let models = distinct(&|row| row.scenario.clone());
    let value = |scenario: &String, device: &String| {
        let row = rows.iter().find(|row| row.scenario == *scenario && row.device == *device)?;
        // A gain below nothing, which no plan of ours should have, has the shade of none.
        row.ratio(Strategy::Optimal, task.baseline).map(|ratio| percent(ratio).max(0.0))
    };
    let values = models
        .iter()
        .map(|scenario| columns.iter().map(|device| value(scenario, device)).collect())
        .collect();
    Picture {
        name: "gains".to_owned(),
        title: format!("What the optimal plan gains over {}", task.baseline.name()),
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

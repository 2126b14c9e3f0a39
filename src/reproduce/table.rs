//! Tables of a report, largest deviations first.

use coexec_papers::{FactGroup, Group, Limit, Measure, Ours, Published, Report, Role, Row, Summary};

use super::PaperEntry;
use crate::output::{listed, row};
use crate::{or_dash, output};

/// Prints one paper.
pub(super) fn print(PaperEntry { report, only, .. }: &PaperEntry) {
    output::line(report.paper.title());
    if let Some(only) = only {
        output::line(only);
    }
    output::line("");
    for group in &report.groups {
        print_group(group, only.is_none());
    }
    not_reproduced(report);
}

fn print_group(group: &Group, is_judged: bool) {
    let rows: Vec<Vec<String>> = group
        .worst_first()
        .into_iter()
        .filter(|row| is_shown(row))
        .map(|row| line(row, group.published.measure))
        .collect();
    if rows.is_empty() {
        return;
    }
    output::line(&heading(group, is_judged));
    output::table(&["where", "device", "workload", "what", "published", "coexec", "deviation", "role"], rows);
    notes(group);
    output::line("");
}

/// Whether a row is in the table of its group; numbers that are not reproduced have a table of their
/// own.
fn is_shown(row: &Row) -> bool {
    !matches!(row.role, Role::NotReproduced { .. })
}

/// Prints the notes of a group and of its rows, and why rows are not counted.
fn notes(group: &Group) {
    if !group.published.note.is_empty() {
        output::line(&format!("  {}", group.published.note));
    }
    let mut printed: Vec<&str> = Vec::new();
    for row in &group.rows {
        if !row.fact.note.is_empty() {
            output::line(&format!("  {}: {}", name(row), row.fact.note));
        }
        if let Role::NotCounted { because } = &row.role
            && !printed.contains(&because.as_str())
        {
            printed.push(because);
            output::line(&format!("  {}: {because}", name(row)));
        }
    }
}

fn name(row: &Row) -> String {
    format!("{}, {}, {}", row.fact.device, row.fact.workload, row.fact.quantity)
}

/// The group's name, the errors of its predicted rows, and its limit.
fn heading(group: &Group, is_judged: bool) -> String {
    let Summary { predicted, fitted, not_counted, disagreeing, mean, worst, median, .. } = group.summary();
    let FactGroup { name, limit, no_limit, measure, .. } = group.published;
    let unit = measure.unit();
    let mut parts = vec![format!("{predicted} predicted, {fitted} fitted")];
    for (what, value) in [("mean", mean), ("median", median), ("worst", worst)] {
        if let Some(value) = value {
            parts.push(format!("{what} {value:.1} {unit}"));
        }
    }
    if not_counted > 0 {
        parts.push(format!("{not_counted} not counted"));
    }
    if disagreeing > 0 {
        parts.push(format!("{disagreeing} other than published"));
    }
    let limit = limit_text(*limit, unit);
    if !limit.is_empty() {
        let verdict = match (is_judged && predicted > 0, group.holds()) {
            (false, _) => "not judged",
            (true, true) => "holds",
            (true, false) => "missed",
        };
        parts.push(format!("limit {limit}: {verdict}"));
    } else if !no_limit.is_empty() {
        parts.push(format!("no limit: {no_limit}"));
    }
    format!("{name} ({})", parts.join("; "))
}

/// A limit in words.
fn limit_text(limit: Limit, unit: &str) -> String {
    let parts = [("mean", limit.mean), ("median", limit.median), ("worst", limit.worst)];
    let limit_text =
        parts.iter().filter_map(|(what, value)| value.map(|value| format!("{what} {value} {unit}")));
    let limit_text = listed(limit_text);
    if limit.chosen_after_results {
        format!("{limit_text}, chosen with the results known")
    } else {
        limit_text
    }
}

fn line(row: &Row, measure: Measure) -> Vec<String> {
    let fact = &row.fact;
    let ours = match &row.ours {
        Some(Ours::Number(number)) => quantity(*number, &fact.unit),
        Some(Ours::Finding { text, .. }) => text.clone(),
        None => "-".to_owned(),
    };
    let deviation = match row.deviation {
        Some(deviation) if measure == Measure::Percent => format!("{deviation:+.1} %"),
        Some(deviation) => format!("{deviation:+.1} points"),
        None if row.ours.is_none() => "-".to_owned(),
        None if row.disagrees() => "differs".to_owned(),
        None => "agrees".to_owned(),
    };
    let role = match &row.role {
        Role::Predicted => "predicted".to_owned(),
        Role::Fitted { .. } => "fitted".to_owned(),
        Role::NotCounted { .. } => "not counted".to_owned(),
        Role::NotReproduced { .. } => "-".to_owned(),
    };
    row![fact.place, fact.device, fact.workload, fact.quantity, published(row), ours, deviation, role]
}

fn published(row: &Row) -> String {
    match &row.fact.value {
        Published::Number(number) if row.fact.unit == "x" => format!("{number}x"),
        Published::Number(number) => format!("{number} {}", row.fact.unit),
        Published::Words(words) if row.fact.unit == "words" => words.clone(),
        Published::Words(words) => format!("{words} {}", row.fact.unit),
    }
}

/// A number with its unit, rounded to a few significant digits.
fn quantity(number: f64, unit: &str) -> String {
    let decimals = match number.abs() {
        size if size >= 1_000.0 || number.fract() == 0.0 => 0,
        size if size >= 100.0 => 1,
        size if size >= 0.1 => 2,
        _ => 4,
    };
    match unit {
        "x" => format!("{number:.decimals$}x"),
        unit => format!("{number:.decimals$} {unit}"),
    }
}

/// Prints the published numbers that coexec does not predict, and why.
fn not_reproduced(report: &Report) {
    let rows = report.groups.iter().flat_map(|group| &group.rows);
    let line = |row: &Row| {
        let (Role::NotReproduced { because }, fact) = (&row.role, &row.fact) else { return None };
        Some(row![fact.place, fact.device, fact.workload, fact.quantity, published(row), because])
    };
    let lines: Vec<Vec<String>> = rows.filter_map(line).collect();
    if !lines.is_empty() {
        output::line(&format!("Not quantities that coexec predicts ({})", lines.len()));
        output::table(&["where", "device", "workload", "what", "published", "because"], lines);
        output::line("");
    }
}

/// Prints one line per group of all papers, those that miss their limits first.
pub(super) fn totals(entries: &[PaperEntry]) {
    let groups = entries.iter().flat_map(|entry| entry.report.groups.iter().map(move |group| (entry, group)));
    let mut groups: Vec<(&PaperEntry, &Group)> =
        groups.filter(|(_, group)| group.rows.iter().any(is_shown)).collect();
    groups.sort_by_key(|(entry, group)| group.holds() || entry.only.is_some());
    if groups.is_empty() {
        return;
    }
    output::line("Summary");
    let header = ["paper", "group", "predicted", "fitted", "mean", "worst", "limit", ""];
    output::table(&header, groups.into_iter().map(|(entry, group)| total(entry, group)));
}

fn total(PaperEntry { report, only, .. }: &PaperEntry, group: &Group) -> Vec<String> {
    let summary = group.summary();
    let FactGroup { name, limit, measure, .. } = group.published;
    let unit = measure.unit();
    let number = |value: Option<f64>| or_dash(value.map(|value| format!("{value:.1} {unit}")));
    let limit_text = limit_text(*limit, unit);
    let verdict = match (limit_text.is_empty(), group.holds()) {
        _ if only.is_some() => "not judged",
        _ if summary.predicted == 0 => "",
        (_, false) => "missed",
        (true, true) => "",
        (false, true) => "holds",
    };
    let (mean, worst) = (number(summary.mean), number(summary.worst));
    row![report.paper.name(), name, summary.predicted, summary.fitted, mean, worst, limit_text, verdict]
}

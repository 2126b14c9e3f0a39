//! The choice among several rows of a model.
//!
//! A model has times of several runtimes, devices and versions. For each unit and format, one is
//! its reference. Preferred are, in this order: times of the current version of the models, times
//! with a checked input, the preferred runtime, the newest, and the first listed. Each other
//! runtime's time is chosen by the same rules, so that runtimes can be compared.

use std::cmp::Reverse;
use std::collections::HashSet;

use super::row::Row;
use crate::measure::{SkippedRow, grouped};

/// The rows that are used, in their order, and the others.
pub(super) fn chosen(rows: Vec<Row>) -> (Vec<Row>, Vec<SkippedRow>) {
    // A model on a unit, in a format.
    let places = grouped(rows.into_iter().map(|row| ((row.cells.graph.clone(), row.unit, row.format), row)));
    let (mut chosen, mut others) = (Vec::new(), Vec::new());
    for (_, mut rows) in places {
        rows.sort_by_key(|row| {
            let (is_old, is_unchecked) = (row.cells.origin != "head", row.cells.input_checked != "head spec");
            let preference = row.runtime.preference().unwrap_or(u32::MAX);
            (is_old, is_unchecked, preference, Reverse(row.cells.date.clone()), row.run.line)
        });
        let reference = rows.iter().find(|row| row.runtime.preference().is_some()).map(|row| row.run.line);
        let mut seen = HashSet::new();
        // A runtime without a preference may have the first row, for example a newer one, which is not
        // the reference.
        rows.sort_by_key(|row| Some(row.run.line) != reference);
        for row in rows {
            if seen.insert(row.runtime) {
                chosen.push(Row { is_reference: Some(row.run.line) == reference, ..row });
            } else {
                let reason =
                    "another time of this model and runtime is used, which is newer or better verified";
                others.push(SkippedRow { line: row.run.line, reason: reason.to_owned() });
            }
        }
    }
    chosen.sort_by_key(|row| row.run.line);
    (chosen, others)
}

//! Which row of a model counts.
//!
//! A model has times of several runtimes, devices and versions. It counts once on a unit and in a
//! format: by a time of the present state of the models before one of an older, with the input
//! checked before one without, of the runtime that is preferred, the newest, the first listed. So
//! is each other runtime's time chosen, to tell runtimes apart.

use std::cmp::Reverse;
use std::collections::HashSet;

use super::row::Row;
use crate::measure::{SkippedRow, grouped};

/// A row that is used.
#[derive(Debug)]
pub(super) struct Chosen {
    pub(super) row: Row,
    /// Whether the model counts by it.
    pub(super) is_reference: bool,
}

/// Those of `rows` that are used, in their order, and the others.
pub(super) fn chosen(rows: Vec<Row>) -> (Vec<Chosen>, Vec<SkippedRow>) {
    // A model on a unit, in a format.
    let places = grouped(rows.into_iter().map(|row| ((row.cells.graph.clone(), row.unit, row.format), row)));
    let (mut chosen, mut others) = (Vec::new(), Vec::new());
    for (_, mut rows) in places {
        rows.sort_by_key(|row| {
            let (is_old, is_unchecked) = (row.cells.origin != "head", row.cells.input_checked != "head spec");
            let preference = row.runtime.preference().unwrap_or(u32::MAX);
            (is_old, is_unchecked, preference, Reverse(row.cells.date.clone()), row.line)
        });
        let reference = rows.iter().find(|row| row.runtime.preference().is_some()).map(|row| row.line);
        let mut seen = HashSet::new();
        // The reference is not the first where a runtime without preference has the only newer row.
        rows.sort_by_key(|row| Some(row.line) != reference);
        for row in rows {
            if seen.insert(row.runtime) {
                chosen.push(Chosen { is_reference: Some(row.line) == reference, row });
            } else {
                let reason = "another time of the model counts: of this runtime, and newer or better known";
                others.push(SkippedRow { line: row.line, reason: reason.to_owned() });
            }
        }
    }
    chosen.sort_by_key(|chosen| chosen.row.line);
    (chosen, others)
}

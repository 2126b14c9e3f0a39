//! Which row of a model counts.
//!
//! A model has times of several runtimes, devices and versions. It counts once on a unit and in a
//! format: by a time of the present state of the models before one of an older, with the input
//! checked before one without, of the runtime that is preferred, the newest, the first listed. So
//! is each other runtime's time chosen, to tell runtimes apart.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::row::Row;
use super::{Format, Runtime};
use crate::measure::SkippedRow;
use coexec_sim::ProcessorKind;

/// A row that is used.
#[derive(Debug)]
pub(super) struct Chosen {
    pub(super) row: Row,
    /// Whether the model counts by it.
    pub(super) is_reference: bool,
}

/// A model on a unit, in a format.
type Place = (String, ProcessorKind, Format);

/// Those of `rows` that are used, in their order, and the others.
pub(super) fn chosen(rows: Vec<Row>) -> (Vec<Chosen>, Vec<SkippedRow>) {
    let mut places: BTreeMap<Place, Vec<Row>> = BTreeMap::new();
    for row in rows {
        places.entry((row.cells.graph.clone(), row.unit, row.format)).or_default().push(row);
    }
    let (mut chosen, mut others) = (Vec::new(), Vec::new());
    for mut rows in places.into_values() {
        rows.sort_by_key(|row| {
            let preference = row.runtime.preference().unwrap_or(u32::MAX);
            (!row.is_current(), !row.is_checked(), preference, Reverse(row.cells.date.clone()), row.line)
        });
        let reference = rows.iter().find(|row| row.runtime.preference().is_some()).map(|row| row.line);
        let mut seen: Vec<Runtime> = Vec::new();
        // The reference is not the first where a runtime without preference has the only newer row.
        rows.sort_by_key(|row| Some(row.line) != reference);
        for row in rows {
            if seen.contains(&row.runtime) {
                let reason = "another time of the model counts: of this runtime, and newer or better known";
                others.push(SkippedRow { line: row.line, reason: reason.to_owned() });
                continue;
            }
            seen.push(row.runtime);
            chosen.push(Chosen { is_reference: Some(row.line) == reference, row });
        }
    }
    chosen.sort_by_key(|chosen| chosen.row.line);
    (chosen, others)
}

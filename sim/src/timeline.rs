//! What happened when: the plain data behind every timeline figure and trace.
//!
//! Responsible for: the types of tracks, slices and counters. Not for: drawing them
//! (the plots crate) or recording them (the engine's trace sink).
//! Invariant: the slices of a track are sorted by start and nest: two slices are
//! disjoint, or one contains the other.

use serde::Serialize;

use crate::units::Picos;

/// What a track shows; determines its position and its colour family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TrackKind {
    /// The requests of one application.
    Application,
    /// One CPU core.
    Core,
    /// The GPU's command queue: one slice per kernel.
    GpuQueue,
    /// The GPU's compute units: one slice per occupancy round.
    ComputeUnits,
    /// The NPU.
    Npu,
}

/// What a processor does during a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Activity {
    /// Computes an operator.
    Compute,
    /// Launches, dispatches, forks or joins.
    Launch,
    /// Transforms, maps or unmaps data.
    Transform,
    /// Copies between the GPU's own memory and the host's.
    Transfer,
    /// Signals another processor or handles its signal.
    Synchronise,
    /// Waits for another processor.
    Wait,
}

/// One slice of a track.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Stretch {
    /// What runs: an operator's name, a kernel, a phase.
    pub name: String,
    /// Its kind of activity.
    pub activity: Activity,
    /// First picosecond.
    pub start: Picos,
    /// First picosecond after it.
    pub end: Picos,
}

/// One row of a timeline.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Track {
    /// Name of the row: `core 0 (X3)`, `GPU queue`.
    pub name: String,
    /// What it shows.
    pub kind: TrackKind,
    /// Its slices, sorted by start and nested.
    pub slices: Vec<Stretch>,
}

/// A value over time, constant between samples.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Counter {
    /// Name of the counter.
    pub name: String,
    /// Unit of its values.
    pub unit: &'static str,
    /// Time of each change and the value from then on.
    pub samples: Vec<(Picos, f64)>,
}

/// A whole run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Timeline {
    /// Rows, in display order.
    pub tracks: Vec<Track>,
    /// Counters, shown below the rows.
    pub counters: Vec<Counter>,
    /// End of the run.
    pub end: Picos,
}

//! Timelines as traces in Chrome's JSON format, for the viewer at ui.perfetto.dev.
//!
//! Responsible for: [`trace`]. Not for: files, nor reading traces.
//! Invariant: slices of a track nest even if several begin or end at once: a holding slice
//! precedes the slices it holds.
//!
//! Simulated time is in picoseconds; a trace's time is in microseconds, which the viewer reads
//! to the nanosecond. Each time is rounded to the nearest nanosecond, halves up. Rounding never
//! swaps two times, so nesting survives; a slice shorter than a nanosecond may lose its length.

use coexec_sim::Picos;
use coexec_sim::timeline::{Timeline, TrackKind};
use coexec_sim::units::NANOS_PER_MICRO;
use serde_json::{Value, json};

use crate::nesting::nest;

const PICOS_PER_NANO: u64 = 1_000;

/// Groups of tracks, which the viewer shows as processes in this order; process identifiers
/// start at 1.
const GROUPS: [&str; 6] = ["run", "applications", "CPU", "GPU", "NPU", "memory"];
const RUN: usize = 1;
const MEMORY: usize = 6;

/// The process identifier of a track's group.
fn group(kind: TrackKind) -> usize {
    match kind {
        TrackKind::Application => 2,
        TrackKind::Core => 3,
        TrackKind::GpuQueue | TrackKind::ComputeUnits => 4,
        TrackKind::Npu => 5,
    }
}

/// Rounds to the nearest nanosecond, halves up.
fn nanos(time: Picos) -> u64 {
    time.0 / PICOS_PER_NANO + u64::from(time.0 % PICOS_PER_NANO >= PICOS_PER_NANO / 2)
}

/// Converts nanoseconds to the trace's microseconds.
fn micros(nanos: u64) -> f64 {
    nanos as f64 / NANOS_PER_MICRO
}

/// Writes `timeline` as the bytes of a trace.
///
/// Tracks are in groups (applications, CPU, GPU, NPU, and memory with the counters) in the
/// order of the timeline; an additional track shows the whole run as one slice.
/// Slices and samples after the end are omitted, and a slice that exceeds the
/// run or the slice that holds it is clipped.
pub fn trace(timeline: &Timeline) -> Vec<u8> {
    let used = |process: usize| match process {
        RUN => true,
        MEMORY => !timeline.counters.is_empty(),
        process => timeline.tracks.iter().any(|track| group(track.kind) == process),
    };
    let mut events: Vec<Value> = Vec::new();
    for (process, name) in (1..).zip(GROUPS).filter(|&(process, _)| used(process)) {
        events.extend(described("process", name, process, 1));
    }
    // The viewer reserves thread 0 for the idle process.
    events.extend(described("thread", GROUPS[0], RUN, 1));
    events.push(slice(GROUPS[0], "run", (RUN, 1), (Picos::ZERO, timeline.end)));
    for (thread, track) in (2..).zip(&timeline.tracks) {
        let process = group(track.kind);
        events.extend(described("thread", &track.name, process, thread));
        for nested in nest(&track.slices, timeline.end) {
            let span = (nested.start, nested.end);
            events.push(slice(&nested.slice.name, nested.slice.activity, (process, thread), span));
        }
    }
    for counter in &timeline.counters {
        for (time, value) in counter.samples.iter().filter(|(time, _)| *time <= timeline.end) {
            events.push(json!({
                "ph": "C", "name": counter.name, "pid": MEMORY, "ts": micros(nanos(*time)),
                "args": { (counter.unit): value },
            }));
        }
    }
    json!({ "displayTimeUnit": "ns", "traceEvents": events }).to_string().into_bytes()
}

/// Metadata events with the name and the sort index of a process or a thread.
fn described(kind: &str, name: &str, process: usize, thread: usize) -> [Value; 2] {
    let rank = if kind == "process" { process } else { thread };
    let event = |what: &str, arguments: Value| json!({ "ph": "M", "name": format!("{kind}_{what}"), "pid": process, "tid": thread, "args": arguments });
    [event("name", json!({ "name": name })), event("sort_index", json!({ "sort_index": rank }))]
}

/// A slice of a thread of a process.
fn slice(
    name: &str,
    category: impl serde::Serialize,
    (process, thread): (usize, usize),
    (start, end): (Picos, Picos),
) -> Value {
    let (start, end) = (nanos(start), nanos(end));
    json!({
        "ph": "X", "name": name, "cat": category, "pid": process, "tid": thread,
        "ts": micros(start), "dur": micros(end - start),
    })
}

#[cfg(test)]
mod tests;

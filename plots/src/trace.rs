//! Timelines as traces in Chrome's JSON format, for the viewer at ui.perfetto.dev.
//!
//! Responsible for: [`trace`]. Not for: files, and not for traces of other writers.
//! Invariant: slices of a track nest also where several begin or end at once: what holds
//! another stands before it.
//!
//! Simulated time is in picoseconds, a trace's in microseconds that the viewer reads to the
//! nanosecond: each time is rounded to the nearest nanosecond, halves up. That never swaps
//! two times, so nesting survives; a slice under half a nanosecond may lose its length.

use coexec_sim::Picos;
use coexec_sim::timeline::{Timeline, TrackKind};
use serde_json::{Value, json};

use crate::nesting::nest;

const PICOS_PER_NANO: u64 = 1_000;
const NANOS_PER_MICRO: f64 = 1e3;

/// What the viewer shows as processes, groups of tracks, in their order: process
/// identifiers start at 1.
const GROUPS: [&str; 5] = ["run", "CPU", "GPU", "NPU", "memory"];
const RUN: usize = 1;
const MEMORY: usize = 5;

/// The process identifier of the group a track stands in.
fn group(kind: TrackKind) -> usize {
    match kind {
        TrackKind::Core => 2,
        TrackKind::GpuQueue | TrackKind::ComputeUnits => 3,
        TrackKind::Npu => 4,
    }
}

/// Nearest nanosecond, halves up.
fn nanos(time: Picos) -> u64 {
    time.0 / PICOS_PER_NANO + u64::from(time.0 % PICOS_PER_NANO >= PICOS_PER_NANO / 2)
}

/// A time of the trace, in microseconds.
fn micros(nanos: u64) -> f64 {
    nanos as f64 / NANOS_PER_MICRO
}

/// Writes `timeline` as the bytes of a trace.
///
/// Tracks stand in groups (CPU, GPU, NPU, and memory with the counters) in the
/// order of the timeline; one more track holds the whole run as one slice.
/// Slices and samples after the end are left out, and a slice that leaves the
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
    // The viewer keeps thread 0 for the idle process.
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

/// The name of a process or a thread, and where it stands among the others.
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

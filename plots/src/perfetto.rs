//! Timelines as Perfetto traces, for the viewer at ui.perfetto.dev.
//!
//! Responsible for: [`trace`], which writes a timeline as a protobuf trace of
//! track events, and [`check()`], which reads one back. Not for: files, and not
//! for traces of other writers.
//! Invariant: on every track of a written trace timestamps never decrease and
//! slices begin and end like brackets, also where several do at once.
//!
//! Simulated time is in picoseconds, a trace's in nanoseconds: each time is
//! rounded to the nearest nanosecond, halves up. That never swaps two times, so
//! nesting survives; a slice under half a nanosecond may lose its length, which
//! the viewer shows as a slice of no length.

mod check;
mod messages;

use coexec_sim::timeline::{Activity, Counter, Timeline, Track, TrackKind};
use coexec_sim::units::Picos;
use prost::Message;

use crate::nesting::nest;
use messages::{
    CounterDescriptor, EXPLICIT_ORDER, EventType, INCREMENTAL_STATE_CLEARED, NEVER_MERGED, ProcessDescriptor,
    Trace, TracePacket, TrackDescriptor, TrackEvent,
};

pub use check::{CounterSummary, SliceSummary, TraceError, TraceSummary, TrackSummary, check};

const PICOS_PER_NANO: u64 = 1_000;

/// The one writer of the packets; zero is not valid.
const SEQUENCE: u32 = 1;

/// Name of the track that holds one slice: the whole run.
const RUN: &str = "run";
/// Identity of that track; the groups' identities follow it.
const RUN_UUID: u64 = 1;
/// Identity of the first track; the others, then the counters, follow it.
const FIRST_TRACK: u64 = 16;

/// What the viewer shows as one process: a group of tracks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Group {
    Cpu,
    Gpu,
    Npu,
    Memory,
}

impl Group {
    const ALL: [Self; 4] = [Self::Cpu, Self::Gpu, Self::Npu, Self::Memory];

    fn of(kind: TrackKind) -> Self {
        match kind {
            TrackKind::Core => Self::Cpu,
            TrackKind::GpuQueue | TrackKind::ComputeUnits => Self::Gpu,
            TrackKind::Npu => Self::Npu,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Cpu => "CPU",
            Self::Gpu => "GPU",
            Self::Npu => "NPU",
            Self::Memory => "memory",
        }
    }

    /// Process identifier, from 1 on as 0 is taken, and rank among the groups.
    fn rank(self) -> i32 {
        match self {
            Self::Cpu => 1,
            Self::Gpu => 2,
            Self::Npu => 3,
            Self::Memory => 4,
        }
    }

    fn uuid(self) -> u64 {
        RUN_UUID + self.rank() as u64
    }
}

/// A slice's category in the trace.
fn category(activity: Activity) -> &'static str {
    match activity {
        Activity::Compute => "compute",
        Activity::Launch => "launch",
        Activity::Transform => "transform",
        Activity::Transfer => "transfer",
        Activity::Synchronise => "synchronise",
        Activity::Wait => "wait",
    }
}

/// Nearest nanosecond, halves up.
fn nanos(time: Picos) -> u64 {
    time.0 / PICOS_PER_NANO + u64::from(time.0 % PICOS_PER_NANO >= PICOS_PER_NANO / 2)
}

/// Writes `timeline` as the bytes of a Perfetto trace.
///
/// Tracks stand in groups (CPU, GPU, NPU, and memory with the counters) in the
/// order of the timeline; one more track holds the whole run as one slice.
/// Slices and samples after the end are left out, and a slice that leaves the
/// run or the slice that holds it is clipped.
pub fn trace(timeline: &Timeline) -> Vec<u8> {
    let mut packet = descriptors(timeline);
    packet.push(begin(RUN_UUID, Picos::ZERO, RUN, "run"));
    let mut events = Vec::new();
    for (track, uuid) in timeline.tracks.iter().zip(FIRST_TRACK..) {
        slice_events(&mut events, track, uuid, timeline.end);
    }
    let first_counter = FIRST_TRACK + timeline.tracks.len() as u64;
    for (counter, uuid) in timeline.counters.iter().zip(first_counter..) {
        counter_events(&mut events, counter, uuid, timeline.end);
    }
    // Stable: at equal times each track's events keep their order.
    events.sort_by_key(|event| event.timestamp);
    packet.append(&mut events);
    packet.push(end(RUN_UUID, timeline.end));
    Trace { packet }.encode_to_vec()
}

fn descriptors(timeline: &Timeline) -> Vec<TracePacket> {
    let mut first = describe(TrackDescriptor {
        uuid: Some(RUN_UUID),
        name: Some(RUN.to_owned()),
        ..TrackDescriptor::default()
    });
    first.sequence_flags = Some(INCREMENTAL_STATE_CLEARED);
    let mut packets = vec![first];
    let has = |group: Group| match group {
        Group::Memory => !timeline.counters.is_empty(),
        _ => timeline.tracks.iter().any(|track| Group::of(track.kind) == group),
    };
    for group in Group::ALL.into_iter().filter(|&group| has(group)) {
        packets.push(describe(TrackDescriptor {
            uuid: Some(group.uuid()),
            process: Some(ProcessDescriptor {
                pid: Some(group.rank()),
                process_name: Some(group.name().to_owned()),
            }),
            child_ordering: Some(EXPLICIT_ORDER),
            sibling_order_rank: Some(group.rank()),
            ..TrackDescriptor::default()
        }));
    }
    let tracks = timeline.tracks.iter().map(|track| (&track.name, Group::of(track.kind), None));
    let counters = timeline.counters.iter().map(|counter| {
        let descriptor = CounterDescriptor { unit_name: Some(counter.unit.to_owned()) };
        (&counter.name, Group::Memory, Some(descriptor))
    });
    for ((name, group, counter), (uuid, rank)) in tracks.chain(counters).zip((FIRST_TRACK..).zip(0..)) {
        packets.push(describe(TrackDescriptor {
            uuid: Some(uuid),
            name: Some(name.clone()),
            parent_uuid: Some(group.uuid()),
            counter,
            sibling_order_rank: Some(rank),
            sibling_merge_behavior: Some(NEVER_MERGED),
            ..TrackDescriptor::default()
        }));
    }
    packets
}

fn describe(track_descriptor: TrackDescriptor) -> TracePacket {
    TracePacket {
        trusted_packet_sequence_id: Some(SEQUENCE),
        track_descriptor: Some(track_descriptor),
        ..TracePacket::default()
    }
}

fn event(track_uuid: u64, time: Picos, kind: EventType) -> TracePacket {
    TracePacket {
        timestamp: Some(nanos(time)),
        trusted_packet_sequence_id: Some(SEQUENCE),
        track_event: Some(TrackEvent {
            r#type: Some(kind.into()),
            track_uuid: Some(track_uuid),
            ..TrackEvent::default()
        }),
        ..TracePacket::default()
    }
}

fn begin(track_uuid: u64, time: Picos, name: &str, category: &str) -> TracePacket {
    let mut packet = event(track_uuid, time, EventType::SliceBegin);
    if let Some(event) = &mut packet.track_event {
        event.name = Some(name.to_owned());
        event.categories = vec![category.to_owned()];
    }
    packet
}

fn end(track_uuid: u64, time: Picos) -> TracePacket {
    event(track_uuid, time, EventType::SliceEnd)
}

/// The begins and ends of a track: before a slice begins, all slices that do
/// not hold it end, the innermost first.
fn slice_events(events: &mut Vec<TracePacket>, track: &Track, uuid: u64, run_end: Picos) {
    let mut open: Vec<Picos> = Vec::new();
    for nested in nest(&track.slices, run_end) {
        while open.len() > nested.level {
            events.extend(open.pop().map(|time| end(uuid, time)));
        }
        let slice = nested.slice;
        events.push(begin(uuid, nested.start, &slice.name, category(slice.activity)));
        open.push(nested.end);
    }
    events.extend(open.into_iter().rev().map(|time| end(uuid, time)));
}

fn counter_events(events: &mut Vec<TracePacket>, counter: &Counter, uuid: u64, run_end: Picos) {
    let mut latest = Picos::ZERO;
    for &(time, value) in counter.samples.iter().filter(|(time, _)| *time <= run_end) {
        latest = latest.max(time);
        let mut packet = event(uuid, latest, EventType::Counter);
        if let Some(event) = &mut packet.track_event {
            event.double_counter_value = Some(value);
        }
        events.push(packet);
    }
}

#[cfg(test)]
mod tests;

//! Reads a written trace back and holds it to its invariant.

use std::collections::HashMap;

use prost::Message;
use thiserror::Error;

use super::messages::{EventType, Trace, TracePacket, TrackDescriptor, TrackEvent};
use super::{RUN_UUID, SEQUENCE};

/// What a trace holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TraceSummary {
    /// Length of the run, in nanoseconds.
    pub span_ns: u64,
    /// Tracks of slices, as described in the trace.
    pub tracks: Vec<TrackSummary>,
    /// Counter tracks, as described in the trace.
    pub counters: Vec<CounterSummary>,
}

/// A track of slices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrackSummary {
    /// Its name.
    pub name: String,
    /// Name of the group (process) it stands in.
    pub group: String,
    /// Its slices, in the order in which they begin.
    pub slices: Vec<SliceSummary>,
}

/// A slice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SliceSummary {
    /// Its name.
    pub name: String,
    /// Its category: what the processor does meanwhile.
    pub category: String,
    /// Begin, in nanoseconds.
    pub start_ns: u64,
    /// End, in nanoseconds.
    pub end_ns: u64,
    /// How many slices hold it.
    pub level: usize,
}

/// A counter track.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CounterSummary {
    /// Its name.
    pub name: String,
    /// Unit of its values.
    pub unit: String,
    /// Nanoseconds and values.
    pub samples: Vec<(u64, f64)>,
}

/// Why bytes are not a whole, well nested trace.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TraceError {
    /// Not a protobuf trace, or cut off inside a packet.
    #[error("not a Perfetto trace")]
    Malformed(#[from] prost::DecodeError),
    /// A packet that does not fit what came before it.
    #[error("packet {packet} of the trace {reason}")]
    Unexpected {
        /// Index of the packet.
        packet: usize,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A slice that never ends: the trace is cut off.
    #[error("slice '{slice}' of track '{track}' never ends: the trace is cut off")]
    NeverEnds {
        /// Name of the slice.
        slice: String,
        /// Name of its track.
        track: String,
    },
    /// No slice for the whole run: the trace is empty or cut off.
    #[error("the trace has no run in it: it is empty or cut off")]
    NoRun,
}

/// Reads a trace that [`trace`](super::trace) wrote.
///
/// Reading takes time and memory in proportion to `bytes`, whatever they are.
///
/// # Errors
///
/// [`TraceError`] unless the bytes are a whole trace of that writer in which,
/// on every track, timestamps never decrease, every end has its begin and
/// nothing is left open. Any strict prefix of a trace is an error, as the whole
/// run ends last.
pub fn check(bytes: &[u8]) -> Result<TraceSummary, TraceError> {
    let mut reader = Reader::default();
    for (packet, content) in Trace::decode(bytes)?.packet.into_iter().enumerate() {
        reader.read(content).map_err(|reason| TraceError::Unexpected { packet, reason })?;
    }
    reader.finish()
}

/// A described track while its events are read.
struct Reading {
    uuid: u64,
    latest_ns: u64,
    content: Content,
}

enum Content {
    Group(String),
    Slices {
        track: TrackSummary,
        /// Indices of the slices that have not ended, the innermost last.
        open: Vec<usize>,
    },
    Counter(CounterSummary),
}

#[derive(Default)]
struct Reader {
    readings: Vec<Reading>,
    /// Index of each track's reading by its identity.
    index: HashMap<u64, usize>,
}

impl Reader {
    fn read(&mut self, packet: TracePacket) -> Result<(), &'static str> {
        if packet.trusted_packet_sequence_id != Some(SEQUENCE) {
            return Err("is of another writer");
        }
        match (packet.track_descriptor, packet.track_event) {
            (Some(descriptor), None) => self.describe(descriptor),
            (None, Some(event)) => {
                let time_ns = packet.timestamp.ok_or("is an event without a timestamp")?;
                self.event(event, time_ns)
            }
            _ => Err("neither describes a track nor is an event"),
        }
    }

    fn describe(&mut self, descriptor: TrackDescriptor) -> Result<(), &'static str> {
        let uuid = descriptor.uuid.ok_or("describes a track without an identity")?;
        let group = match descriptor.parent_uuid {
            None => String::new(),
            Some(parent) => match self.index.get(&parent).map(|&index| &self.readings[index].content) {
                Some(Content::Group(name)) => name.clone(),
                _ => return Err("describes a track of no described group"),
            },
        };
        let name = descriptor.name.unwrap_or_default();
        let content = match (descriptor.process, descriptor.counter) {
            (Some(process), _) => Content::Group(process.process_name.unwrap_or_default()),
            (None, Some(counter)) => {
                let unit = counter.unit_name.unwrap_or_default();
                Content::Counter(CounterSummary { name, unit, samples: Vec::new() })
            }
            (None, None) => {
                Content::Slices { track: TrackSummary { name, group, slices: Vec::new() }, open: Vec::new() }
            }
        };
        if self.index.insert(uuid, self.readings.len()).is_some() {
            return Err("describes a track a second time");
        }
        self.readings.push(Reading { uuid, latest_ns: 0, content });
        Ok(())
    }

    fn event(&mut self, event: TrackEvent, time_ns: u64) -> Result<(), &'static str> {
        let index = event.track_uuid.and_then(|uuid| self.index.get(&uuid).copied());
        let reading = &mut self.readings[index.ok_or("is an event on no described track")?];
        if time_ns < reading.latest_ns {
            return Err("is earlier than the one before it on its track");
        }
        reading.latest_ns = time_ns;
        match (&mut reading.content, event.r#type()) {
            (Content::Slices { track, open }, EventType::SliceBegin) => {
                let level = open.len();
                open.push(track.slices.len());
                track.slices.push(SliceSummary {
                    name: event.name.unwrap_or_default(),
                    category: event.categories.into_iter().next().unwrap_or_default(),
                    start_ns: time_ns,
                    end_ns: time_ns,
                    level,
                });
            }
            (Content::Slices { track, open }, EventType::SliceEnd) => {
                let slice = open.pop().ok_or("ends a slice where none is open")?;
                track.slices[slice].end_ns = time_ns;
            }
            (Content::Counter(counter), EventType::Counter) => {
                let value = event.double_counter_value.ok_or("is a sample without a value")?;
                counter.samples.push((time_ns, value));
            }
            _ => return Err("is an event of a kind that its track does not hold"),
        }
        Ok(())
    }

    fn finish(self) -> Result<TraceSummary, TraceError> {
        let mut summary = TraceSummary::default();
        let mut run = None;
        for reading in self.readings {
            match reading.content {
                Content::Group(_) => {}
                Content::Counter(counter) => summary.counters.push(counter),
                Content::Slices { track, open } => {
                    if let Some(&slice) = open.last() {
                        let slice = track.slices[slice].name.clone();
                        return Err(TraceError::NeverEnds { slice, track: track.name });
                    }
                    if reading.uuid == RUN_UUID {
                        run = track.slices.first().map(|slice| slice.end_ns);
                    } else {
                        summary.tracks.push(track);
                    }
                }
            }
        }
        summary.span_ns = run.ok_or(TraceError::NoRun)?;
        Ok(summary)
    }
}

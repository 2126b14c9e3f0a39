//! Fluid model of the shared memory: the rate of each flow, and which one ends next.
//!
//! Responsible for: max-min fair sharing of a capacity, and the end dates that
//! follow from it. Not for: which task runs (`engine`), or how large the capacity is
//! and how clients interfere (`capacity`).
//! Invariants: several flows never move more than the capacity; a flow that was never
//! slowed ends exactly its duration after its start; an additional flow speeds up the
//! others, in total, by at most the capacity that it adds less its own rate, hence
//! not at all where the capacity does not grow with the number of processors; nothing
//! depends on the order in which flows were started.
//!
//! A flow is one phase of one processor: a class of `streams` equal streams, each
//! with its demand ([`Capacity::demand`]) as its ceiling. Water-filling gives every stream either
//! its ceiling or the common water level (a stream of a weighted client counts as
//! several). Interference caps a flow below its ceiling. The bandwidth that the flow
//! loses this way is not given to the others: a memory under interference moves less in
//! total. All streams at the water level move at the same rate, so one running total,
//! `SharedMemory::served`, counts the bytes of each, and a slowed flow keeps a fixed
//! target on that total however often the level changes. Only a flow that crosses the
//! level, or whose cap changes, is updated when flows come or go.
//!
//! Flows are kept in one short sorted list: with at most a few tens of them
//! ([`MAX_PROCESSORS`](super::program::MAX_PROCESSORS)), a scan is faster than any index.

use std::cmp::Ordering;

use super::{Capacity, ClientId, TaskId};
use crate::units::{Bytes, BytesPerSecond, PICOS_PER_SECOND, Picos};

/// A phase that moves bytes.
#[derive(Clone, Copy, Debug)]
pub struct Traffic {
    /// The task that the phase belongs to.
    pub task: TaskId,
    /// The client whose interference curve and weight apply.
    pub client: ClientId,
    /// Number of equal streams that share the bytes, at least one.
    pub streams: u32,
    /// Duration of the phase without contention.
    pub duration: Picos,
    /// Bytes moved in that time, at a constant rate; not zero.
    pub bytes: Bytes,
}

/// Whether a flow runs at its cap or at the water level, and what ends it.
#[derive(Clone, Copy, Debug)]
enum Progress {
    /// Runs at its cap and ends at `end`.
    Full { end: Picos },
    /// Slowed to the water level; ends when `served` reaches `target` bytes.
    Slowed { target: f64 },
}

#[derive(Clone, Debug)]
struct Flow {
    task: TaskId,
    client: ClientId,
    /// Number of streams times the client's weight.
    streams: f64,
    /// Demand divided by `streams`, in bytes per picosecond.
    ceiling: f64,
    /// The ceiling less interference, as of the last call of `settle`.
    cap: f64,
    progress: Progress,
}

/// The active flows.
#[derive(Clone, Debug, Default)]
pub struct SharedMemory {
    /// By ceiling, lowest first: the order in which water-filling visits them.
    flows: Vec<Flow>,
    /// The water level, in bytes per picosecond per unit of weight; zero while no stream is slowed.
    level: f64,
    /// Bytes that a unit of weight at the water level has moved since the level was last zero.
    served: f64,
    /// The time up to which `served` is counted.
    since: Picos,
    /// Whether flows came or went since the last call of `settle`.
    pub(super) changed: bool,
}

impl SharedMemory {
    /// Removes every flow and returns to time zero; keeps the buffer.
    pub fn reset(&mut self) {
        self.flows.clear();
        self.level = 0.0;
        self.served = 0.0;
        self.since = Picos::ZERO;
        self.changed = false;
    }

    /// Starts a flow.
    ///
    /// The duration is the kernel model's, without contention, and holds as given. What the phase demands next to
    /// others, [`Capacity::demand`] says. A phase with a duration of zero takes as long as its bytes need at the
    /// memory's rate for one processor.
    pub fn start(&mut self, now: Picos, traffic: &Traffic, capacity: &Capacity) {
        let bytes = traffic.bytes.0 as f64;
        let alone = capacity.alone();
        let duration = if traffic.duration == Picos::ZERO { picos(bytes / alone) } else { traffic.duration };
        let streams = f64::from(traffic.streams) * f64::from(capacity.weight(traffic.client));
        let ceiling = capacity.demand(bytes / duration.0 as f64) / streams;
        let flow = Flow {
            task: traffic.task,
            client: traffic.client,
            streams,
            ceiling,
            cap: ceiling,
            progress: Progress::Full { end: now.saturating_add(duration) },
        };
        let place = self.flows.partition_point(|other| other.order(&flow).is_lt());
        self.flows.insert(place, flow);
        self.changed = true;
    }

    /// Removes a flow that has ended by `now` and returns its task.
    pub fn take_ended(&mut self, now: Picos) -> Option<TaskId> {
        self.advance(now);
        // End dates are whole picoseconds, so a flow may be up to one picosecond short of its target.
        let reached = self.served + self.level;
        let place = self.flows.iter().position(|flow| match flow.progress {
            Progress::Full { end } => end <= now,
            Progress::Slowed { target } => target <= reached,
        })?;
        self.changed = true;
        Some(self.flows.remove(place).task)
    }

    /// Reshares the capacity among the flows and returns the earliest end; `None` without flows.
    pub fn settle(&mut self, now: Picos, capacity: &Capacity) -> Option<Picos> {
        self.advance(now);
        self.changed = false;
        if capacity.has_interference() {
            self.apply_interference(now, capacity);
        }
        let (unlimited, level) = self.water_level(capacity);
        let (mut next_end, mut next_target) = (Picos::MAX, f64::INFINITY);
        for (place, flow) in self.flows.iter_mut().enumerate() {
            if place < unlimited || flow.cap <= level {
                let end = match flow.progress {
                    Progress::Full { end } => end,
                    Progress::Slowed { target } => {
                        now.saturating_add(picos((target - self.served) / flow.cap))
                    }
                };
                flow.progress = Progress::Full { end };
                next_end = next_end.min(end);
            } else {
                let target = match flow.progress {
                    Progress::Full { end } => self.served + (end - now).0 as f64 * flow.cap,
                    Progress::Slowed { target } => target,
                };
                flow.progress = Progress::Slowed { target };
                next_target = next_target.min(target);
            }
        }
        if next_target == f64::INFINITY {
            (self.level, self.served) = (0.0, 0.0);
            return (!self.flows.is_empty()).then_some(next_end);
        }
        self.level = level;
        Some(next_end.min(now.saturating_add(picos((next_target - self.served) / level))))
    }

    /// The task and rate of each flow, as of the last call of [`Self::settle`].
    pub fn rates(&self) -> impl Iterator<Item = (TaskId, BytesPerSecond)> {
        self.flows.iter().map(|flow| {
            let stream = match flow.progress {
                Progress::Full { .. } => flow.cap,
                Progress::Slowed { .. } => self.level,
            };
            (flow.task, BytesPerSecond(stream * flow.streams * PICOS_PER_SECOND))
        })
    }

    /// Sets the cap of each flow under the interference of the others, and rescales the ends of the flows
    /// that run at their caps.
    fn apply_interference(&mut self, now: Picos, capacity: &Capacity) {
        let total: f64 = self.flows.iter().map(Flow::demand).sum();
        for flow in &mut self.flows {
            let own = flow.demand();
            let cap = flow.ceiling * capacity.kept_fraction(flow.client, own, total - own);
            if let Progress::Full { end } = &mut flow.progress
                && cap.to_bits() != flow.cap.to_bits()
            {
                *end = now.saturating_add(picos((*end - now).0 as f64 * (flow.cap / cap)));
            }
            flow.cap = cap;
        }
    }

    /// The number of flows that reach their ceilings, and the water level of the others' streams.
    fn water_level(&self, capacity: &Capacity) -> (usize, f64) {
        // A lone flow is never slowed, whatever its phase claims.
        if self.flows.len() > 1 {
            let mut left = capacity.bandwidth_of(self.flows.len());
            let mut streams: f64 = self.flows.iter().map(|flow| flow.streams).sum();
            for (place, flow) in self.flows.iter().enumerate() {
                if flow.ceiling * streams > left {
                    return (place, left / streams);
                }
                left -= flow.ceiling * flow.streams;
                streams -= flow.streams;
            }
        }
        (self.flows.len(), 0.0)
    }

    fn advance(&mut self, now: Picos) {
        self.served += self.level * (now - self.since).0 as f64;
        self.since = now;
    }
}

impl Flow {
    /// Demand of all its streams, in bytes per picosecond.
    fn demand(&self) -> f64 {
        self.ceiling * self.streams
    }

    /// A total order by ceiling, then streams; the task's number breaks ties between equal flows.
    fn order(&self, other: &Self) -> Ordering {
        let order = self.ceiling.total_cmp(&other.ceiling);
        order.then(self.streams.total_cmp(&other.streams)).then(self.task.cmp(&other.task))
    }
}

/// Rounds to the nearest picosecond; negative becomes zero.
fn picos(real: f64) -> Picos {
    Picos((real + 0.5) as u64)
}

#[cfg(test)]
mod tests;

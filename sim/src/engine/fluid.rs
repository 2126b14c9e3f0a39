//! Flows that share the memory: how fast each is, and which ends next.
//!
//! Responsible for: max-min sharing of a capacity, and the dates that follow from
//! it. Not for: whose turn it is (`engine`), or how much there is to share and how
//! clients disturb each other (`capacity`).
//! Invariants: the flows never move more than the capacity; a flow that was
//! never slowed ends exactly its duration after its start; a flow more makes the
//! others faster, all together, by no more than what it adds to the capacity and
//! leaves of that, so by nothing where the capacity does not grow with the number of
//! processors; nothing depends on the order in which flows were started.
//!
//! A flow is one phase of one processor: a class of `streams` equal streams,
//! each with the rate it reaches alone as its ceiling. Water-filling gives every
//! stream either its ceiling or the common water level. Where the others disturb a
//! flow, what they leave of its ceiling caps it below that; what it thereby loses is
//! lost, not given to the others: a disturbed memory moves less in all. All streams
//! at the water level move at one speed, so one running total, `SharedMemory::served`,
//! tells what each of them has moved, and a slowed flow keeps one fixed target on
//! that total however often the level changes. Only a flow that crosses the level,
//! or whose cap moves, is converted; the others are not touched when the flows
//! change.
//!
//! Flows are rows of one short sorted list: with at most a few tens of them
//! ([`MAX_PROCESSORS`](super::program::MAX_PROCESSORS)), a scan is faster than any index over them.

use std::cmp::Ordering;

use super::{Capacity, ClientId, TaskId};
use crate::units::{Bytes, BytesPerSecond, PICOS_PER_SECOND, Picos};

/// A phase that moves bytes.
#[derive(Clone, Copy, Debug)]
pub struct Traffic {
    /// Whose phase.
    pub task: TaskId,
    /// Whom others disturb when they disturb it.
    pub client: ClientId,
    /// Equal streams that share the bytes, at least one.
    pub streams: u32,
    /// What the phase takes alone.
    pub duration: Picos,
    /// What it moves in that time, evenly; not zero.
    pub bytes: Bytes,
}

/// How far a flow is.
#[derive(Clone, Copy, Debug)]
enum Progress {
    /// Moves at its cap, to the end.
    Full { end: Picos },
    /// Slowed to the water level, until `served` reaches `target` bytes.
    Slowed { target: f64 },
}

#[derive(Clone, Debug)]
struct Flow {
    task: TaskId,
    client: ClientId,
    streams: f64,
    /// What one stream moves alone, in bytes per picosecond.
    ceiling: f64,
    /// What the flows last settled leave of the ceiling.
    cap: f64,
    progress: Progress,
}

/// The flows in motion.
#[derive(Clone, Debug, Default)]
pub struct SharedMemory {
    /// By ceiling, lowest first: the order in which water-filling meets them.
    flows: Vec<Flow>,
    /// Bytes per picosecond of each stream slowed to the water level; zero for none.
    level: f64,
    /// Bytes such a stream has moved since there last was none.
    served: f64,
    /// The time `served` refers to.
    since: Picos,
    /// Whether flows came or went since the rates were settled.
    pub(super) changed: bool,
}

impl SharedMemory {
    /// Removes every flow and starts over at time zero; keeps the buffer.
    pub fn reset(&mut self) {
        self.flows.clear();
        self.level = 0.0;
        self.served = 0.0;
        self.since = Picos::ZERO;
        self.changed = false;
    }

    /// Starts a flow.
    ///
    /// The duration is what the kernel model holds true without company: a phase
    /// that claims more than the memory moves for one processor counts as using
    /// all of that, and one without duration as taking that long.
    pub fn start(&mut self, now: Picos, traffic: &Traffic, capacity: &Capacity) {
        let bytes = traffic.bytes.0 as f64;
        let alone = capacity.alone();
        let duration = if traffic.duration == Picos::ZERO { picos(bytes / alone) } else { traffic.duration };
        let streams = f64::from(traffic.streams) * f64::from(capacity.weight(traffic.client));
        let ceiling = (bytes / duration.0 as f64).min(alone) / streams;
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
        // Dates are whole picoseconds, so a flow ends within one of its target.
        let reached = self.served + self.level;
        let place = self.flows.iter().position(|flow| match flow.progress {
            Progress::Full { end } => end <= now,
            Progress::Slowed { target } => target <= reached,
        })?;
        self.changed = true;
        Some(self.flows.remove(place).task)
    }

    /// Shares the capacity anew among the flows and says when the next one ends.
    pub fn settle(&mut self, now: Picos, capacity: &Capacity) -> Option<Picos> {
        self.advance(now);
        self.changed = false;
        if capacity.has_interference() {
            self.disturb(now, capacity);
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

    /// Each flow's task and rate, as last settled.
    pub fn rates(&self) -> impl Iterator<Item = (TaskId, BytesPerSecond)> {
        self.flows.iter().map(|flow| {
            let stream = match flow.progress {
                Progress::Full { .. } => flow.cap,
                Progress::Slowed { .. } => self.level,
            };
            (flow.task, BytesPerSecond(stream * flow.streams * PICOS_PER_SECOND))
        })
    }

    /// Sets what each flow can move beside the others there are now.
    fn disturb(&mut self, now: Picos, capacity: &Capacity) {
        let total: f64 = self.flows.iter().map(Flow::demand).sum();
        for flow in &mut self.flows {
            let own = flow.demand();
            let cap = flow.ceiling * capacity.kept(flow.client, own, total - own);
            if let Progress::Full { end } = &mut flow.progress
                && cap.to_bits() != flow.cap.to_bits()
            {
                *end = now.saturating_add(picos((*end - now).0 as f64 * (flow.cap / cap)));
            }
            flow.cap = cap;
        }
    }

    /// How many flows the water does not limit, and what a stream of the others gets.
    fn water_level(&self, capacity: &Capacity) -> (usize, f64) {
        // A flow without company is not slowed, whatever its phase claims.
        if self.flows.len() > 1 {
            let mut left = capacity.shared_by(self.flows.len());
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
    /// What it moves alone, in bytes per picosecond.
    fn demand(&self) -> f64 {
        self.ceiling * self.streams
    }

    /// A total order that only equal flows leave to the number of their task.
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

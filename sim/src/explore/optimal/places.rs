//! Where results lie, and what it takes that a reader has them.
//!
//! Responsible for: the crossings between CPU and GPU as the simulator charges them.
//! Invariant: what a processor computed itself costs it nothing.

use std::ops::Range;

use crate::device::gpu::{Cargo, Direction};
use crate::device::profile::Profile;
use crate::plan::synchronisation::Mechanism;
use crate::plan::{Axis, Cut, lines_read};
use crate::simulate::{copying, hand_over_delay, has_own_memory, join_delay, pieces, result_bytes};
use crate::units::{Bytes, Picos};
use crate::workload::Stage;

/// Where a result lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Place {
    /// With the CPU, in a buffer.
    Cpu,
    /// With the GPU, in the layout it prefers.
    Gpu,
    /// With both.
    Both,
    /// Each has its part: the CPU the first so many channels or lines.
    Cut(Axis, u32),
}

/// Who reads a result.
#[derive(Clone, Copy, Debug)]
pub(super) enum Reader<'c> {
    Cpu,
    Gpu,
    Parts(&'c Cut),
}

/// What readers wait for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Crossing {
    /// The CPU.
    pub(super) cpu: Picos,
    /// The GPU.
    pub(super) gpu: Picos,
    /// Both: parts that are mapped for each other.
    pub(super) both: Picos,
}

/// What crossings depend on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Boundary<'a> {
    pub(super) device: &'a Profile,
    pub(super) mechanism: Mechanism,
}

impl Boundary<'_> {
    /// The place of a cut result: with both where nothing has to be mapped or copied.
    pub(super) fn joined(&self, axis: Axis, first: u32) -> Place {
        if self.mechanism.maps() || has_own_memory(self.device) {
            Place::Cut(axis, first)
        } else {
            Place::Both
        }
    }

    /// From the end of the later part until both know of it, before anything is mapped.
    pub(super) fn notification(&self) -> Picos {
        join_delay(self.device, self.mechanism, Bytes::ZERO)
    }

    /// What it takes to map `bytes` of a cut result for whom they are not with.
    fn mapping(&self, bytes: u64) -> Picos {
        join_delay(self.device, self.mechanism, Bytes(bytes)).saturating_sub(self.notification())
    }

    /// What `reader` waits for before it reads what `producer` left at `place`, the input
    /// at `position` of `stage`.
    pub(super) fn crossing(
        &self,
        place: Place,
        producer: &Stage,
        (stage, position): (&Stage, usize),
        reader: Reader<'_>,
    ) -> Crossing {
        let missing = |on_cpu: bool, part: Option<(&Cut, usize)>| {
            let lines = lines_of(producer, stage, position, part);
            let whole = result_bytes(&producer.layer);
            Bytes((whole.0 as f64 * absent(place, producer, &lines, on_cpu)) as u64)
        };
        let [cpu, gpu] = match reader {
            Reader::Cpu => [missing(true, None), Bytes::ZERO],
            Reader::Gpu => [Bytes::ZERO, missing(false, None)],
            Reader::Parts(cut) => [missing(true, Some((cut, 0))), missing(false, Some((cut, 1)))],
        };
        match place {
            Place::Both => Crossing::default(),
            Place::Cut(axis, _) if has_own_memory(self.device) => {
                let missing = Cargo { bytes: gpu, pieces: pieces(&producer.layer, axis) };
                Crossing { gpu: copying(self.device, missing, Direction::ToGpu), ..Crossing::default() }
            }
            Place::Cut(..) => Crossing { both: self.mapping(cpu.0 + gpu.0), ..Crossing::default() },
            Place::Cpu => Crossing { gpu: self.hand_over(gpu, Direction::ToGpu), ..Crossing::default() },
            Place::Gpu => Crossing { cpu: self.hand_over(cpu, Direction::ToHost), ..Crossing::default() },
        }
    }

    fn hand_over(&self, bytes: Bytes, direction: Direction) -> Picos {
        if bytes == Bytes::ZERO {
            return Picos::ZERO;
        }
        hand_over_delay(self.device, self.mechanism, bytes, true)
            + copying(self.device, Cargo::whole(bytes), direction)
    }

    /// What it takes until the result of the workload, left at `place`, is the caller's;
    /// `read_back` where the GPU alone has it.
    pub(super) fn behind(&self, place: Place, stage: &Stage, read_back: Picos) -> Picos {
        let bytes = result_bytes(&stage.layer);
        match place {
            Place::Gpu => copying(self.device, Cargo::whole(bytes), Direction::ToHost) + read_back,
            Place::Cut(..) if !has_own_memory(self.device) => self.mapping(bytes.0),
            Place::Cpu | Place::Both | Place::Cut(..) => Picos::ZERO,
        }
    }
}

/// Lines of the result of `producer` that `part` of `stage`, or all of it, reads.
fn lines_of(producer: &Stage, stage: &Stage, position: usize, part: Option<(&Cut, usize)>) -> Range<u32> {
    let all = producer.layer.operator.output().lines();
    match part {
        Some((cut, which)) if cut.axis == Axis::Height => {
            let lines = lines_read(stage, position, cut.parts[which].clone());
            lines.start.min(all)..lines.end.min(all)
        }
        _ => 0..all,
    }
}

/// How much of a result left at `place` the processor lacks that reads `lines`.
fn absent(place: Place, producer: &Stage, lines: &Range<u32>, on_cpu: bool) -> f64 {
    let shape = producer.layer.operator.output();
    let part = |count: u32, all: u32| f64::from(count) / f64::from(all.max(1));
    let read = part(lines.end.saturating_sub(lines.start), shape.lines());
    match (place, on_cpu) {
        (Place::Cpu, false) | (Place::Gpu, true) => read,
        (Place::Cut(Axis::Channels, first), true) => read * (1.0 - part(first, shape.channels)),
        (Place::Cut(Axis::Channels, first), false) => read * part(first, shape.channels),
        (Place::Cut(Axis::Height, first), true) => {
            part(lines.end.saturating_sub(first.max(lines.start)), shape.lines())
        }
        (Place::Cut(Axis::Height, first), false) => {
            part(first.min(lines.end).saturating_sub(lines.start), shape.lines())
        }
        _ => 0.0,
    }
}

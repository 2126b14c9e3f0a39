//! Where results lie, and what it takes that a reader has them.
//!
//! Responsible for: the crossings between CPU and GPU as the simulator charges them.
//! Invariant: what a processor computed itself costs it nothing.

use crate::device::gpu::{Direction, LinkTransfer};
use crate::device::profile::Profile;
use crate::plan::synchronisation::Mechanism;
use crate::plan::{Axis, ProcessorKind, Region, Regions, Span};
use crate::schedule::{lacking, pieces, result_bytes};
use crate::simulate::{between_cpu_and_gpu, copying, has_own_memory, join_delay};
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
    /// Both, the CPU the first region.
    Parts(&'c Regions),
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
        let lacks = |kind: ProcessorKind| {
            let part = match (reader, kind) {
                (Reader::Parts(regions), ProcessorKind::Cpu) => regions[0],
                (Reader::Parts(regions), ProcessorKind::Gpu) => regions[1],
                (Reader::Cpu, ProcessorKind::Cpu) | (Reader::Gpu, ProcessorKind::Gpu) => {
                    Region::of(stage.layer.operator.output())
                }
                (Reader::Cpu, ProcessorKind::Gpu)
                | (Reader::Gpu, ProcessorKind::Cpu)
                | (_, ProcessorKind::Npu) => return Bytes::ZERO,
            };
            lacking((stage, position), part, producer, place.owned(kind, producer))
        };
        let cpu = || lacks(ProcessorKind::Cpu);
        let gpu = || lacks(ProcessorKind::Gpu);
        match place {
            Place::Both => Crossing::default(),
            Place::Cut(axis, _) if has_own_memory(self.device) => {
                let missing = LinkTransfer { bytes: gpu(), pieces: pieces(&producer.layer, Some(axis)) };
                Crossing { gpu: copying(self.device, missing, Direction::ToGpu), ..Crossing::default() }
            }
            Place::Cut(..) => Crossing { both: self.mapping(cpu().0 + gpu().0), ..Crossing::default() },
            Place::Cpu => Crossing { gpu: self.hand_over(gpu(), Direction::ToGpu), ..Crossing::default() },
            Place::Gpu => Crossing { cpu: self.hand_over(cpu(), Direction::ToHost), ..Crossing::default() },
        }
    }

    fn hand_over(&self, bytes: Bytes, direction: Direction) -> Picos {
        if bytes == Bytes::ZERO {
            return Picos::ZERO;
        }
        between_cpu_and_gpu(self.device, self.mechanism, bytes, direction)
    }

    /// What it takes until the result of the workload, left at `place`, is the caller's;
    /// `read_back` where the GPU alone has it.
    pub(super) fn behind(&self, place: Place, stage: &Stage, read_back: Picos) -> Picos {
        let bytes = result_bytes(&stage.layer);
        match place {
            Place::Gpu => copying(self.device, LinkTransfer::whole(bytes), Direction::ToHost) + read_back,
            Place::Cut(..) if !has_own_memory(self.device) => self.mapping(bytes.0),
            Place::Cpu | Place::Both | Place::Cut(..) => Picos::ZERO,
        }
    }
}

impl Place {
    /// What that processor has of the result of `producer`.
    fn owned(self, kind: ProcessorKind, producer: &Stage) -> Region {
        let whole = Region::of(producer.layer.operator.output());
        match (self, kind) {
            (Self::Both, _) | (Self::Cpu, ProcessorKind::Cpu) | (Self::Gpu, ProcessorKind::Gpu) => whole,
            (Self::Cut(axis, first), ProcessorKind::Cpu) => {
                Region::along(axis, Span::new(0, first)).common(whole)
            }
            (Self::Cut(axis, first), ProcessorKind::Gpu) => {
                Region::along(axis, Span::new(first, u32::MAX)).common(whole)
            }
            (Self::Cpu, ProcessorKind::Gpu)
            | (Self::Gpu, ProcessorKind::Cpu)
            | (Self::Cpu | Self::Gpu | Self::Cut(..), ProcessorKind::Npu) => Region::NONE,
        }
    }
}

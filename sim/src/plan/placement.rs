//! The placement of an operator: disjoint parts of its output, each on one processor.

use thiserror::Error;

use super::{Axis, GraphCover, Mechanism, Processor, Region, Span};
use crate::device::ProcessorKind;
use crate::kernel::CoreSet;
use crate::workload::Operator;

/// Most parts of one operator: one for each processor, and another for two processors whose
/// parts meet in a corner.
pub const MAX_PARTS: usize = 4;

/// The part of an operator that one processor computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Part {
    /// The processor.
    pub by: Processor,
    /// Its region of the output.
    pub region: Region,
}

/// The placement of one operator: up to [`MAX_PARTS`] parts that do not overlap and cover the
/// output. The CPU takes part with one core set, as it runs one team of threads at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Placement {
    /// The core set of the CPU's parts, stored once because of its size.
    cores: Option<CoreSet>,
    parts: [Option<Stored>; MAX_PARTS],
}

/// A part without the CPU's core set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Stored {
    kind: ProcessorKind,
    graphs: GraphCover,
    region: Region,
}

/// Why parts are not a placement of an operator.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[allow(missing_docs, reason = "each message names its fields")]
pub enum PlacementError {
    /// More parts than there may be.
    #[error("at most {MAX_PARTS} parts, not {found}")]
    TooManyParts { found: usize },
    /// Parts on different CPU core sets.
    #[error("one CPU core set per operator, not {first} and {second}")]
    TwoCoreSets { first: String, second: String },
    /// An operator that cannot be cut along an axis.
    #[error("the {processor}'s part of {operator} has some of its {what}, along which it cannot be cut")]
    CannotCut { operator: String, processor: ProcessorKind, what: &'static str },
    /// An empty part.
    #[error("the {processor}'s part of {operator} is empty")]
    Empty { operator: String, processor: ProcessorKind },
    /// Parts that overlap, or do not cover the output.
    #[error("the parts of {operator} overlap, or do not cover its output")]
    Uncovered { operator: String },
}

impl Placement {
    /// Everything on the GPU.
    pub const GPU: Self = Self::stored(None, ProcessorKind::Gpu, GraphCover::Padded);

    /// Everything on the NPU, in padded graphs.
    pub const NPU: Self = Self::stored(None, ProcessorKind::Npu, GraphCover::Padded);

    /// No part yet.
    const NO_PARTS: Self = Self { cores: None, parts: [None; MAX_PARTS] };

    const fn stored(cores: Option<CoreSet>, kind: ProcessorKind, graphs: GraphCover) -> Self {
        Self { cores, parts: [Some(Stored { kind, graphs, region: Region::ALL }), None, None, None] }
    }

    /// Everything on `cores`.
    pub fn cpu(cores: CoreSet) -> Self {
        Self::stored(Some(cores), ProcessorKind::Cpu, GraphCover::Padded)
    }

    /// Everything on one processor.
    pub fn whole(by: Processor) -> Self {
        Self::stored(by.cores(), by.kind(), by.graphs())
    }

    /// A cut along `axis` with the given number of rows or channels for each processor, in order;
    /// processors without any take no part.
    pub fn cut(axis: Axis, shares: impl IntoIterator<Item = (Processor, u32)>) -> Self {
        let mut first = 0_u32;
        let part = |(by, count)| {
            let span = Span::new(first, first.saturating_add(count));
            first = span.end;
            Part { by, region: Region::along(axis, span) }
        };
        shares.into_iter().map(part).collect()
    }

    /// A cut between CPU cores, which compute the first rows or channels, and the GPU.
    pub fn cpu_and_gpu(axis: Axis, cores: CoreSet, [cpu, gpu]: [u32; 2]) -> Self {
        Self::cut(axis, [(Processor::Cpu(cores), cpu), (Processor::Gpu, gpu)])
    }

    /// The first channels of the first rows on the NPU, everything else on the GPU: the
    /// remaining channels of these rows, and the remaining rows (`HeteroInfer`, SOSP'25,
    /// section 4.2). `rows` and `channels` are the NPU's, then the remaining ones.
    pub fn npu_and_gpu(rows: [u32; 2], channels: [u32; 2], graphs: GraphCover) -> Self {
        // Of an axis that is not divided, each part has everything.
        let spans = |[first, rest]: [u32; 2]| {
            if rest == 0 {
                return [Span::ALL, Span::default(), Span::ALL];
            }
            let end = first.saturating_add(rest);
            [Span::new(0, first), Span::new(first, end), Span::new(0, end)]
        };
        let ([first_rows, last_rows, _], [own, other, all]) = (spans(rows), spans(channels));
        let npu = (Processor::Npu(graphs), first_rows, own);
        let gpu = [(first_rows, other), (last_rows, all)];
        let gpu = gpu.map(|(rows, channels)| (Processor::Gpu, rows, channels));
        let part = |(by, rows, channels)| Part { by, region: Region { rows, channels } };
        [npu].into_iter().chain(gpu).map(part).collect()
    }

    /// A placement of these parts.
    ///
    /// # Errors
    /// There are more than [`MAX_PARTS`], or they have different core sets.
    pub fn of(parts: &[Part]) -> Result<Self, PlacementError> {
        if parts.len() > MAX_PARTS {
            return Err(PlacementError::TooManyParts { found: parts.len() });
        }
        let mut placement = Self::NO_PARTS;
        for &part in parts {
            if let (Some(first), Some(second)) = (placement.cores, part.by.cores())
                && first != second
            {
                let [first, second] = [first, second].map(|cores| cores.to_string());
                return Err(PlacementError::TwoCoreSets { first, second });
            }
            placement.push(part);
        }
        Ok(placement)
    }

    /// Adds a part, unless it is empty or there is no room.
    fn push(&mut self, Part { by, region }: Part) {
        let Some(free) = self.parts.iter_mut().find(|part| part.is_none()) else { return };
        if !region.is_empty() {
            *free = Some(Stored { kind: by.kind(), graphs: by.graphs(), region });
            self.cores = self.cores.or(by.cores());
        }
    }

    /// Its parts, in order.
    pub fn parts(&self) -> impl Iterator<Item = Part> + Clone + '_ {
        self.parts.iter().flatten().filter_map(|part| {
            let by = match part.kind {
                ProcessorKind::Cpu => Processor::Cpu(self.cores?),
                ProcessorKind::Gpu => Processor::Gpu,
                ProcessorKind::Npu => Processor::Npu(part.graphs),
            };
            Some(Part { by, region: part.region })
        })
    }

    /// The processor that computes everything; `None` if there are several parts.
    pub fn only(&self) -> Option<Processor> {
        let mut parts = self.parts();
        let first = parts.next()?;
        parts.next().is_none().then_some(first.by)
    }

    /// Whether there are several parts.
    pub fn is_cut(&self) -> bool {
        self.parts[1].is_some()
    }

    /// The CPU's core set, if it takes part.
    pub fn cores(&self) -> Option<CoreSet> {
        self.cores
    }

    /// Whether a processor takes part.
    pub fn uses(&self, kind: ProcessorKind) -> bool {
        self.parts.iter().flatten().any(|part| part.kind == kind)
    }

    /// The axis along which it is cut; `None` if it is whole or cut along both.
    pub fn axis(&self) -> Option<Axis> {
        let parts = || self.parts.iter().flatten();
        let along =
            |axis: Axis| parts().all(|part| Region::along(axis, part.region.span(axis)) == part.region);
        self.is_cut().then(|| Axis::ALL.into_iter().find(|&axis| along(axis))).flatten()
    }

    /// Rows or channels along `axis` of all parts of a processor.
    pub fn extent(&self, axis: Axis, kind: ProcessorKind) -> u32 {
        let own = self.parts.iter().flatten().filter(|part| part.kind == kind);
        own.fold(0, |sum, part| sum.saturating_add(part.region.span(axis).length()))
    }

    /// The axis, and the rows or channels of CPU and GPU; `None` unless it is cut along one axis
    /// without the NPU.
    pub fn cpu_and_gpu_extents(&self) -> Option<(Axis, [u32; 2])> {
        let axis = self.axis().filter(|_| !self.uses(ProcessorKind::Npu))?;
        Some((axis, [ProcessorKind::Cpu, ProcessorKind::Gpu].map(|kind| self.extent(axis, kind))))
    }

    /// The fraction of the output that a processor computes, 0 to 1.
    pub fn fraction(&self, kind: ProcessorKind) -> f64 {
        let part = |own: u64, all: u64| own as f64 / (all as f64).max(1.0);
        if let Some(axis) = self.axis() {
            let extent = |kind| u64::from(self.extent(axis, kind));
            return part(extent(kind), ProcessorKind::ALL.into_iter().map(extent).sum());
        }
        let size = |of: &dyn Fn(&Stored) -> bool| -> u64 {
            self.parts.iter().flatten().filter(|part| of(part)).map(|part| part.region.size()).sum()
        };
        if self.is_cut() {
            return part(size(&|part| part.kind == kind), size(&|_| true));
        }
        f64::from(u8::from(self.uses(kind)))
    }

    /// Checks that the parts are valid for `operator`, do not overlap, and cover its output.
    ///
    /// # Errors
    /// The first invalid part, or an output that is not covered exactly once.
    pub fn check(&self, operator: &Operator) -> Result<(), PlacementError> {
        if !self.is_cut() && self.parts[0].is_some_and(|part| part.region == Region::ALL) {
            return Ok(());
        }
        let whole = Region::of(operator.output());
        let parts = || self.parts.iter().flatten();
        let mut covered = 0;
        for (index, part) in parts().enumerate() {
            let region = part.region.common(whole);
            let of = || operator.to_string();
            if region.is_empty() {
                return Err(PlacementError::Empty { operator: of(), processor: part.kind });
            }
            for (axis, what) in [(Axis::Channels, "channels"), (Axis::Height, "rows")] {
                if region.span(axis) != whole.span(axis) && axis.extent(operator).is_none() {
                    return Err(PlacementError::CannotCut { operator: of(), processor: part.kind, what });
                }
            }
            let reaches_beyond = Axis::ALL.into_iter().any(|axis| {
                let span = part.region.span(axis);
                span != Span::ALL && span.end > whole.span(axis).end
            });
            if reaches_beyond || parts().take(index).any(|other| !other.region.common(region).is_empty()) {
                return Err(PlacementError::Uncovered { operator: of() });
            }
            covered += region.size();
        }
        if covered == whole.size() {
            return Ok(());
        }
        Err(PlacementError::Uncovered { operator: operator.to_string() })
    }
}

impl FromIterator<Part> for Placement {
    fn from_iter<I: IntoIterator<Item = Part>>(parts: I) -> Self {
        let mut placement = Self::NO_PARTS;
        parts.into_iter().for_each(|part| placement.push(part));
        placement
    }
}

/// The placement of each operator of a workload, and how processors synchronise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Synchronisation mechanism.
    pub synchronisation: Mechanism,
    /// One placement per stage of the workload, in the workload's order.
    pub placements: Vec<Placement>,
    /// The number of the chain of each stage; empty if there are no chains.
    pub chains: Vec<Option<u32>>,
    /// Whether processors take turns in the order of the stages, like an interpreter that waits for each
    /// delegate it calls.
    pub in_turn: bool,
    /// The stages in the order in which they are queued; empty if that is the workload's order.
    pub order: Vec<usize>,
}

impl Plan {
    /// A plan without chains.
    pub fn new(synchronisation: Mechanism, placements: Vec<Placement>) -> Self {
        Self { synchronisation, placements, chains: Vec::new(), in_turn: false, order: Vec::new() }
    }

    /// The same plan with the chain of each stage.
    #[must_use]
    pub fn chained(self, chains: Vec<Option<u32>>) -> Self {
        let has_any = chains.iter().any(Option::is_some);
        Self { chains: if has_any { chains } else { Vec::new() }, ..self }
    }

    /// The stages in the order in which they are queued.
    pub fn in_order(&self) -> impl Iterator<Item = usize> + Clone {
        (0..self.placements.len()).map(|position| self.order.get(position).copied().unwrap_or(position))
    }

    /// The position of each stage in the order in which they are queued.
    pub fn positions(&self) -> Vec<usize> {
        let mut positions = vec![0; self.placements.len()];
        self.in_order().enumerate().for_each(|(position, stage)| positions[stage] = position);
        positions
    }

    /// Turns a plan of stages that were rearranged into `order` into one of the original stages, which
    /// are queued in that order.
    #[must_use]
    pub fn running_in(self, order: &[usize]) -> Self {
        let mut plan = self.clone();
        for (position, &stage) in order.iter().enumerate() {
            plan.placements[stage] = self.placements[position];
            if let Some(chain) = plan.chains.get_mut(stage) {
                *chain = self.chains[position];
            }
        }
        Self { order: order.to_vec(), ..plan }
    }

    /// The inverse of [`Self::running_in`]: the plan of the stages rearranged into its order.
    #[must_use]
    pub fn of_ordered(&self) -> Self {
        let placements = self.in_order().map(|stage| self.placements[stage]).collect();
        let chains = self.in_order().map(|stage| self.chain(stage)).collect();
        Self { placements, order: Vec::new(), ..self.clone() }.chained(chains)
    }

    /// Whether it runs the stages in another order than the workload's.
    pub fn is_reordered(&self) -> bool {
        !self.order.is_empty()
    }

    /// The chain of a stage, if any.
    pub fn chain(&self, stage: usize) -> Option<u32> {
        self.chains.get(stage).copied().flatten()
    }
}

#[cfg(test)]
mod tests;

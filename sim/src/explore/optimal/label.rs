//! What is known of a way to have decided the first stages, and which of two ways is no worse.
//!
//! Responsible for: dominance, and keeping few labels. Not for: how one becomes the next (`moves`).
//! Invariant: a label that merging or dominance leaves out is covered by one that can do whatever it can,
//! no later and with no higher bound.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, Hash, Hasher};

use foldhash::fast::FixedState;

use crate::device::ProcessorKind;
use crate::plan::Axis;
use crate::schedule::Holders;
use crate::units::Picos;

/// A chain whose parts are apart: along which axis, on which of the core sets beside the GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Cutting {
    pub(super) axis: Axis,
    pub(super) cores: u8,
}

/// With whom a result is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum At {
    With(Holders),
    /// Its parts are apart, in a chain.
    Apart(Cutting),
}

/// Where a result lies that is still read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) at: At,
    pub(super) ready: Picos,
    /// No stage that reads it starts to compute before: of parts that are apart, in a chain that goes on, the
    /// earlier one's end.
    pub(super) usable: Picos,
    /// Whether the NPU computed all of it, so that the graph in which it did can go on with it.
    pub(super) of_npu: bool,
    /// Of a cut result: how far the CPU's part reaches, and from where on the GPU's.
    pub(super) lines: [u32; 2],
}

/// Bits of graphs of the NPU, and of parts in chains along either axis, beside those of the processors.
const GRAPHS: u8 = 0b1000;
const PARTS: u8 = 0b1111_0000;

/// How far the processors are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Progress {
    /// When the queue of each ends.
    pub(super) queues: [Picos; 3],
    /// When the last join ended, which later kernels of the GPU come after.
    pub(super) join: Picos,
    /// The NPU's graph that later stages can be part of: one more than its first stage; none if zero. One
    /// that began later takes more stages.
    pub(super) graph: usize,
    /// What it takes in the end that the host gets the results of the workload which the GPU alone has.
    pub(super) read_back: Picos,
    pub(super) joules: f64,
}

/// A way to have decided the first stages, or, relaxed, several.
#[derive(Clone, Debug)]
pub(super) struct Label {
    pub(super) now: Progress,
    /// Of each result that is still read, in order of the stages.
    pub(super) places: Vec<Place>,
    /// The last decision, in the list of all.
    pub(super) decision: Option<usize>,
    /// No plan that goes on from here costs less.
    pub(super) bound: f64,
    /// What it costs at least up to where all processors next wait for one result.
    pub(super) rank: f64,
    /// What it costs there if one processor takes everything until then.
    pub(super) alone: f64,
}

impl At {
    /// Whether whoever reads is served no later than from `other`.
    fn is_no_worse_than(self, other: Self) -> bool {
        match (self, other) {
            (Self::With(own), Self::With(others)) => own.has_all(others),
            (Self::With(own), Self::Apart(_)) => {
                own.has_all(Holders::one(ProcessorKind::Cpu).with(ProcessorKind::Gpu))
            }
            (own @ Self::Apart(_), other) => own == other,
        }
    }
}

impl At {
    /// What is no worse than both: a result that CPU and GPU have is no worse than one in parts.
    fn either(self, other: Self) -> Self {
        let both = Holders::one(ProcessorKind::Cpu).with(ProcessorKind::Gpu);
        match (self, other) {
            (Self::With(own), Self::With(others)) => Self::With(own.with_all(others)),
            (Self::With(own), Self::Apart(_)) | (Self::Apart(_), Self::With(own)) => {
                Self::With(own.with_all(both))
            }
            (Self::Apart(own), Self::Apart(others)) if own == others => self,
            (Self::Apart(_), Self::Apart(_)) => Self::With(both),
        }
    }
}

impl Place {
    /// Of a result that is whole from then on.
    pub(super) fn with(holders: Holders, ready: Picos) -> Self {
        Self { at: At::With(holders), ready, usable: ready, of_npu: false, lines: [0; 2] }
    }

    /// As bits, whom a result serves that lies so, and whom one has to serve that is no worse: a bit for each
    /// processor, one for graphs of the NPU, and one for parts of each chain, which who has all of it serves, too.
    fn holders(&self) -> [u8; 2] {
        match self.at {
            At::With(holders) => {
                let bit = |kind: ProcessorKind| u8::from(holders.has(kind)) << kind as u8;
                let of_npu = if self.of_npu { GRAPHS } else { 0 };
                let needs = ProcessorKind::ALL.into_iter().map(bit).fold(of_npu, |bits, bit| bits | bit);
                let serves_parts = holders.has(ProcessorKind::Cpu) && holders.has(ProcessorKind::Gpu);
                [if serves_parts { needs | PARTS } else { needs }, needs]
            }
            // Core sets share the two bits of an axis: the same bit need not be the same chain.
            At::Apart(Cutting { axis, cores }) => [1 << (4 + 2 * (axis as u8) + cores % 2); 2],
        }
    }

    fn is_no_worse_than(&self, other: &Self, passed: Picos) -> bool {
        let has_lines = match (self.at, other.at) {
            (At::Apart(_), At::Apart(_)) => {
                self.lines[0] >= other.lines[0] && self.lines[1] <= other.lines[1]
            }
            (At::With(_), _) | (_, At::With(_)) => true,
        };
        has_lines
            && self.ready <= other.ready.max(passed)
            && self.usable <= other.usable.max(passed)
            && (self.of_npu || !other.of_npu)
            && self.at.is_no_worse_than(other.at)
    }
}

impl Progress {
    /// The later of its queues.
    pub(super) fn end(&self) -> Picos {
        self.queues.into_iter().max().unwrap_or_default()
    }

    /// The least of both, of everything by itself.
    fn least(self, other: Self) -> Self {
        Self {
            queues: [
                self.queues[0].min(other.queues[0]),
                self.queues[1].min(other.queues[1]),
                self.queues[2].min(other.queues[2]),
            ],
            join: self.join.min(other.join),
            graph: self.graph.max(other.graph),
            read_back: self.read_back.min(other.read_back),
            joules: self.joules.min(other.joules),
        }
    }
}

impl Label {
    /// Whether it can do whatever `other` can, no later.
    pub(super) fn dominates(&self, other: &Self, uses_npu: bool) -> bool {
        let (own, others) = (&self.now, &other.now);
        let [cpu, gpu, npu] = others.queues;
        let passed = if uses_npu { cpu.min(gpu).min(npu) } else { cpu.min(gpu) };
        own.queues[0] <= cpu
            && own.queues[1] <= gpu
            && own.queues[2] <= npu
            && own.join <= others.join.max(gpu)
            && own.graph >= others.graph
            && own.read_back <= others.read_back
            && own.joules <= others.joules
            && self.places.iter().zip(&other.places).all(|(own, other)| own.is_no_worse_than(other, passed))
    }

    /// Becomes no worse than `other`, too.
    fn stand_for(&mut self, other: &Self) {
        self.now = self.now.least(other.now);
        (self.bound, self.rank) = (self.bound.min(other.bound), self.rank.min(other.rank));
        self.alone = self.alone.min(other.alone);
        for (known, place) in self.places.iter_mut().zip(&other.places) {
            known.ready = known.ready.min(place.ready);
            known.usable = known.usable.min(place.usable);
            known.of_npu |= place.of_npu;
            known.at = known.at.either(place.at);
        }
    }

    /// Of the first results, a byte each: whom they serve, and whom those of a label have to serve that dominates this one.
    fn holders(&self) -> [u64; 2] {
        let bytes = self.places.iter().take(size_of::<u64>()).map(Place::holders);
        bytes.fold([0; 2], |[serves, needs], of| {
            [serves << 8 | u64::from(of[0]), needs << 8 | u64::from(of[1])]
        })
    }

    fn order(&self) -> (u64, [Picos; 3], usize) {
        let [cpu, gpu, npu] = self.now.queues;
        (cpu.0 + gpu.0 + npu.0, self.now.queues, self.decision.unwrap_or(0))
    }
}

/// Labels of which the least clocks are known together.
const BLOCK: usize = 32;

/// Labels whose first results serve the same, in blocks, by the CPU's clock.
struct Group {
    serves: u64,
    members: Vec<usize>,
    /// The least clocks of GPU and NPU in each block.
    least: Vec<[Picos; 2]>,
}

impl Group {
    /// Members whose clocks do not rule out that they dominate a label.
    fn no_later(&self, [_, gpu, npu]: [Picos; 3]) -> impl Iterator<Item = usize> {
        let blocks = self.members.chunks(BLOCK).zip(&self.least);
        let early = blocks.filter(move |(_, least)| least[0] <= gpu && least[1] <= npu);
        early.flat_map(|(members, _)| members.iter().copied())
    }

    fn add(&mut self, member: usize, [_, gpu, npu]: [Picos; 3]) {
        if self.members.len().is_multiple_of(BLOCK) {
            self.least.push([gpu, npu]);
        }
        self.members.push(member);
        if let Some([least_gpu, least_npu]) = self.least.last_mut() {
            (*least_gpu, *least_npu) = (gpu.min(*least_gpu), npu.min(*least_npu));
        }
    }
}

/// Without those that others dominate.
pub(super) fn undominated(mut labels: Vec<Label>, uses_npu: bool) -> Vec<Label> {
    labels.sort_by_cached_key(|label| (label.now.queues, label.decision));
    let (mut kept, mut groups): (Vec<Label>, Vec<Group>) = (Vec::new(), Vec::new());
    for label in labels {
        let [serves, needs] = label.holders();
        let able = groups.iter().filter(|group| group.serves & needs == needs);
        let dominating = able
            .flat_map(|group| group.no_later(label.now.queues))
            .find(|&at| kept[at].dominates(&label, uses_npu));
        if let Some(at) = dominating {
            // What a merged label inherited says nothing of those that it dominates.
            kept[at].bound = kept[at].bound.min(label.bound);
            continue;
        }
        let known = groups.iter().position(|group| group.serves == serves).unwrap_or_else(|| {
            groups.push(Group { serves, members: Vec::new(), least: Vec::new() });
            groups.len() - 1
        });
        groups[known].add(kept.len(), label.now.queues);
        kept.push(label);
    }
    kept
}

/// Which part of the labels, or how many at least, are kept beside them for what one processor does.
const MORE: usize = 4;
const FEWEST: usize = 4;

/// The half of `width` labels that promise most up to the next meeting point, and of the others those that promise
/// most in the end. What promises most may need luck: a few more are those that are there first if one processor takes
/// the rest.
pub(super) fn leading(mut labels: Vec<Label>, width: usize) -> Vec<Label> {
    let mut others = split_behind(&mut labels, width / 2, |label| label.rank);
    let mut last = split_behind(&mut others, width - width / 2, |label| label.bound);
    split_behind(&mut last, (width / MORE).max(FEWEST), |label| label.alone);
    labels.extend(others);
    labels.extend(last);
    labels
}

/// The half of `width` that promises most, and the others merged into as many.
pub(super) fn squeezed(mut labels: Vec<Label>, width: usize, uses_npu: bool) -> Vec<Label> {
    let others = split_behind(&mut labels, width / 2, |label| label.bound);
    labels.extend(merged(others, width / 2, uses_npu));
    labels
}

/// Leaves so many labels that cost least, sorted, and returns the others.
fn split_behind(labels: &mut Vec<Label>, count: usize, cost: impl Fn(&Label) -> f64) -> Vec<Label> {
    let by_cost = |one: &Label, other: &Label| {
        let costs = cost(one).total_cmp(&cost(other)).then(one.rank.total_cmp(&other.rank));
        costs.then_with(|| one.order().cmp(&other.order()))
    };
    let mut others = Vec::new();
    if count < labels.len() {
        labels.select_nth_unstable_by(count, by_cost);
        others = labels.split_off(count);
    }
    labels.sort_unstable_by(by_cost);
    others
}

/// Parts of the range of clocks that are one cell: at first, and those beyond which it no longer matters
/// where results lie.
const FINEST: u64 = 512;
const COARSEST: u64 = 128;

/// About `width` labels, each no worse than those it stands for: what lies in one cell of a grid of
/// clocks becomes one, with the least of everything. The grid is made coarser until they are few.
pub(super) fn merged(mut labels: Vec<Label>, width: usize, uses_npu: bool) -> Vec<Label> {
    let first = |label: &Label| label.now.queues.into_iter().min().unwrap_or_default().0;
    let low = labels.iter().map(first).min().unwrap_or(0);
    let range = labels.iter().map(|label| label.now.end().0).max().unwrap_or(0).saturating_sub(low);
    let mut grid = Grid { cell: (range / FINEST).max(1), range };
    // Cells consist of those of finer grids, so that nothing has to be merged before few are left.
    while grid.is_filled_by(&labels, 4 * width) && !grid.is_coarsest() {
        grid.cell *= 2;
    }
    loop {
        labels = grid.merged(labels);
        if labels.len() > width && labels.len() <= 4 * width {
            labels = undominated(labels, uses_npu);
        }
        if labels.len() <= width || grid.is_coarsest() {
            return labels;
        }
        grid.cell *= 2;
    }
}

/// Cells of clocks, for each combination of results that the NPU computed, and, where they are small, of places.
struct Grid {
    cell: u64,
    /// Of all clocks.
    range: u64,
}

impl Grid {
    fn is_coarsest(&self) -> bool {
        self.cell > self.range.max(1).saturating_mul(4)
    }

    /// The cell of a label, known by the hash of its coordinates: were those of two cells the same, a label would
    /// stand for both, which it may for any.
    fn cell_of(&self, label: &Label) -> u64 {
        let Progress { queues, join, graph, read_back, .. } = label.now;
        let mut coordinates = FixedState::default().build_hasher();
        queues.iter().chain([&join]).for_each(|time| coordinates.write_u64(time.0 / self.cell));
        let is_small = self.cell <= self.range / COARSEST;
        if is_small {
            coordinates.write_usize(graph);
            coordinates.write_u64(read_back.0);
        }
        for place in &label.places {
            // A graph of the NPU goes on with its own results alone, and costs much to begin.
            coordinates.write_u8(u8::from(place.of_npu && self.cell <= self.range));
            if is_small {
                coordinates.write_u64(place.ready.0 / (2 * self.cell));
                place.at.hash(&mut coordinates);
            }
        }
        coordinates.finish()
    }

    /// Whether labels lie in more cells than so many.
    fn is_filled_by(&self, labels: &[Label], most: usize) -> bool {
        let mut filled: HashSet<u64, FixedState> = HashSet::default();
        labels.iter().any(|label| filled.insert(self.cell_of(label)) && filled.len() > most)
    }

    /// One label for each cell.
    fn merged(&self, labels: Vec<Label>) -> Vec<Label> {
        let mut numbers: HashMap<u64, usize, FixedState> = HashMap::default();
        let mut merged: Vec<Label> = Vec::new();
        for label in labels {
            match numbers.entry(self.cell_of(&label)) {
                Entry::Occupied(number) => merged[*number.get()].stand_for(&label),
                Entry::Vacant(free) => {
                    free.insert(merged.len());
                    merged.push(label);
                }
            }
        }
        merged.sort_by_cached_key(|label| (label.now.queues, label.now.join, label.decision));
        merged
    }
}

//! Labels: the state after the first stages are decided, and dominance between labels.
//!
//! Responsible for: dominance, the beam, and merging. Not for: the move from one label to the next
//! (`moves`). Invariant: a label that is merged or dominated is covered by one that can do everything
//! it can, no later and with no higher bound.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, Hasher};

use foldhash::fast::FixedState;

use super::Places;
use crate::units::Picos;

/// Clocks of the processors, and energy so far.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Progress {
    /// When the queue of each processor ends.
    pub(super) queues: [Picos; 3],
    /// End of the last join; later GPU kernels wait for it.
    pub(super) join: Picos,
    /// The NPU graph that later stages can join, as its first stage (relaxed, the first live result since it began)
    /// plus one; zero for none. Fewer reads end a graph that began later.
    pub(super) graph: usize,
    /// Time at the end to read back the workload's results that only the GPU has.
    pub(super) read_back: Picos,
    /// Relaxed, when the traffic of the NPU's graphs ends. It may be ahead of the NPU's queue, as weights
    /// are fetched while earlier stages compute.
    pub(super) fetched: Picos,
    pub(super) joules: f64,
}

/// The state after the first stages are decided; relaxed, it may stand for several.
#[derive(Clone, Debug)]
pub(super) struct Label {
    pub(super) now: Progress,
    pub(super) places: Places,
    /// The last decision, as an index into the programme's list.
    pub(super) decision: Option<usize>,
    /// Lower bound of the cost of every plan that continues this label.
    pub(super) bound: f64,
    /// Lower bound of the cost at the next meeting point.
    pub(super) rank: f64,
    /// The cost at the next meeting point if one processor computes everything until then.
    pub(super) single_cost: f64,
}

impl Progress {
    /// The end of the last queue.
    pub(super) fn end(&self) -> Picos {
        self.queues.into_iter().max().unwrap_or_default()
    }

    /// The component-wise best of both.
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
            fetched: self.fetched.min(other.fetched),
            joules: self.joules.min(other.joules),
        }
    }
}

impl Label {
    /// Whether it can do everything that `other` can, no later.
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
            && own.fetched <= others.fetched
            && own.joules <= others.joules
            && self.places.are_no_worse_than(&other.places, passed)
    }

    /// Becomes the component-wise best of itself and `other`, for which it then stands.
    fn absorb(&mut self, other: &Self) {
        self.now = self.now.least(other.now);
        (self.bound, self.rank) = (self.bound.min(other.bound), self.rank.min(other.rank));
        self.single_cost = self.single_cost.min(other.single_cost);
        self.places.absorb(&other.places);
    }

    /// [`Place::holders`] of the first results, a byte each.
    fn holders(&self) -> [u64; 2] {
        let bytes = self.places.iter().take(size_of::<u64>()).map(|(_, place)| place.holders());
        bytes.fold([0; 2], |[serves, needs], of| {
            [serves << 8 | u64::from(of[0]), needs << 8 | u64::from(of[1])]
        })
    }

    fn order(&self) -> (u64, [Picos; 3], usize) {
        let [cpu, gpu, npu] = self.now.queues;
        (cpu.0 + gpu.0 + npu.0, self.now.queues, self.decision.unwrap_or(0))
    }
}

/// Labels per block of a [`Group`].
const BLOCK: usize = 32;

/// Labels whose first results serve the same readers, in blocks, in order of the CPU's clock.
struct Group {
    serves: u64,
    members: Vec<usize>,
    /// The least clocks of GPU and NPU in each block.
    least: Vec<[Picos; 2]>,
}

impl Group {
    /// Members that may dominate a label with these clocks, by the least clocks of their blocks.
    fn possible_dominators(&self, [_, gpu, npu]: [Picos; 3]) -> impl Iterator<Item = usize> {
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

/// Removes the labels that others dominate.
pub(super) fn undominated(mut labels: Vec<Label>, uses_npu: bool) -> Vec<Label> {
    labels.sort_by_cached_key(|label| (label.now.queues, label.decision));
    let (mut kept, mut groups): (Vec<Label>, Vec<Group>) = (Vec::new(), Vec::new());
    for label in labels {
        let [serves, needs] = label.holders();
        let able = groups.iter().filter(|group| group.serves & needs == needs);
        let dominating = able
            .flat_map(|group| group.possible_dominators(label.now.queues))
            .find(|&at| kept[at].dominates(&label, uses_npu));
        if let Some(at) = dominating {
            // The bound that a merged label inherited need not hold for a label that it dominates.
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

/// Extra labels of the beam, by [`Label::single_cost`]: one per this many labels of its width, and a
/// minimum.
const WIDTH_PER_EXTRA: usize = 4;
const MIN_EXTRA_LABELS: usize = 4;

/// The beam: half of `width` the labels of least rank, the other half those of least bound. Both are
/// lower bounds that may not be attainable, so a few extra labels are those of least [`Label::single_cost`].
pub(super) fn beam(mut labels: Vec<Label>, width: usize) -> Vec<Label> {
    let mut others = split_off_worse(&mut labels, width / 2, |label| label.rank);
    let mut last = split_off_worse(&mut others, width - width / 2, |label| label.bound);
    split_off_worse(&mut last, (width / WIDTH_PER_EXTRA).max(MIN_EXTRA_LABELS), |label| label.single_cost);
    labels.extend(others);
    labels.extend(last);
    labels
}

/// Half of `width` the labels of least bound, and the others merged into the other half.
pub(super) fn half_merged(mut labels: Vec<Label>, width: usize, uses_npu: bool) -> Vec<Label> {
    let others = split_off_worse(&mut labels, width / 2, |label| label.bound);
    labels.extend(merged(others, width / 2, uses_npu));
    labels
}

/// Keeps the `count` labels of least cost, sorted, and returns the others.
fn split_off_worse(labels: &mut Vec<Label>, count: usize, cost: impl Fn(&Label) -> f64) -> Vec<Label> {
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

/// Cells across the range of clocks: of the finest grid, and of the coarsest that still distinguishes
/// places.
const FINEST_GRID_CELLS: u64 = 512;
const COARSEST_GRID_CELLS: u64 = 128;

/// About `width` labels, each no worse than those it stands for: the labels in one cell of a grid of
/// clocks become their component-wise best. The grid is made coarser until few are left.
pub(super) fn merged(mut labels: Vec<Label>, width: usize, uses_npu: bool) -> Vec<Label> {
    let first = |label: &Label| label.now.queues.into_iter().min().unwrap_or_default().0;
    let low = labels.iter().map(first).min().unwrap_or(0);
    let range = labels.iter().map(|label| label.now.end().0).max().unwrap_or(0).saturating_sub(low);
    let mut grid = Grid { cell: (range / FINEST_GRID_CELLS).max(1), range };
    // A coarse cell is a union of finer ones, so labels need no merging before the grid is coarse
    // enough.
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

/// Cells of clocks, separate for each set of results that the NPU computed and, while they are small,
/// for each combination of places.
struct Grid {
    cell: u64,
    /// Range of all clocks.
    range: u64,
}

impl Grid {
    fn is_coarsest(&self) -> bool {
        self.cell > self.range.max(1).saturating_mul(4)
    }

    /// The cell of a label, as a hash of its coordinates. A collision is harmless: a merged label may
    /// stand for any others.
    fn cell_of(&self, label: &Label) -> u64 {
        let Progress { queues, join, graph, read_back, .. } = label.now;
        let mut coordinates = FixedState::default().build_hasher();
        queues.iter().chain([&join]).for_each(|time| coordinates.write_u64(time.0 / self.cell));
        let is_small = self.cell <= self.range / COARSEST_GRID_CELLS;
        if is_small {
            coordinates.write_usize(graph);
            coordinates.write_u64(read_back.0);
        }
        // An NPU graph continues only with results of the NPU, and beginning one is expensive.
        let cell = is_small.then_some(2 * self.cell);
        label.places.hash_cells(self.cell <= self.range, cell, &mut coordinates);
        coordinates.finish()
    }

    /// Whether labels lie in more than `most` cells.
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
                Entry::Occupied(number) => merged[*number.get()].absorb(&label),
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

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert_eq, proptest};
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;
    use crate::device::ProcessorKind;
    use crate::explore::optimal::{At, Cutting, Place};
    use crate::plan::Axis;
    use crate::schedule::Holders;

    /// A label with few distinct clocks and places, so that many labels dominate each other.
    fn random_label(random: &mut ChaCha8Rng, decision: usize, results: usize) -> Label {
        let place = |random: &mut ChaCha8Rng| {
            let some = ProcessorKind::ALL[random.random_range(0..3)];
            let more = ProcessorKind::ALL[random.random_range(0..3)];
            let ready = Picos(random.random_range(0..4));
            let place = Place::with(Holders::one(some).with(more), ready);
            if random.random_bool(0.3) {
                let cutting =
                    Cutting { axis: Axis::ALL[random.random_range(0..2)], cores: random.random_range(0..3) };
                let lines = [random.random_range(1..3), random.random_range(1..3)];
                return Place { at: At::Open(cutting), lines, ..place };
            }
            Place { of_npu: some == ProcessorKind::Npu && more == some, ..place }
        };
        let places = (0..results).map(|stage| (stage, place(random))).collect();
        let mut clock = || Picos(random.random_range(0..6));
        let (queues, join, read_back, fetched) = ([clock(), clock(), clock()], clock(), clock(), clock());
        let now = Progress { queues, join, graph: 0, read_back, fetched, joules: 0.0 };
        Label { now, places, decision: Some(decision), bound: 0.0, rank: 0.0, single_cost: 0.0 }
    }

    proptest! {
        #[test]
        fn exactly_the_labels_that_a_kept_one_dominates_are_removed(
            (count, results) in (0_usize..200, 0_usize..11),
            uses_npu in any::<bool>(),
            seed in any::<u64>(),
        ) {
            let mut random = ChaCha8Rng::seed_from_u64(seed);
            let mut labels: Vec<Label> =
                (0..count).map(|decision| random_label(&mut random, decision, results)).collect();
            let kept: Vec<_> = undominated(labels.clone(), uses_npu).iter().map(|label| label.decision).collect();
            labels.sort_by_key(|label| (label.now.queues, label.decision));
            let mut expected: Vec<Label> = Vec::new();
            for label in labels {
                if !expected.iter().any(|known| known.dominates(&label, uses_npu)) {
                    expected.push(label);
                }
            }
            let expected: Vec<_> = expected.iter().map(|label| label.decision).collect();
            prop_assert_eq!(kept, expected);
        }
    }
}

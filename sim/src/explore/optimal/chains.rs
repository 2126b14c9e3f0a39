//! Prices of chains: stages of a run whose parts each processor computes without the other.
//!
//! Responsible for: the work of both processors for every cut of a chain's last stage. Not for: when a
//! chain is worth it. Invariant: relaxed, no chain of any plan takes less than its price on either
//! processor.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use foldhash::fast::FixedState;

use super::{Cutting, Model, Price, Pricing, Way, Ways};
use crate::plan::Axis;

/// The ways to cut every chain.
pub(super) struct ChainTables {
    /// `[axis][core set][end][length - 1]`.
    ways: [Vec<Vec<Vec<Ways>>>; 2],
    pub(super) longest: usize,
    /// For each position, the reads from before it by the stages of the longest chain that starts there.
    reads: Vec<Vec<Read>>,
    /// Cached results of [`Model::widened`] for the longest chains, by end, axis and cut.
    widened: RefCell<HashMap<(usize, Axis, u32), Lines, FixedState>>,
}

/// A read from before a chain: the reading stage, the position among the tensors that it reads, and the stage that is
/// read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Read {
    pub(super) stage: usize,
    pub(super) at: usize,
    pub(super) input: usize,
}

/// Lines that CPU and GPU compute of each stage of a chain, from the last one back, as
/// [`Model::widened`].
pub(super) type Lines = Rc<[[u32; 2]]>;

impl ChainTables {
    /// Prices chains of at most `longest` stages; relaxed, each stage on its best core set.
    pub(super) fn new(model: &Model<'_>, pricing: &Pricing<'_, '_>, relaxed: bool, longest: usize) -> Self {
        let sets = if relaxed { 1 } else { model.core_sets.len() };
        let of_axis = |axis: Axis| {
            let mut by_set: Vec<Vec<Vec<Ways>>> = vec![vec![Vec::new(); model.stages.len() + 1]; sets];
            for end in 1..=model.stages.len() {
                let Some(cuts) = model.cuts(end - 1, axis) else { continue };
                let lowest = model.run_start[end - 1].max(end.saturating_sub(longest));
                let unit = if relaxed { 1 } else { axis.unit() };
                for cut in (unit..cuts.all).step_by(unit as usize) {
                    let lines = model.widened(end, axis, cut, lowest);
                    for (set, ways) in by_set.iter_mut().enumerate() {
                        let cutting = Cutting { axis, cores: set as u8 };
                        add(model, (end, &lines), (cutting, relaxed), &mut ways[end]);
                    }
                }
                for ways in by_set.iter_mut().flat_map(|ways| &mut ways[end]) {
                    *ways = pricing.best_ways(std::mem::take(ways));
                }
            }
            by_set
        };
        let reads = |position: usize| reads(model, position, model.run_end[position].min(position + longest));
        let reads = (0..model.stages.len()).map(reads).collect();
        Self { ways: Axis::ALL.map(of_axis), longest, reads, widened: RefCell::default() }
    }

    /// The reads from before a chain from a position to `end`, in the order of the stages.
    pub(super) fn reads(&self, position: usize, end: usize) -> &[Read] {
        let reads = &self.reads[position];
        &reads[..reads.partition_point(|read| read.stage < end)]
    }

    /// Lines of both processors in the longest chain that ends before `end` with its last stage cut at
    /// `cut`.
    pub(super) fn lines(&self, model: &Model<'_>, end: usize, axis: Axis, cut: u32) -> Lines {
        let lowest = model.run_start[end - 1].max(end.saturating_sub(self.longest));
        let mut known = self.widened.borrow_mut();
        let lines = known.entry((end, axis, cut));
        Rc::clone(lines.or_insert_with(|| model.widened(end, axis, cut, lowest).into()))
    }

    /// The ways to cut the chain of `length` stages before `end`; `None` if there is no such chain.
    pub(super) fn ways(&self, cutting: Cutting, end: usize, length: usize) -> Option<&Ways> {
        let of_set = &self.ways[cutting.axis as usize][cutting.cores as usize];
        of_set[end].get(length.checked_sub(1)?).filter(|ways| !ways.is_empty())
    }
}

/// Adds the price of every chain that ends before `end` with these lines, from the last stage back.
fn add(
    model: &Model<'_>,
    (end, lines): (usize, &[[u32; 2]]),
    (cutting, relaxed): (Cutting, bool),
    by_length: &mut Vec<Ways>,
) {
    let (mut cpu, mut gpu) = (Price::NOTHING, Price::NOTHING);
    for (before, &[first, second]) in lines.iter().enumerate() {
        let Some(cuts) = model.cuts(end - 1 - before, cutting.axis) else { return };
        let (first, second) = (first as usize, second as usize);
        let [of_cpu, of_gpu] = match (relaxed, cutting.axis) {
            // A wider part may be faster, with another kernel.
            (true, Axis::Height) => [cuts.least[0][first], cuts.least[1][second]],
            (true, Axis::Channels) => [cuts.best_cpu[first], cuts.gpu[second]],
            (false, _) => [cuts.cpu[cutting.cores as usize][first], cuts.gpu[second.min(first)]],
        };
        (cpu, gpu) = (cpu.plus(of_cpu), gpu.plus(of_gpu));
        if by_length.len() <= before {
            by_length.push(Vec::new());
        }
        let way = Way { cpu: cpu.time, gpu: gpu.time, joules: cpu.joules + gpu.joules, cut: lines[0][0] };
        by_length[before].push(way);
    }
}

/// The reads of the stages `position..end` from before `position`.
fn reads(model: &Model<'_>, position: usize, end: usize) -> Vec<Read> {
    let of = |stage: usize| {
        let reads = model.stages[stage].reads.iter().filter(move |read| read.input < position);
        reads.map(move |read| Read { stage, at: read.position, input: read.input })
    };
    (position..end).flat_map(of).collect()
}

//! What chains take: stages of a run whose parts each processor computes without the other.
//!
//! Responsible for: the work of both processors over every cut of a chain's last stage. Not for: when one
//! pays. Invariant: relaxed, no chain that a plan can have takes less of either processor.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use foldhash::fast::FixedState;

use super::{Cutting, Model, Price, Pricing, Way, Ways};
use crate::plan::Axis;

/// Ways to cut chains, by axis, core set, end, and length.
pub(super) struct ChainTables {
    /// `[axis][core set][end][length - 1]`.
    ways: [Vec<Vec<Vec<Ways>>>; 2],
    pub(super) longest: usize,
    /// From each position, what the stages of the longest chain there read from before it.
    reads: Vec<Vec<Read>>,
    /// What [`Model::widened`] said of chains as long as can be, by end, axis and cut.
    widened: RefCell<HashMap<(usize, Axis, u32), Lines, FixedState>>,
}

/// What a stage of a chain reads from before it: as which of its inputs, and whose result.
#[derive(Clone, Copy, Debug)]
pub(super) struct Read {
    pub(super) stage: usize,
    pub(super) at: usize,
    pub(super) input: usize,
}

/// What CPU and GPU compute of each stage of a chain, from the last one back.
pub(super) type Lines = Rc<[[u32; 2]]>;

impl ChainTables {
    /// Of at most `longest` stages; relaxed, on whichever core set is best for each stage.
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

    /// What the stages of a chain from a position to `end` read from before it, in their order.
    pub(super) fn reads(&self, position: usize, end: usize) -> &[Read] {
        let reads = &self.reads[position];
        &reads[..reads.partition_point(|read| read.stage < end)]
    }

    /// What both processors compute of the stages of a chain before `end`, and of those that could be before
    /// it, where its last stage is cut there.
    pub(super) fn lines(&self, model: &Model<'_>, end: usize, axis: Axis, cut: u32) -> Lines {
        let lowest = model.run_start[end - 1].max(end.saturating_sub(self.longest));
        let mut known = self.widened.borrow_mut();
        let lines = known.entry((end, axis, cut));
        Rc::clone(lines.or_insert_with(|| model.widened(end, axis, cut, lowest).into()))
    }

    /// The ways to cut the chain of so many stages before `end`; none where there is none.
    pub(super) fn ways(&self, cutting: Cutting, end: usize, length: usize) -> Option<&Ways> {
        let of_set = &self.ways[cutting.axis as usize][cutting.cores as usize];
        of_set[end].get(length.checked_sub(1)?).filter(|ways| !ways.is_empty())
    }
}

/// Adds what every chain takes that ends before `end` with these lines, from the last stage back.
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
            // A wider part may be faster, as another kernel computes it.
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

/// What stages read from before them.
fn reads(model: &Model<'_>, position: usize, end: usize) -> Vec<Read> {
    let of = |stage: usize| {
        let inputs = model.stages[stage].inputs.iter().enumerate();
        inputs.filter(move |(_, input)| **input < position).map(move |(at, &input)| Read { stage, at, input })
    };
    (position..end).flat_map(of).collect()
}

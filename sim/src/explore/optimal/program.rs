//! The dynamic programme over labels: from position to position, every trial on every label kept.
//!
//! Responsible for: the trials, and ranking and keeping labels. Not for: the effect of a trial
//! (`moves`). Invariant: relaxed, for every plan and position there is a label that is no later than
//! the plan, with a bound no higher than the plan's cost.

use std::ops::Range;

use super::{
    At, Cutting, Label, Move, Mover, NEVER, Place, Places, Progress, Rest, Trial, WITH_NPU, Weights, beam,
    best, half_merged, merged, undominated,
};
use crate::device::ProcessorKind;
use crate::plan::Axis;
use crate::schedule::Holders;
use crate::units::Picos;

/// Labels for the cuts of a chain that stays open: one per sampled cut, and, relaxed, one per bucket of
/// cuts; fewer in large workloads, but not fewer than the last.
const OPEN_CUTS: usize = 24;
const OPEN_BUCKETS: usize = 64;
const MIN_OPEN_WAYS: usize = 12;

/// Relaxed, the NPU's share of a stage is decided as one of a few ranges: the fewest per stage, and how
/// many more are divided among all stages by their time on the NPU. The bound counts the least of a
/// range, which matters little for a short stage.
const MIN_NPU_RANGES: u32 = 3;
const EXTRA_NPU_RANGES: u64 = 40;

/// How many times the width labels may be before they are thinned out for the dominance test, and
/// before labels at later positions are merged early.
const BEFORE_DOMINANCE: usize = 4;
const EARLY_MERGE_FACTOR: usize = 20;

/// Limits on the labels kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Labels kept at each position.
    pub(super) width: usize,
    /// Labels with a higher bound are dropped. Relaxed, the cost of the best known plan; in a search,
    /// more.
    pub(super) cost: f64,
    /// Whether labels beyond the width are merged, so that every plan keeps a label, instead of dropped.
    pub(super) merges: bool,
    /// Factor by which fewer cuts are tried; a search with more than 1 cuts on one core set per stage only.
    pub(super) fewer_cuts: usize,
}

/// The programme's result.
pub(super) struct Outcome {
    /// Relaxed: lower bound of every plan's cost.
    pub(super) bound: f64,
    /// The decisions of the best final labels, the best first.
    pub(super) decisions: Vec<Vec<(usize, Move)>>,
}

/// A decision, the position where it was taken, and the one before it.
#[derive(Clone, Copy)]
struct Decision {
    before: Option<usize>,
    position: usize,
    decided: Move,
}

pub(super) struct Programme<'m, 'e, 'a> {
    mover: Mover<'m, 'e, 'a>,
    rest: &'m Rest,
    limits: Limits,
    decisions: Vec<Decision>,
    labels: Vec<Vec<Label>>,
    /// Number of labels made.
    pub(super) considered: usize,
    /// Whether labels were merged or dropped, so that a larger width may raise the bound.
    pub(super) has_merged: bool,
}

impl<'m, 'e, 'a> Programme<'m, 'e, 'a> {
    pub(super) fn new(mover: Mover<'m, 'e, 'a>, rest: &'m Rest, limits: Limits) -> Self {
        let labels = vec![Vec::new(); mover.model.stages.len() + 1];
        Self { mover, rest, limits, decisions: Vec::new(), labels, considered: 0, has_merged: false }
    }

    /// Runs the programme; the bound, and the decisions of the `finals` best final labels.
    pub(super) fn run(&mut self, finals: usize) -> Outcome {
        let model = self.mover.model;
        let count = model.stages.len();
        let queues = [Picos::ZERO, model.submission, Picos::ZERO];
        let [join, read_back, fetched] = [Picos::ZERO; 3];
        let now = Progress { queues, join, graph: 0, read_back, fetched, joules: 0.0 };
        let first =
            Label { now, places: Places::default(), decision: None, bound: 0.0, rank: 0.0, single_cost: 0.0 };
        self.labels[0].push(first);
        for position in 0..count {
            let trials = self.trials(position);
            for label in self.kept(position) {
                let known = self.labels[position + 1].len();
                for &trial in &trials {
                    self.attempt(position, &label, trial);
                }
                if self.mover.is_relaxed() && model.uses_npu {
                    // Most shares with the NPU are dominated: removed here, they are not merged with
                    // good labels.
                    let own = self.labels[position + 1].split_off(known);
                    self.labels[position + 1].extend(undominated(own, true));
                }
            }
            self.merge_early(position + 1);
        }
        let mut last = std::mem::take(&mut self.labels[count]);
        let is_relaxed = self.mover.is_relaxed();
        let cost = |label: &Label| {
            let cost = model.cost_so_far(&label.now);
            if is_relaxed { cost.max(label.bound) } else { cost }
        };
        last.sort_by(|one, other| cost(one).total_cmp(&cost(other)));
        let bound = last.first().map_or(self.limits.cost, cost).min(self.limits.cost);
        let decisions = last.iter().take(finals).map(|label| self.decisions_of(label)).collect();
        Outcome { bound, decisions }
    }

    /// The labels at a position that are continued.
    fn kept(&mut self, position: usize) -> Vec<Label> {
        let mut labels = std::mem::take(&mut self.labels[position]);
        let Limits { width, merges, .. } = self.limits;
        let uses_npu = self.mover.model.uses_npu;
        if merges && labels.len() > BEFORE_DOMINANCE * width {
            self.has_merged = true;
            labels = half_merged(labels, 2 * width, uses_npu);
        } else if !merges && labels.len() > 2 * BEFORE_DOMINANCE * width {
            labels = beam(labels, 2 * BEFORE_DOMINANCE * width);
        }
        labels = undominated(labels, uses_npu);
        if labels.len() > width {
            self.has_merged = true;
            labels = if merges { half_merged(labels, width, uses_npu) } else { beam(labels, width) };
        }
        labels
    }

    /// Merges labels at later positions, which chains reach from many earlier ones, before they become
    /// too many.
    fn merge_early(&mut self, from: usize) {
        let Limits { width, merges, .. } = self.limits;
        if !merges {
            return;
        }
        let uses_npu = self.mover.model.uses_npu;
        let end = (from + self.mover.chains.longest).min(self.labels.len());
        for labels in &mut self.labels[from.min(end)..end] {
            if labels.len() > EARLY_MERGE_FACTOR * width {
                self.has_merged = true;
                *labels = merged(std::mem::take(labels), BEFORE_DOMINANCE * width, uses_npu);
            }
        }
    }

    /// The trials at a position.
    fn trials(&self, position: usize) -> Vec<Trial> {
        let model = self.mover.model;
        let is_relaxed = self.mover.is_relaxed();
        let mut trials = vec![Trial::Gpu];
        trials.extend(self.mover.ways_in_graph(position).map(Trial::Npu));
        let best_set = model.best_core_set(position);
        let sets = match best_set {
            _ if is_relaxed => 0..1,
            Some(best) if self.limits.fewer_cuts > 1 => best..best + 1,
            Some(_) | None => 0..model.core_sets.len(),
        };
        trials.extend(best_set.map(Trial::Cpu));
        for axis in Axis::ALL {
            if let Some(shares) = model.shares(position, axis) {
                let cutting = Cutting { axis, cores: best_set.unwrap_or_default() as u8 };
                let ranges = if is_relaxed { self.npu_ranges(position) } else { 1 };
                for of_npu in shares.of_npu(ranges) {
                    trials.extend(WITH_NPU.map(|members| Trial::Shared(cutting, members, of_npu)));
                }
            }
            if model.cuts(position, axis).is_some() {
                for cores in sets.clone() {
                    let cutting = Cutting { axis, cores: cores as u8 };
                    trials.push(Trial::Cut(cutting));
                    self.chain_trials(position, cutting, &mut trials);
                }
            }
        }
        trials
    }

    /// Relaxed, the number of ranges of the NPU's share of a stage.
    fn npu_ranges(&self, position: usize) -> u32 {
        let times = self.mover.model.on_npu.iter().map(|on_npu| on_npu.least().time);
        let all: Picos = times.filter(|&time| time < NEVER).sum();
        let own = self.mover.model.on_npu[position].least().time;
        MIN_NPU_RANGES + (EXTRA_NPU_RANGES * own.0.min(all.0) / all.0.max(1)) as u32
    }

    fn chain_trials(&self, position: usize, cutting: Cutting, trials: &mut Vec<Trial>) {
        let (model, chains) = (self.mover.model, self.mover.chains);
        let is_relaxed = self.mover.is_relaxed();
        let (count, run_end) = (model.stages.len(), model.run_end[position]);
        // A single stage may continue an open chain.
        let shortest = if is_relaxed { 2 } else { 1 };
        for end in position + shortest..=run_end.min(position + chains.longest) {
            if (end < run_end || end == count) && chains.ways(cutting, end, end - position).is_some() {
                trials.push(Trial::Closing { end, cutting });
            }
        }
        // A chain can stay open only at the end of a run; relaxed, the longest ones continue without a
        // halo.
        let end = if is_relaxed { run_end.min(position + chains.longest) } else { run_end };
        if end == count || end - position > chains.longest {
            return;
        }
        let Some(ways) = chains.ways(cutting, end, end - position) else { return };
        let most = if is_relaxed { OPEN_BUCKETS } else { OPEN_CUTS } / self.limits.fewer_cuts;
        let step = ways.len().div_ceil(most.max(MIN_OPEN_WAYS)).max(1);
        for first in (0..ways.len()).step_by(step) {
            trials.push(Trial::Open { end, cutting, first, last: (first + step).min(ways.len()) });
        }
    }

    /// Applies a trial to a label, and keeps the new label unless its bound exceeds the limit.
    fn attempt(&mut self, position: usize, label: &Label, trial: Trial) {
        if let Trial::Closing { end, cutting } = trial {
            let is_apart = |(_, place): &(usize, Place)| place.at == At::Open(cutting);
            if end == position + 1 && !label.places.open().any(is_apart) {
                return;
            }
            if self.mover.is_relaxed() && self.closes_too_late(label, position..end, cutting) {
                self.considered += 1;
                return;
            }
        }
        let Some((now, places, decided)) = self.mover.apply(label, position, trial) else { return };
        let model = self.mover.model;
        self.considered += 1;
        let end = if let Move::Chain { end, .. } = decided { end } else { position + 1 };
        let (at_least, rank) =
            self.rest.least_costs(model, &now, end, model.possible_states(end, places.last()));
        let mut bound = label.bound.max(at_least);
        if let Some(critical) = &self.rest.critical {
            bound = bound.max(critical.least_cost(model, &now, &places, end));
        }
        if bound > self.limits.cost {
            return;
        }
        self.decisions.push(Decision { before: label.decision, position, decided });
        let decision = Some(self.decisions.len() - 1);
        let single_cost = if self.mover.is_relaxed() { rank } else { self.single_cost(&now, &places, end) };
        self.labels[end].push(Label { now, places, decision, bound, rank, single_cost });
    }

    /// Relaxed, whether a chain of these stages that is then joined costs too much even if all its inputs are there
    /// already. Most chains do; this costs less than to apply them.
    fn closes_too_late(&self, label: &Label, stages: Range<usize>, cutting: Cutting) -> bool {
        let (model, end) = (self.mover.model, stages.end);
        let Some(ways) = self.mover.chains.ways(cutting, end, stages.len()) else { return false };
        let [cpu, gpu, npu] = label.now.queues;
        let gpu = gpu.max(label.now.join);
        let Some(way) = best(ways, (cpu, gpu), (model, Weights::TIME)) else { return false };
        let join = (cpu + way.cpu).max(gpu + way.gpu) + model.transfer_delays(end - 1, true).join;
        let now = Progress { queues: [join, join, npu], join, ..label.now };
        let joined = Place::with(Holders::joined(model.own_memory), join);
        self.rest.least_costs(model, &now, end, model.possible_states(end, Some(&joined))).0
            > self.limits.cost
    }

    /// The cost at the next meeting point if one processor computes everything until then, the best one.
    fn single_cost(&self, now: &Progress, places: &Places, position: usize) -> f64 {
        let model = self.mover.model;
        let ready = |&(stage, ref place): &(usize, Place)| {
            let delays = model.transfer_delays(stage, false);
            ProcessorKind::ALL.map(|kind| match place.at {
                At::With(holders) if holders.has(kind) => place.ready,
                At::With(holders) => place.ready + delays.wait(kind, holders),
                At::Open(_) => place.ready + delays.join,
            })
        };
        let ready = places.latest(ready);
        let cost = |kind: ProcessorKind| {
            let rest = self.rest.single_prices[position][kind as usize];
            let continues_graph = kind != ProcessorKind::Npu || places.are_of_npu();
            let begins = if continues_graph { Picos::ZERO } else { model.graph.time };
            let start = ready[kind as usize].max(now.queues[kind as usize]).max(now.join) + begins;
            model.weights.of(start + rest.time, now.joules + rest.joules)
        };
        ProcessorKind::ALL.into_iter().map(cost).fold(f64::INFINITY, f64::min)
    }

    /// The decisions that led to a label, in order.
    fn decisions_of(&self, label: &Label) -> Vec<(usize, Move)> {
        let before = |&decision: &usize| self.decisions[decision].before;
        let decisions = std::iter::successors(label.decision, before).map(|index| self.decisions[index]);
        let mut decisions: Vec<_> = decisions.map(|one| (one.position, one.decided)).collect();
        decisions.reverse();
        decisions
    }
}

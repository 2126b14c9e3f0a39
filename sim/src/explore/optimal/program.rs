//! The programme over labels: from position to position, every decision tried on every label that is kept.
//!
//! Responsible for: which trials there are, how labels are ranked, which are kept. Not for: what a trial does
//! (`moves`). Invariant: relaxed, some label at each position is no later than any plan is there, and its
//! bound no higher than what that plan costs.

use super::{
    ANYBODY, At, Changes, CriticalPaths, Cutting, Label, May, Model, Move, Mover, NEVER, Place, Price,
    Progress, Remaining, STATES, Trial, WITH_NPU, Weighted, leading, least_remaining, merged, only_state,
    squeezed, undominated,
};
use crate::device::ProcessorKind;
use crate::plan::Axis;
use crate::units::Picos;

/// Steps between no and all of the weight on one of two queues.
const STEPS: u32 = 16;

/// How often the weight of another processor is halved beside the NPU's.
const HALVINGS: i32 = 6;

/// Cuts of a chain that stays open, each of which leads to a label: exact ones, and relaxed buckets.
const OPEN_CUTS: usize = 24;
const OPEN_BUCKETS: usize = 64;

/// Ranges of what the NPU computes of a stage that it shares, and how many more there are of all stages, by what each
/// takes there: a bound counts the least of a range, which loses little of a stage that takes little.
const FEWEST_RANGES: u32 = 3;
const RANGES_OF_ALL: u64 = 40;

/// Labels beside those that are kept before they are ranked, thinned out, or merged early.
const BEFORE_DOMINANCE: usize = 4;
const EARLY_MERGE: usize = 20;

/// How many labels are kept, and above which cost none is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) width: usize,
    /// Relaxed, what the best plan known costs; in a search more than that.
    pub(super) cost: f64,
    /// Whether what is more than that is merged, so that a label stands for every plan, and not dropped.
    pub(super) merges: bool,
}

/// What the programme found.
pub(super) struct Outcome {
    /// Relaxed: what every plan costs at least.
    pub(super) bound: f64,
    /// The decisions that led to the best final labels, the best first.
    pub(super) decisions: Vec<Vec<(usize, Move)>>,
}

/// A decision, the position where it was taken, and the one before it.
#[derive(Clone, Copy)]
struct Decision {
    before: Option<usize>,
    position: usize,
    decided: Move,
}

/// Weights of the queues that are taken at once.
const LANES: usize = 4;
type Lanes = [f64; LANES];

/// By a few weights of the queues, what the stages from a position on cost at least, and those up to the next
/// meeting point.
#[derive(Clone, Copy, Default)]
struct LeastWork {
    weights: [Lanes; 3],
    left: [Lanes; STATES],
    up_to_meeting: [Lanes; STATES],
}

/// What is left from each position on, whatever was decided before.
pub(super) struct Rest {
    /// At each position, by all weights of the queues.
    least_work: Vec<Vec<LeastWork>>,
    /// Relaxed, what follows each result along its readers.
    critical: Option<CriticalPaths>,
    /// What everything from each position to the next meeting point takes on each processor.
    alone: Vec<[Price; 3]>,
}

impl Rest {
    pub(super) fn new(model: &Model<'_>, is_relaxed: bool) -> Self {
        // The search knows when a graph begins, and finds worse plans where it counts those that may.
        let graph = if is_relaxed { model.graph } else { Price::NOTHING };
        let changes = Changes { waits: true, graph };
        let weights = queue_weights(model).into_iter();
        let weights: Vec<Weighted> = weights.map(|busy| model.weighted(busy, !is_relaxed)).collect();
        let mut critical = is_relaxed.then(|| CriticalPaths::new(model, &weights));
        let left = model.least_time(&weights, changes, critical.as_mut());
        let work = weights.iter().map(|weighted| model.least_work(weighted, changes));
        let work: Vec<Vec<Remaining>> = work.collect();
        let at = |position: usize| {
            let mut all = vec![LeastWork::default(); weights.len().div_ceil(LANES)];
            for (at, weighted) in weights.iter().enumerate() {
                let (least, lane) = (&mut all[at / LANES], at % LANES);
                let behind = least_remaining(&work[at][model.meets[position]], ANYBODY);
                (0..3).for_each(|by| least.weights[by][lane] = weighted.0[by]);
                for state in 0..STATES {
                    least.left[state][lane] = left[position][at][state];
                    least.up_to_meeting[state][lane] = work[at][position][state] - behind;
                }
            }
            all
        };
        let least_work = (0..=model.stages.len()).map(at).collect();
        Self { least_work, critical, alone: model.up_to_meetings() }
    }
}

pub(super) struct Programme<'m, 'e, 'a> {
    mover: Mover<'m, 'e, 'a>,
    rest: &'m Rest,
    limits: Limits,
    decisions: Vec<Decision>,
    labels: Vec<Vec<Label>>,
    /// Labels that were made.
    pub(super) considered: usize,
    /// Whether labels were merged, so that with more of them a bound may be higher.
    pub(super) has_merged: bool,
}

impl<'m, 'e, 'a> Programme<'m, 'e, 'a> {
    pub(super) fn new(mover: Mover<'m, 'e, 'a>, rest: &'m Rest, limits: Limits) -> Self {
        let labels = vec![Vec::new(); mover.model.stages.len() + 1];
        Self { mover, rest, limits, decisions: Vec::new(), labels, considered: 0, has_merged: false }
    }

    /// Runs it; what is asked of the `finals` best final labels.
    pub(super) fn run(&mut self, finals: usize) -> Outcome {
        let model = self.mover.model;
        let count = model.stages.len();
        let queues = [Picos::ZERO, model.submission, Picos::ZERO];
        let (join, read_back) = (Picos::ZERO, Picos::ZERO);
        let now = Progress { queues, join, graph: 0, read_back, joules: 0.0 };
        let first = Label { now, places: Vec::new(), decision: None, bound: 0.0, rank: 0.0, alone: 0.0 };
        self.labels[0].push(first);
        for position in 0..count {
            let trials = self.trials(position);
            for label in self.kept(position) {
                let known = self.labels[position + 1].len();
                for &trial in &trials {
                    self.attempt(position, &label, trial);
                }
                if self.mover.is_relaxed() && model.uses_npu {
                    // Most ways to share with the NPU are worse than another, and would be merged with good ones.
                    let own = self.labels[position + 1].split_off(known);
                    self.labels[position + 1].extend(undominated(own, true));
                }
            }
            self.merge_early(position + 1);
        }
        let mut last = std::mem::take(&mut self.labels[count]);
        let is_relaxed = self.mover.is_relaxed();
        let cost = |label: &Label| {
            let cost = self.cost_so_far(&label.now);
            if is_relaxed { cost.max(label.bound) } else { cost }
        };
        last.sort_by(|one, other| cost(one).total_cmp(&cost(other)));
        let bound = last.first().map_or(self.limits.cost, cost).min(self.limits.cost);
        let decisions = last.iter().take(finals).map(|label| self.decisions_of(label)).collect();
        Outcome { bound, decisions }
    }

    /// The labels at a position that are gone on from.
    fn kept(&mut self, position: usize) -> Vec<Label> {
        let mut labels = std::mem::take(&mut self.labels[position]);
        let Limits { width, merges, .. } = self.limits;
        let uses_npu = self.mover.model.uses_npu;
        if merges && labels.len() > BEFORE_DOMINANCE * width {
            self.has_merged = true;
            labels = squeezed(labels, 2 * width, uses_npu);
        } else if !merges && labels.len() > 2 * BEFORE_DOMINANCE * width {
            labels = leading(labels, 2 * BEFORE_DOMINANCE * width);
        }
        labels = undominated(labels, uses_npu);
        if labels.len() > width {
            self.has_merged = true;
            labels = if merges { squeezed(labels, width, uses_npu) } else { leading(labels, width) };
        }
        labels
    }

    /// Positions far ahead get labels from many others: those are merged before they are too many.
    fn merge_early(&mut self, from: usize) {
        let Limits { width, merges, .. } = self.limits;
        if !merges {
            return;
        }
        let uses_npu = self.mover.model.uses_npu;
        let behind = (from + self.mover.chains.longest).min(self.labels.len());
        for labels in &mut self.labels[from.min(behind)..behind] {
            if labels.len() > EARLY_MERGE * width {
                self.has_merged = true;
                *labels = merged(std::mem::take(labels), BEFORE_DOMINANCE * width, uses_npu);
            }
        }
    }

    /// What may be decided at a position.
    fn trials(&self, position: usize) -> Vec<Trial> {
        let model = self.mover.model;
        let mut trials = vec![Trial::Gpu, Trial::Npu];
        let sets = if self.mover.is_relaxed() { 1 } else { model.core_sets.len() };
        let best_set = model.best_core_set(position);
        trials.extend(best_set.map(Trial::Cpu));
        for axis in Axis::ALL {
            if let Some(shares) = model.shares(position, axis) {
                let cutting = Cutting { axis, cores: best_set.unwrap_or_default() as u8 };
                let ranges = if self.mover.is_relaxed() { self.npu_ranges(position) } else { 1 };
                for of_npu in shares.of_npu(ranges) {
                    trials.extend(WITH_NPU.map(|members| Trial::Shared(cutting, members, of_npu)));
                }
            }
            if model.cuts(position, axis).is_some() {
                for cores in 0..sets {
                    let cutting = Cutting { axis, cores: cores as u8 };
                    trials.push(Trial::Cut(cutting));
                    self.chain_trials(position, cutting, &mut trials);
                }
            }
        }
        trials
    }

    /// In how many ranges it is decided, relaxed, how much the NPU computes of a stage that it shares.
    fn npu_ranges(&self, position: usize) -> u32 {
        let times = self.mover.model.on_npu.iter().map(|on_npu| on_npu.least.time);
        let all: Picos = times.filter(|&time| time < NEVER).sum();
        let own = self.mover.model.on_npu[position].least.time;
        FEWEST_RANGES + (RANGES_OF_ALL * own.0.min(all.0) / all.0.max(1)) as u32
    }

    fn chain_trials(&self, position: usize, cutting: Cutting, trials: &mut Vec<Trial>) {
        let (model, chains) = (self.mover.model, self.mover.chains);
        let is_relaxed = self.mover.is_relaxed();
        let (count, run_end) = (model.stages.len(), model.run_end[position]);
        // A single stage may go on with a chain whose parts are apart.
        let shortest = if is_relaxed { 2 } else { 1 };
        for end in position + shortest..=run_end.min(position + chains.longest) {
            if (end < run_end || end == count) && chains.ways(cutting, end, end - position).is_some() {
                trials.push(Trial::Closing { end, cutting });
            }
        }
        // Only at the end of a run can a chain stay open; relaxed, the longest ones go on without a halo.
        let end = if is_relaxed { run_end.min(position + chains.longest) } else { run_end };
        if end == count || end - position > chains.longest {
            return;
        }
        let Some(ways) = chains.ways(cutting, end, end - position) else { return };
        let step = ways.len().div_ceil(if is_relaxed { OPEN_BUCKETS } else { OPEN_CUTS }).max(1);
        for first in (0..ways.len()).step_by(step) {
            trials.push(Trial::Open { end, cutting, first, behind: (first + step).min(ways.len()) });
        }
    }

    /// Tries to go on from a label so.
    fn attempt(&mut self, position: usize, label: &Label, trial: Trial) {
        let is_apart = |cutting: Cutting| label.places.iter().any(|place| place.at == At::Apart(cutting));
        if matches!(trial, Trial::Closing { end, cutting } if end == position + 1 && !is_apart(cutting)) {
            return;
        }
        let Some((now, places, decided)) = self.mover.apply(label, position, trial) else { return };
        let model = self.mover.model;
        self.considered += 1;
        let end = if let Move::Chain { end, .. } = decided { end } else { position + 1 };
        let (at_least, rank) = self.least_costs(&now, end, model.may_have(end, &places));
        let mut bound = label.bound.max(at_least);
        if let Some(critical) = &self.rest.critical {
            bound = bound.max(critical.least_cost(model, &now, &places, end));
        }
        if bound > self.limits.cost {
            return;
        }
        self.decisions.push(Decision { before: label.decision, position, decided });
        let decision = Some(self.decisions.len() - 1);
        let alone = if self.mover.is_relaxed() { rank } else { self.alone(&now, &places, end) };
        self.labels[end].push(Label { now, places, decision, bound, rank, alone });
    }

    /// What everything costs at least, and what it does up to the next meeting point, by who may have the result
    /// of the stage before.
    fn least_costs(&self, now: &Progress, position: usize, before: May) -> (f64, f64) {
        // Of one label, and not several that were merged, it is known who has that result.
        match only_state(before) {
            Some(state) => self.largest_costs(now, position, |left, lane| left[state][lane]),
            None => self.largest_costs(now, position, |left, lane| {
                let possible = left.iter().zip(before).filter(|(_, may)| *may);
                possible.fold(f64::INFINITY, |least, (left, _)| least.min(left[lane]))
            }),
        }
    }

    /// The largest by any weights of the queues, where so much is left.
    fn largest_costs(
        &self,
        now: &Progress,
        position: usize,
        of: impl Fn(&[Lanes; STATES], usize) -> f64,
    ) -> (f64, f64) {
        let model = self.mover.model;
        let so_far = model.weights.joule * now.joules;
        let picosecond = model.weights.picosecond;
        let [cpu, gpu, npu] = self.mover.model.used_queues(now).map(|queue| queue.0 as f64 * picosecond);
        let read_back = now.read_back.0 as f64 * picosecond;
        let (mut bound, mut rank) = ([self.cost_so_far(now); LANES], [0.0; LANES]);
        let larger = |one: f64, other: f64| if one > other { one } else { other };
        for LeastWork { weights: [of_cpu, of_gpu, of_npu], left, up_to_meeting } in
            &self.rest.least_work[position]
        {
            for lane in 0..LANES {
                let cost = of_cpu[lane] * cpu + of_gpu[lane] * gpu + of_npu[lane] * npu + so_far;
                bound[lane] = larger(cost + of_gpu[lane] * read_back + of(left, lane), bound[lane]);
                rank[lane] = larger(cost + of(up_to_meeting, lane), rank[lane]);
            }
        }
        (bound.into_iter().fold(0.0, larger), rank.into_iter().fold(0.0, larger))
    }

    /// What it costs at the next meeting point if that processor takes everything until then which is there first.
    fn alone(&self, now: &Progress, places: &[Place], position: usize) -> f64 {
        let model = self.mover.model;
        let cost = |kind: ProcessorKind| {
            let rest = self.rest.alone[position][kind as usize];
            let ready = |(place, &stage): (&Place, &usize)| match place.at {
                At::With(holders) if holders.has(kind) => place.ready,
                At::With(holders) => place.ready + model.meeting(stage, false).wait(kind, holders),
                At::Apart(_) => place.ready + model.meeting(stage, false).join,
            };
            let ready = places.iter().zip(&model.live[position]).map(ready).max().unwrap_or_default();
            let goes_on = kind != ProcessorKind::Npu || places.iter().all(|place| place.of_npu);
            let begins = if goes_on { Picos::ZERO } else { model.graph.time };
            let start = ready.max(now.queues[kind as usize]).max(now.join) + begins;
            model.weights.of(start + rest.time, now.joules + rest.joules)
        };
        ProcessorKind::ALL.into_iter().map(cost).fold(f64::INFINITY, f64::min)
    }

    fn cost_so_far(&self, now: &Progress) -> f64 {
        let [cpu, gpu, npu] = self.mover.model.used_queues(now);
        let end = cpu.max(gpu + now.read_back).max(npu);
        let weights = self.mover.model.weights;
        weights.of(end, now.joules)
    }

    /// The decisions that led to a label, in their order.
    fn decisions_of(&self, label: &Label) -> Vec<(usize, Move)> {
        let before = |&decision: &usize| self.decisions[decision].before;
        let decisions = std::iter::successors(label.decision, before).map(|index| self.decisions[index]);
        let mut decisions: Vec<_> = decisions.map(|one| (one.position, one.decided)).collect();
        decisions.reverse();
        decisions
    }
}

/// Weights of the queues that add up to one: of two processors, and with the NPU of three, where one may be
/// faster than another by orders of magnitude.
pub(super) fn queue_weights(model: &Model<'_>) -> Vec<[f64; 3]> {
    let mut all: Vec<[f64; 3]> =
        (0..=STEPS).map(|step| f64::from(step) / f64::from(STEPS)).map(|cpu| [cpu, 1.0 - cpu, 0.0]).collect();
    if model.uses_npu {
        let beside = || std::iter::once(0.0).chain((0..=HALVINGS).map(|times| 0.5_f64.powi(times)));
        for cpu in beside() {
            for gpu in beside() {
                let sum = cpu + gpu + 1.0;
                all.push([cpu / sum, gpu / sum, 1.0 / sum]);
            }
        }
    }
    all
}

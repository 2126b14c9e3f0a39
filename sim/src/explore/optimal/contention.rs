//! Contention: how much longer parts take together than the longest of them alone, by simulation.
//!
//! Responsible for: simulating single cuts, and the chains of plans found; estimating other chains. Not
//! for: contention between branches, which only the simulation of the whole plan includes.

use std::collections::HashMap;
use std::ops::Range;

use foldhash::fast::FixedState;

use super::{Cutting, GPU, Members, Model, Move, shared_placement};
use crate::explore::{CoRunCache, Explorer, SearchOptions};
use crate::plan::{Axis, Placement, Plan};
use crate::simulate::{Result, Simulator};
use crate::units::Picos;
use crate::workload::Stage;

/// Contention of a chain relative to the sum over its stages: the mean over the chains of bundled
/// networks.
const CHAIN_PART: f64 = 0.75;

/// First step of the local search over shares, as a fraction of the operator, and the ratio of the
/// first step to the last.
const FIRST_STEP_DIVISOR: u32 = 8;
const REFINEMENT: u32 = 16;

/// Contention simulated so far.
pub(super) struct Contention<'e, 'a> {
    inside: Simulator<'a>,
    options: &'e SearchOptions,
    co_runs: CoRunCache,
    chains: HashMap<(usize, usize, Cutting, u32), Picos, FixedState>,
    /// The best shares of each kind of operator on its own.
    shares: HashMap<(usize, Cutting, Members), [u32; 3], FixedState>,
    /// The contention at the balanced cut of each kind of operator, along each axis, on each core set.
    balanced: Vec<Option<Picos>>,
}

impl<'e, 'a> Contention<'e, 'a> {
    pub(super) fn new(explorer: &Explorer<'e, 'a>) -> Self {
        Self {
            inside: explorer.parts.inside(),
            options: explorer.options,
            co_runs: CoRunCache::default(),
            chains: HashMap::default(),
            shares: HashMap::default(),
            balanced: Vec::new(),
        }
    }

    /// Contention of a stage cut at `cut`; zero if the cut cannot be simulated.
    pub(super) fn of_cut(&mut self, model: &Model<'_>, stage: usize, cutting: Cutting, cut: u32) -> Picos {
        let Some(cuts) = model.cuts(stage, cutting.axis) else { return Picos::ZERO };
        let cores = model.core_sets[cutting.cores as usize];
        let placement = Placement::cpu_and_gpu(cutting.axis, cores, [cut, cuts.all - cut]);
        let gather =
            model.transfer_delays(stage, false).gather.scale(f64::from(cuts.all - cut) / f64::from(cuts.all));
        let cpu = cuts.cpu[cutting.cores as usize][cut as usize].time;
        let gpu = cuts.gpu[cut as usize].time + gather;
        self.of_placement(model, stage, placement, cpu.max(gpu))
    }

    /// Contention of a stage with this placement, whose longest part takes `longest` alone.
    pub(super) fn of_placement(
        &mut self,
        model: &Model<'_>,
        stage: usize,
        placement: Placement,
        longest: Picos,
    ) -> Picos {
        let of = (model.kind(stage), &model.stages[stage]);
        match self.co_runs.of(&mut self.inside, of, self.options, placement) {
            Ok((together, _)) => together.saturating_sub(longest + model.transfer_delays(stage, false).join),
            Err(_) => Picos::ZERO,
        }
    }

    /// Contention of shares of a stage.
    pub(super) fn of_shares(
        &mut self,
        model: &Model<'_>,
        stage: usize,
        (cutting, members): (Cutting, Members),
        counts: [u32; 3],
    ) -> Picos {
        let Some(shares) = model.shares(stage, cutting.axis) else { return Picos::ZERO };
        let starts = shares.sharing(members, [Picos::ZERO; 3], [0; 2]).starts;
        let longest = shares.ends(members, counts, starts).into_iter().max();
        let placement = shared_placement(model, cutting, counts);
        self.of_placement(model, stage, placement, longest.unwrap_or_default())
    }

    /// The shares with the least simulated time of a stage on its own, by a local search from `first`,
    /// the best shares without contention: rows or channels move from one part to another, in smaller
    /// and smaller steps.
    pub(super) fn best_shares(
        &mut self,
        model: &Model<'_>,
        stage: usize,
        (cutting, members): (Cutting, Members),
        first: [u32; 3],
    ) -> [u32; 3] {
        let key = (model.kind(stage), cutting, members);
        if let Some(&known) = self.shares.get(&key) {
            return known;
        }
        let of = (model.kind(stage), &model.stages[stage]);
        let mut time = |counts: [u32; 3]| {
            let placement = shared_placement(model, cutting, counts);
            self.co_runs
                .of(&mut self.inside, of, self.options, placement)
                .map_or(Picos(u64::MAX), |time| time.0)
        };
        let mut best = (time(first), first);
        let unit = if members[GPU] { cutting.axis.unit() } else { 1 };
        let mut moved = (first.iter().sum::<u32>() / FIRST_STEP_DIVISOR / unit).max(1);
        let finest = (moved / REFINEMENT).max(1);
        while moved >= finest {
            let pairs = (0..9).map(|pair| (pair / 3, pair % 3));
            let count = moved * unit;
            let possible = pairs.filter(|&(from, to)| from != to && members[to] && best.1[from] > count);
            let tried = possible.map(|(from, to)| {
                let mut counts = best.1;
                (counts[from], counts[to]) = (counts[from] - count, counts[to] + count);
                (time(counts), counts)
            });
            match tried.min_by_key(|tried| tried.0).filter(|tried| tried.0 < best.0) {
                Some(better) => best = better,
                None => moved /= 2,
            }
        }
        self.shares.insert(key, best.1);
        best.1
    }

    /// Contention of a chain: simulated if known, else estimated.
    pub(super) fn of_chain(
        &mut self,
        model: &Model<'_>,
        stages: Range<usize>,
        cutting: Cutting,
        cut: u32,
    ) -> Picos {
        if let Some(&known) = self.chains.get(&(stages.start, stages.end, cutting, cut)) {
            return known;
        }
        let sum: Picos = stages.map(|stage| self.balanced(model, stage, cutting)).sum();
        sum.scale(CHAIN_PART)
    }

    fn balanced(&mut self, model: &Model<'_>, stage: usize, cutting: Cutting) -> Picos {
        let Cutting { axis, cores } = cutting;
        let of_axis = model.kind(stage) * Axis::ALL.len() + axis as usize;
        let at = of_axis * model.core_sets.len() + cores as usize;
        if self.balanced.len() <= at {
            self.balanced.resize(at + 1, None);
        }
        if let Some(known) = self.balanced[at] {
            return known;
        }
        let ways = model.cuts(stage, cutting.axis).map(|cuts| &cuts.ways[cutting.cores as usize]);
        let even = ways.and_then(|ways| ways.iter().min_by_key(|way| way.cpu.max(way.gpu)));
        let lost = even.map_or(Picos::ZERO, |way| self.of_cut(model, stage, cutting, way.cut));
        self.balanced[at] = Some(lost);
        lost
    }

    /// Simulates the new chains of a plan on their own; whether there was any.
    pub(super) fn learn(&mut self, model: &Model<'_>, moves: &[(usize, Move)], plan: &Plan) -> bool {
        let mut is_new = false;
        for &(start, decided) in moves {
            let Move::Chain { end, cutting, cut, .. } = decided else { continue };
            let key = (start, end, cutting, cut);
            if self.chains.contains_key(&key) {
                continue;
            }
            if let Ok(lost) = self.simulated(model, start..end, (cutting, cut), plan) {
                self.chains.insert(key, lost);
                is_new = true;
            }
        }
        is_new
    }

    fn simulated(
        &mut self,
        model: &Model<'_>,
        stages: Range<usize>,
        (cutting, cut): (Cutting, u32),
        plan: &Plan,
    ) -> Result<Picos> {
        let start = stages.start;
        let alone: Vec<Stage> = stages.clone().map(|stage| within(&model.stages, start, stage)).collect();
        let placements = plan.placements[stages.clone()].to_vec();
        let part = Plan::new(plan.synchronisation, placements).chained(vec![Some(0); stages.len()]);
        let contended = self.inside.latency(&alone, &part)?;
        let lines = model.widened(stages.end, cutting.axis, cut, start);
        let (mut cpu, mut gpu) = (Picos::ZERO, Picos::ZERO);
        for (stage, &[first, second]) in stages.clone().rev().zip(&lines) {
            let Some(cuts) = model.cuts(stage, cutting.axis) else { continue };
            cpu += cuts.cpu[cutting.cores as usize][first as usize].time;
            gpu += cuts.gpu[second.min(first) as usize].time;
        }
        Ok(contended.saturating_sub(cpu.max(gpu) + model.transfer_delays(stages.end - 1, false).join))
    }
}

/// A stage of the workload that begins at `start`.
pub(super) fn within(stages: &[Stage], start: usize, stage: usize) -> Stage {
    stages[stage].renumbered(|input| input.checked_sub(start))
}

//! The best plan found for a whole graph, and a lower bound of every plan.
//!
//! Both come from one label-setting dynamic programme (`program`), which decides the stages in their order. A
//! label holds the time at which each processor's queue ends, the end of the last join, and the place of every
//! live result. From each label, a stage goes to one processor, is cut between several, or begins a chain
//! (`moves`). Processors run ahead of each other as far as the graph allows, so branches need no special case.
//!
//! The exact programme times plans as simulation does, except for contention between branches; contention inside a
//! stage or a chain comes from the engine (`contention`). It is a beam search: the plans of the best final labels
//! are simulated, the contention of their chains is fed back, and the best plan is improved by random changes
//! (`walk`). The relaxed programme takes everything that depends on more than a label holds at its best, and
//! merges labels instead of dropping them: its least final label is a lower bound of every plan that places
//! operators whole on CPU, GPU or NPU, or cuts them between these along one axis (argument: the book).
//!
//! Energy is additive: idle power over the whole time, and the energy of each part. The energy-delay product is
//! not; its minimum is also that of `E + m T` for some `m`, the ratio of energy to time there, which is
//! approximated from plan to plan. Its bound is the least product that the bounds of energy, time and this sum allow.

mod chained;
mod chains;
mod contention;
mod delays;
mod label;
mod model;
mod moves;
mod narrower;
mod order;
mod path;
mod place;
mod places;
mod planned;
mod program;
mod rest;
mod shares;
mod sharing;
mod streaming;
mod tables;
mod throughput;
mod walk;
mod weights;
mod work;

use super::{Effort, Explorer, Found, Objective, Price, Strategy, missing_kernel};
use crate::simulate::{Prediction, Result, idle_power};
use crate::units::{PICOS_PER_SECOND, Picos};
use chains::ChainTables;
use contention::Contention;
use label::{Label, Progress, beam, half_merged, merged, undominated};
pub(super) use model::Model;
use moves::{BOTH, CPU, GPU, Move, Mover, NPU, Step, Trial, gather};
pub use order::has_branches;
use order::other_orders;
use path::CriticalPaths;
use place::{At, Cutting, Place};
use places::Places;
use program::{Limits, Outcome, Programme};
use rest::Rest;
use shares::{Members, ShareTable, Shared, Sharing, WITH_NPU};
use sharing::shared_placement;
use streaming::Streaming;
use tables::{CutTable, MAX_PRICED_CUTS, OperatorTable, Priced, Pricing, Traffic, Way, Ways, best};
use weights::{Weights, corrected, first_weights};
use work::{ANY_STATE, Changes, PossibleStates, Remaining, STATES, Weighted, least_remaining, only_state};

/// The time of a part without a kernel: later than any run, and small enough to add a few.
const NEVER: Picos = Picos(1 << 55);

/// Final labels whose plans are simulated in each round.
const FINALISTS: usize = 4;

/// Factor on the number of random changes for streams of batches, few of which shorten a period, and its limit.
const STREAM_CHANGES_FACTOR: usize = 6;
const MAX_STREAM_CHANGES: usize = 4_000;

/// A search prunes labels whose lower bound exceeds this many times the latency of the best known plan; not
/// fewer, since the contention of chains is an estimate.
const PRUNING_FACTOR: f64 = 1.01;

/// Corrections of the ratio of energy to time for the energy-delay product.
const RATIO_CORRECTIONS: usize = 4;

/// Limits of the search and of the bound of a workload.
struct Budget {
    /// Labels kept at each position by the search and by the bound.
    labels: [usize; 2],
    rounds: usize,
    /// Random changes of the best plan.
    changes: usize,
    /// Most stages of a chain in the search and in the bound, whatever the effort.
    longest: [usize; 2],
    /// Labels that the bound may make in all, over runs with more and more labels.
    of_bound: usize,
    /// Factor by which fewer cuts are tried.
    fewer_cuts: usize,
}

/// Stages up to which a workload gets the full limits of its effort. They shrink for larger workloads, so that the
/// time grows no faster than the number of stages.
const FULL_EFFORT_STAGES: usize = 150;

/// Mean number of inputs per stage above which a workload counts as larger than its number of stages.
const TYPICAL_INPUTS: usize = 2;

/// Ratio of best known cost to bound that is close enough, and the factor on the number of labels until then.
const CLOSE_ENOUGH_RATIO: f64 = 1.01;
const WIDENING_FACTOR: usize = 4;

/// Ratio of best known cost to bound above which the bound is tried for half the gap, where fewer labels are merged.
const WIDE_GAP_RATIO: f64 = 1.1;

/// Most labels of all runs of the bound before a last one, in [`Budget::of_bound`]: one of more would take as long
/// again as the whole search, and rarely closes a gap.
const MAX_BEFORE_LAST: usize = 4;

/// Labels kept in any case.
const MIN_LABELS: usize = 8;

/// Mean number of live results above which fewer labels are kept: each label holds the place of every one.
const TYPICAL_LIVE_RESULTS: usize = 8;

impl Budget {
    fn of(effort: Effort, model: &Model<'_>) -> Self {
        // The work per label and per simulation grows with the number of inputs.
        let read: usize = model.stages.iter().map(|stage| stage.reads.len()).sum();
        let stages = model.stages.len().max(read / TYPICAL_INPUTS);
        let open: usize = model.live.iter().map(Vec::len).sum();
        let wide = (open / (model.stages.len() * TYPICAL_LIVE_RESULTS).max(1)).max(1);
        let (labels, rounds, changes, of_bound) = match effort {
            Effort::Quick => ([20, 80], 3, 100, 0),
            Effort::Normal => ([60, 800], 8, 300, 700_000),
            Effort::Thorough => ([120, 5_000], 8, MAX_STREAM_CHANGES, 3_000_000),
        };
        let less = |count: usize, least: usize| {
            (count * FULL_EFFORT_STAGES / stages.max(FULL_EFFORT_STAGES)).max(least.min(count))
        };
        let least = |labels: usize| labels.min(MIN_LABELS);
        let labels =
            [less(labels[0], 8), less(labels[1], 24)].map(|labels| (labels / wide).max(least(labels)));
        Self {
            labels,
            rounds: less(rounds, 1),
            changes: less(changes, 10),
            // Relaxed, a longer chain continues without a halo: the bound of a long workload needs long chains.
            longest: [less(32, 8), 64],
            of_bound,
            fewer_cuts: wide.max(stages / FULL_EFFORT_STAGES),
        }
    }

    /// The limits of the search, in a large workload the least for all efforts.
    fn of_search(&self) -> (usize, usize) {
        (self.labels[0], self.rounds)
    }
}

/// The best plan found, no worse than those of [`narrower`] searches.
pub(super) fn find(explorer: &mut Explorer<'_, '_>) -> Result<Found> {
    let found = find_alone(explorer)?;
    let considered = found.considered;
    let mut all = vec![found];
    for plan in narrower::plans(explorer) {
        all.extend(explorer.fitting(Strategy::Optimal, plan, considered)?);
    }
    explorer.best(all)
}

/// The best plan that this search finds by itself: in the workload's order and, with more than quick effort and a single batch, in others.
fn find_alone(explorer: &mut Explorer<'_, '_>) -> Result<Found> {
    let mut all: Vec<Found> = Vec::new();
    for strategy in Strategy::of_operators().filter(|strategy| *strategy != Strategy::Optimal) {
        all.extend(explorer.find(strategy));
    }
    let (starts, effort) = (first_weights(explorer), explorer.options.effort);
    let mut model = model(explorer)?;
    if let Some(stage) = (0..model.stages.len()).find(|&stage| !model.has_kernel(stage)) {
        return Err(missing_kernel(explorer.simulator, &explorer.stages[stage], explorer.options));
    }
    let mut considered = search_all(explorer, &mut model, (&starts, efforts(effort)), &mut all)?;
    let mut changes = Budget::of(effort, &model).changes;
    let mut models = vec![model];
    if explorer.period_counts().is_some() {
        changes = (changes * STREAM_CHANGES_FACTOR).min(MAX_STREAM_CHANGES);
        let starts = all.iter().map(|found| found.plan.clone()).collect();
        for plan in throughput::balanced(explorer, &models[0], starts, changes)? {
            all.extend(explorer.fitting(Strategy::Optimal, plan, considered)?);
        }
    } else if effort != Effort::Quick {
        considered += search_other_orders(explorer, &mut models, &starts, &mut all)?;
    }
    let known = explorer.best(all.iter().cloned())?;
    let walked = walk::best(explorer, (&mut models, &starts, all), changes, &mut considered)?;
    // Random changes may lead to a plan that no longer fits into the memory.
    let best = explorer.best([walked, known])?;
    explorer.model = models.into_iter().next();
    Ok(Found { strategy: Strategy::Optimal, considered, ..best })
}

/// Adds plans with the branches in other orders to `all`, and the models of these orders; the number of labels.
fn search_other_orders<'s>(
    explorer: &mut Explorer<'s, '_>,
    models: &mut Vec<Model<'s>>,
    starts: &[Weights],
    all: &mut Vec<Found>,
) -> Result<usize> {
    let (mut considered, mut found) = (0, Vec::new());
    for order in other_orders(explorer.stages) {
        let mut other = models[0].in_order(explorer, order)?;
        considered += search_all(explorer, &mut other, (starts, &[Effort::Quick]), &mut found)?;
        models.push(other);
    }
    // Most of the gain of an order is found cheaply: only the best one is searched once more.
    if let Ok(best) = explorer.best(found.iter().cloned())
        && let Some(other) = models.iter_mut().find(|other| other.order == best.plan.order)
        && Budget::of(Effort::Quick, other).of_search() != Budget::of(Effort::Normal, other).of_search()
    {
        considered += search_all(explorer, other, (starts, &[Effort::Normal]), &mut found)?;
    }
    all.extend(found);
    Ok(considered)
}

/// Searches with all starting weights, corrections and efforts; adds the best plans to `all`, returns the label count.
fn search_all<'e>(
    explorer: &mut Explorer<'e, '_>,
    model: &mut Model<'e>,
    (starts, efforts): (&[Weights], &[Effort]),
    all: &mut Vec<Found>,
) -> Result<usize> {
    let (mut considered, mut searched) = (0, Vec::new());
    let longest = Budget::of(explorer.options.effort, model).longest[0];
    let pricing = Pricing { parts: &explorer.parts, options: explorer.options };
    let chains = ChainTables::new(model, &pricing, false, longest);
    let mut contention = Contention::new(explorer);
    for &start in starts {
        let mut next = Some(start);
        for _ in 0..RATIO_CORRECTIONS {
            let Some(weights) = next.filter(|next| !searched.contains(next)) else { break };
            model.weights = weights;
            searched.push(weights);
            let rest = Rest::new(model, false);
            let (mut found, mut last) = (Vec::new(), None);
            for effort in efforts {
                let known = all.iter().chain(&found).map(|known: &Found| known.prediction.latency).min();
                let budget = Budget::of(*effort, model);
                let limits = budget.of_search();
                if last.replace(limits) == Some(limits) {
                    continue;
                }
                let (of_effort, more) =
                    search(explorer, (model, &chains, &rest), &mut contention, (&budget, known))?;
                considered += more;
                found.extend(of_effort);
            }
            if found.is_empty() {
                break;
            }
            let best = explorer.best(found)?;
            next = corrected(explorer, &best.prediction);
            all.push(best);
        }
    }
    Ok(considered)
}

/// The model in the workload's order that search and bound share, built once.
fn model<'s>(explorer: &mut Explorer<'s, '_>) -> Result<Model<'s>> {
    explorer.model.take().map_or_else(|| Model::new(explorer), Ok)
}

/// The efforts to search with: lower ones, too, as more labels do not always lead to a better plan.
fn efforts(most: Effort) -> &'static [Effort] {
    match most {
        Effort::Quick => &[Effort::Quick],
        Effort::Normal => &[Effort::Quick, Effort::Normal],
        Effort::Thorough => &[Effort::Quick, Effort::Normal, Effort::Thorough],
    }
}

/// Runs the programme in rounds until the plans contain no new chain; the plans, simulated, and the number of
/// labels considered. There are no plans if every label was pruned.
fn search<'e, 'a>(
    explorer: &mut Explorer<'e, 'a>,
    (model, chains, rest): (&Model<'e>, &ChainTables, &Rest),
    contention: &mut Contention<'e, 'a>,
    (budget, mut known): (&Budget, Option<Picos>),
) -> Result<(Vec<Found>, usize)> {
    let (mut found, mut considered) = (Vec::new(), 0);
    for _ in 0..budget.rounds {
        // Labels are pruned by time alone: energy depends on more than a label holds.
        let most = known.filter(|_| model.weights == Weights::TIME);
        let cost = most.map_or(f64::INFINITY, |most| most.0 as f64 * PRUNING_FACTOR);
        let mover = Mover { model, chains, contention: Some(&mut *contention) };
        let mut programme = Programme::new(
            mover,
            rest,
            Limits { width: budget.labels[0], cost, merges: false, fewer_cuts: budget.fewer_cuts },
        );
        let Outcome { decisions, .. } = programme.run(FINALISTS);
        considered += programme.considered;
        let mut is_new = false;
        for decisions in decisions {
            let plan = planned::plan(model, &decisions, explorer.options.synchronisation);
            is_new |= contention.learn(model, &decisions, &plan);
            let plan = explorer.fitting(Strategy::Optimal, model.for_workload(plan), considered)?;
            known = plan.iter().map(|found| found.prediction.latency).chain(known).min();
            found.extend(plan);
        }
        if !is_new {
            break;
        }
    }
    Ok((found, considered))
}

impl Explorer<'_, '_> {
    /// Lower bound of the cost, in the unit of the objective, of every plan that places operators whole on any
    /// processor or cuts them between processors along one axis, in the order of the workload; at most the
    /// cost of `known`, a plan in any order.
    ///
    /// # Errors
    /// The NPU's graphs cannot be priced.
    pub fn bound(&mut self, known: &Found) -> Result<f64> {
        let mut model = model(self)?;
        let bound = bound_of(self, &mut model, known);
        self.model = Some(model);
        Ok(bound)
    }
}

fn bound_of(explorer: &Explorer<'_, '_>, model: &mut Model<'_>, known: &Found) -> f64 {
    let mut least = |weights: Weights, known: f64| {
        model.weights = weights;
        relaxed(explorer, model, known)
    };
    let idle = idle_power(explorer.simulator.device()).0;
    let of_energy = Weights { picosecond: idle / PICOS_PER_SECOND, joule: 1.0 };
    let Prediction { latency, energy, .. } = known.prediction;
    let picos = latency.0 as f64;
    let bound = match (explorer.options.objective, energy) {
        (Objective::Energy, Some(energy)) => least(of_energy, energy.0),
        (Objective::Edp, Some(energy)) => {
            let seconds = least(Weights::TIME, picos) / PICOS_PER_SECOND;
            let joules = least(of_energy, energy.0);
            let sum = least(weights::at(idle / PICOS_PER_SECOND, &known.prediction), 2.0 * energy.0);
            // On a line of equal sums within these bounds, the product is least at one of its ends.
            let watts = energy.0 / latency.as_seconds();
            let fastest = seconds * joules.max(sum - watts * seconds).min(energy.0);
            fastest.min(joules * seconds.max((sum - joules) / watts))
        }
        (Objective::Latency, _) | (Objective::Energy | Objective::Edp, None) => {
            least(Weights::TIME, picos) / PICOS_PER_SECOND
        }
    };
    let Some((pipeline, period)) = explorer.period_counts().zip(known.period) else { return bound };
    let latency = Picos((bound * PICOS_PER_SECOND) as u64);
    throughput::bound(model, pipeline, latency).min(period.as_seconds())
}

/// The bound of the relaxed programme, at most `known`, the cost of a plan. The number of labels grows until
/// `known` is close enough to the bound.
fn relaxed(explorer: &Explorer<'_, '_>, model: &Model<'_>, known: f64) -> f64 {
    let pricing = Pricing { parts: &explorer.parts, options: explorer.options };
    let budget = Budget::of(explorer.options.effort, model);
    let chains = ChainTables::new(model, &pricing, true, budget.longest[1]);
    let rest = Rest::new(model, true);
    let run = |limits: Limits| {
        let mover = Mover { model, chains: &chains, contention: None };
        let mut programme = Programme::new(mover, &rest, limits);
        let bound = programme.run(1).bound;
        (bound, programme.considered, programme.has_merged)
    };
    let mut limits =
        Limits { width: budget.labels[1], cost: known, merges: true, fewer_cuts: budget.fewer_cuts };
    if budget.of_bound > 0 {
        // A narrow run finds relaxed decisions of this cost: labels that cost more cannot end as the least.
        limits.cost = run(Limits { width: budget.labels[0], merges: false, ..limits }).0;
    }
    let (mut bound, mut considered) = (0.0_f64, 0);
    loop {
        let (found, labels, has_merged) = run(limits);
        bound = bound.max(found);
        considered += labels;
        let is_close = known <= bound * CLOSE_ENOUGH_RATIO || !has_merged;
        if is_close {
            return bound;
        }
        if considered * (1 + WIDENING_FACTOR) > budget.of_bound {
            // No plan that costs less than this is lost.
            let half = Limits { cost: bound.midpoint(limits.cost), ..limits };
            let is_short = considered <= MAX_BEFORE_LAST * budget.of_bound;
            let is_tried = budget.of_bound > 0 && is_short && known > bound * WIDE_GAP_RATIO;
            return if is_tried { bound.max(run(half).0) } else { bound };
        }
        limits.width *= WIDENING_FACTOR;
    }
}

#[cfg(test)]
mod tests;

//! The best plan found for a whole graph, and a lower bound of every plan.
//!
//! One programme over labels gives both (`program`). Stages are decided in their order. A label says when the
//! queue of each processor ends, when the last join did, and where every result lies that is still read;
//! from each label a stage goes to a processor, is cut between several, or begins a chain (`moves`).
//! Processors run ahead of each other as far as the graph lets them, so that branches need no rules of their
//! own.
//!
//! Exact, with contention that the engine says (`contention`), it times plans as simulating them does but for
//! contention between branches, and keeps the labels that promise most: the plans of the best are simulated,
//! chains among them are learnt from, and the best is changed at random as long as that helps (`walk`).
//! Relaxed, whatever depends on more than a label knows is taken at its best, and labels are merged instead of
//! dropped: the least final label is a bound that no plan goes below, of all those that give whole operators
//! to CPU, GPU or NPU, or cut them between any of these along one axis. The argument stands in the book.
//!
//! Energy adds up: what the device draws idle all the while, and what each part adds. The energy-delay product
//! does not; where it is least, it is the least `E + m T` for some `m`, the ratio of energy and time there,
//! which is approached from plan to plan; its bound is the product of both bounds.

mod chained;
mod chains;
mod contention;
mod label;
mod model;
mod moves;
mod order;
mod path;
mod planned;
mod program;
mod shares;
mod sharing;
mod streaming;
mod tables;
mod throughput;
mod walk;
mod work;

use super::{Effort, Explorer, Found, Objective, Price, Strategy, missing_kernel};
use crate::plan::Plan;
use crate::simulate::{Prediction, Result, SimulateError, idle_power};
use crate::units::{PICOS_PER_SECOND, Picos};
use chains::ChainTables;
use contention::Contention;
use label::{At, Cutting, Label, Place, Progress, leading, merged, squeezed, undominated};
pub(super) use model::Model;
use moves::{BOTH, CPU, GPU, Move, Mover, NPU, Step, Trial, best, joined};
pub use order::has_branches;
use order::mirrored;
use path::CriticalPaths;
use program::{Limits, Outcome, Programme, Rest};
use shares::{Members, ShareTable, Shared, Sharing, WITH_NPU};
use sharing::shared_placement;
use streaming::Streaming;
use tables::{CutTable, OperatorTable, PRICED_CUTS, Priced, Pricing, Traffic, Way, Ways};
use work::{ANYBODY, Changes, May, Remaining, STATES, Weighted, least_remaining, only_state};

/// Later than any run: no kernel. The sum of a few is still a time.
const NEVER: Picos = Picos(1 << 55);

/// Final labels of which the plan is simulated, in each round.
const FINALISTS: usize = 4;

/// How many times more changes are simulated where batches follow each other, and how many at most: few changes of
/// one operator shorten a period.
const CHANGES_OF_STREAMS: usize = 6;
const MOST_CHANGES: usize = 4_000;

/// A search prunes labels that take at least so many times what the best plan known takes: no less, since what chains
/// lose is an estimate.
const PRUNED_ABOVE: f64 = 1.01;

/// Times the ratio of energy and time is corrected for the energy-delay product.
const CORRECTIONS: usize = 4;

/// What a picosecond and a joule cost.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Weights {
    picosecond: f64,
    joule: f64,
}

impl Weights {
    /// Time alone counts.
    const TIME: Self = Self { picosecond: 1.0, joule: 0.0 };

    fn of(self, time: Picos, joules: f64) -> f64 {
        time.0 as f64 * self.picosecond + joules * self.joule
    }
}

/// How much a search and a bound of a workload may do.
struct Budget {
    /// Labels that a search keeps at each position, and a bound.
    labels: [usize; 2],
    rounds: usize,
    /// Random changes of the best plan.
    changes: usize,
    /// Most stages of a chain, of a search and of a bound.
    longest: [usize; 2],
    /// Labels that a bound tries where more of them may bring it closer.
    of_bound: usize,
}

/// Stages up to which a workload is searched as its effort says; of larger ones less is kept, so that the time
/// grows with them and not faster.
const LARGE: usize = 150;

/// Results that a stage reads, on average, up to which a workload is as large as it has stages.
const INPUTS: usize = 2;

/// How many times larger a workload is of which a bound keeps less: it tries fewer moves.
const BOUNDS: usize = 3;

/// Times a bound at which the best plan known is close to it, and how many times more labels are kept where it
/// is not.
const CLOSE: f64 = 1.01;
const WIDER: usize = 4;

/// Labels that are kept in any case.
const NARROWEST: usize = 8;

/// Results that are open at once, on average, up to which labels are as many: each holds where all of them lie.
const OPEN: usize = 8;

impl Budget {
    fn of(effort: Effort, model: &Model<'_>) -> Self {
        // What a label, and simulating a plan, has to do grows with what is read.
        let read: usize = model.stages.iter().map(|stage| stage.inputs.len()).sum();
        let stages = model.stages.len().max(read / INPUTS);
        let open: usize = model.live.iter().map(Vec::len).sum();
        let wide = (open / (model.stages.len() * OPEN).max(1)).max(1);
        let (labels, rounds, changes, of_bound) = match effort {
            Effort::Quick => ([20, 80], 3, 100, 0),
            Effort::Normal => ([60, 800], 8, 300, 700_000),
            Effort::Thorough => ([120, 5_000], 8, MOST_CHANGES, 3_000_000),
        };
        let less = |count: usize, least: usize| (count * LARGE / stages.max(LARGE)).max(least.min(count));
        let relaxed = less(BOUNDS * labels[1], 40).min(labels[1]);
        let least = |labels: usize| labels.min(NARROWEST);
        let labels = [less(labels[0], 8), relaxed].map(|labels| (labels / wide).max(least(labels)));
        Self {
            labels,
            rounds: less(rounds, 2),
            changes: less(changes, 10),
            longest: [less(32, 8), less(64, 8)],
            of_bound,
        }
    }
}

/// The best plan known, and what every plan costs at least.
pub(super) fn find(explorer: &mut Explorer<'_, '_>) -> Result<Found> {
    let mut all: Vec<Found> = Vec::new();
    for strategy in Strategy::of_operators().filter(|strategy| *strategy != Strategy::Optimal) {
        all.extend(explorer.find(strategy));
    }
    let starts = first_weights(explorer);
    let mut models = models(explorer)?;
    let (model, effort) = (&mut models[0], explorer.options.effort);
    if let Some(stage) = (0..model.stages.len()).find(|&stage| !model.has_kernel(stage)) {
        return Err(missing_kernel(explorer.simulator, &explorer.stages[stage], explorer.options));
    }
    let mut considered = search_all(explorer, model, (&starts, efforts(effort)), &mut all)?;
    let mut changes = Budget::of(effort, model).changes;
    if explorer.period_counts().is_some() {
        changes = (changes * CHANGES_OF_STREAMS).min(MOST_CHANGES);
        let starts = all.iter().map(|found| found.plan.clone()).collect();
        for plan in throughput::balanced(explorer, model, starts, changes)? {
            all.extend(fitting(explorer, plan, considered)?);
        }
    }
    for other in &mut models[1..] {
        considered += search_all(explorer, other, (&starts, efforts_of_other_order(effort)), &mut all)?;
    }
    let mut best = explorer.best(all)?;
    models.retain(|model| model.order.is_empty() || model.order == best.plan.order);
    if let Some(model) = models.last() {
        let (plan, simulated) = walk::improved(explorer, model, &best.plan, changes)?;
        considered += simulated;
        let changed = explorer.found(Strategy::Optimal, plan, considered)?;
        best = explorer.best([changed, best])?;
    }
    explorer.models = models;
    Ok(Found { strategy: Strategy::Optimal, considered, ..best })
}

/// Adds the best plans by all weights that are searched, with each of the efforts; how many were considered.
fn search_all(
    explorer: &mut Explorer<'_, '_>,
    model: &mut Model<'_>,
    (starts, efforts): (&[Weights], &[Effort]),
    all: &mut Vec<Found>,
) -> Result<usize> {
    let (mut considered, mut searched) = (0, Vec::new());
    for &start in starts {
        let mut next = Some(start);
        for _ in 0..CORRECTIONS {
            let Some(weights) = next.filter(|next| !searched.contains(next)) else { break };
            model.weights = weights;
            searched.push(weights);
            let mut found = Vec::new();
            for effort in efforts {
                let known = all.iter().chain(&found).map(|known: &Found| known.prediction.latency).min();
                let (of_effort, more) = search(explorer, model, &Budget::of(*effort, model), known)?;
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

/// What the search and the bounds price together, made once: in the order of the workload, and with its branches
/// the other way round until it is known that no such plan is better; batches in flight, and a quick search, keep the
/// workload's.
fn models<'s>(explorer: &mut Explorer<'s, '_>) -> Result<Vec<Model<'s>>> {
    let known = std::mem::take(&mut explorer.models);
    if !known.is_empty() {
        return Ok(known);
    }
    let efforts = efforts_of_other_order(explorer.options.effort);
    let is_searched = !efforts.is_empty() && explorer.period_counts().is_none();
    let other = mirrored(explorer.stages).filter(|_| is_searched);
    std::iter::once(Vec::new()).chain(other).map(|order| Model::new(explorer, order)).collect()
}

/// The efforts of which each searches: more labels do not always keep better ones, but none worse is lost.
fn efforts(most: Effort) -> &'static [Effort] {
    match most {
        Effort::Quick => &[Effort::Quick],
        Effort::Normal => &[Effort::Quick, Effort::Normal],
        Effort::Thorough => &[Effort::Quick, Effort::Normal, Effort::Thorough],
    }
}

/// The same where branches are computed in the other order: most of what that gains is found with little.
fn efforts_of_other_order(most: Effort) -> &'static [Effort] {
    match most {
        Effort::Quick => &[],
        Effort::Normal => &[Effort::Quick],
        Effort::Thorough => &[Effort::Quick, Effort::Normal],
    }
}

/// The plans of rounds of the programme, until no chain of a plan is new, and how many labels there were; no plans
/// where every label was pruned.
fn search(
    explorer: &mut Explorer<'_, '_>,
    model: &Model<'_>,
    budget: &Budget,
    mut known: Option<Picos>,
) -> Result<(Vec<Found>, usize)> {
    let pricing = Pricing { parts: &explorer.parts, options: explorer.options };
    let chains = ChainTables::new(model, &pricing, false, budget.longest[0]);
    let rest = Rest::new(model, false);
    let mut contention = Contention::new(explorer);
    let (mut found, mut considered) = (Vec::new(), 0);
    for _ in 0..budget.rounds {
        // Energy depends on more than a label knows.
        let most = known.filter(|_| model.weights == Weights::TIME);
        let cost = most.map_or(f64::INFINITY, |most| most.0 as f64 * PRUNED_ABOVE);
        let mover = Mover { model, chains: &chains, contention: Some(&mut contention) };
        let mut programme =
            Programme::new(mover, &rest, Limits { width: budget.labels[0], cost, merges: false });
        let Outcome { decisions, .. } = programme.run(FINALISTS);
        considered += programme.considered;
        let mut is_new = false;
        for decisions in decisions {
            let plan = planned::plan(model, &decisions, explorer.options.synchronisation);
            is_new |= contention.learn(model, &decisions, &plan);
            let plan = fitting(explorer, model.for_workload(plan), considered)?;
            known = plan.iter().map(|found| found.prediction.latency).chain(known).min();
            found.extend(plan);
        }
        if !is_new {
            break;
        }
    }
    Ok((found, considered))
}

/// A plan simulated; none where it is too much for the GPU's memory, or chains what is no chain.
fn fitting(explorer: &mut Explorer<'_, '_>, plan: Plan, considered: usize) -> Result<Option<Found>> {
    match explorer.fitting(Strategy::Optimal, plan, considered) {
        Err(SimulateError::Schedule(_)) => Ok(None),
        found => found,
    }
}

impl Explorer<'_, '_> {
    /// What every plan costs at least that gives whole operators to any processor or cuts them between CPU
    /// and GPU along one axis, in the order of the workload or of the plan that was found, in the unit of the
    /// objective; at most what the plan costs that is predicted so.
    ///
    /// # Errors
    /// What the NPU takes cannot be priced.
    pub fn bound(&mut self, known: &Prediction) -> Result<f64> {
        let mut models = models(self)?;
        let bound = bound_of(self, &mut models, known);
        self.models = models;
        Ok(bound)
    }
}

fn bound_of(explorer: &Explorer<'_, '_>, models: &mut [Model<'_>], known: &Prediction) -> f64 {
    // What is known to cost no more than the bound of one order limits that of the next.
    let mut least = |weights: Weights, known: f64| {
        models.iter_mut().enumerate().fold(known, |known, (index, model)| {
            model.weights = weights;
            relaxed(explorer, model, known, if index == 0 { CLOSE } else { 1.0 })
        })
    };
    let idle = idle_power(explorer.simulator.device()).0;
    let of_energy = Weights { picosecond: idle / PICOS_PER_SECOND, joule: 1.0 };
    let picos = known.latency.0 as f64;
    let bound = match (explorer.options.objective, known.energy) {
        (Objective::Energy, Some(energy)) => least(of_energy, energy.0),
        (Objective::Edp, Some(energy)) => {
            least(Weights::TIME, picos) / PICOS_PER_SECOND * least(of_energy, energy.0)
        }
        (Objective::Latency, _) | (Objective::Energy | Objective::Edp, None) => {
            least(Weights::TIME, picos) / PICOS_PER_SECOND
        }
    };
    match explorer.period_counts() {
        Some(pipeline) => throughput::bound(&models[0], pipeline, Picos((bound * PICOS_PER_SECOND) as u64)),
        None => bound,
    }
}

/// The bound of the relaxed programme, at most what a plan is known to cost; so many times the bound counts as
/// close to that.
fn relaxed(explorer: &Explorer<'_, '_>, model: &Model<'_>, known: f64, close: f64) -> f64 {
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
    let mut limits = Limits { width: budget.labels[1], cost: known, merges: true };
    if budget.of_bound > 0 {
        // Some relaxed decisions cost no more than that: labels that do are none of the best, and not merged with them.
        limits.cost = run(Limits { width: budget.labels[0], cost: known, merges: false }).0;
    }
    let (mut bound, mut considered) = (0.0_f64, 0);
    loop {
        let (found, labels, has_merged) = run(limits);
        bound = bound.max(found);
        considered += labels;
        let is_close = known <= bound * close || !has_merged;
        if is_close || considered * (1 + WIDER) > budget.of_bound {
            return bound;
        }
        limits.width *= WIDER;
    }
}

/// What the objective makes of time and energy, first; for the energy-delay product, what the better single
/// processor says. Where energy counts, plans for other weights may need less of it as well, for contention and
/// what runs idle are no part of the programme.
fn first_weights(explorer: &mut Explorer<'_, '_>) -> Vec<Weights> {
    let idle = idle_power(explorer.simulator.device()).0 / PICOS_PER_SECOND;
    let energy = Weights { picosecond: idle, joule: 1.0 };
    let product = |explorer: &mut Explorer<'_, '_>| {
        let singles = explorer.baselines();
        let least = explorer.best(singles).ok();
        let default = Weights { picosecond: PICOS_PER_SECOND.recip() + idle, joule: 1.0 };
        least.map_or(default, |single| at(idle, &single.prediction))
    };
    match explorer.options.objective {
        Objective::Latency => vec![Weights::TIME],
        Objective::Energy => vec![energy, product(explorer), Weights::TIME],
        Objective::Edp => vec![product(explorer), energy, Weights::TIME],
    }
}

/// The weights at which the energy-delay product of `prediction` does not change.
fn at(idle: f64, prediction: &Prediction) -> Weights {
    let energy = prediction.energy.map_or(0.0, |energy| energy.0);
    let power = energy / (prediction.latency.0 as f64).max(1.0);
    Weights { picosecond: idle + power, joule: 1.0 }
}

fn corrected(explorer: &Explorer<'_, '_>, prediction: &Prediction) -> Option<Weights> {
    let idle = idle_power(explorer.simulator.device()).0 / PICOS_PER_SECOND;
    (explorer.options.objective == Objective::Edp).then(|| at(idle, prediction))
}

#[cfg(test)]
mod tests;

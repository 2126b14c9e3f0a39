//! Plans for streams of batches, several of which are in flight at once.
//!
//! Responsible for: plans that keep all processors equally busy, and a lower bound of every plan's
//! period. Not for: the latency of a batch. A period is no shorter than the work of the busiest
//! processor, so each processor's time gets a price (a Lagrange multiplier): operators are placed where
//! their work costs least, and the prices of the busier processors rise. The remaining imbalance is
//! reduced operator by operator, whole or in part, as long as this shortens the simulated period.
//! Invariant: with prices that add up to one, the least cost of all operators is a lower bound of the
//! busiest processor's work in every plan.

mod runs;

use super::walk::{clear_chain, in_units};
use super::{ANY_STATE, CPU, Changes, Model, Price, least_remaining};
use crate::device::ProcessorKind;
use crate::explore::Explorer;
use crate::plan::{Axis, Placement, Plan, Processor};
use crate::schedule::Holders;
use crate::simulate::{Pipeline, Result};
use crate::units::Picos;
use runs::in_runs;

/// Corrections of the processors' prices, and the constant of their decreasing step size.
const PRICE_CORRECTIONS: usize = 16;
const STEP_SIZE_CONSTANT: f64 = 4.0;

/// Penalty for changing the processor, in addition to the hand-over, as a fraction of the cost of all
/// work: with few batches in flight, fewer and longer segments mean less waiting.
const SWITCH_PENALTIES: [f64; 4] = [0.0, 0.005, 0.02, 0.08];

/// The least price: of a processor without work.
const MIN_PRICE: f64 = 1e-9;

/// Plans that are levelled and, in each step of a plan, changes priced with all hand-overs and joins,
/// and changes simulated as a stream.
const LEVELLED_PLANS: usize = 12;
const PRICED_CHANGES: usize = 24;
const SIMULATED_CHANGES: usize = 6;

/// An assignment of the first operators.
#[derive(Clone)]
struct Assigned {
    cost: f64,
    by: Vec<ProcessorKind>,
}

/// Plans that keep the processors about equally busy, levelled as long as their period becomes shorter;
/// at most `changes` changes are simulated.
pub(super) fn balanced(
    explorer: &mut Explorer<'_, '_>,
    model: &Model<'_>,
    mut starts: Vec<Plan>,
    changes: usize,
) -> Result<Vec<Plan>> {
    for penalty in SWITCH_PENALTIES {
        let mut prices = best_prices(model, Price::NOTHING);
        for round in 0..PRICE_CORRECTIONS {
            let Some(plan) = assigned(explorer, model, prices, penalty) else { break };
            let Ok(busy) = explorer.simulator.busy(&model.stages, &plan) else { break };
            let mean = busy.iter().map(|busy| busy.0 as f64).sum::<f64>() / busy.len() as f64;
            let weight = STEP_SIZE_CONSTANT / (STEP_SIZE_CONSTANT + round as f64);
            for (price, busy) in prices.iter_mut().zip(busy) {
                *price = (*price * (weight * (busy.0 as f64 / mean - 1.0)).exp()).max(MIN_PRICE);
            }
            if !starts.contains(&plan) {
                starts.push(plan);
            }
        }
    }
    starts.extend(in_runs(explorer, model));
    let mut ranked: Vec<(f64, Plan)> = Vec::new();
    for (busiest, plan) in by_busiest(explorer, starts) {
        if ranked.get(LEVELLED_PLANS - 1).is_some_and(|worst| busiest.as_seconds() >= worst.0) {
            break;
        }
        if let Ok(cost) = explorer.cost_of(&plan) {
            ranked.push((cost, plan));
            ranked.sort_by(|one, other| one.0.total_cmp(&other.0));
            ranked.truncate(LEVELLED_PLANS);
        }
    }
    let share = changes / LEVELLED_PLANS;
    ranked.into_iter().map(|start| levelled(explorer, model, start, share)).collect()
}

/// Plans with the work of their busiest processor, the least first, without plans that cannot be
/// simulated.
fn by_busiest(explorer: &Explorer<'_, '_>, plans: impl IntoIterator<Item = Plan>) -> Vec<(Picos, Plan)> {
    let busiest = |plan: Plan| Some((explorer.busiest(&plan)?, plan));
    let mut all: Vec<(Picos, Plan)> = plans.into_iter().filter_map(busiest).collect();
    all.sort_by_key(|(busiest, _)| *busiest);
    all
}

/// Lower bound of every plan's period, in seconds; `latency` is a lower bound of the latency of one
/// batch.
pub(super) fn bound(model: &Model<'_>, pipeline: &Pipeline, latency: Picos) -> f64 {
    let [before, dispatching] = pipeline.host(&model.stages);
    let in_turn = (before + latency.max(dispatching)).as_seconds() / f64::from(pipeline.depth.max(1));
    let work = Picos(least_work(model, best_prices(model, model.graph), model.graph) as u64);
    [work, before, dispatching].map(Picos::as_seconds).into_iter().fold(in_turn, f64::max)
}

/// The least cost of all operators at these prices, with `graph` for each NPU graph.
fn least_work(model: &Model<'_>, prices: [f64; 3], graph: Price) -> f64 {
    let left = model.least_work(&model.weighted(prices, false), Changes { waits: false, graph })[0];
    least_remaining(&left, ANY_STATE)
}

/// The prices, of the grid of queue weights, at which the least cost of all operators is highest.
fn best_prices(model: &Model<'_>, graph: Price) -> [f64; 3] {
    let all = super::rest::queue_weights(model).into_iter();
    let costs = all.map(|prices| (least_work(model, prices, graph), prices));
    costs.max_by(|one, other| one.0.total_cmp(&other.0)).map_or([1.0; 3], |(_, prices)| prices)
}

/// A plan of whole operators, each where its work and its hand-overs cost least, by dynamic programming
/// over the processor of the latest stage; places of older results are those of the best assignment up
/// to there.
fn assigned(explorer: &Explorer<'_, '_>, model: &Model<'_>, prices: [f64; 3], penalty: f64) -> Option<Plan> {
    let penalty = penalty * least_work(model, prices, Price::NOTHING);
    let price = |kind: ProcessorKind, time: Picos| prices[kind as usize] * time.0 as f64;
    let mut ways = vec![Assigned { cost: 0.0, by: Vec::new() }];
    for (index, stage) in model.stages.iter().enumerate() {
        let crossing = |kind: ProcessorKind, before: &Assigned| -> f64 {
            let keeps_processor = stage.inputs().all(|input| before.by[input] == kind);
            let foreign = stage.inputs().filter(|&input| before.by[input] != kind);
            let wait =
                |input: usize| model.transfer_delays(input, false).wait(kind, Holders::one(before.by[input]));
            let graph = if kind == ProcessorKind::Npu && before.by.last() != Some(&kind) {
                model.graph.time
            } else {
                Picos::ZERO
            };
            price(kind, foreign.map(wait).sum::<Picos>() + graph)
                + if keeps_processor { 0.0 } else { penalty }
        };
        let way = |kind: ProcessorKind| {
            let time = fastest_whole(model, index, kind).map(|(_, time)| time)?;
            let cost = |before: &Assigned| before.cost + crossing(kind, before) + price(kind, time);
            let costs = ways.iter().map(|before| (cost(before), before));
            let (cost, before) = costs.min_by(|one, other| one.0.total_cmp(&other.0))?;
            Some(Assigned { cost, by: before.by.iter().copied().chain([kind]).collect() })
        };
        ways = ProcessorKind::ALL.into_iter().filter_map(way).collect();
    }
    let best = ways.into_iter().min_by(|one, other| one.cost.total_cmp(&other.cost))?;
    let placed =
        best.by.into_iter().enumerate().map(|(stage, kind)| Some(fastest_whole(model, stage, kind)?.0));
    let placements = placed.map(|by| by.map(Placement::whole)).collect::<Option<Vec<_>>>()?;
    Some(explorer.plan(placements))
}

/// The fastest processor of a kind for a whole stage, and its time; `None` without a kernel.
pub(super) fn fastest_whole(
    model: &Model<'_>,
    stage: usize,
    kind: ProcessorKind,
) -> Option<(Processor, Picos)> {
    let table = model.table(stage);
    let (by, cost) = match kind {
        ProcessorKind::Gpu => (Processor::Gpu, table.gpu),
        ProcessorKind::Npu => (Processor::NPU, model.on_npu[stage].within),
        ProcessorKind::Cpu => {
            let sets = model.core_sets.iter().zip(&table.cpu);
            let (&cores, &cost) = sets.min_by_key(|(_, cost)| cost.time)?;
            (Processor::Cpu(cores), cost)
        }
    };
    cost.is_known().then_some((by, cost.time))
}

/// Moves operators, or parts of them, from the busiest processor to others until the period no longer
/// becomes shorter. In each step, only the changes that leave the busiest processor the least work are
/// simulated.
fn levelled(
    explorer: &mut Explorer<'_, '_>,
    model: &Model<'_>,
    (mut cost, mut plan): (f64, Plan),
    mut changes: usize,
) -> Result<Plan> {
    loop {
        let busy = explorer.simulator.busy(&model.stages, &plan)?;
        let stages = 0..model.stages.len();
        let mut tried: Vec<(f64, Plan)> =
            stages.flat_map(|stage| shifted(model, (&plan, busy), stage)).collect();
        tried.sort_by(|one, other| one.0.total_cmp(&other.0));
        tried.truncate(PRICED_CHANGES);
        let tried = by_busiest(explorer, tried.into_iter().map(|(_, changed)| changed));
        let mut better = None;
        for (busiest, changed) in tried.into_iter().take(SIMULATED_CHANGES) {
            if busiest.as_seconds() >= cost {
                break;
            }
            if changes == 0 {
                return Ok(plan);
            }
            changes -= 1;
            let Ok(period) = explorer.cost_of(&changed) else { continue };
            if period < cost {
                (cost, better) = (period, Some(changed));
            }
        }
        match better {
            Some(changed) => plan = changed,
            None => return Ok(plan),
        }
    }
}

/// Plans in which another processor takes over a stage from the busiest one, whole or just enough to
/// make both equally busy; each with the work of the busier of the two, without hand-overs and joins.
fn shifted(model: &Model<'_>, (plan, busy): (&Plan, [Picos; 3]), stage: usize) -> Vec<(f64, Plan)> {
    let placement = plan.placements[stage];
    let Some(from) = ProcessorKind::ALL.into_iter().max_by_key(|&kind| busy[kind as usize]) else {
        return Vec::new();
    };
    let Some((_, own)) = fastest_whole(model, stage, from).filter(|_| placement.uses(from)) else {
        return Vec::new();
    };
    let mut plans = Vec::new();
    for to in ProcessorKind::ALL.into_iter().filter(|&to| to != from) {
        let Some((by, time)) = fastest_whole(model, stage, to) else { continue };
        let [left, taken] = [from, to].map(|kind| busy[kind as usize].0 as f64);
        let [own, time] = [own, time].map(|time| time.0 as f64);
        let fraction = ((left - taken) / (own + time).max(1.0)).min(1.0);
        let axes = Axis::ALL.into_iter().filter(|&axis| placement.axis().is_none_or(|own| own == axis));
        let cut = axes.filter_map(|axis| moved(model, (stage, placement), axis, (from, by, fraction)));
        let cut = cut.map(|placement| (fraction, placement));
        let whole = (!placement.is_cut()).then_some((1.0, Placement::whole(by)));
        for (fraction, placement) in whole.into_iter().chain(cut) {
            let busier = (left - fraction * own).max(taken + fraction * time);
            let mut changed = plan.clone();
            changed.placements[stage] = placement;
            clear_chain(&mut changed, stage);
            plans.extend(in_units(changed).map(|changed| (busier, changed)));
        }
    }
    plans
}

/// The placement with `fraction` of all rows or channels moved from one processor to another; `None` if
/// nothing moves or it is no longer cut.
fn moved(
    model: &Model<'_>,
    (stage, placement): (usize, Placement),
    axis: Axis,
    (from, by, fraction): (ProcessorKind, Processor, f64),
) -> Option<Placement> {
    let all = axis.extent(&model.stages[stage].layer.operator)?;
    let mut counts = [0; ProcessorKind::ALL.len()];
    let mut processors = [Processor::Cpu(*model.core_sets.first()?), Processor::Gpu, Processor::NPU];
    for part in placement.parts() {
        let count = if placement.is_cut() { part.region.span(axis).length() } else { all };
        counts[part.by.kind() as usize] += count;
        processors[part.by.kind() as usize] = part.by;
    }
    let to = by.kind() as usize;
    if to != CPU || counts[CPU] == 0 {
        processors[to] = by;
    }
    let taken = ((f64::from(all) * fraction).round() as u32).min(counts[from as usize]);
    counts[from as usize] -= taken;
    counts[to] += taken;
    // The CPU's part is the first, the GPU's the last.
    let order = [ProcessorKind::Cpu, ProcessorKind::Npu, ProcessorKind::Gpu].map(|kind| kind as usize);
    let moved = Placement::cut(axis, order.map(|kind| (processors[kind], counts[kind])));
    (taken > 0 && moved.is_cut()).then_some(moved)
}

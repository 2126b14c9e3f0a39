//! Local search: random changes of a plan, of which the improving ones are kept.
//!
//! Responsible for: effects that the programme ignores, contention between branches above all. Not for:
//! finding a plan from scratch. Invariant: the walk is a function of the plan, the number of changes,
//! and its seed.

mod annealing;
mod orders;
mod settling;

use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::{CPU, Effort, FULL_EFFORT_STAGES, GPU, MAX_STREAM_CHANGES, Model, WITH_NPU, Weights, search_all};
use crate::device::ProcessorKind;
use crate::explore::{Explorer, Found, Strategy};
use crate::kernel::CoreSet;
use crate::plan::{Axis, Part, Placement, Plan, Processor, Region, Span};
use crate::simulate::Result;
use annealing::{ANNEALED_STAGES, ANNEALINGS, CHANGES_FACTOR, annealed};
use orders::{gathered, moved};
#[cfg(test)]
pub(super) use settling::neighbours;
use settling::settled;

/// Seed of the walk.
const SEED: u64 = 1;

/// Farthest that a cut is moved, as a fraction of all lines.
const MAX_CUT_SHIFT: f64 = 0.08;

/// Kinds of changes of [`changed`] for the latency, and all of them, for streams of batches and for annealing: the
/// others also balance the processors, as when one operator leaves a processor, another takes its place.
const CHANGE_KINDS: i32 = 4;
pub(super) const ALL_CHANGE_KINDS: i32 = 6;

/// Changes drawn for a stream of batches per change simulated: most of them keep a processor busy for
/// longer than the best period. Half of them are two changes at once.
const DRAWS_PER_SIMULATED_CHANGE: usize = 12;

/// Ratio of costs below which a plan in an order of its own is preferred: such a plan is harder to follow, and the
/// bound of its order is often wider.
const WORTH_REORDERING: f64 = 0.999;

/// How many times more changes [`settled`] may simulate than the walk, for up to a number of stages; for more, fewer,
/// as each takes longer and there are more of them.
const SETTLING_FACTOR: usize = 10;
const FULLY_SETTLED_STAGES: usize = 20;

/// Base-2 logarithms of the lengths of intervals that [`place_run`] places together.
const RUNS: std::ops::RangeInclusive<u32> = 1..=4;

/// How many times more changes a small workload gets if its order changes too, and most rounds of them.
const MAX_REORDERING_FACTOR: usize = 5;
const REORDERING_ROUNDS: usize = 3;

/// Fraction of these changes whose order then gathers the NPU's stages.
const GATHERED_FRACTION: f64 = 0.25;

/// The best plan after random changes of the best one in each order, and of the order of the best of these, in which
/// the programme then runs again.
pub(super) fn best<'s>(
    explorer: &mut Explorer<'s, '_>,
    (models, starts, mut found): (&mut Vec<Model<'s>>, &[Weights], Vec<Found>),
    changes: usize,
    considered: &mut usize,
) -> Result<Found> {
    let simulated =
        |explorer: &mut Explorer<'s, '_>, (plan, simulated): (Plan, usize), considered: &mut usize| {
            *considered += simulated;
            explorer.found(Strategy::Optimal, plan, *considered)
        };
    for model in &*models {
        let of_order = found.iter().filter(|found| found.plan.order == model.order).cloned();
        if let Ok(best) = explorer.best(of_order) {
            let plan = improved(explorer, model, &best.plan, (changes, false))?;
            found.push(simulated(explorer, plan, considered)?);
        }
    }
    let mut best = explorer.best(found)?;
    let most = changes * FULL_EFFORT_STAGES.div_ceil(explorer.stages.len()).min(MAX_REORDERING_FACTOR);
    for _ in 0..if models.len() > 1 { REORDERING_ROUNDS } else { 0 } {
        let plan = improved(explorer, &models[0], &best.plan, (most, true))?;
        if explorer.cost_of(&plan.0)? >= explorer.cost_of(&best.plan)? * WORTH_REORDERING {
            break;
        }
        best = simulated(explorer, plan, considered)?;
        if models.iter().all(|model| model.order != best.plan.order) {
            let mut model = models[0].in_order(explorer, best.plan.order.clone())?;
            let mut found = vec![best];
            *considered += search_all(explorer, &mut model, (starts, &[Effort::Quick]), &mut found)?;
            best = explorer.best(found)?;
            models.push(model);
        }
    }
    let model = &models[0];
    let count = model.stages.len().max(FULLY_SETTLED_STAGES);
    let most = changes * SETTLING_FACTOR * FULLY_SETTLED_STAGES.pow(2) / count.pow(2);
    let limits = (most.min(MAX_STREAM_CHANGES), models.len() > 1);
    let plan = settled(explorer, model, &best.plan, limits)?;
    best = simulated(explorer, plan, considered)?;
    if !ANNEALED_STAGES.contains(&model.stages.len()) || explorer.period_counts().is_some() {
        return Ok(best);
    }
    for seed in 0..ANNEALINGS {
        let changes = changes * CHANGES_FACTOR * model.stages.len();
        let plan = annealed(explorer, model, &best.plan, (changes, models.len() > 1, seed))?;
        best = simulated(explorer, plan, considered)?;
    }
    let plan = settled(explorer, model, &best.plan, limits)?;
    simulated(explorer, plan, considered)
}

/// The best plan after `changes` simulated changes of `plan`, and the number of changes simulated. Its order is the
/// model's and stays so, unless the plan `is_reordered`: half of the changes are then of the order, and the model has
/// the workload's. In another order, results that cross may divide the NPU's stages into fewer graphs.
fn improved(
    explorer: &mut Explorer<'_, '_>,
    model: &Model<'_>,
    plan: &Plan,
    (changes, is_reordered): (usize, bool),
) -> Result<(Plan, usize)> {
    let mut random = ChaCha8Rng::seed_from_u64(SEED);
    let mut best = (explorer.cost_of(plan)?, if is_reordered { plan.clone() } else { plan.of_ordered() });
    let mut simulated = 0;
    let streams = explorer.period_counts().is_some();
    let (kinds, tries) = if streams {
        (ALL_CHANGE_KINDS, changes * DRAWS_PER_SIMULATED_CHANGE)
    } else {
        (CHANGE_KINDS, changes)
    };
    for _ in 0..tries {
        if simulated == changes {
            break;
        }
        let mut drawn = if is_reordered && random.random_bool(0.5) {
            moved(&model.stages, &best.1, &mut random)
        } else {
            changed(model, &best.1, kinds, &mut random)
        };
        if is_reordered && model.uses_npu && random.random_bool(GATHERED_FRACTION) {
            let npu_first = random.random_bool(0.5);
            drawn = drawn.map(|changed| gathered(&model.stages, changed, npu_first));
        }
        if streams && random.random_bool(0.5) {
            drawn = drawn.and_then(|once| changed(model, &once, kinds, &mut random));
        }
        let Some(changed) = drawn.and_then(in_units) else { continue };
        let Some(cost) = cost_below(explorer, model, &changed, best.0) else { continue };
        simulated += 1;
        // Most orders cost the same; another one may be a step towards a better plan.
        if cost < best.0 || (is_reordered && cost <= best.0) {
            best = (cost, changed);
        }
    }
    Ok((model.for_workload(best.1), simulated))
}

/// The cost of a changed plan. `None` if it cannot be simulated, as a change may break a chain or place an operator
/// where it has no kernel, or if its period cannot be below `most`.
fn cost_below(explorer: &mut Explorer<'_, '_>, model: &Model<'_>, plan: &Plan, most: f64) -> Option<f64> {
    let plan = model.for_workload(plan.clone());
    // The work of the busiest processor is a lower bound of the period, and cheaper than simulation.
    if explorer.period_counts().is_some() && explorer.busiest(&plan)?.as_seconds() >= most {
        return None;
    }
    explorer.cost_of(&plan).ok()
}

/// The plan with the cuts of every operator that has a part on the GPU moved down to multiples of the
/// axis's unit, where such a part can start; `None` if a part would be empty.
pub(super) fn in_units(mut plan: Plan) -> Option<Plan> {
    for placement in plan.placements.iter_mut().filter(|placement| placement.uses(ProcessorKind::Gpu)) {
        let Some(axis) = placement.axis() else { continue };
        let end = placement.parts().map(|part| part.region.span(axis).end).max()?;
        let moved = |line: u32| if line == end { line } else { line - line % axis.unit() };
        let in_units = placement.parts().map(|Part { by, region }| {
            let Span { start, end } = region.span(axis);
            Part { by, region: Region::along(axis, Span::new(moved(start), moved(end))) }
        });
        let parts: Vec<Part> = in_units.collect();
        if parts.iter().any(|part| part.region.span(axis).is_empty()) {
            return None;
        }
        *placement = Placement::of(&parts).ok()?;
    }
    Some(plan)
}

/// A random change out of the first `kinds`; `None` if it is impossible or changes nothing.
pub(super) fn changed(model: &Model<'_>, plan: &Plan, kinds: i32, random: &mut ChaCha8Rng) -> Option<Plan> {
    let mut changed = plan.clone();
    let stage = random.random_range(0..model.stages.len());
    match random.random_range(0..kinds) {
        0 => place_randomly(model, &mut changed, stage, random)?,
        1 => move_cuts(model, &mut changed, stage, random)?,
        2 => change_chain(&mut changed, stage, random),
        3 => copy_neighbour(model, &mut changed, stage, random)?,
        4 => exchange(&mut changed, stage, random)?,
        _ => place_run(model, &mut changed, stage, random)?,
    }
    (changed != *plan).then_some(changed)
}

/// Swaps the placements of a stage and another, both whole.
fn exchange(plan: &mut Plan, stage: usize, random: &mut ChaCha8Rng) -> Option<()> {
    let other = random.random_range(0..plan.placements.len());
    if [stage, other].iter().any(|&stage| plan.placements[stage].is_cut()) {
        return None;
    }
    plan.placements.swap(stage, other);
    clear_chain(plan, stage);
    clear_chain(plan, other);
    Some(())
}

/// Places a stage and those after it whole on one processor.
fn place_run(model: &Model<'_>, plan: &mut Plan, stage: usize, random: &mut ChaCha8Rng) -> Option<()> {
    let end = stage + (1 << random.random_range(RUNS));
    let by = match random.random_range(0..if model.uses_npu { 3 } else { 2 }) {
        0 => Placement::GPU,
        1 => Placement::cpu(*model.core_sets.choose(random)?),
        _ => Placement::NPU,
    };
    for stage in stage..end.min(plan.placements.len()) {
        plan.placements[stage] = by;
        clear_chain(plan, stage);
    }
    Some(())
}

/// Places a stage at random: on a processor, or cut between several.
fn place_randomly(model: &Model<'_>, plan: &mut Plan, stage: usize, random: &mut ChaCha8Rng) -> Option<()> {
    let axis = *Axis::ALL.choose(random)?;
    let cores = *model.core_sets.choose(random).unwrap_or(model.core_sets.first()?);
    plan.placements[stage] = match (random.random_range(0..4), model.cuts(stage, axis)) {
        (0, _) => Placement::GPU,
        (1, _) => Placement::cpu(cores),
        (2, _) if model.uses_npu => Placement::NPU,
        (_, _) if model.uses_npu && random.random_bool(0.5) => {
            shared_with_npu(model, stage, (axis, cores), random)?
        }
        (_, Some(cuts)) => {
            let cut = random.random_range(1..cuts.all);
            Placement::cpu_and_gpu(axis, cores, [cut, cuts.all - cut])
        }
        (_, None) => return None,
    };
    clear_chain(plan, stage);
    Some(())
}

/// A random share of a stage between the NPU and one or both of the others.
fn shared_with_npu(
    model: &Model<'_>,
    stage: usize,
    (axis, cores): (Axis, CoreSet),
    random: &mut ChaCha8Rng,
) -> Option<Placement> {
    let all = axis.extent(&model.stages[stage].layer.operator).filter(|&all| all > 1)?;
    let members = *WITH_NPU.choose(random)?;
    let mut share = |is_member: bool| {
        let most = if random.random_bool(0.5) { all } else { all.div_ceil(8).max(2) };
        if is_member { random.random_range(1..most) } else { 0 }
    };
    let [cpu, gpu] = [CPU, GPU].map(|by| share(members[by]));
    let npu = all.checked_sub(cpu + gpu).filter(|&npu| npu > 0)?;
    let shares = [(Processor::Cpu(cores), cpu), (Processor::NPU, npu), (Processor::Gpu, gpu)];
    Some(Placement::cut(axis, shares))
}

/// Moves the cut of a stage, and all cuts of its chain, a little to one side.
fn move_cuts(model: &Model<'_>, plan: &mut Plan, stage: usize, random: &mut ChaCha8Rng) -> Option<()> {
    if plan.placements[stage].uses(ProcessorKind::Npu) {
        return move_lines(model, plan, stage, random);
    }
    let (axis, _) = plan.placements[stage].cpu_and_gpu_extents()?;
    let cores = plan.placements[stage].cores()?;
    let chain = plan.chain(stage);
    let share = random.random_range(-MAX_CUT_SHIFT..MAX_CUT_SHIFT);
    for other in 0..plan.placements.len() {
        if other != stage && (chain.is_none() || plan.chain(other) != chain) {
            continue;
        }
        let cuts = model.cuts(other, axis)?;
        let own = plan.placements[other].extent(axis, ProcessorKind::Cpu);
        let moved = (f64::from(own) + share * f64::from(cuts.all)).round();
        let cut = (moved.max(1.0) as u32).min(cuts.all - 1);
        plan.placements[other] = Placement::cpu_and_gpu(axis, cores, [cut, cuts.all - cut]);
    }
    Some(())
}

/// Moves a few rows or channels of an operator from one of its parts to another.
fn move_lines(model: &Model<'_>, plan: &mut Plan, stage: usize, random: &mut ChaCha8Rng) -> Option<()> {
    let all = plan.placements[stage].axis()?.extent(&model.stages[stage].layer.operator)?;
    let parts = plan.placements[stage].parts().count();
    let [from, to] = [0; 2].map(|_: usize| random.random_range(0..parts));
    let most = ((f64::from(all) * MAX_CUT_SHIFT) as u32).max(1);
    let lines = random.random_range(1..=most);
    *plan = shifted(plan, stage, (from, to), lines)?;
    Some(())
}

/// The axis along which a stage is cut, and the rows or channels of each part.
fn shares(placement: &Placement) -> Option<(Axis, Vec<(Processor, u32)>)> {
    let axis = placement.axis()?;
    let share = |part: Part| (part.by, part.region.span(axis).length());
    Some((axis, placement.parts().map(share).collect()))
}

/// The plan with `lines` rows or channels of a stage, or all but one, moved from one of its parts to another; `None` if
/// there are none, or if both parts are the same.
fn shifted(plan: &Plan, stage: usize, (from, to): (usize, usize), lines: u32) -> Option<Plan> {
    let (axis, mut shares) = shares(&plan.placements[stage]).filter(|_| from != to)?;
    let lines = Some(lines.min(shares[from].1 - 1)).filter(|&lines| lines > 0)?;
    shares[from].1 -= lines;
    shares[to].1 += lines;
    let mut changed = plan.clone();
    changed.placements[stage] = Placement::cut(axis, shares);
    Some(changed)
}

/// Removes a stage from its chain, or adds it to a neighbour's.
fn change_chain(plan: &mut Plan, stage: usize, random: &mut ChaCha8Rng) {
    plan.chains.resize(plan.placements.len(), None);
    let neighbour = if stage > 0 && random.random_bool(0.5) { stage - 1 } else { stage + 1 };
    let of_neighbour = plan.chains.get(neighbour).copied().flatten();
    plan.chains[stage] = match (plan.chains[stage], of_neighbour) {
        (Some(_), _) => None,
        (None, Some(chain)) => Some(chain),
        (None, None) => {
            if let Some(chain) = plan.chains.get_mut(neighbour) {
                *chain = Some(stage as u32);
            }
            Some(stage as u32)
        }
    };
}

/// Places a stage like one of its inputs or, without inputs, like the stage before it.
fn copy_neighbour(model: &Model<'_>, plan: &mut Plan, stage: usize, random: &mut ChaCha8Rng) -> Option<()> {
    let read = model.stages[stage].reads.choose(random).map(|read| read.input);
    let neighbour = read.unwrap_or(stage.checked_sub(1)?);
    let placement = plan.placements[neighbour];
    if placement.is_cut() {
        let (axis, _) = placement.cpu_and_gpu_extents()?;
        let all = model.cuts(stage, axis)?.all;
        let share = placement.fraction(ProcessorKind::Cpu);
        let cut = ((f64::from(all) * share).round() as u32).clamp(1, all - 1);
        plan.placements[stage] = Placement::cpu_and_gpu(axis, placement.cores()?, [cut, all - cut]);
    } else {
        plan.placements[stage] = placement;
        clear_chain(plan, stage);
    }
    Some(())
}

pub(super) fn clear_chain(plan: &mut Plan, stage: usize) {
    if let Some(chain) = plan.chains.get_mut(stage) {
        *chain = None;
    }
}

/// The number of a chain that no stage is in yet; every stage has a place for its chain afterwards.
fn own_chain(plan: &mut Plan) -> u32 {
    plan.chains.resize(plan.placements.len(), None);
    plan.chains.iter().flatten().max().map_or(0, |most| most + 1)
}

//! Simulated annealing of small workloads (Kirkpatrick, Gelatt and Vecchi, Science 220, 1983).
//!
//! Responsible for: plans that differ from the best known one in several operators at once, each of which alone makes
//! it slower, as cuts that fit each other do. Not for: large workloads, where as many changes find nothing.
//! Invariant: the plan is never worse than the one that it started from.

use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::orders::moved;
use super::{ALL_CHANGE_KINDS, changed, cost_below, in_units, own_chain, shares, shifted};
use crate::explore::Explorer;
use crate::explore::optimal::Model;
use crate::plan::{Axis, Placement, Plan, Processor};
use crate::simulate::Result;

/// Stages of a workload that is annealed. One operator has no other whose change could go with its own.
pub(super) const ANNEALED_STAGES: std::ops::RangeInclusive<usize> = 2..=12;

/// How often a workload is annealed, each time from the best plan so far. This and the numbers below were chosen on 98
/// random graphs of up to 12 operators.
pub(super) const ANNEALINGS: u64 = 3;

/// Changes drawn per stage in one annealing, per random change of the walk.
pub(super) const CHANGES_FACTOR: usize = 4;

/// The relative increase of the cost that is accepted with a probability of 1/e at first. It falls to zero as the
/// square of the changes that are left.
const FIRST_TEMPERATURE: f64 = 0.05;

/// Probability of two changes at once.
const TWO_CHANGES: f64 = 0.3;

/// Kinds of changes in [`neighbour`].
const KINDS: i32 = 7;

/// Most operators that are cut together.
const MAX_CUT_TOGETHER: usize = 6;

/// Probability that the parts of operators that are cut together are joined only where a reader needs it.
const APART: f64 = 0.7;

/// Ratios of a drawn share to the one with which two processors take equally long.
const BALANCE: std::ops::Range<f64> = 0.7..1.3;

/// The best plan of one annealing with `changes` drawn, and how many of them were simulated. Its order changes only if
/// it `is_reordered`; the model has the workload's order.
pub(super) fn annealed(
    explorer: &mut Explorer<'_, '_>,
    model: &Model<'_>,
    plan: &Plan,
    (changes, is_reordered, seed): (usize, bool, u64),
) -> Result<(Plan, usize)> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut current = (explorer.cost_of(plan)?, plan.clone());
    let mut best = current.clone();
    let mut simulated = 0;
    for drawn in 0..changes {
        let count = if random.random_bool(TWO_CHANGES) { 2 } else { 1 };
        let neighbour = (0..count)
            .try_fold(current.1.clone(), |plan, _| neighbour(model, &plan, is_reordered, &mut random))
            .and_then(in_units);
        let Some(neighbour) = neighbour else { continue };
        let Some(cost) = cost_below(explorer, model, &neighbour, best.0) else { continue };
        simulated += 1;
        let left = 1.0 - drawn as f64 / changes as f64;
        let increase = cost / current.0 - 1.0;
        // Compared before it is divided: operators may cost nothing.
        if cost <= current.0 || random.random_bool((-increase / (FIRST_TEMPERATURE * left * left)).exp()) {
            current = (cost, neighbour);
            if cost < best.0 {
                best = current.clone();
            }
        }
    }
    Ok((best.1, simulated))
}

/// A random change; `None` if it is impossible.
fn neighbour(model: &Model<'_>, plan: &Plan, is_reordered: bool, random: &mut ChaCha8Rng) -> Option<Plan> {
    match random.random_range(0..KINDS) {
        0 | 1 => cut_together(model, plan, random),
        2 => shift(model, plan, random),
        3 => reversed(plan, random.random_range(0..model.stages.len())),
        4 | 5 if is_reordered => moved(&model.stages, plan, random),
        _ => changed(model, plan, ALL_CHANGE_KINDS, random),
    }
}

/// Cuts a stage between two processors: joined, or in a new chain with one reader after the other, each of which takes
/// what it needs from each part.
fn cut_together(model: &Model<'_>, plan: &Plan, random: &mut ChaCha8Rng) -> Option<Plan> {
    let mut changed = plan.clone();
    let mut stage = random.random_range(0..model.stages.len());
    let axis = *Axis::ALL.choose(random)?;
    let (pair, share) = pair_and_share(model, stage, random)?;
    let chain = Some(own_chain(&mut changed)).filter(|_| random.random_bool(APART));
    let count = if chain.is_some() { random.random_range(1..=MAX_CUT_TOGETHER) } else { 1 };
    for _ in 0..count {
        let all = axis.extent(&model.stages[stage].layer.operator).filter(|&all| all > 1)?;
        let cut = ((f64::from(all) * share).round() as u32).clamp(1, all - 1);
        changed.placements[stage] = Placement::cut(axis, [(pair[0], cut), (pair[1], all - cut)]);
        changed.chains[stage] = chain;
        let is_reader = |later: &usize| model.stages[*later].inputs().any(|input| input == stage);
        let readers: Vec<usize> = (stage + 1..model.stages.len()).filter(is_reader).collect();
        let Some(&reader) = readers.choose(random) else { break };
        stage = reader;
    }
    Some(changed)
}

/// Two processors, and a random share of the first: anything, little or nearly all, or about that with which both take
/// equally long for the stage.
fn pair_and_share(model: &Model<'_>, stage: usize, random: &mut ChaCha8Rng) -> Option<([Processor; 2], f64)> {
    let table = model.table(stage);
    let cpu = |set: usize| (Processor::Cpu(model.core_sets[set]), table.cpu[set].time);
    let gpu = (Processor::Gpu, table.gpu.time);
    let npu = (Processor::NPU, model.on_npu[stage].within.time);
    let sets = model.core_sets.len();
    let set = (sets > 0).then(|| random.random_range(0..sets));
    let pairs = match (set, model.uses_npu) {
        (Some(set), true) => vec![[cpu(set), gpu], [npu, gpu], [cpu(set), npu]],
        (Some(set), false) => vec![[cpu(set), gpu]],
        (None, true) => vec![[npu, gpu]],
        (None, false) => return None,
    };
    let [(first, time), (second, other)] = *pairs.choose(random)?;
    let share = match random.random_range(0..3) {
        0 => random.random(),
        1 => {
            let little = random.random::<f64>().powi(3);
            if random.random_bool(0.5) { little } else { 1.0 - little }
        }
        _ => other.as_seconds() / (time + other).as_seconds() * random.random_range(BALANCE),
    };
    Some(([first, second], share))
}

/// Exchanges the places of the parts of a stage: what was computed above or in front is then below or behind.
fn reversed(plan: &Plan, stage: usize) -> Option<Plan> {
    let (axis, mut shares) = shares(&plan.placements[stage])?;
    shares.reverse();
    let mut changed = plan.clone();
    changed.placements[stage] = Placement::cut(axis, shares);
    Some(changed)
}

/// Moves rows or channels of a stage from one of its parts to another, few as likely as many.
fn shift(model: &Model<'_>, plan: &Plan, random: &mut ChaCha8Rng) -> Option<Plan> {
    let stage = random.random_range(0..model.stages.len());
    let axis = plan.placements[stage].axis()?;
    let all = axis.extent(&model.stages[stage].layer.operator)?;
    let parts = plan.placements[stage].parts().count();
    let [from, to] = [0; 2].map(|_: usize| random.random_range(0..parts));
    let lines = f64::from(all).powf(random.random()) as u32;
    shifted(plan, stage, (from, to), lines.next_multiple_of(axis.unit()))
}

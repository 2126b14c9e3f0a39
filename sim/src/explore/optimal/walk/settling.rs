//! The last steps of the search: every small change of a plan, as long as one of them helps.
//!
//! Responsible for: changes that can be listed. Not for: random ones (`walk`). Invariant: the plan is never worse
//! than the one that it started from.

use super::orders::{all_moved, gathered};
use super::{clear_chain, cost_below, in_units, own_chain, shifted};
use crate::device::ProcessorKind;
use crate::explore::Explorer;
use crate::explore::optimal::Model;
use crate::explore::optimal::throughput::fastest_whole;
use crate::kernel::CoreSet;
use crate::plan::{Axis, Part, Placement, Plan, Processor};
use crate::simulate::Result;

/// Stages up to which every pair of stages is placed anew; of more, only those next to each other.
const MAX_PAIRED_STAGES: usize = 24;

/// Stages up to which every stage is also cut in two at all of [`CUT_DIVISORS`]. For more, that takes time and finds
/// nothing: the search has tried cuts enough.
const MAX_CUT_STAGES: usize = 8;

/// What the rows or channels of a stage are divided by for the smaller of two shares.
const CUT_DIVISORS: [u32; 6] = [64, 32, 16, 8, 4, 2];

/// Base-2 logarithms of the number of units, of rows or channels, that are moved from one part of a stage to another.
const SHIFTS: std::ops::Range<u32> = 0..7;

/// The plan after every change of [`neighbours`] and, if it `is_reordered`, of its order that improves it, and then of
/// [`shifts`], until none does; and the number of plans simulated. The model has the workload's order.
pub(super) fn settled(
    explorer: &mut Explorer<'_, '_>,
    model: &Model<'_>,
    plan: &Plan,
    (most, is_reordered): (usize, bool),
) -> Result<(Plan, usize)> {
    let in_orders = |plan: &Plan, stage: usize| {
        let mut all = neighbours(model, plan, stage);
        if is_reordered {
            all.extend(in_other_orders(model, plan, (stage, &all)));
        }
        all
    };
    let (mut plan, mut placed) = descended(explorer, model, plan, most, in_orders)?;
    // Moving lines has simulations of its own: it finds less than the others, and must not take theirs.
    let mut moved = 0;
    loop {
        let (shifted, more) = descended(explorer, model, &plan, most.saturating_sub(moved), shifts)?;
        moved += more;
        if shifted == plan {
            return Ok((plan, placed + moved));
        }
        let (settled, more) = descended(explorer, model, &shifted, most.saturating_sub(placed), in_orders)?;
        (plan, placed) = (settled, placed + more);
    }
}

/// The plan after every change of a stage out of `all_changed` that improves it, until none does or `most` were
/// simulated; and the number of them.
fn descended(
    explorer: &mut Explorer<'_, '_>,
    model: &Model<'_>,
    plan: &Plan,
    most: usize,
    all_changed: impl Fn(&Plan, usize) -> Vec<Plan>,
) -> Result<(Plan, usize)> {
    let mut best = (explorer.cost_of(plan)?, plan.clone());
    let (mut simulated, mut settled) = (0, 0);
    for stage in (0..model.stages.len()).rev().cycle() {
        if settled == model.stages.len() || simulated >= most {
            break;
        }
        settled += 1;
        for changed in all_changed(&best.1, stage).into_iter().filter_map(in_units) {
            let Some(cost) = cost_below(explorer, model, &changed, best.0) else { continue };
            simulated += 1;
            if cost < best.0 {
                (best, settled) = ((cost, changed), 0);
            }
        }
    }
    Ok((best.1, simulated))
}

/// The plan with a stage at other places in the order, and those of its `neighbours` that change what the NPU computes
/// in the orders that may need fewer of its graphs.
fn in_other_orders(model: &Model<'_>, plan: &Plan, (stage, neighbours): (usize, &[Plan])) -> Vec<Plan> {
    let on_npu = |plan: &Plan| -> Vec<bool> {
        plan.placements.iter().map(|placement| placement.uses(ProcessorKind::Npu)).collect()
    };
    let own = on_npu(plan);
    let others = neighbours.iter().filter(|changed| on_npu(changed) != own);
    let gathered =
        |changed: &Plan| [true, false].map(|npu_first| gathered(&model.stages, changed.clone(), npu_first));
    let mut all = all_moved(&model.stages, plan, stage);
    all.extend(others.flat_map(gathered));
    all
}

/// The plans in which a stage, alone or with another one, is whole on another processor, or its part and those of its
/// chain on other cores, or, in a small workload, the stage is cut in two.
pub(in crate::explore::optimal) fn neighbours(model: &Model<'_>, plan: &Plan, stage: usize) -> Vec<Plan> {
    let count = model.stages.len();
    let whole = |(kind, other): (ProcessorKind, Option<usize>)| {
        let mut changed = plan.clone();
        for stage in std::iter::once(stage).chain(other) {
            changed.placements[stage] = Placement::whole(fastest_whole(model, stage, kind)?.0);
            clear_chain(&mut changed, stage);
        }
        Some(changed)
    };
    let chain = plan.chain(stage);
    let is_meant = |other: usize| other == stage || (chain.is_some() && plan.chain(other) == chain);
    let on_cores = |&cores: &CoreSet| {
        let mut changed = plan.clone();
        for (_, placement) in changed.placements.iter_mut().enumerate().filter(|(at, _)| is_meant(*at)) {
            let own = |by: Processor| by.cores().map_or(by, |_| Processor::Cpu(cores));
            *placement = placement.parts().map(|part| Part { by: own(part.by), ..part }).collect();
        }
        changed
    };
    let others = if count > MAX_PAIRED_STAGES { stage + 1..(stage + 2).min(count) } else { 0..stage };
    let pairs = |kind: ProcessorKind| {
        std::iter::once((kind, None)).chain(others.clone().map(move |other| (kind, Some(other))))
    };
    let wholes = ProcessorKind::ALL.into_iter().flat_map(pairs).filter_map(whole);
    let cuts = if count > MAX_CUT_STAGES { Vec::new() } else { cut_in_two(model, plan, stage) };
    let all = wholes.chain(model.core_sets.iter().map(on_cores)).chain(cuts);
    all.filter(|changed| changed != plan).collect()
}

/// The plans in which a stage is cut between two processors, its parts left apart in a chain of their own, whose
/// readers take what they need from each, or joined at once.
fn cut_in_two(model: &Model<'_>, plan: &Plan, stage: usize) -> Vec<Plan> {
    let on_cpu = || model.core_sets.iter().map(|&cores| Processor::Cpu(cores));
    let mut pairs: Vec<[Processor; 2]> = on_cpu().map(|cpu| [cpu, Processor::Gpu]).collect();
    if model.uses_npu {
        pairs.push([Processor::NPU, Processor::Gpu]);
        pairs.extend(on_cpu().map(|cpu| [cpu, Processor::NPU]));
    }
    let shares = |axis: Axis| {
        let all = axis.extent(&model.stages[stage].layer.operator).unwrap_or(0);
        let in_units = move |divisor: u32| all / divisor / axis.unit() * axis.unit();
        let smaller = CUT_DIVISORS.into_iter().map(in_units).filter(|&share| share > 0);
        smaller.flat_map(move |share| [(axis, [share, all - share]), (axis, [all - share, share])])
    };
    let between = |(axis, [first, second]): (Axis, [u32; 2])| {
        pairs.iter().map(move |&[one, other]| Placement::cut(axis, [(one, first), (other, second)]))
    };
    let placed = |placement: Placement| {
        // Apart first: of two plans of equal cost, its readers may still do without the join.
        [true, false].map(|is_apart| {
            let mut changed = plan.clone();
            changed.placements[stage] = placement;
            let chain = own_chain(&mut changed);
            changed.chains[stage] = is_apart.then_some(chain);
            changed
        })
    };
    Axis::ALL.into_iter().flat_map(shares).flat_map(between).flat_map(placed).collect()
}

/// The plans in which some rows or channels of a stage belong to another of its parts.
fn shifts(plan: &Plan, stage: usize) -> Vec<Plan> {
    let placement = &plan.placements[stage];
    let Some(axis) = placement.axis() else { return Vec::new() };
    let parts = placement.parts().count();
    let pairs = (0..parts).flat_map(|from| (0..parts).map(move |to| (from, to)));
    let all = pairs.flat_map(|pair| SHIFTS.map(move |power| (pair, axis.unit() << power)));
    all.filter_map(|(pair, lines)| shifted(plan, stage, pair, lines)).collect()
}

//! Other orders of a plan's stages.
//!
//! Responsible for: orders in which each stage follows its inputs. Not for: which of them is better. Invariant:
//! placements and chains stay as they are.

use std::ops::RangeInclusive;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use crate::device::ProcessorKind;
use crate::plan::Plan;
use crate::workload::Stage;

/// The plan with a random stage moved in its order as far as its inputs and readers allow; `None` if it cannot move.
pub(super) fn moved(stages: &[Stage], plan: &Plan, random: &mut ChaCha8Rng) -> Option<Plan> {
    let order: Vec<usize> = plan.in_order().collect();
    let from = random.random_range(0..order.len());
    let to = random.random_range(places(stages, &order, from));
    (to != from).then(|| at(plan, order, from, to))
}

/// The plan with a stage at every other place in its order.
pub(super) fn all_moved(stages: &[Stage], plan: &Plan, stage: usize) -> Vec<Plan> {
    let order: Vec<usize> = plan.in_order().collect();
    let Some(from) = order.iter().position(|&other| other == stage) else { return Vec::new() };
    let others = places(stages, &order, from).filter(|&to| to != from);
    others.map(|to| at(plan, order.clone(), from, to)).collect()
}

/// The places in the order that its inputs and readers leave to the stage at `from`.
fn places(stages: &[Stage], order: &[usize], from: usize) -> RangeInclusive<usize> {
    let stage = order[from];
    let is_input = |other: &usize| stages[stage].inputs().any(|input| input == *other);
    let is_reader = |&other: &usize| stages[other].inputs().any(|input| input == stage);
    let earliest = order[..from].iter().rposition(is_input).map_or(0, |input| input + 1);
    let latest = order[from + 1..].iter().position(is_reader).map_or(order.len() - 1, |reader| from + reader);
    earliest..=latest
}

fn at(plan: &Plan, mut order: Vec<usize>, from: usize, to: usize) -> Plan {
    let stage = order.remove(from);
    order.insert(to, stage);
    in_order(plan.clone(), order)
}

/// The plan in an order in which the stages with a part on the NPU come as early as their inputs allow, or as late.
/// Results that cross in between divide the NPU's stages into more graphs.
pub(super) fn gathered(stages: &[Stage], plan: Plan, npu_first: bool) -> Plan {
    let mut left: Vec<usize> = plan.in_order().collect();
    let mut is_placed = vec![false; stages.len()];
    let mut order = Vec::with_capacity(stages.len());
    while !left.is_empty() {
        let is_ready = |stage: &&usize| stages[**stage].inputs().all(|input| is_placed[input]);
        let is_first = |stage: &&usize| plan.placements[**stage].uses(ProcessorKind::Npu) == npu_first;
        let ready = || left.iter().filter(is_ready);
        let Some(&stage) = ready().find(is_first).or_else(|| ready().next()) else { break };
        is_placed[stage] = true;
        order.push(stage);
        left.retain(|&other| other != stage);
    }
    in_order(plan, order)
}

fn in_order(plan: Plan, order: Vec<usize>) -> Plan {
    // An empty order is that of the workload.
    Plan { order: if order.is_sorted() { Vec::new() } else { order }, ..plan }
}

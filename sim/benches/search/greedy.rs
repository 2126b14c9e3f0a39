//! Coordinate descent over whole plans: one operator at a time gets the placement that simulates best.
//!
//! The search starts from the best plan on a single processor and sweeps over the operators in order until a
//! sweep brings no improvement. Invariant: no step makes the plan worse.

use coexec_sim::explore::{Explorer, choices};
use coexec_sim::plan::{Placement, Plan};
use coexec_sim::simulate::Result;

/// Cuts are tried at multiples of one eighth.
const PARTS: u32 = 8;

/// The best plan found after at most `plans` simulations.
///
/// # Errors
/// No available processor has a kernel for an operator.
pub(super) fn find(explorer: &mut Explorer<'_, '_>, plans: usize) -> Result<Plan> {
    let choices = choices(explorer)?;
    let singles = explorer.baselines();
    let start = explorer.best(singles).map(|single| single.plan);
    // Where no single processor has all kernels, each operator starts on the first one that has its kernel.
    let first = || choices.iter().filter_map(|choices| choices.spread(1).first().copied()).collect();
    let mut plan = start.unwrap_or_else(|_| explorer.plan(first()));
    let mut cost = explorer.fitting_cost(&plan)?;
    let mut left = plans;
    loop {
        let before = cost;
        for (stage, choices) in choices.iter().enumerate() {
            for placement in choices.spread(PARTS) {
                if left == 0 {
                    return Ok(plan);
                }
                left -= 1;
                let mut changed: Vec<Placement> = plan.placements.clone();
                changed[stage] = placement;
                let changed = explorer.plan(changed);
                let other = explorer.fitting_cost(&changed)?;
                if other < cost {
                    (cost, plan) = (other, changed);
                }
            }
        }
        if cost >= before {
            return Ok(plan);
        }
    }
}

//! Operator by operator, what simulates best given what was chosen before: the plainest search of whole plans.
//!
//! It begins with everything where it is best alone on one processor, goes through the operators in their order,
//! and again as long as that helps. Invariant: no choice makes the plan worse.

use coexec_sim::explore::{Explorer, choices};
use coexec_sim::plan::{Placement, Plan};
use coexec_sim::simulate::Result;

/// Places of each cut that are tried, one less: by eighths.
const PARTS: u32 = 8;

/// The plan after at most so many were simulated.
///
/// # Errors
/// No processor offered has a kernel for an operator.
pub(super) fn find(explorer: &mut Explorer<'_, '_>, plans: usize) -> Result<Plan> {
    let choices = choices(explorer)?;
    let singles = explorer.baselines();
    let start = explorer.best(singles).map(|single| single.plan);
    // Where no processor has all kernels, each operator begins with the first that has one.
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

//! The ratio of each chain of a plan, moved while simulating says that it helps.
//!
//! Dynamic programming prices what processors take alone; in a chain they also disturb
//! each other, and a chain that another strategy found has that strategy's ratio.

use super::chaining::nominal;
use crate::explore::Objective;
use crate::explore::explorer::Explorer;
use crate::plan::{Placement, Plan, ProcessorKind};
use crate::schedule::ScheduleError;
use crate::simulate::SimulateError;

/// How far a ratio is moved at once, from far to near.
const MOVES: [f64; 2] = [0.04, 0.015];

/// Operators that are simulated, over all plans: what a search may take of them.
const SIMULATED_OPERATORS: usize = 3_600;

/// Plans that are simulated, at least and at most.
const SIMULATED: [usize; 2] = [30, 120];

/// A plan at least as good as `plan`, and how many were simulated.
pub(super) fn polish(explorer: &mut Explorer<'_, '_>, plan: Plan) -> Result<(Plan, usize), SimulateError> {
    let mut chains: Vec<u32> = plan.chains.iter().flatten().copied().collect();
    chains.dedup();
    let plan_length = plan.placements.len();
    let mut best = (cost(explorer, &plan)?, plan);
    let [fewest, most] = SIMULATED;
    let most = (SIMULATED_OPERATORS / plan_length.max(1)).clamp(fewest, most);
    let mut simulated = 0;
    for chain in chains {
        for distance in MOVES {
            for distance in [distance, -distance] {
                // As long as it helps.
                while simulated < most {
                    let Some(moved) = moved(explorer, &best.1, chain, distance) else { break };
                    simulated += 1;
                    match cost_of_moved(explorer, &moved)? {
                        Some(cost) if cost < best.0 => best = (cost, moved),
                        _ => break,
                    }
                }
            }
        }
    }
    Ok((best.1, simulated))
}

/// The same of a plan with moved cuts; none where a chain cannot be cut so.
fn cost_of_moved(explorer: &mut Explorer<'_, '_>, plan: &Plan) -> Result<Option<f64>, SimulateError> {
    match cost(explorer, plan) {
        Ok(cost) => Ok(Some(cost)),
        Err(SimulateError::Schedule(ScheduleError::Chain(_))) => Ok(None),
        Err(error) => Err(error),
    }
}

fn cost(explorer: &mut Explorer<'_, '_>, plan: &Plan) -> Result<f64, SimulateError> {
    if explorer.options.objective == Objective::Latency {
        let latency = explorer.simulator.latency(explorer.stages, plan)?;
        return Ok(Objective::Latency.cost(latency, None));
    }
    let prediction = explorer.simulator.run(explorer.stages, plan)?;
    Ok(explorer.cost(&prediction))
}

/// The plan with the CPU's share of one chain moved by `distance`; `None` where that cannot
/// be, or changes nothing.
fn moved(explorer: &Explorer<'_, '_>, plan: &Plan, chain: u32, distance: f64) -> Option<Plan> {
    let members = || (0..plan.placements.len()).filter(|&stage| plan.chain(stage) == Some(chain));
    let shares: Vec<f64> =
        members().map(|stage| plan.placements[stage].fraction(ProcessorKind::Cpu)).collect();
    let share = shares.iter().sum::<f64>() / shares.len() as f64 + distance;
    if !(0.0..1.0).contains(&share) {
        return None;
    }
    let mut placements = plan.placements.clone();
    for stage in members() {
        placements[stage] = placed(explorer, stage, &plan.placements[stage], share)?;
    }
    (placements != plan.placements).then(|| Plan { placements, ..plan.clone() })
}

fn placed(explorer: &Explorer<'_, '_>, stage: usize, placement: &Placement, share: f64) -> Option<Placement> {
    nominal(&explorer.stages[stage], placement.axis()?, placement.cores()?, share)
}

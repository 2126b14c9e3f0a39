//! Strategies that place operators by a rule instead of a search.
//!
//! A rule yields a few whole plans: one for each core set, or each threshold. Simulated,
//! the best of them is the strategy's answer, also where a single processor is faster.

use super::chain::baselines;
use super::{Answer, Options, Strategy, layer_wise, proportional};
use crate::plan::Plan;
use crate::simulate::{Prediction, SimulateError, Simulator};
use crate::workload::Stage;

/// The plan of a rule; none for a strategy that is none.
pub(super) fn explore(
    simulator: &mut Simulator<'_>,
    stages: &[Stage],
    options: &Options,
) -> Result<Option<Answer>, SimulateError> {
    let candidates = match options.strategy {
        Strategy::FlopsProportional => proportional::placements(simulator, stages, options)?,
        Strategy::LayerWise => layer_wise::candidates(simulator, stages, options)?,
        _ => return Ok(None),
    };
    let considered = candidates.len();
    let mut best: Option<(f64, Plan, Prediction)> = None;
    for placements in candidates {
        let plan = Plan::new(options.synchronisation, placements);
        let prediction = simulator.run(stages, &plan)?;
        let cost = options.objective.cost(prediction.latency, prediction.energy);
        if best.as_ref().is_none_or(|(least, ..)| cost < *least) {
            best = Some((cost, plan, prediction));
        }
    }
    let (_, plan, prediction) = best.ok_or(SimulateError::NothingToUse)?;
    let baselines = baselines(simulator, stages, options);
    Ok(Some(Answer { plan, prediction, baselines, searches: Vec::new(), considered }))
}

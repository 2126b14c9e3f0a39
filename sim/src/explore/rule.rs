//! Strategies that place operators by a rule instead of a search.
//!
//! A rule yields a few whole plans: one for each core set, or each threshold. Simulated,
//! the best of them is the strategy's answer, also where a single processor is faster.

use super::explorer::{Explorer, Found};
use super::{Strategy, layer_wise, proportional};
use crate::simulate::SimulateError;

/// The best plan of the rule that `strategy` is.
pub(super) fn find(explorer: &mut Explorer<'_, '_>, strategy: Strategy) -> Result<Found, SimulateError> {
    let candidates = match strategy {
        Strategy::LayerWise => layer_wise::candidates(explorer)?,
        _ => proportional::placements(explorer)?,
    };
    // Layers go to the CPU so that it works at one batch while the GPU works at the next.
    let pipeline = explorer.pipeline.filter(|_| strategy == Strategy::LayerWise);
    let considered = candidates.len();
    let mut best: Option<(f64, Found)> = None;
    for placements in candidates {
        let found = explorer.found(strategy, explorer.plan(placements), considered)?;
        let cost = match pipeline {
            Some(pipeline) => {
                explorer.simulator.stream(explorer.stages, &found.plan, pipeline)?.period.as_seconds()
            }
            None => explorer.cost(&found.prediction),
        };
        if best.as_ref().is_none_or(|(least, _)| cost < *least) {
            best = Some((cost, found));
        }
    }
    best.map(|(_, found)| found).ok_or(SimulateError::NothingToUse)
}

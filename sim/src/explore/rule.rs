//! Strategies that place operators by a rule instead of a search.
//!
//! A rule yields a few whole plans: one for each core set, or each threshold. Simulated,
//! the best of them is the strategy's answer, also where a single processor is faster.

use super::explorer::{Explorer, Found};
use super::{Strategy, layer_wise, proportional};
use crate::simulate::SimulateError;

/// The best plan of the rule that `strategy` is.
pub(super) fn find(explorer: &mut Explorer<'_, '_>, strategy: Strategy) -> Result<Found, SimulateError> {
    let Explorer { simulator, stages, options, .. } = &*explorer;
    let candidates = match strategy {
        Strategy::LayerWise => layer_wise::candidates(simulator, stages, options)?,
        _ => proportional::placements(simulator, stages, options)?,
    };
    let considered = candidates.len();
    let mut best: Option<Found> = None;
    for placements in candidates {
        let found = explorer.found(strategy, explorer.plan(placements), considered)?;
        let cost = explorer.cost(&found.prediction);
        if best.as_ref().is_none_or(|best| cost < explorer.cost(&best.prediction)) {
            best = Some(found);
        }
    }
    best.ok_or(SimulateError::NothingToUse)
}

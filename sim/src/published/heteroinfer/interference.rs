//! Section 5.7, figure 19: a game beside the model.

use super::Runs;
use crate::published::{Comparison, Limit, ReproduceError};

#[allow(clippy::unnecessary_wraps, reason = "the signature that all parts have")]
pub(super) fn compare(comparison: &mut Comparison, _runs: &Runs<'_>) -> Result<(), ReproduceError> {
    comparison.group("beside a game", Limit::default());
    comparison.rest_not_reproduced("the game's own load is not published", |fact| fact.id.contains("game"));
    Ok(())
}

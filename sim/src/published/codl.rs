//! `CoDL` (MobiSys'22): the runs behind its published numbers.

use super::{Comparison, Inputs, Limit, ReproduceError};

/// Sets ours beside the published numbers.
///
/// # Errors
/// A run cannot be simulated.
#[allow(clippy::unnecessary_wraps, reason = "the signature that all papers have")]
pub(super) fn compare(comparison: &mut Comparison, _inputs: &Inputs) -> Result<(), ReproduceError> {
    comparison.group("not compared", Limit::default());
    comparison.rest_not_reproduced("it has no scenario here", |_| true);
    Ok(())
}

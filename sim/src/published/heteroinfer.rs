//! HeteroInfer (SOSP'25): the runs behind its published numbers.

mod consistency;

use super::{Comparison, Inputs, Limit, ReproduceError};

/// Sets ours beside the published numbers.
///
/// # Errors
/// A run cannot be simulated.
#[allow(clippy::unnecessary_wraps, reason = "the signature that all papers have")]
pub(super) fn compare(comparison: &mut Comparison, _inputs: &Inputs) -> Result<(), ReproduceError> {
    comparison.group("contradicted by other published numbers", Limit::default());
    for id in consistency::CONTESTED {
        if let Some(argument) = consistency::argument(comparison, id) {
            comparison.not_reproduced(id, &argument);
        }
    }
    comparison.group("not compared", Limit::default());
    comparison.rest_not_reproduced("it has no scenario here", |_| true);
    Ok(())
}

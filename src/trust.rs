//! How far to trust an answer: its interval, what it rests on, how to check it.

use coexec_sim::explore::advice::interval;
use coexec_sim::simulate::{Errors, Known, Simulator};
use coexec_sim::{Basis, Picos, Plan, Stage};
use serde::Serialize;

use crate::failure::Failure;
use crate::output;

/// How far a plan's latency may be off.
#[derive(Serialize)]
pub(crate) struct Trust {
    /// What 90 % of draws of the errors lie between.
    interval_ps: [Picos; 2],
    /// How far the profile may be off.
    errors: Errors,
}

impl Trust {
    pub(crate) fn of(
        simulator: &Simulator<'_>,
        (stages, plan): (&[Stage], &Plan),
        errors: Errors,
    ) -> Result<Self, Failure> {
        Ok(Self { interval_ps: interval(simulator, (stages, plan), &errors)?, errors })
    }

    /// Prints the interval, what the times of each processor rest on, and what checks the answer.
    pub(crate) fn tell(&self, known: &[Known], check: &str) {
        let [low, high] = self.interval_ps;
        let basis = known.iter().filter(|known| known.basis != Basis::NotKnown).map(|known| {
            let Known { processor, basis, .. } = known;
            format!(
                "{} {basis} (off by {:.0} %)",
                processor.label(),
                self.errors.common_percent[*processor as usize]
            )
        });
        output::line(&format!("Between {low} and {high} in 90 % of draws of the profile's errors"));
        output::line(&format!("Basis: {}", basis.collect::<Vec<_>>().join(", ")));
        output::line(&format!("Verify on the phone: {check}"));
    }
}

//! How far to trust an answer: its interval, the basis of its times, and how to verify it.

use coexec_sim::explore::Objective;
use coexec_sim::simulate::generation::GenerationDrawn;
use coexec_sim::simulate::{Drawn, Errors, Known, Pipeline, Simulator};
use coexec_sim::{Basis, Picos, Plan, Scenario, Stage};
use serde::Serialize;

use crate::output::listed;
use crate::{Result, output};

/// Uncertainty of an answer. Draws are serialised as the interval that contains 90 % of them.
#[derive(Serialize)]
#[serde(untagged)]
pub(crate) enum Trust {
    Plan {
        interval_ps: Drawn,
        median_ps: Picos,
        /// Whether both are of the period between batches, not of a single batch's latency.
        is_of_period: bool,
        /// Errors of the profile that the draws are made from.
        errors: Errors,
        /// Whether submission to the GPU and read-back belong to the latency but are not known.
        lacks_host_path: bool,
    },
    Language(Box<GenerationDrawn>),
}

impl Trust {
    /// The uncertainty of a plan: of its period if there is a `pipeline`, else of its latency.
    pub(crate) fn of(
        simulator: &Simulator<'_>,
        plan: (&[Stage], &Plan),
        pipeline: Option<&Pipeline>,
        errors: Errors,
    ) -> Result<Self> {
        let interval_ps = Drawn::of(simulator, plan, pipeline, &errors)?;
        Ok(Self::Plan {
            median_ps: interval_ps.median(),
            interval_ps,
            is_of_period: pipeline.is_some(),
            errors,
            lacks_host_path: simulator.lacks_host_path(),
        })
    }

    /// The latency, or period, in each draw.
    pub(crate) fn drawn(&self) -> &Drawn {
        match self {
            Self::Plan { interval_ps, .. } => interval_ps,
            Self::Language(drawn) => &drawn.latency,
        }
    }

    /// Prints the interval, the basis of each processor's times, and `check`, the way to verify the
    /// answer.
    pub(crate) fn print(&self, known: &[Known], check: &str) {
        let [low, high] = self.drawn().interval();
        let (between, basis) = match self {
            Self::Plan { median_ps, is_of_period, errors, lacks_host_path, .. } => {
                let what = if *is_of_period { "Period between" } else { "Between" };
                let lacking = if *lacks_host_path { LACKS_HOST_PATH } else { "" };
                let between = format!("{what} {low} and {high} {OF_DRAWS}, {median_ps} in the median");
                (between, basis(known, errors) + lacking)
            }
            Self::Language(drawn) => {
                let GenerationDrawn { first_token, tokens_per_second, known, errors, .. } = drawn.as_ref();
                let [low, high] = first_token.interval();
                let first = format!("First token after {low} to {high}");
                let [prompt, answer] = [0, 1].map(|part| basis(&known[part], &errors[part]));
                match tokens_per_second {
                    None => (format!("{first} {OF_DRAWS}"), prompt),
                    Some([low, high]) => (
                        format!("{first}, then {low:.2} to {high:.2} tokens/s, {OF_DRAWS}"),
                        format!("prompt {prompt}; answer {answer}"),
                    ),
                }
            }
        };
        output::line(&between);
        output::line(&format!("Basis: {basis}"));
        output::line(check);
    }
}

/// The basis of each processor's times, with its mean error.
pub(crate) fn basis(known: &[Known], errors: &Errors) -> String {
    let of = |Known { processor, basis, .. }: &Known| {
        let percent = errors.common_percent[*processor as usize];
        format!("{} {basis} (off by {percent:.0} %)", processor.label())
    };
    let is_known = |known: &&Known| known.basis != Basis::NotKnown;
    listed(known.iter().filter(is_known).map(of))
}

/// What every interval holds.
const OF_DRAWS: &str = "in 90 % of draws of the profile's errors";

/// What is added to the basis where [`Trust::Plan`] lacks the host path.
const LACKS_HOST_PATH: &str = "; the GPU's submission and read-back are not known and not counted";

/// The note below a table that contains a `~`.
pub(crate) const UNCERTAIN_NOTE: &str =
    "~: not sure which is faster: less than 80 % of draws of the profile's errors agree";

/// The scenario's pipeline, if its period is what the search minimises.
pub(crate) fn streamed(scenario: &Scenario) -> Option<&Pipeline> {
    scenario.pipeline.as_ref().filter(|_| scenario.options.objective == Objective::Latency)
}

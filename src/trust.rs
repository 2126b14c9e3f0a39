//! How far to trust an answer: its interval, what it rests on, how to check it.

use coexec_sim::explore::Objective;
use coexec_sim::simulate::generation::GenerationDrawn;
use coexec_sim::simulate::{Drawn, Errors, Known, Pipeline, Simulator};
use coexec_sim::{Basis, Plan, Scenario, Stage};
use serde::Serialize;

use crate::output::listed;
use crate::{Result, output};

/// How far an answer may be off: what is drawn is written as what 90 % of the draws lie between.
#[derive(Serialize)]
#[serde(untagged)]
pub(crate) enum Trust {
    Plan {
        interval_ps: Drawn,
        /// Whether that is of the time from batch to batch, rather than of one.
        is_of_period: bool,
        /// How far the profile may be off.
        errors: Errors,
    },
    Language(Box<GenerationDrawn>),
}

impl Trust {
    /// Of a plan, streamed where there is a pipeline.
    pub(crate) fn of(
        simulator: &Simulator<'_>,
        plan: (&[Stage], &Plan),
        pipeline: Option<&Pipeline>,
        errors: Errors,
    ) -> Result<Self> {
        let interval_ps = Drawn::of(simulator, plan, pipeline, &errors)?;
        Ok(Self::Plan { interval_ps, is_of_period: pipeline.is_some(), errors })
    }

    /// What counts of the plan, in each draw.
    pub(crate) fn drawn(&self) -> &Drawn {
        match self {
            Self::Plan { interval_ps, .. } => interval_ps,
            Self::Language(drawn) => &drawn.latency,
        }
    }

    /// Prints the interval, what the times of each processor rest on, and what checks the answer.
    pub(crate) fn tell(&self, known: &[Known], check: &str) {
        let [low, high] = self.drawn().interval();
        let (between, basis) = match self {
            Self::Plan { is_of_period, errors, .. } => {
                let what = if *is_of_period { "Period between" } else { "Between" };
                (format!("{what} {low} and {high}"), basis(known, errors))
            }
            Self::Language(drawn) => {
                let GenerationDrawn { first_token, tokens_per_second, known, errors, .. } = drawn.as_ref();
                let [low, high] = first_token.interval();
                let first = format!("First token after {low} to {high}");
                let [prompt, answer] = [0, 1].map(|part| basis(&known[part], &errors[part]));
                match tokens_per_second {
                    None => (first, prompt),
                    Some([low, high]) => (
                        format!("{first}, then {low:.2} to {high:.2} tokens/s,"),
                        format!("prompt {prompt}; answer {answer}"),
                    ),
                }
            }
        };
        output::line(&format!("{between} in 90 % of draws of the profile's errors"));
        output::line(&format!("Basis: {basis}"));
        output::line(check);
    }
}

/// What the times of each processor rest on, and how far they are off.
pub(crate) fn basis(known: &[Known], errors: &Errors) -> String {
    let of = |Known { processor, basis, .. }: &Known| {
        let percent = errors.common_percent[*processor as usize];
        format!("{} {basis} (off by {percent:.0} %)", processor.label())
    };
    let is_known = |known: &&Known| known.basis != Basis::NotKnown;
    listed(known.iter().filter(is_known).map(of))
}

/// What stands below a table with a `~`.
pub(crate) const UNSURE: &str =
    "~: which is faster is not sure, in less than 80 % of draws of the profile's errors";

/// How batches follow each other, where the time from one to the next is what counts.
pub(crate) fn streamed(scenario: &Scenario) -> Option<&Pipeline> {
    scenario.pipeline.as_ref().filter(|_| scenario.options.objective == Objective::Latency)
}

//! Which plan `coexec explore` advises given the profile's errors, and the sentences that explain it.

use coexec_sim::explore::advice::{
    self, CONFIDENCE, Certainty, Regret, Regrets, Robust, Sensitivity, best_single, sensitivities,
};
use coexec_sim::explore::{Answer, Found, Objective};
use coexec_sim::simulate::{Errors, Known, Simulator};
use coexec_sim::{Plan, ProcessorKind, Scenario};
use serde::Serialize;

use crate::output::{listed, percent, row};
use crate::trust::streamed;
use crate::{Explore, Failure, OneOrAll, Result, Trust, output};

/// The advised plan, and why it is advised.
pub(crate) struct Advice {
    /// The answer, whose plan is the advised one.
    pub(crate) answer: Answer,
    /// The plan found by the search, if a single processor is advised instead.
    pub(crate) instead: Option<Found>,
    /// How certain it is that the plan found beats the best single processor; none if there is nothing
    /// to compare.
    pub(crate) certainty: Option<Certainty>,
    pub(crate) robust: Option<RobustEntry>,
    /// Interval and basis of the advised plan's prediction.
    pub(crate) trust: Trust,
}

/// Result of a choice by regret, compared with the nominal plan: the best one under the profile's
/// nominal values.
#[derive(Serialize)]
pub(crate) struct RobustEntry {
    by: Regret,
    #[serde(flatten)]
    robust: Robust,
    /// Latency of the chosen plan over that of the nominal plan, both under nominal values.
    relative_to_nominal: f64,
    /// Sensitivities of the nominal plan's gain over the best single processor, largest first.
    sensitivities: Vec<Sensitivity>,
}

/// Chooses the plan to advise, given the search's answer and the profile's errors.
pub(crate) fn of(
    options: &Explore,
    scenario: &Scenario,
    simulator: &mut Simulator<'_>,
    (mut answer, known): (Answer, &[Known]),
) -> Result<Advice> {
    let errors = options.profile_error.map_or_else(|| Errors::of(&scenario.device, known), Errors::common);
    let (stages, pipeline) = (scenario.stages(), streamed(scenario));
    let is_latency = scenario.options.objective == Objective::Latency;
    if !is_latency || pipeline.is_some() {
        let by_regret = [("--robust", options.robust.is_some())];
        Failure::refuse_given(&by_regret, "for the latency of one batch alone", "leave it out")?;
    }
    let mut robust = None;
    if let Some(by) = options.robust {
        let found = advice::robust(simulator, (stages, &scenario.options), &answer, (&errors, by))?;
        let sensitivities = match best_single(&answer, &answer.plan) {
            Some(single) => sensitivities(simulator, (stages, &answer.plan), &single.plan, &errors)?,
            None => Vec::new(),
        };
        let Found { plan, prediction, .. } = found.found.clone();
        let relative_to_nominal = prediction.latency.0 as f64 / answer.prediction.latency.0 as f64;
        (answer.plan, answer.prediction) = (plan, prediction);
        robust = Some(RobustEntry { by, robust: found, relative_to_nominal, sensitivities });
    }
    let trust = |plan: &Plan| Trust::of(simulator, (stages, plan), pipeline, errors);
    let mut own = trust(&answer.plan)?;
    // The single processor with the least latency also has the shortest period.
    let single = best_single(&answer, &answer.plan).filter(|_| is_latency);
    // A plan that takes as long as one processor alone is neither faster nor slower.
    let as_long = |single: &&Found| single.prediction.latency == answer.prediction.latency;
    let Some(single) = single.filter(|single| !as_long(single)).cloned() else {
        return Ok(Advice { answer, instead: None, certainty: None, robust, trust: own });
    };
    let alone = trust(&single.plan)?;
    let certainty = Certainty::new(own.drawn(), (single.strategy, alone.drawn()), errors);
    let is_named = options.place.strategy.and_then(OneOrAll::one).is_some();
    let mut instead = None;
    if !(certainty.is_sure(options.confidence) || is_named || options.nominal || robust.is_some()) {
        own = alone;
        let plan = std::mem::replace(&mut answer.plan, single.plan);
        let prediction = std::mem::replace(&mut answer.prediction, single.prediction);
        let strategy = scenario.options.strategy;
        let period = std::mem::replace(&mut answer.period, single.period);
        instead = Some(Found { strategy, plan, prediction, considered: answer.considered, period });
    }
    Ok(Advice { answer, instead, certainty: Some(certainty), robust, trust: own })
}

/// Refuses the options that need draws of errors, which are supported `only` for some workloads.
/// `--nominal` is accepted: most other workloads do so anyway.
pub(crate) fn refuse(options: &Explore, only: &str) -> Result {
    let of_draws = [
        ("--robust", options.robust.is_some()),
        ("--confidence", options.confidence != CONFIDENCE),
        ("--profile-error", options.profile_error.is_some()),
    ];
    Failure::refuse_given(&of_draws, &format!("{only} alone"), "leave it out")
}

impl Advice {
    /// How certain the advice is, in one sentence.
    pub(crate) fn sentence(&self, confidence: f64) -> Option<String> {
        let certainty = self.certainty?;
        let Certainty { over, draws, faster, .. } = certainty;
        let over = over.name();
        let part = |count: u64| format!("{} % of draws of the profile's errors", 100 * count / draws);
        if let Some(Found { strategy, .. }) = &self.instead {
            let strategy = strategy.name();
            return Some(format!(
                "The plan of {strategy} is faster than {over} in {}:\n{over} is advised; --nominal takes that plan",
                part(faster)
            ));
        }
        if 2 * faster < draws {
            return Some(format!(
                "Slower than {over} in {}: {over} is the better choice",
                part(draws - faster)
            ));
        }
        let advice = if certainty.is_sure(confidence) {
            String::new()
        } else {
            format!(": not sure, {over} is the safer choice")
        };
        Some(format!("Faster than {over} in {}{advice}", part(faster)))
    }

    /// Prints the regrets and the sensitivities of a choice by regret.
    pub(crate) fn print_robust(&self) {
        let Some(RobustEntry { robust, relative_to_nominal, sensitivities, .. }) = &self.robust else {
            return;
        };
        let Robust { plans, draws, nominal, chosen, .. } = robust;
        output::line(&format!(
            "\nRegret in {draws} draws of the profile's errors, over the fastest of {plans} plans in each:\n"
        ));
        let cells = |(name, regrets, relative): (&str, &Regrets, f64)| {
            let Regrets { mean_percent, p95_percent, best } = *regrets;
            row![name, format!("{relative:.3}x"), percent(mean_percent), percent(p95_percent), best]
        };
        let rows = [("nominal plan", nominal, 1.0), ("this plan", chosen, *relative_to_nominal)].map(cells);
        output::table(&["plan", "nominal latency", "mean", "95th", "fastest in"], rows);
        let part = |sensitivity: &Sensitivity| {
            let of = sensitivity.processor.map_or("hand-overs and joins", ProcessorKind::label);
            format!("of {of} {:.2}x", sensitivity.gain)
        };
        if let (false, Some(certainty)) = (sensitivities.is_empty(), self.certainty) {
            output::line(&format!(
                "\nGain of the nominal plan over {} where times are a tenth longer, most decisive first:\n  {}",
                certainty.over.name(),
                listed(sensitivities.iter().map(part))
            ));
        }
    }
}

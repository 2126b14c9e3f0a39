//! Strategies side by side on many models and devices, and the gain of one over the others.
//!
//! Responsible for: running the strategies on one model and device, and means over many. Not
//! for: choosing models and devices, or running them in parallel (the caller's).
//! Invariant: a row depends on its model, device and options alone; summaries do not depend
//! on the order of rows, except for which of equal rows they name as the extreme.

use serde::Serialize;

use super::advice::CONFIDENCE;
use super::{Explorer, Found, Objective, SearchOptions, Strategy};
use crate::device::ProcessorKind;
use crate::simulate::{Drawn, Errors, Known, Result, SimulateError, Simulator, known};
use crate::units::{Joules, Picos};
use crate::workload::Stage;

/// The costs of one strategy's plan on one model and device.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// The strategy.
    pub strategy: Strategy,
    /// Latency of its plan.
    #[serde(rename = "latency_ps")]
    pub latency: Picos,
    /// Latencies in draws of the device's errors; serialised as their 90 % interval.
    #[serde(rename = "interval_ps")]
    pub drawn: Drawn,
    /// Energy of its plan; `None` if the device's power is unknown.
    #[serde(rename = "energy_joules")]
    pub energy: Option<Joules>,
    /// The minimised quantity, in seconds, joules or joule-seconds.
    pub cost: f64,
    /// Whether its plan fits into the device's memory; `None` where the size of that is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fits_memory: Option<bool>,
}

/// The strategies on one model and device.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StrategyRow {
    /// The model.
    pub scenario: String,
    /// The device.
    pub device: String,
    /// The requested strategies that have a plan, in the order requested.
    pub outcomes: Vec<Outcome>,
    /// Lower bound of the cost of every plan in the workload's order, in the unit of the objective, if
    /// [`Strategy::Optimal`] was requested.
    pub bound: Option<f64>,
    /// Whether the plan of [`Strategy::Optimal`] runs branches in another order, which the bound does not cover.
    pub is_reordered: bool,
    /// The basis of each processor's times.
    pub known: Vec<Known>,
    /// Errors of the device's times.
    pub errors: Errors,
    /// The strategies whose plan is not clearly faster or slower than that of [`Strategy::Optimal`].
    pub unsure: Vec<Strategy>,
}

impl StrategyRow {
    /// Runs each of `strategies`, and omits those without a plan.
    ///
    /// # Errors
    /// No strategy has a plan: the error of the last one.
    pub fn of(
        (scenario, stages): (&str, &[Stage]),
        simulator: &mut Simulator<'_>,
        options: &SearchOptions,
        strategies: &[Strategy],
    ) -> Result<Self> {
        let device = simulator.device().name.clone();
        let known = known(simulator.device(), simulator.library(), &options.core_sets, stages);
        let errors = Errors::of(simulator.device(), &known);
        let mut explorer = Explorer::new(simulator, stages, options);
        let mut all: Vec<Found> = Vec::with_capacity(strategies.len());
        let mut last_error = SimulateError::NothingToUse;
        let (mut bound, mut is_reordered) = (None, false);
        for &strategy in strategies {
            match explorer.find(strategy) {
                Ok(found) => {
                    if strategy == Strategy::Optimal {
                        bound = Some(explorer.bound(&found)?);
                        is_reordered = found.plan.is_reordered();
                    }
                    all.push(found);
                }
                Err(error) => last_error = error,
            }
        }
        let mut outcomes: Vec<Outcome> = Vec::with_capacity(all.len());
        for (index, Found { strategy, plan, prediction, .. }) in all.iter().enumerate() {
            // Strategies often find the same plan.
            let drawn = match all[..index].iter().position(|before| before.plan == *plan) {
                Some(before) => outcomes[before].drawn.clone(),
                None => Drawn::of(simulator, (stages, plan), None, &errors)?,
            };
            let (strategy, latency, energy) = (*strategy, prediction.latency, prediction.energy);
            let cost = options.objective.cost(latency, energy);
            let fits_memory = prediction.fits_memory;
            outcomes.push(Outcome { strategy, latency, drawn, energy, cost, fits_memory });
        }
        if outcomes.is_empty() {
            return Err(last_error);
        }
        let optimal = outcomes.iter().find(|outcome| outcome.strategy == Strategy::Optimal);
        let is_unsure = |other: &&Outcome| {
            optimal.is_some_and(|optimal| !optimal.drawn.is_surely_ordered(&other.drawn, CONFIDENCE))
        };
        let unsure = outcomes.iter().filter(is_unsure).map(|outcome| outcome.strategy).collect();
        Ok(Self {
            scenario: scenario.to_owned(),
            device,
            outcomes,
            bound,
            is_reordered,
            known,
            errors,
            unsure,
        })
    }

    /// The outcome of a strategy; `None` if it has no plan.
    pub fn outcome(&self, strategy: Strategy) -> Option<&Outcome> {
        self.outcomes.iter().find(|outcome| outcome.strategy == strategy)
    }

    /// The best single processor, of those that fit into the memory if one does.
    pub fn best_single(&self) -> Option<&Outcome> {
        let singles = self.outcomes.iter().filter(|outcome| outcome.strategy.is_single());
        let cost = |outcome: &Outcome| (outcome.fits_memory == Some(false), outcome.cost);
        singles.reduce(|best, other| if cost(other) < cost(best) { other } else { best })
    }

    /// Optimality gap of [`Strategy::Optimal`]: its cost over the lower bound, less one, in percent.
    pub fn gap_percent(&self) -> Option<f64> {
        let cost = self.outcome(Strategy::Optimal)?.cost;
        self.bound.map(|bound| gap_percent(cost, bound))
    }

    /// Those of the device's CPU and GPU on which some operator has no known time: then the gain of
    /// sharing is unknown.
    pub fn unknown(&self) -> impl Iterator<Item = ProcessorKind> {
        let is_open = |known: &&Known| known.missing.is_some() && known.processor != ProcessorKind::Npu;
        self.known.iter().filter(is_open).map(|known| known.processor)
    }

    /// Cost of `other` over that of `strategy`: above 1 if `strategy` is better. `None` if one of them
    /// has no plan, or if times of the CPU or the GPU are missing.
    pub fn ratio(&self, strategy: Strategy, other: Strategy) -> Option<f64> {
        if self.unknown().next().is_some() {
            return None;
        }
        let (one, other) = (self.outcome(strategy)?, self.outcome(other)?);
        // Nothing is better than a cost of zero.
        Some(if one.cost > 0.0 { other.cost / one.cost } else { 1.0 })
    }
}

/// The gain of one strategy over another, over all rows that have both.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Gain {
    /// The other strategy.
    pub over: Strategy,
    /// Rows with both.
    pub rows: usize,
    /// Mean of the other's cost over this one's, less one, in percent.
    pub mean_percent: f64,
    /// The same with the geometric mean.
    pub geometric_mean_percent: f64,
    /// The row with the smallest gain.
    pub least: Extreme,
    /// The row with the largest gain.
    pub most: Extreme,
}

/// The row with the smallest or the largest gain.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Extreme {
    /// Its gain, in percent.
    pub percent: f64,
    /// The model.
    pub scenario: String,
    /// The device.
    pub device: String,
}

/// Optimality gap: how much a cost exceeds its lower bound, in percent.
pub fn gap_percent(cost: f64, bound: f64) -> f64 {
    percent(cost / bound).max(0.0)
}

/// A ratio of costs as a gain, in percent.
pub fn percent(ratio: f64) -> f64 {
    100.0 * (ratio - 1.0)
}

/// The gain of `strategy` over `over`; `None` if no row has both.
pub fn gain(rows: &[StrategyRow], strategy: Strategy, over: Strategy) -> Option<Gain> {
    let ratios: Vec<(f64, &StrategyRow)> =
        rows.iter().filter_map(|row| Some((row.ratio(strategy, over)?, row))).collect();
    let extreme = |(ratio, row): &(f64, &StrategyRow)| Extreme {
        percent: percent(*ratio),
        scenario: row.scenario.clone(),
        device: row.device.clone(),
    };
    let least = ratios.iter().reduce(|least, other| if other.0 < least.0 { other } else { least })?;
    let most = ratios.iter().reduce(|most, other| if other.0 > most.0 { other } else { most })?;
    let count = ratios.len() as f64;
    Some(Gain {
        over,
        rows: ratios.len(),
        mean_percent: percent(ratios.iter().map(|(ratio, _)| ratio).sum::<f64>() / count),
        geometric_mean_percent: percent(
            (ratios.iter().map(|(ratio, _)| ratio.ln()).sum::<f64>() / count).exp(),
        ),
        least: extreme(least),
        most: extreme(most),
    })
}

/// The gain of `strategy` over each other strategy of the rows, the smallest mean first.
pub fn gains(rows: &[StrategyRow], strategy: Strategy) -> Vec<Gain> {
    let others = Strategy::of_operators().filter(|other| *other != strategy);
    let mut gains: Vec<Gain> = others.filter_map(|other| gain(rows, strategy, other)).collect();
    gains.sort_by(|one, other| one.mean_percent.total_cmp(&other.mean_percent));
    gains
}

/// The unit in which an objective is printed, and the factor from [`Outcome::cost`] to it.
pub fn unit(objective: Objective) -> (&'static str, f64) {
    match objective {
        Objective::Latency => ("ms", 1e3),
        Objective::Energy => ("mJ", 1e3),
        Objective::Edp => ("mJ s", 1e3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(device: &str, costs: [f64; 2]) -> StrategyRow {
        let outcome = |(strategy, cost): (Strategy, f64)| Outcome {
            strategy,
            latency: Picos::from_micros(cost * 1e6),
            drawn: Drawn::default(),
            energy: None,
            fits_memory: None,
            cost,
        };
        let outcomes = [Strategy::GpuOnly, Strategy::Optimal].into_iter().zip(costs).map(outcome).collect();
        StrategyRow {
            scenario: "model".to_owned(),
            device: device.to_owned(),
            outcomes,
            bound: None,
            is_reordered: false,
            known: Vec::new(),
            errors: Errors::common(0.0),
            unsure: Vec::new(),
        }
    }

    #[test]
    fn gains_are_means_of_ratios_and_the_worst_row_is_named() {
        let rows = [row("a", [2.0, 1.0]), row("b", [1.0, 2.0])];
        let gain = gain(&rows, Strategy::Optimal, Strategy::GpuOnly).unwrap();
        assert!((gain.mean_percent - 25.0).abs() < 1e-9);
        assert!(gain.geometric_mean_percent.abs() < 1e-9);
        assert_eq!((gain.rows, gain.least.device.as_str()), (2, "b"));
        assert!((gain.least.percent + 50.0).abs() < 1e-9 && (gain.most.percent - 100.0).abs() < 1e-9);
    }

    #[test]
    fn a_strategy_without_plans_is_not_compared() {
        let rows = [row("a", [2.0, 1.0])];
        assert_eq!(gain(&rows, Strategy::Optimal, Strategy::NpuOnly), None);
        assert_eq!(gains(&rows, Strategy::Optimal).len(), 1);
        assert_eq!(rows[0].best_single().unwrap().strategy, Strategy::GpuOnly);
    }
}

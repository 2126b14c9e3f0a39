//! The best plan found for the whole graph: by a beam search (dynamic programming of which the
//! best few states are kept) on the simulator's costs, or by any other strategy.
//!
//! Stages are decided in their order. A state says where every result lies that a later
//! stage still reads: with the CPU, with the GPU, with both, or cut between them. From
//! each state an operator goes to either processor, is cut along channels or height, or
//! begins a chain (`chaining`) that leads several stages ahead. What crosses is charged
//! when it is read (`places`); a cut is priced with the contention of its parts, which
//! the engine says (`cutting`).
//!
//! Where branches begin, both processors may also compute different operators at once
//! (`branches`, `concurrent`). Until the GPU's queue is filled the CPU computes alone.
//!
//! That is exact where operators run one after another and a cut is best when its parts
//! end together. It is an approximation where chains and branches meet, where a chain's
//! ratio is not at its balance, and beyond the few states that are kept. The plan is
//! therefore the best simulated one of the few best found and of those of every other
//! strategy, the ratios of its chains moved while simulating says that it helps
//! (`polish`). No bound says how far that is from the best plan there is.
//!
//! Energy is additive: what the device draws idle all the while, and what each part adds.
//! The energy-delay product is not; where it is least, it is the least `E + m T` for some
//! `m`, the ratio of energy and time there, which is approached from plan to plan.

mod branches;
mod chaining;
mod concurrent;
mod cutting;
mod places;
mod polish;
mod prepare;
mod program;
mod state;

use super::explorer::{Explorer, Found};
use super::{Objective, Strategy};
use crate::simulate::{Prediction, SimulateError, idle_power};
use crate::units::{PICOS_PER_SECOND, Picos};

/// Final states of which the plan is simulated.
const FINALISTS: usize = 8;

/// Times the ratio of energy and time is corrected for the energy-delay product.
const CORRECTIONS: usize = 4;

/// What a second and a joule cost.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Weights {
    second: f64,
    joule: f64,
}

impl Weights {
    fn time(self, time: Picos) -> f64 {
        time.0 as f64 / PICOS_PER_SECOND * self.second
    }

    fn of(self, time: Picos, joules: f64) -> f64 {
        self.time(time) + joules * self.joule
    }
}

/// The best plan known.
pub(super) fn find(explorer: &mut Explorer<'_, '_>) -> Result<Found, SimulateError> {
    let mut all: Vec<Found> = Vec::new();
    let mut considered = 0;
    let mut weights = first_weights(explorer);
    for _ in 0..CORRECTIONS {
        let mut latest: Vec<Found> = Vec::new();
        let (plans, count) = program::plans(explorer, weights, FINALISTS)?;
        considered += count;
        for plan in plans {
            latest.extend(explorer.fitting(Strategy::Optimal, plan, considered)?);
        }
        let Ok(latest) = explorer.best(latest) else { break };
        let next = corrected(explorer, &latest.prediction);
        all.push(latest);
        match next {
            Some(next) if next != weights => weights = next,
            _ => break,
        }
    }
    for strategy in Strategy::of_operators().filter(|strategy| *strategy != Strategy::Optimal) {
        all.extend(explorer.find(strategy));
    }
    let best = explorer.best(all)?;
    let (plan, simulated) = polish::polish(explorer, best.plan)?;
    explorer.found(Strategy::Optimal, plan, considered + simulated)
}

/// What the objective makes of a second and a joule; for the energy-delay product, what
/// the better single processor says.
fn first_weights(explorer: &mut Explorer<'_, '_>) -> Weights {
    let idle = idle_power(explorer.simulator.device()).0;
    match explorer.options.objective {
        Objective::Latency => Weights { second: 1.0, joule: 0.0 },
        Objective::Energy => Weights { second: idle, joule: 1.0 },
        Objective::Edp => {
            let singles = explorer.baselines();
            let least = explorer.best(singles).ok();
            least.map_or(Weights { second: 1.0 + idle, joule: 1.0 }, |single| at(idle, &single.prediction))
        }
    }
}

/// The weights at which the energy-delay product of `prediction` does not change.
fn at(idle: f64, prediction: &Prediction) -> Weights {
    let energy = prediction.energy.map_or(0.0, |energy| energy.0);
    let power = energy / prediction.latency.as_seconds().max(f64::MIN_POSITIVE);
    Weights { second: idle + power, joule: 1.0 }
}

fn corrected(explorer: &Explorer<'_, '_>, prediction: &Prediction) -> Option<Weights> {
    let idle = idle_power(explorer.simulator.device()).0;
    (explorer.options.objective == Objective::Edp).then(|| at(idle, prediction))
}

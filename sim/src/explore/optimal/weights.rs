//! The weights of time and energy in the cost that a search minimises.
//!
//! Responsible for: linear costs whose least plans are good by the objective. Not for: searching with them.
//! Invariant: no weight is negative, so that a label that is no later and takes no more energy costs no more.

use super::{Explorer, Objective};
use crate::simulate::{Prediction, idle_power};
use crate::units::{PICOS_PER_SECOND, Picos};

/// Cost of a picosecond and of a joule.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Weights {
    pub(super) picosecond: f64,
    pub(super) joule: f64,
}

impl Weights {
    /// Only time counts.
    pub(super) const TIME: Self = Self { picosecond: 1.0, joule: 0.0 };

    pub(super) fn of(self, time: Picos, joules: f64) -> f64 {
        time.0 as f64 * self.picosecond + joules * self.joule
    }
}

/// The weights to search with, those of the objective first: for the energy-delay product, those at the best
/// single processor. If energy counts, plans for other weights may be better, since the programme includes neither
/// contention nor the energy of idling processors.
pub(super) fn first_weights(explorer: &mut Explorer<'_, '_>) -> Vec<Weights> {
    let idle = idle_power(explorer.simulator.device()).0 / PICOS_PER_SECOND;
    let energy = Weights { picosecond: idle, joule: 1.0 };
    let product = |explorer: &mut Explorer<'_, '_>| {
        let singles = explorer.baselines();
        let least = explorer.best(singles).ok();
        let default = Weights { picosecond: PICOS_PER_SECOND.recip() + idle, joule: 1.0 };
        least.map_or(default, |single| at(idle, &single.prediction))
    };
    match explorer.options.objective {
        Objective::Latency => vec![Weights::TIME],
        Objective::Energy => vec![energy, product(explorer), Weights::TIME],
        Objective::Edp => vec![product(explorer), energy, Weights::TIME],
    }
}

/// The weights of time and energy in the gradient of the energy-delay product at `prediction`.
pub(super) fn at(idle: f64, prediction: &Prediction) -> Weights {
    let energy = prediction.energy.map_or(0.0, |energy| energy.0);
    let power = energy / (prediction.latency.0 as f64).max(1.0);
    Weights { picosecond: idle + power, joule: 1.0 }
}

/// The weights to search with next, after a plan with this prediction; none unless the product counts.
pub(super) fn corrected(explorer: &Explorer<'_, '_>, prediction: &Prediction) -> Option<Weights> {
    let idle = idle_power(explorer.simulator.device()).0 / PICOS_PER_SECOND;
    (explorer.options.objective == Objective::Edp).then(|| at(idle, prediction))
}

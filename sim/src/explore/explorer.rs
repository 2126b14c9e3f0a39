//! Plans of every strategy for one workload on one device.
//!
//! Responsible for: asking the strategies, and simulating what they find. Not for:
//! finding it (one file a strategy). Invariant: what is told of a plan is what
//! simulating it says; what parts cost is asked once, whatever the number of
//! strategies.

use std::collections::HashMap;
use std::rc::Rc;

use super::channel_split::{Lead, Search, Together, search_grid};
use super::codl::CodlParts;
use super::grid::Grid;
use super::prices::Prices;
use super::{Options, Strategy, codl, epew, optimal, rule, split};
use crate::plan::{Axis, Placement, Plan};
use crate::simulate::{Pipeline, Prediction, SimulateError, Simulator};
use crate::workload::Stage;

/// The outcome of an exploration.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The plan found.
    pub plan: Plan,
    /// What simulating it predicts.
    pub prediction: Prediction,
    /// Single processors for comparison; those the device can run it on.
    pub baselines: Vec<Baseline>,
    /// For each operator, what the search found for it alone.
    pub searches: Vec<Search>,
    /// Candidates considered.
    pub considered: usize,
}

/// The whole workload on one processor.
#[derive(Clone, Debug, PartialEq)]
pub struct Baseline {
    /// Which processor.
    pub strategy: Strategy,
    /// Its plan.
    pub plan: Plan,
    /// Its prediction.
    pub prediction: Prediction,
}

/// What one strategy found.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The strategy.
    pub strategy: Strategy,
    /// Its plan.
    pub plan: Plan,
    /// What simulating it predicts.
    pub prediction: Prediction,
    /// Candidates considered, where the strategy counts them.
    pub considered: usize,
}

/// Finds plans for one workload on one device.
#[derive(Debug)]
pub struct Explorer<'s, 'a> {
    pub(super) simulator: &'s mut Simulator<'a>,
    /// Runs single operators of the workload.
    pub(super) parts: Simulator<'a>,
    pub(super) stages: &'s [Stage],
    pub(super) options: &'s Options,
    pub(super) prices: Prices<'a>,
    /// How batches follow each other, where that is to be planned for.
    pub(super) pipeline: Option<&'s Pipeline>,
    /// Of operators between the host, and inside the workload.
    pub(super) together: Together,
    pub(super) together_inside: Together,
    searches: HashMap<(usize, &'static [Axis]), Search>,
    singles: Option<Vec<Baseline>>,
    known: HashMap<Strategy, Result<Found, SimulateError>>,
}

/// Finds a plan for `stages` with the strategy of `options`.
///
/// # Errors
/// The device has no processor, or no kernel, for an operator.
pub fn explore(
    simulator: &mut Simulator<'_>,
    stages: &[Stage],
    options: &Options,
) -> Result<Answer, SimulateError> {
    explore_stream(simulator, stages, options, None)
}

/// The same for batches that follow each other so.
///
/// # Errors
/// As [`explore`].
pub fn explore_stream(
    simulator: &mut Simulator<'_>,
    stages: &[Stage],
    options: &Options,
    pipeline: Option<&Pipeline>,
) -> Result<Answer, SimulateError> {
    let mut explorer = Explorer::new(simulator, stages, options).streaming(pipeline);
    let strategy = options.strategy;
    let Found { plan, prediction, considered, .. } = explorer.find(strategy)?;
    if strategy.is_single() {
        return Ok(Answer { plan, prediction, baselines: Vec::new(), searches: Vec::new(), considered });
    }
    let searches = explorer.searches(strategy)?;
    Ok(Answer { plan, prediction, baselines: explorer.baselines(), searches, considered })
}

impl<'s, 'a> Explorer<'s, 'a> {
    /// For `stages` as `simulator` runs them, with what `options` allow.
    pub fn new(simulator: &'s mut Simulator<'a>, stages: &'s [Stage], options: &'s Options) -> Self {
        let prices = Prices::new(simulator, stages);
        let parts = simulator.of_parts();
        Self {
            simulator,
            parts,
            stages,
            options,
            prices,
            pipeline: None,
            together: Together::default(),
            together_inside: Together::default(),
            searches: HashMap::new(),
            singles: None,
            known: HashMap::new(),
        }
    }

    /// The same for batches that follow each other so, which strategies of whole layers
    /// plan for; the others plan for one batch.
    #[must_use]
    pub fn streaming(self, pipeline: Option<&'s Pipeline>) -> Self {
        Self { pipeline, ..self }
    }

    /// The plan of one strategy.
    ///
    /// # Errors
    /// The device has no processor, or no kernel, for an operator.
    pub fn find(&mut self, strategy: Strategy) -> Result<Found, SimulateError> {
        if let Some(known) = self.known.get(&strategy) {
            return known.clone();
        }
        let found = self.search(strategy);
        self.known.insert(strategy, found.clone());
        found
    }

    fn search(&mut self, strategy: Strategy) -> Result<Found, SimulateError> {
        let (plan, considered) = match strategy {
            Strategy::CpuOnly | Strategy::GpuOnly | Strategy::NpuOnly => (split::uniform(self, strategy)?, 1),
            Strategy::ChannelSplit | Strategy::HeightSplit | Strategy::AnySplit => {
                return split::find(self, strategy);
            }
            Strategy::FlopsProportional | Strategy::LayerWise => return rule::find(self, strategy),
            Strategy::Epew => epew::plan(self)?,
            Strategy::Codl => codl::plan(self, CodlParts::ALL),
            Strategy::Optimal => return optimal::find(self),
        };
        self.found(strategy, plan, considered)
    }

    /// The plan of `CoDL` with only some of its parts, under the name of the whole.
    ///
    /// # Errors
    /// As [`Self::find`].
    pub fn codl(&mut self, parts: CodlParts) -> Result<Found, SimulateError> {
        let (plan, considered) = codl::plan(self, parts);
        self.found(Strategy::Codl, plan, considered)
    }

    /// Simulates a plan.
    pub(super) fn found(
        &mut self,
        strategy: Strategy,
        plan: Plan,
        considered: usize,
    ) -> Result<Found, SimulateError> {
        let prediction = self.simulator.run(self.stages, &plan)?;
        Ok(Found { strategy, plan, prediction, considered })
    }

    /// A plan without chains.
    pub(super) fn plan(&self, placements: Vec<Placement>) -> Plan {
        Plan::new(self.options.synchronisation, placements)
    }

    /// What the options want less of.
    pub(super) fn cost(&self, prediction: &Prediction) -> f64 {
        self.options.objective.cost(prediction.latency, prediction.energy)
    }

    /// The cuts of every stage along each of `axes`.
    pub(super) fn grids(&mut self, axes: &[Axis]) -> Result<Vec<Vec<Rc<Grid>>>, SimulateError> {
        let of_stage = |stage| {
            axes.iter().map(|&axis| self.prices.grid(self.stages, stage, self.options, axis)).collect()
        };
        (0..self.stages.len()).map(of_stage).collect()
    }

    /// What is best for each stage alone, cut as `strategy` cuts or not at all.
    ///
    /// # Errors
    /// No processor offered has a kernel for an operator.
    pub fn searches(&mut self, strategy: Strategy) -> Result<Vec<Search>, SimulateError> {
        let axes = strategy.axes();
        if axes.is_empty() {
            return Ok(Vec::new());
        }
        let grids = self.grids(axes)?;
        let mut searches = Vec::with_capacity(self.stages.len());
        for (index, (stage, grids)) in self.stages.iter().zip(&grids).enumerate() {
            // Alike operators read and write alike, but only some read the workload's inputs.
            let key = (self.prices.kind(index), axes);
            if let Some(known) = self.searches.get(&key) {
                searches.push(known.clone());
                continue;
            }
            let host = Lead::of_host(&self.parts, stage);
            let search = {
                let of = (self.prices.kind(index), stage);
                search_grid(&mut self.parts, of, self.options, host, (grids, &mut self.together))?
            };
            self.searches.insert(key, search.clone());
            searches.push(search);
        }
        Ok(searches)
    }

    /// Single processors that can run the whole workload.
    pub fn baselines(&mut self) -> Vec<Baseline> {
        if let Some(known) = &self.singles {
            return known.clone();
        }
        let singles: Vec<Baseline> = [Strategy::GpuOnly, Strategy::CpuOnly, Strategy::NpuOnly]
            .into_iter()
            .filter_map(|strategy| {
                let Found { plan, prediction, .. } = self.find(strategy).ok()?;
                Some(Baseline { strategy, plan, prediction })
            })
            .collect();
        self.singles = Some(singles.clone());
        singles
    }
}

//! Plans of every strategy for one workload on one device.
//!
//! Responsible for: running the strategies and simulating the plans they find. Not for:
//! the searches themselves (one file per strategy). Invariant: the costs reported of a plan are
//! simulated; each part is priced once, whatever the number of strategies.

use std::collections::HashMap;
use std::rc::Rc;

use super::optimal::Model;
use super::{
    CoRunCache, CodlParts, Grid, Objective, Prices, Search, SearchOptions, StartDelays, Strategy, codl,
    search_grid,
};
use crate::plan::{Axis, Placement, Plan};
use crate::simulate::{Pipeline, Prediction, Result, SimulateError, Simulator};
use crate::units::Picos;
use crate::workload::Stage;

/// Batches simulated per candidate plan of a stream.
const SEARCHED_BATCHES: u32 = 8;

/// The outcome of an exploration.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The plan found.
    pub plan: Plan,
    /// Its simulated prediction.
    pub prediction: Prediction,
    /// Plans on a single processor, for comparison; one for each processor that can run the workload.
    pub baselines: Vec<Found>,
    /// For each operator, the search's result for that operator alone.
    pub searches: Vec<Search>,
    /// Candidates considered.
    pub considered: usize,
    /// Time from batch to batch of a stream when the objective is latency: then the period is minimised.
    pub period: Option<Picos>,
    /// Lower bound of the cost of every plan in the workload's order, in the unit of the objective, at most the
    /// cost of `plan`; only of [`Strategy::Optimal`].
    pub bound: Option<f64>,
}

/// What one strategy found.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The strategy.
    pub strategy: Strategy,
    /// Its plan.
    pub plan: Plan,
    /// Its simulated prediction.
    pub prediction: Prediction,
    /// Candidates considered, where the strategy counts them.
    pub considered: usize,
    /// Time from batch to batch of a stream when the objective is latency.
    pub period: Option<Picos>,
}

/// Finds plans for one workload on one device.
#[derive(Debug)]
pub struct Explorer<'s, 'a> {
    pub(super) simulator: &'s mut Simulator<'a>,
    /// Simulates single operators of the workload.
    pub(super) parts: Simulator<'a>,
    pub(super) stages: &'s [Stage],
    pub(super) options: &'s SearchOptions,
    pub(super) prices: Prices<'a>,
    /// The stream of batches to plan for; `None` for a single batch.
    pub(super) pipeline: Option<&'s Pipeline>,
    /// Co-run times of operators on their own, which exchange data with the host, and inside the
    /// workload.
    pub(super) co_runs: CoRunCache,
    pub(super) co_runs_inside: CoRunCache,
    /// Prices of [`Strategy::Optimal`], shared by its search and its bound.
    pub(super) model: Option<Model<'s>>,
    searches: HashMap<(usize, &'static [Axis]), Search>,
    known: HashMap<Strategy, Result<Found>>,
}

/// Finds a plan for `stages` with the strategy of `options`.
///
/// # Errors
/// The device has no processor, or no kernel, for an operator.
pub fn explore(simulator: &mut Simulator<'_>, stages: &[Stage], options: &SearchOptions) -> Result<Answer> {
    explore_stream(simulator, stages, options, None)
}

/// As [`explore`], for a stream of batches.
///
/// # Errors
/// As [`explore`].
pub fn explore_stream(
    simulator: &mut Simulator<'_>,
    stages: &[Stage],
    options: &SearchOptions,
    pipeline: Option<&Pipeline>,
) -> Result<Answer> {
    let mut explorer = Explorer::new(simulator, stages, options).streaming(pipeline);
    let strategy = options.strategy;
    let found = explorer.find(strategy)?;
    let bound = if strategy == Strategy::Optimal { Some(explorer.bound(&found)?) } else { None };
    let searches = explorer.searches(strategy)?;
    let baselines = if strategy.is_single() { Vec::new() } else { explorer.baselines() };
    let Found { plan, prediction, considered, period, .. } = found;
    Ok(Answer { plan, prediction, baselines, searches, considered, period, bound })
}

impl<'s, 'a> Explorer<'s, 'a> {
    /// An explorer of `stages` as `simulator` runs them, within `options`.
    pub fn new(simulator: &'s mut Simulator<'a>, stages: &'s [Stage], options: &'s SearchOptions) -> Self {
        let prices = Prices::new(simulator, stages, options.objective);
        let parts = simulator.of_parts();
        Self {
            simulator,
            parts,
            stages,
            options,
            prices,
            pipeline: None,
            co_runs: CoRunCache::default(),
            co_runs_inside: CoRunCache::default(),
            model: None,
            searches: HashMap::new(),
            known: HashMap::new(),
        }
    }

    /// Plans for a stream of batches: with latency as the objective, the period is minimised.
    #[must_use]
    pub fn streaming(self, pipeline: Option<&'s Pipeline>) -> Self {
        Self { pipeline, ..self }
    }

    /// The plan of one strategy.
    ///
    /// # Errors
    /// The device has no processor, or no kernel, for an operator.
    pub fn find(&mut self, strategy: Strategy) -> Result<Found> {
        if let Some(known) = self.known.get(&strategy) {
            return known.clone();
        }
        let found = strategy.find(self);
        self.known.insert(strategy, found.clone());
        found
    }

    /// The period under `plan`, simulated over at most `most_batches` batches; `None` unless it is the
    /// objective.
    fn period_over(&mut self, plan: &Plan, most_batches: u32) -> Result<Option<Picos>> {
        let Some(pipeline) = self.period_counts() else { return Ok(None) };
        let pipeline = Pipeline { batches: pipeline.batches.min(most_batches), ..pipeline.clone() };
        Ok(Some(self.simulator.stream(self.stages, plan, &pipeline)?.period))
    }

    /// The stream of batches, if its period is the objective.
    pub(super) fn period_counts(&self) -> Option<&'s Pipeline> {
        self.pipeline.filter(|_| self.options.objective == Objective::Latency)
    }

    /// The plan of `CoDL` with only some of its parts, reported as [`Strategy::Codl`].
    ///
    /// # Errors
    /// As [`Self::find`].
    pub fn codl(&mut self, parts: CodlParts) -> Result<Found> {
        let (plan, considered) = codl::plan(self, parts);
        self.found(Strategy::Codl, plan, considered)
    }

    /// Simulates a plan.
    pub(super) fn found(&mut self, strategy: Strategy, plan: Plan, considered: usize) -> Result<Found> {
        let prediction = self.simulator.run(self.stages, &plan)?;
        let period = self.period_over(&plan, u32::MAX)?;
        Ok(Found { strategy, plan, prediction, considered, period })
    }

    /// Simulates a plan whose operators were placed one by one; `None` if together they exceed the
    /// GPU's memory or have no valid schedule.
    pub(super) fn fitting(
        &mut self,
        strategy: Strategy,
        plan: Plan,
        considered: usize,
    ) -> Result<Option<Found>> {
        match self.found(strategy, plan, considered) {
            Ok(found) => Ok(Some(found)),
            Err(SimulateError::GpuMemoryFull { .. } | SimulateError::Schedule(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The best of the plans found that fit into the device's memory, or of all if none does; the first among
    /// equals. Many plans of a stream may have the same
    /// period, limited by the host: of those, the one with the least latency, then with the least
    /// energy.
    ///
    /// # Errors
    /// No plan was found.
    pub fn best(&mut self, found: impl IntoIterator<Item = Found>) -> Result<Found> {
        let mut best: Option<((bool, [f64; 3]), Found)> = None;
        for one in found {
            let Prediction { latency, energy, fits_memory, .. } = one.prediction;
            let costs = match one.period {
                Some(period) => {
                    let joules = energy.map_or(f64::INFINITY, |energy| energy.0);
                    [period.as_seconds(), latency.as_seconds(), joules]
                }
                None => [self.options.objective.cost(latency, energy), 0.0, 0.0],
            };
            let costs = (fits_memory == Some(false), costs);
            if best.as_ref().is_none_or(|(least, _)| costs < *least) {
                best = Some((costs, one));
            }
        }
        best.map(|(_, found)| found).ok_or(SimulateError::NothingToUse)
    }

    /// Simulates plans without chains and returns the best.
    pub(super) fn best_of(
        &mut self,
        (strategy, considered): (Strategy, usize),
        plans: impl IntoIterator<Item = Vec<Placement>>,
    ) -> Result<Found> {
        let simulated = plans.into_iter().map(|placed| self.found(strategy, self.plan(placed), considered));
        // A core set that cannot be predicted is no option.
        let (found, refused): (Vec<_>, Vec<_>) = simulated.partition(Result::is_ok);
        if found.is_empty()
            && let Some(refused) = refused.into_iter().next()
        {
            return refused;
        }
        self.best(found.into_iter().flatten())
    }

    /// A plan without chains.
    pub fn plan(&self, placements: Vec<Placement>) -> Plan {
        Plan::new(self.options.synchronisation, placements)
    }

    /// Simulated cost of `plan`, in the unit of the objective; a period is estimated from a few batches.
    ///
    /// # Errors
    /// As [`Simulator::run`].
    pub fn cost_of(&mut self, plan: &Plan) -> Result<f64> {
        if let Some(period) = self.period_over(plan, SEARCHED_BATCHES)? {
            return Ok(period.as_seconds());
        }
        if self.options.objective == Objective::Latency {
            return Ok(self.simulator.latency(self.stages, plan)?.as_seconds());
        }
        let prediction = self.simulator.run(self.stages, plan)?;
        Ok(self.options.objective.cost(prediction.latency, prediction.energy))
    }

    /// As [`Self::cost_of`], of a plan whose operators were placed one by one; infinite if together
    /// they exceed the GPU's memory.
    ///
    /// # Errors
    /// As [`Simulator::run`].
    pub fn fitting_cost(&mut self, plan: &Plan) -> Result<f64> {
        match self.cost_of(plan) {
            Err(SimulateError::GpuMemoryFull { .. }) => Ok(f64::INFINITY),
            cost => cost,
        }
    }

    /// How long the busiest processor computes under `plan`; `None` if the plan cannot be simulated.
    pub(super) fn busiest(&self, plan: &Plan) -> Option<Picos> {
        self.simulator.busy(self.stages, plan).ok()?.into_iter().max()
    }

    /// The cuts of every stage along each of `axes`.
    pub(super) fn grids(&mut self, axes: &[Axis]) -> Result<Vec<Vec<Rc<Grid>>>> {
        let of_stage = |stage| {
            axes.iter().map(|&axis| self.prices.grid(self.stages, stage, self.options, axis)).collect()
        };
        (0..self.stages.len()).map(of_stage).collect()
    }

    /// The best placement of each stage alone, whole or cut along the axes of `strategy`.
    ///
    /// # Errors
    /// No processor offered has a kernel for an operator.
    pub fn searches(&mut self, strategy: Strategy) -> Result<Vec<Search>> {
        let axes = strategy.axes();
        if axes.is_empty() {
            return Ok(Vec::new());
        }
        let grids = self.grids(axes)?;
        let mut searches = Vec::with_capacity(self.stages.len());
        for (index, (stage, grids)) in self.stages.iter().zip(&grids).enumerate() {
            // Operators of one kind read and write the same bytes, but only some read the workload's
            // inputs.
            let kind = self.prices.kind(index);
            let key = (kind, axes);
            if let Some(known) = self.searches.get(&key) {
                searches.push(known.clone());
                continue;
            }
            let host = StartDelays::of_host(&self.parts, stage);
            let cache = (&grids[..], &mut self.co_runs);
            let search = search_grid(&mut self.parts, (kind, stage), self.options, host, cache)?;
            self.searches.insert(key, search.clone());
            searches.push(search);
        }
        Ok(searches)
    }

    /// The plans on a single processor, of each processor that can run the whole workload.
    pub fn baselines(&mut self) -> Vec<Found> {
        let singles = [Strategy::GpuOnly, Strategy::CpuOnly, Strategy::NpuOnly];
        singles.into_iter().filter_map(|strategy| self.find(strategy).ok()).collect()
    }
}

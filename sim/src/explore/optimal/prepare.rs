//! What may be decided of several stages at once: chains and regions with branches.

use std::ops::Range;

use super::branches::regions;
use super::chaining::{Chain, chains_from};
use super::concurrent::{BranchRegion, Way};
use super::places::Place;
use super::program::DpSearch;
use crate::explore::prices::Price;
use crate::kernel::cpu::CoreSet;
use crate::plan::{Axis, Plan, Processor};
use crate::simulate::{SimulateError, has_own_memory};
use crate::units::Picos;
use crate::workload::Stage;

impl DpSearch<'_, '_, '_> {
    /// Chains from every stage, along both dimensions, and regions with branches.
    pub(super) fn prepare(&mut self) -> Result<(), SimulateError> {
        let count = self.explorer.stages.len();
        let mut apart = Vec::with_capacity(count);
        for stage in 0..count {
            apart.push(self.unchained(stage)?);
        }
        // Where memories are apart, what crosses inside a region is more than a schedule knows.
        if !has_own_memory(self.boundary.device) {
            for range in regions(self.explorer.stages, &self.live) {
                let (head, unbranched) = (range.start, apart[range.clone()].iter().copied().sum());
                self.regions[head] = self.region(range, unbranched)?;
                self.considered += 1;
            }
        }
        for head in 0..count {
            // The GPU is not there yet when a workload begins.
            let lead = if head == 0 { self.submission } else { Picos::ZERO };
            let mut chains = Vec::new();
            for axis in [Axis::Height, Axis::Channels] {
                chains.extend(chains_from(self.explorer, &mut self.cutter, (head, axis), (lead, &apart))?);
            }
            self.considered += chains.len();
            self.around.push(chains.iter().map(|chain| self.around(chain)).collect());
            self.chains.push(chains);
        }
        Ok(())
    }

    /// Both processors at different stages of `range`, if that takes less than the stages one
    /// after the other, `unbranched`.
    fn region(
        &mut self,
        range: Range<usize>,
        unbranched: Picos,
    ) -> Result<Option<BranchRegion>, SimulateError> {
        let mut ways = Vec::with_capacity(range.len());
        for stage in range.clone() {
            let mut of_stage = Vec::with_capacity(4);
            of_stage.extend(self.explorer.prices.whole(stage, Processor::Gpu).map(Way::on_gpu));
            of_stage.extend(self.best_cores(stage).map(|(cores, price)| Way::on_cpu(cores, price)));
            for axis in [Axis::Channels, Axis::Height] {
                let choice = self.cutter.best(self.explorer, stage, axis, [Picos::ZERO; 2])?;
                of_stage.extend(choice.map(|choice| Way::cut(&choice, axis, &self.boundary)));
            }
            ways.push(of_stage);
        }
        let stages = self.explorer.stages;
        let of = (stages, &self.boundary, self.weights);
        let Some(mut region) = BranchRegion::best(range.clone(), ways, of) else { return Ok(None) };
        let scheduled = region.schedule((stages, &self.boundary), &|_| Place::Both, Picos::ZERO).time;
        if scheduled >= unbranched {
            return Ok(None);
        }
        let alone: Vec<Stage> = range.clone().map(|stage| within(stages, &range, stage)).collect();
        let plan = Plan::new(self.boundary.mechanism, region.placements());
        let simulated = self.cutter.inside().latency(&alone, &plan)?;
        region.contention_excess = simulated.saturating_sub(scheduled);
        Ok((simulated < unbranched).then_some(region))
    }

    /// The least time of one stage in no chain, everything it reads being where it must.
    fn unchained(&mut self, stage: usize) -> Result<Picos, SimulateError> {
        let mut least = self.explorer.prices.whole(stage, Processor::Gpu).map(|price| price.time);
        for axis in [Axis::Channels, Axis::Height] {
            if let Some(choice) = self.cutter.best(self.explorer, stage, axis, [Picos::ZERO; 2])? {
                let time = choice.time(Picos::ZERO, Picos::ZERO) + self.boundary.notification();
                least = Some(least.map_or(time, |least| least.min(time)));
            }
        }
        match least {
            Some(least) => Ok(least),
            None => Ok(self.best_cores(stage).map_or(Picos::ZERO, |(_, price)| price.time)),
        }
    }

    /// The core set that computes a whole stage at least cost.
    pub(super) fn best_cores(&mut self, stage: usize) -> Option<(CoreSet, Price)> {
        let mut best: Option<(CoreSet, Price)> = None;
        for &cores in &self.explorer.options.core_sets {
            let Some(price) = self.explorer.prices.whole(stage, Processor::Cpu(cores)) else { continue };
            let cost = |price: &Price| self.weights.of(price.time, price.joules);
            if best.as_ref().is_none_or(|(_, known)| cost(&price) < cost(known)) {
                best = Some((cores, price));
            }
        }
        best
    }

    /// What it takes until a chain's GPU has what it reads of the workload's inputs, and
    /// what comes behind results that nobody reads.
    fn around(&self, chain: &Chain) -> [Picos; 2] {
        let mut sums = [Picos::ZERO; 2];
        for (index, stage) in chain.stages.clone().enumerate() {
            sums[0] += self.inputs_onto_gpu(stage);
            sums[1] += self.behind_chain(chain, stage, self.joined(chain, index));
        }
        sums
    }

    /// What comes behind a stage of a chain that nobody reads at all.
    fn behind_chain(&self, chain: &Chain, stage: usize, place: Place) -> Picos {
        let stages = self.explorer.stages;
        let is_read = chain.stages.clone().any(|reader| stages[reader].inputs.contains(&stage));
        if is_read { Picos::ZERO } else { self.behind(stage, place) }
    }
}

/// A stage of `range` as if the workload had no other stages.
fn within(stages: &[Stage], range: &Range<usize>, stage: usize) -> Stage {
    let inputs = stages[stage].inputs.iter().filter_map(|input| input.checked_sub(range.start)).collect();
    Stage { inputs, ..stages[stage].clone() }
}

//! The best cut of one operator, given how late each processor can start.

use std::collections::HashMap;

use super::Weights;
use crate::explore::explorer::Explorer;
use crate::explore::grid::Grid;
use crate::explore::prices::Price;
use crate::kernel::cpu::CoreSet;
use crate::plan::{Axis, Placement, Regions, owned};
use crate::schedule::result_bytes;
use crate::simulate::{SimulateError, Simulator, has_own_memory, join_delay};
use crate::units::Picos;

/// Cuts of one operator that are simulated, to see how their parts disturb each other.
const SIMULATED: usize = 4;

/// A cut of one operator, and what its parts take.
#[derive(Clone, Debug)]
pub(super) struct CutChoice {
    pub(super) placement: Placement,
    /// What CPU and GPU compute.
    pub(super) regions: Regions,
    pub(super) cpu: Price,
    pub(super) gpu: Price,
    /// What both take longer together than the longer of them alone.
    pub(super) contention: Picos,
    /// Until the host has the part of a GPU with memory of its own.
    pub(super) gathering: Picos,
}

impl CutChoice {
    /// From the moment both could start until the later part has ended.
    pub(super) fn time(&self, lead_cpu: Picos, lead_gpu: Picos) -> Picos {
        (lead_cpu + self.cpu.time).max(lead_gpu + self.gpu.time + self.gathering) + self.contention
    }
}

/// Cuts that were searched already.
#[derive(Debug)]
pub(super) struct Cutter<'a> {
    inside: Simulator<'a>,
    known: HashMap<(usize, Axis, Picos, Picos), Option<CutChoice>>,
    weights: Weights,
}

impl<'a> Cutter<'a> {
    pub(super) fn new(explorer: &Explorer<'_, 'a>, weights: Weights) -> Self {
        let inside = explorer.parts.inside();
        Self { inside, known: HashMap::new(), weights }
    }

    /// Runs operators as they are inside the workload.
    pub(super) fn inside(&mut self) -> &mut Simulator<'a> {
        &mut self.inside
    }

    /// The cut of `stage` along `axis` that costs least.
    pub(super) fn best(
        &mut self,
        explorer: &mut Explorer<'_, 'a>,
        stage: usize,
        axis: Axis,
        leads: [Picos; 2],
    ) -> Result<Option<CutChoice>, SimulateError> {
        let key = (explorer.prices.kind(stage), axis, leads[0], leads[1]);
        if let Some(known) = self.known.get(&key) {
            return Ok(known.clone());
        }
        let grid = explorer.prices.grid(explorer.stages, stage, explorer.options, axis)?;
        let found = self.search(explorer, stage, &grid, leads)?;
        self.known.insert(key, found.clone());
        Ok(found)
    }

    fn search(
        &mut self,
        explorer: &mut Explorer<'_, 'a>,
        stage: usize,
        grid: &Grid,
        leads: [Picos; 2],
    ) -> Result<Option<CutChoice>, SimulateError> {
        let mut best: Option<(f64, CutChoice)> = None;
        for (cores, bounds) in grid.bounds(leads) {
            let mut least = bounds;
            let nearest = SIMULATED.min(least.len());
            if nearest < least.len() {
                least.select_nth_unstable(nearest);
                least.truncate(nearest);
            }
            least.sort_unstable();
            for (bound, index) in least {
                if best.as_ref().is_some_and(|(cost, _)| self.weights.time(bound) >= *cost) {
                    break;
                }
                let Some(choice) = self.choice(explorer, stage, grid, (cores, index))? else { continue };
                let joules = choice.cpu.joules + choice.gpu.joules;
                let cost = self.weights.of(choice.time(leads[0], leads[1]), joules);
                if best.as_ref().is_none_or(|(least, _)| cost < *least) {
                    best = Some((cost, choice));
                }
            }
        }
        Ok(best.map(|(_, choice)| choice))
    }

    fn choice(
        &mut self,
        explorer: &mut Explorer<'_, 'a>,
        stage: usize,
        grid: &Grid,
        (cores, index): (CoreSet, usize),
    ) -> Result<Option<CutChoice>, SimulateError> {
        let first = grid.cpu_extent[index];
        let axis = grid.axis;
        let times = grid.cpu.iter().find(|(known, _)| *known == cores);
        let cpu = times.and_then(|(_, times)| times[index]);
        let (Some(cpu), Some(gpu)) = (cpu, grid.gpu[index]) else { return Ok(None) };
        let placement = Placement::cpu_and_gpu(axis, cores, [first, grid.all - first]);
        let regions = owned(&explorer.stages[stage], &placement);
        let gathering = grid.gathering[index];
        let of = (explorer.prices.kind(stage), &explorer.stages[stage]);
        // With one memory a cut takes as long inside a workload as alone.
        let known = if has_own_memory(self.inside.device()) {
            &mut explorer.together_inside
        } else {
            &mut explorer.together
        };
        let (together, _) = known.of(&mut self.inside, of, explorer.options, placement)?;
        let bytes = result_bytes(&explorer.stages[stage].layer);
        let join = join_delay(self.inside.device(), explorer.options.synchronisation, bytes);
        let contention = together.saturating_sub(cpu.time.max(gpu.time + gathering) + join);
        Ok(Some(CutChoice { placement, regions, cpu, gpu, contention, gathering }))
    }
}

//! Each operator as is best for it alone, found with a few questions (EPEW'25, section 2).
//!
//! The CPU's time rises with its channels and the GPU's falls, in steps: bisection finds
//! where they meet, and the cuts around it are compared, since steps make some of them
//! much better than others. Operators do not know of each other, and the NPU takes no
//! part; what is minimised is time, whatever the objective.

use super::explorer::Explorer;
use super::grid::MAX_CUTS;
use super::prices::Who;
use crate::kernel::cpu::CoreSet;
use crate::plan::{Axis, Placement, Plan};
use crate::simulate::{SimulateError, join_delay, result_bytes};
use crate::units::Picos;

/// Cuts compared on either side of where both processors take the same: one step of the
/// GPU's staircase at the grid of the paper, 8 channels (section 3.1: a spike is up to 40
/// channels wide).
const NEIGHBOURS: u32 = 6;

/// The best so far, and how many were considered.
struct Best {
    placement: Option<Placement>,
    time: Picos,
    considered: usize,
}

impl Best {
    fn consider(&mut self, placement: Placement, time: Option<Picos>) {
        let Some(time) = time else { return };
        self.considered += 1;
        if self.placement.is_none() || time < self.time {
            (self.placement, self.time) = (Some(placement), time);
        }
    }
}

/// One placement an operator, and how many were considered.
pub(super) fn plan(explorer: &mut Explorer<'_, '_>) -> Result<(Plan, usize), SimulateError> {
    let mut placements = Vec::with_capacity(explorer.stages.len());
    let mut considered = 0;
    for stage in 0..explorer.stages.len() {
        let mut best = Best { placement: None, time: Picos::ZERO, considered: 0 };
        best.consider(Placement::Gpu, explorer.prices.whole(stage, Who::Gpu).map(|price| price.time));
        for &cores in &explorer.options.core_sets {
            let alone = explorer.prices.whole(stage, Who::Cpu(cores));
            best.consider(Placement::Cpu(cores), alone.map(|price| price.time));
            if alone.is_some() {
                cuts(explorer, stage, cores, &mut best);
            }
        }
        considered += best.considered;
        placements.push(best.placement.ok_or(SimulateError::NothingToUse)?);
    }
    Ok((explorer.plan(placements), considered))
}

/// Considers the cuts of one stage around the one that keeps both busy.
fn cuts(explorer: &mut Explorer<'_, '_>, stage: usize, cores: CoreSet, best: &mut Best) {
    let layer = &explorer.stages[stage].layer;
    let Some(all) = layer.operator.splittable_channels().filter(|&all| all > 1) else { return };
    let device = explorer.simulator.device();
    let overhead = join_delay(device, explorer.options.synchronisation, result_bytes(layer));
    let step = explorer.options.step.max(all.div_ceil(MAX_CUTS)).max(1);
    let last = (all - 1) / step;
    let mut times = |cut: u32| {
        let first = cut * step;
        let cpu = explorer.prices.part(stage, Who::Cpu(cores), Axis::Channels, 0..first)?;
        let gpu = explorer.prices.part(stage, Who::Gpu, Axis::Channels, first..all)?;
        Some([cpu.time, gpu.time])
    };
    // The first cut at which the CPU takes longer.
    let (mut low, mut high) = (1, last);
    while low < high {
        let middle = low.midpoint(high);
        match times(middle) {
            Some([cpu, gpu]) if cpu < gpu => low = middle + 1,
            Some(_) => high = middle,
            None => return,
        }
    }
    for cut in low.saturating_sub(NEIGHBOURS).max(1)..=(low + NEIGHBOURS).min(last) {
        let together = times(cut).map(|[cpu, gpu]| overhead + cpu.max(gpu));
        let cpu_channels = cut * step;
        best.consider(Placement::Split { cores, cpu_channels, gpu_channels: all - cpu_channels }, together);
    }
}

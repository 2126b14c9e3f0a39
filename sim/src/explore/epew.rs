//! Each operator as is best for it alone, found with a few questions (EPEW'25, section 2).
//!
//! The CPU's time rises with its channels and the GPU's falls, in steps: bisection finds
//! where they meet, and the cuts around it are compared, since steps make some of them
//! much better than others. Operators do not know of each other, and the NPU takes no
//! part; what is minimised is time, whatever the objective.

use super::{Explorer, Found, MAX_CUTS, Strategy};
use crate::kernel::CoreSet;
use crate::plan::{Axis, Placement, Processor, Region, Span};
use crate::schedule::result_bytes;
use crate::simulate::{Result, SimulateError, join_delay};
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

/// One placement an operator, simulated together.
pub(super) fn find(explorer: &mut Explorer<'_, '_>, strategy: Strategy) -> Result<Found> {
    let mut placements = Vec::with_capacity(explorer.stages.len());
    let mut considered = 0;
    for stage in 0..explorer.stages.len() {
        let mut best = Best { placement: None, time: Picos::ZERO, considered: 0 };
        best.consider(Placement::GPU, explorer.prices.whole(stage, Processor::Gpu).map(|price| price.time));
        for &cores in &explorer.options.core_sets {
            let alone = explorer.prices.whole(stage, Processor::Cpu(cores));
            best.consider(Placement::cpu(cores), alone.map(|price| price.time));
            if alone.is_some() {
                cuts(explorer, stage, cores, &mut best);
            }
        }
        considered += best.considered;
        placements.push(best.placement.ok_or(SimulateError::NothingToUse)?);
    }
    explorer.found(strategy, explorer.plan(placements), considered)
}

/// Considers the cuts of one stage around the one that keeps both busy.
fn cuts(explorer: &mut Explorer<'_, '_>, stage: usize, cores: CoreSet, best: &mut Best) {
    let layer = &explorer.stages[stage].layer;
    let Some(all) = layer.operator.splittable_channels().filter(|&all| all > 1) else { return };
    let device = explorer.simulator.device();
    let overhead = join_delay(device, explorer.options.synchronisation, result_bytes(layer));
    let step = explorer.options.step.max(all.div_ceil(MAX_CUTS)).max(1);
    let last = (all - 1) / step;
    let channels = |start, end| Region::along(Axis::Channels, Span::new(start, end));
    let mut times = |cut: u32| {
        let first = cut * step;
        let cpu = explorer.prices.part(stage, Processor::Cpu(cores), channels(0, first))?;
        let gpu = explorer.prices.part(stage, Processor::Gpu, channels(first, all))?;
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
        best.consider(
            Placement::cpu_and_gpu(Axis::Channels, cores, [cpu_channels, all - cpu_channels]),
            together,
        );
    }
}

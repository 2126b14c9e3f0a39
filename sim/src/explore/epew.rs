//! Each operator placed as is best for it alone, found with a few queries of the kernel
//! models (EPEW'25, section 2).
//!
//! As the CPU's channels grow, its time rises and the GPU's falls, both in steps: bisection
//! finds the cut at which they are equal, and the cuts around it are compared, since the
//! steps make some much better than others. Each operator is planned independently, without
//! the NPU, for time whatever the objective.

use super::{Explorer, Found, MAX_CUTS, Strategy};
use crate::kernel::CoreSet;
use crate::plan::{Axis, Placement, Processor, Region, Span};
use crate::schedule::result_bytes;
use crate::simulate::{Result, SimulateError, join_delay};
use crate::units::Picos;

/// Cuts compared on either side of the balanced one: one step of the GPU's staircase on the
/// paper's grid of 8 channels (section 3.1: a spike is up to 40 channels wide).
const NEIGHBOURS: u32 = 6;

/// The best placement of each operator alone, simulated as one plan.
pub(super) fn find(explorer: &mut Explorer<'_, '_>, strategy: Strategy) -> Result<Found> {
    let mut placements = Vec::with_capacity(explorer.stages.len());
    let mut considered = 0;
    for stage in 0..explorer.stages.len() {
        let mut timed = Vec::new();
        let gpu = explorer.prices.whole(stage, Processor::Gpu);
        timed.extend(gpu.map(|price| (price.time, Placement::GPU)));
        for &cores in &explorer.options.core_sets {
            let Some(alone) = explorer.prices.whole(stage, Processor::Cpu(cores)) else { continue };
            timed.push((alone.time, Placement::cpu(cores)));
            cuts(explorer, stage, cores, &mut timed);
        }
        considered += timed.len();
        let best = timed.into_iter().min_by_key(|&(time, _)| time);
        placements.push(best.ok_or(SimulateError::NothingToUse)?.1);
    }
    explorer.found(strategy, explorer.plan(placements), considered)
}

/// Adds the cuts of one stage around the balanced one, each with its time.
fn cuts(explorer: &mut Explorer<'_, '_>, stage: usize, cores: CoreSet, timed: &mut Vec<(Picos, Placement)>) {
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
        let Some([cpu, gpu]) = times(cut) else { continue };
        let cpu_channels = cut * step;
        let placement = Placement::cpu_and_gpu(Axis::Channels, cores, [cpu_channels, all - cpu_channels]);
        timed.push((overhead + cpu.max(gpu), placement));
    }
}

//! Cuts in proportion to throughput: `muLayer` (Kim et al., `EuroSys`'19), as `CoDL`
//! restates it for its baseline (MobiSys'22, sections 1 and 7.1).
//!
//! Every operator that can be cut along its output channels is cut, and each processor gets a
//! share in proportion to its throughput. The throughput is one number per processor:
//! multiply-adds per second over the whole workload, each operator timed alone. The strategy
//! ignores the cost of synchronisation, and also cuts operators that are faster whole.

use super::{Explorer, Found, Strategy, missing_kernel};
use crate::kernel::CoreSet;
use crate::plan::{Axis, Placement, Processor};
use crate::simulate::Result;

/// The best simulated plan of one for each core set.
pub(super) fn find(explorer: &mut Explorer<'_, '_>, strategy: Strategy) -> Result<Found> {
    let candidates = placements(explorer)?;
    explorer.best_of((strategy, candidates.len()), candidates)
}

/// Placements of every stage, for each core set allowed.
///
/// # Errors
/// Neither the GPU nor the CPU has a kernel for an operator.
fn placements(explorer: &mut Explorer<'_, '_>) -> Result<Vec<Vec<Placement>>> {
    let gpu = throughput(explorer, Processor::Gpu);
    let mut found = Vec::new();
    for &cores in &explorer.options.core_sets {
        let cpu = throughput(explorer, Processor::Cpu(cores));
        let share = if cpu + gpu > 0.0 { cpu / (cpu + gpu) } else { 0.0 };
        let placed = (0..explorer.stages.len()).map(|stage| place(explorer, stage, cores, share));
        found.push(placed.collect::<Result<Vec<_>, _>>()?);
    }
    Ok(found)
}

/// Multiply-adds per second over the operators that can be cut, each timed alone.
fn throughput(explorer: &mut Explorer<'_, '_>, by: Processor) -> f64 {
    let (mut operations, mut seconds) = (0.0, 0.0);
    for (index, stage) in explorer.stages.iter().enumerate() {
        let is_cuttable = stage.layer.operator.splittable_channels().is_some();
        let Some(price) = explorer.prices.whole(index, by).filter(|_| is_cuttable) else { continue };
        operations += stage.layer.operator.macs() as f64;
        seconds += price.time.as_seconds();
    }
    if seconds > 0.0 { operations / seconds } else { 0.0 }
}

fn place(explorer: &mut Explorer<'_, '_>, index: usize, cores: CoreSet, share: f64) -> Result<Placement> {
    let (stage, options) = (&explorer.stages[index], explorer.options);
    let [on_gpu, on_cpu] =
        [Processor::Gpu, Processor::Cpu(cores)].map(|by| explorer.prices.whole(index, by).is_some());
    let all = match (on_gpu, on_cpu, stage.layer.operator.splittable_channels()) {
        (true, true, Some(all)) => all,
        (true, ..) => return Ok(Placement::GPU),
        (false, true, _) => return Ok(Placement::cpu(cores)),
        (false, false, _) => return Err(missing_kernel(explorer.simulator, stage, options)),
    };
    let step = options.step.max(1);
    let cpu_channels = (f64::from(all) * share / f64::from(step)).round() as u32 * step;
    Ok(match cpu_channels {
        0 => Placement::GPU,
        cpu_channels if cpu_channels >= all => Placement::cpu(cores),
        cpu_channels => Placement::cpu_and_gpu(Axis::Channels, cores, [cpu_channels, all - cpu_channels]),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::profile::Profile;
    use crate::explore::{Effort, Objective, SearchOptions};
    use crate::kernel::cpu::Library;
    use crate::plan::ProcessorKind;
    use crate::plan::synchronisation::Mechanism;
    use crate::simulate::Simulator;
    use crate::workload::{fuse, network};

    #[test]
    fn every_operator_gets_the_same_shares() {
        let profile = Profile::load("pixel4").unwrap();
        let stages = fuse(&network("codl-vgg16").unwrap());
        let cores = CoreSet::fastest(&profile.cpu, 3).unwrap();
        let options = SearchOptions {
            strategy: Strategy::FlopsProportional,
            objective: Objective::Latency,
            synchronisation: Mechanism::EventWait,
            core_sets: vec![cores],
            step: 4,
            effort: Effort::default(),
        };
        let mut simulator = Simulator::new(&profile, Library::Xnnpack);
        let found = placements(&mut Explorer::new(&mut simulator, &stages, &options)).unwrap();
        let shares: Vec<f64> = found[0]
            .iter()
            .filter(|placement| placement.is_cut())
            .map(|placement| placement.fraction(ProcessorKind::Cpu))
            .collect();
        assert!(shares.len() >= 13, "every convolution is cut");
        let (least, most) =
            shares.iter().fold((1.0_f64, 0.0_f64), |(low, high), &s| (low.min(s), high.max(s)));
        assert!(most - least < 0.07, "equal but for the grid: {shares:?}");
    }
}

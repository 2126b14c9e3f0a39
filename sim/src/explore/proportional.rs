//! Cuts in proportion to throughput: `muLayer` (Kim et al., `EuroSys`'19), as `CoDL`
//! restates it for its baseline (MobiSys'22, sections 1 and 7.1).
//!
//! Every operator that can be cut along its output channels is, and each processor gets
//! the part that a model linear in multiply-adds gives it. Such a model has one number a
//! processor: what it computes in a second over the whole workload, each operator timed
//! alone. What synchronisation costs, and which operators it is not worth cutting, the
//! strategy does not ask.

use super::Options;
use crate::kernel::cpu::CoreSet;
use crate::plan::Placement;
use crate::simulate::{Processor, SimulateError, Simulator};
use crate::workload::{Layer, Stage};

/// Placements of every stage, for each core set that may be used: the caller simulates
/// which is best.
///
/// # Errors
/// No core set has kernels for all operators, or the GPU lacks one for an operator that
/// the CPU lacks too.
pub(super) fn placements(
    simulator: &Simulator<'_>,
    stages: &[Stage],
    options: &Options,
) -> Result<Vec<Vec<Placement>>, SimulateError> {
    let gpu = throughput(simulator, stages, Processor::Gpu, None);
    let mut found = Vec::new();
    for &cores in &options.core_sets {
        let cpu = throughput(simulator, stages, Processor::Cpu, Some(cores));
        let share = if cpu + gpu > 0.0 { cpu / (cpu + gpu) } else { 0.0 };
        let placed = stages.iter().map(|stage| place(simulator, &stage.layer, cores, share, options.step));
        found.push(placed.collect::<Result<Vec<_>, _>>()?);
    }
    Ok(found)
}

/// Multiply-adds a second of the operators that can be cut, each alone.
fn throughput(
    simulator: &Simulator<'_>,
    stages: &[Stage],
    processor: Processor,
    cores: Option<CoreSet>,
) -> f64 {
    let (mut operations, mut seconds) = (0.0, 0.0);
    for stage in stages.iter().filter(|stage| stage.layer.operator.splittable_channels().is_some()) {
        let Ok((phases, _)) = simulator.layer(&stage.layer, processor, cores) else { continue };
        operations += stage.layer.operator.macs() as f64;
        seconds += phases.duration().as_seconds();
    }
    if seconds > 0.0 { operations / seconds } else { 0.0 }
}

fn place(
    simulator: &Simulator<'_>,
    layer: &Layer,
    cores: CoreSet,
    share: f64,
    step: u32,
) -> Result<Placement, SimulateError> {
    let runs = |processor, cores| simulator.layer(layer, processor, cores);
    let on_gpu = runs(Processor::Gpu, None);
    let on_cpu = runs(Processor::Cpu, Some(cores));
    let (true, true, Some(all)) = (on_gpu.is_ok(), on_cpu.is_ok(), layer.operator.splittable_channels())
    else {
        return match (on_gpu, on_cpu) {
            (Ok(_), _) => Ok(Placement::Gpu),
            (Err(_), Ok(_)) => Ok(Placement::Cpu(cores)),
            (Err(error), Err(_)) => Err(error),
        };
    };
    let step = step.max(1);
    let cpu_channels = (f64::from(all) * share / f64::from(step)).round() as u32 * step;
    Ok(match cpu_channels {
        0 => Placement::Gpu,
        cpu_channels if cpu_channels >= all => Placement::Cpu(cores),
        cpu_channels => Placement::Split { cores, cpu_channels, gpu_channels: all - cpu_channels },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::profile::Profile;
    use crate::explore::{Objective, Strategy};
    use crate::kernel::cpu::Library;
    use crate::plan::synchronisation::Mechanism;
    use crate::workload::{fuse, network};

    #[test]
    fn every_operator_gets_the_same_shares() {
        let profile = Profile::load("pixel4").unwrap();
        let stages = fuse(&network("codl-vgg16").unwrap());
        let cores = CoreSet::fastest(&profile.cpu, 3).unwrap();
        let options = Options {
            strategy: Strategy::FlopsProportional,
            objective: Objective::Latency,
            synchronisation: Mechanism::EventWait,
            core_sets: vec![cores],
            step: 4,
        };
        let simulator = Simulator::new(&profile, Library::Xnnpack);
        let found = placements(&simulator, &stages, &options).unwrap();
        let shares: Vec<f64> = found[0]
            .iter()
            .filter_map(|placement| match *placement {
                Placement::Split { cpu_channels, gpu_channels, .. } => {
                    Some(f64::from(cpu_channels) / f64::from(cpu_channels + gpu_channels))
                }
                _ => None,
            })
            .collect();
        assert!(shares.len() >= 13, "every convolution is cut");
        let (least, most) =
            shares.iter().fold((1.0_f64, 0.0_f64), |(low, high), &s| (low.min(s), high.max(s)));
        assert!(most - least < 0.07, "equal but for the grid: {shares:?}");
    }
}

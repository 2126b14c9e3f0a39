//! Whole layers by profiled ratio: Unified Splitting (section III.B and C).
//!
//! Each kind of operator (convolutions, fully connected layers, normalisations, ...) is
//! profiled on both processors; kinds that gain little from the GPU go to the CPU, where
//! they keep cores busy that would idle while the GPU works at the next batch. The paper
//! moves what the GPU computes less than 50 times as fast, which on its platform are
//! fully connected layers and batch norms. What "little" is depends on how far apart two
//! processors are, so every threshold between two kinds is a candidate here.

use std::collections::BTreeMap;

use super::Options;
use crate::kernel::cpu::CoreSet;
use crate::plan::Placement;
use crate::simulate::{Processor, SimulateError, Simulator};
use crate::workload::{Layer, Stage};

/// How much faster the GPU computes a kind of operator than some cores do.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct KindRatio {
    /// Kind of operator: `conv2d`.
    pub(crate) kind: &'static str,
    /// CPU's time over the GPU's, summed over the workload; infinite or nought where
    /// only one of them has kernels.
    pub(crate) ratio: f64,
}

/// The ratio of each kind of operator in `stages`, smallest first.
pub(crate) fn ratios(simulator: &Simulator<'_>, stages: &[Stage], cores: CoreSet) -> Vec<KindRatio> {
    let mut times: BTreeMap<&'static str, [f64; 2]> = BTreeMap::new();
    let alone = |layer: &Layer, processor, cores| {
        let time = simulator.layer(layer, processor, cores).map(|(phases, _)| phases.duration().as_seconds());
        time.unwrap_or(f64::INFINITY)
    };
    for stage in stages {
        let [cpu, gpu] = times.entry(stage.layer.operator.name()).or_default();
        *cpu += alone(&stage.layer, Processor::Cpu, Some(cores));
        *gpu += alone(&stage.layer, Processor::Gpu, None);
    }
    let ratio = |(kind, [cpu, gpu]): (&'static str, [f64; 2])| {
        let ratio = match (cpu.is_finite(), gpu.is_finite()) {
            (true, true) if gpu > 0.0 => cpu / gpu,
            (true, _) => 0.0,
            (false, _) => f64::INFINITY,
        };
        KindRatio { kind, ratio }
    };
    let mut ratios: Vec<KindRatio> = times.into_iter().map(ratio).collect();
    ratios.sort_by(|one, other| one.ratio.total_cmp(&other.ratio));
    ratios
}

/// Kinds below `threshold` on `cores`, the others on the GPU.
fn placements(stages: &[Stage], ratios: &[KindRatio], cores: CoreSet, threshold: f64) -> Vec<Placement> {
    let moves = |stage: &Stage| {
        let kind = stage.layer.operator.name();
        ratios.iter().any(|known| known.kind == kind && known.ratio < threshold)
    };
    stages.iter().map(|stage| if moves(stage) { Placement::Cpu(cores) } else { Placement::Gpu }).collect()
}

/// The placements of every threshold, for each core set that may be used: the caller
/// simulates which is best.
pub(super) fn candidates(
    simulator: &Simulator<'_>,
    stages: &[Stage],
    options: &Options,
) -> Result<Vec<Vec<Placement>>, SimulateError> {
    let mut found: Vec<Vec<Placement>> = Vec::new();
    for &cores in &options.core_sets {
        let ratios = ratios(simulator, stages, cores);
        let thresholds = ratios.iter().map(|kind| kind.ratio).chain([f64::INFINITY]);
        for threshold in thresholds {
            let placements = placements(stages, &ratios, cores, threshold);
            let is_runnable = stages.iter().zip(&placements).all(|(stage, placement)| {
                let processor = if placement.cores().is_some() { Processor::Cpu } else { Processor::Gpu };
                simulator.layer(&stage.layer, processor, placement.cores()).is_ok()
            });
            if is_runnable && !found.contains(&placements) {
                found.push(placements);
            }
        }
    }
    if found.is_empty() { Err(SimulateError::NothingToUse) } else { Ok(found) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::profile::Profile;
    use crate::kernel::cpu::Library;
    use crate::workload::{fuse, network};

    /// GPU over CPU speed below which the paper moves a kind of operator (section III.B).
    const PUBLISHED_THRESHOLD: f64 = 50.0;

    #[test]
    fn kinds_below_the_threshold_move_as_a_whole() {
        let profile = Profile::load("pixel4").unwrap();
        let stages = fuse(&network("vgg16").unwrap());
        let cores = CoreSet::fastest(&profile.cpu, 3).unwrap();
        let simulator = Simulator::new(&profile, Library::Xnnpack);
        let ratios = ratios(&simulator, &stages, cores);
        let kinds: Vec<&str> = ratios.iter().map(|kind| kind.kind).collect();
        assert!(kinds.contains(&"conv2d") && kinds.contains(&"linear"), "{ratios:?}");
        let none = placements(&stages, &ratios, cores, 0.0);
        assert!(none.iter().all(|placement| *placement == Placement::Gpu));
        // A phone's GPU is nowhere 50 times as fast as three of its cores.
        let published = placements(&stages, &ratios, cores, PUBLISHED_THRESHOLD);
        assert!(published.iter().all(|placement| *placement == Placement::Cpu(cores)));
        let one = placements(&stages, &ratios, cores, ratios[1].ratio);
        let moved = stages.iter().zip(&one).filter(|(_, placement)| **placement != Placement::Gpu);
        assert!(moved.into_iter().all(|(stage, _)| stage.layer.operator.name() == kinds[0]));
    }
}

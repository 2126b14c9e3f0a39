//! Whole layers by profiled ratio: Unified Splitting (section III.B and C).
//!
//! Each kind of operator (convolutions, fully connected layers, normalisations, ...) is
//! profiled on both processors; kinds that gain little from the GPU go to the CPU, on cores
//! that would otherwise idle while the GPU computes the next batch. The paper moves the
//! kinds that the GPU computes less than 50 times as fast: on its platform, fully connected
//! layers and batch norms. The right threshold depends on how much the two processors differ
//! in speed, so every threshold between two kinds is a candidate here.

use std::collections::BTreeMap;

use super::{Explorer, Found, Objective, Prices, Strategy};
use crate::kernel::CoreSet;
use crate::plan::{Placement, Processor};
use crate::simulate::{Result, SimulateError, Simulator};
use crate::workload::Stage;

/// How many times as fast as a CPU core set the GPU computes a kind of operator.
#[derive(Clone, Debug, PartialEq)]
pub struct KindRatio {
    /// Kind of operator: `conv2d`.
    pub kind: &'static str,
    /// CPU time over GPU time, summed over the workload; infinite without a CPU kernel, zero
    /// without a GPU kernel.
    pub ratio: f64,
}

/// The ratio of each kind of operator in `stages`, smallest first.
pub fn ratios(simulator: &Simulator<'_>, stages: &[Stage], cores: CoreSet) -> Vec<KindRatio> {
    priced(&mut Prices::new(simulator, stages, Objective::Latency), stages, cores)
}

fn priced(prices: &mut Prices<'_>, stages: &[Stage], cores: CoreSet) -> Vec<KindRatio> {
    let mut times: BTreeMap<&'static str, [f64; 2]> = BTreeMap::new();
    let mut alone =
        |stage, who| prices.whole(stage, who).map_or(f64::INFINITY, |price| price.time.as_seconds());
    for (index, stage) in stages.iter().enumerate() {
        let [cpu, gpu] = times.entry(stage.layer.operator.name()).or_default();
        *cpu += alone(index, Processor::Cpu(cores));
        *gpu += alone(index, Processor::Gpu);
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

/// Kinds with a ratio below `threshold` on `cores`, the others on the GPU.
fn placements(stages: &[Stage], ratios: &[KindRatio], cores: CoreSet, threshold: f64) -> Vec<Placement> {
    let moves = |stage: &Stage| {
        let kind = stage.layer.operator.name();
        ratios.iter().any(|known| known.kind == kind && known.ratio < threshold)
    };
    stages.iter().map(|stage| if moves(stage) { Placement::cpu(cores) } else { Placement::GPU }).collect()
}

/// The best simulated plan of one for each core set and threshold.
pub(super) fn find(explorer: &mut Explorer<'_, '_>, strategy: Strategy) -> Result<Found> {
    let candidates = candidates(explorer)?;
    explorer.best_of((strategy, candidates.len()), candidates)
}

/// The placements of every threshold, for each core set allowed.
fn candidates(explorer: &mut Explorer<'_, '_>) -> Result<Vec<Vec<Placement>>> {
    let Explorer { stages, options, prices, .. } = explorer;
    let mut found: Vec<Vec<Placement>> = Vec::new();
    for &cores in &options.core_sets {
        let ratios = priced(prices, stages, cores);
        let thresholds = ratios.iter().map(|kind| kind.ratio).chain([f64::INFINITY]);
        for threshold in thresholds {
            let placements = placements(stages, &ratios, cores, threshold);
            let is_runnable = placements.iter().enumerate().all(|(stage, placement)| {
                prices.whole(stage, placement.cores().map_or(Processor::Gpu, Processor::Cpu)).is_some()
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
    use crate::explore::{Effort, Objective, SearchOptions};
    use crate::kernel::cpu::Library;
    use crate::plan::Plan;
    use crate::plan::synchronisation::Mechanism;
    use crate::simulate::Pipeline;
    use crate::workload::{fuse, network};

    /// GPU over CPU speed below which the paper moves a kind of operator (section III.B).
    const PUBLISHED_THRESHOLD: f64 = 50.0;

    #[test]
    fn streamed_batches_move_what_one_batch_alone_would_not() {
        let profile = Profile::load("pixel4").unwrap();
        let stages = fuse(&network("vgg16").unwrap());
        let options = SearchOptions {
            strategy: Strategy::LayerWise,
            objective: Objective::Latency,
            synchronisation: Mechanism::EventWait,
            core_sets: vec![CoreSet::fastest(&profile.cpu, 3).unwrap()],
            step: 32,
            effort: Effort::default(),
        };
        let pipeline = Pipeline::new(3, 0.0);
        let plan_of = |pipeline: Option<&Pipeline>| {
            let mut simulator = Simulator::new(&profile, Library::Xnnpack);
            let mut explorer = Explorer::new(&mut simulator, &stages, &options).streaming(pipeline);
            explorer.find(Strategy::LayerWise).unwrap().plan
        };
        let period = |plan: &Plan| {
            let mut simulator = Simulator::new(&profile, Library::Xnnpack);
            simulator.stream(&stages, plan, &pipeline).unwrap().period
        };
        let (alone, streamed) = (plan_of(None), plan_of(Some(&pipeline)));
        assert!(alone.placements.iter().all(|placement| *placement == Placement::GPU));
        assert!(period(&streamed) < period(&alone), "{:?} {:?}", period(&streamed), period(&alone));
    }

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
        assert!(none.iter().all(|placement| *placement == Placement::GPU));
        // This phone's GPU computes no kind 50 times as fast as three of its cores.
        let published = placements(&stages, &ratios, cores, PUBLISHED_THRESHOLD);
        assert!(published.iter().all(|placement| *placement == Placement::cpu(cores)));
        let one = placements(&stages, &ratios, cores, ratios[1].ratio);
        let moved = stages.iter().zip(&one).filter(|(_, placement)| **placement != Placement::GPU);
        assert!(moved.into_iter().all(|(stage, _)| stage.layer.operator.name() == kinds[0]));
    }
}

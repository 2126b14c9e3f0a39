//! The best of plans drawn at random: the baseline of every search.
//!
//! Each operator goes whole to a processor that has a kernel for it, or is cut between CPU cores and
//! the GPU along its channels or its height at a point of the search's grid. All of these choices are
//! equally likely, and so are the points of a grid. No chains are drawn. Invariant: the answer is a
//! function of workload, device, options, budget and seed.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::{Explorer, Found, Strategy, missing_kernel};
use crate::kernel::CoreSet;
use crate::plan::{Axis, GraphCover, Placement, Processor};
use crate::simulate::{Result, SimulateError};

/// Number of plans, and the seed of their random stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RandomSearch {
    /// Plans that are simulated.
    pub plans: usize,
    /// Seed of the stream.
    pub seed: u64,
}

/// A cut that may be drawn: at any multiple of `step` between 0 and `all`.
struct Cut {
    axis: Axis,
    cores: CoreSet,
    all: u32,
    step: u32,
}

/// The possible placements of one operator.
pub struct Choices {
    whole: Vec<Processor>,
    cuts: Vec<Cut>,
}

impl Explorer<'_, '_> {
    /// The best of plans drawn at random.
    ///
    /// # Errors
    /// No processor allowed has a kernel for an operator, or no plan fits the GPU's own memory.
    pub fn random(&mut self, search: RandomSearch) -> Result<Found> {
        let choices = choices(self)?;
        let mut stream = ChaCha8Rng::seed_from_u64(search.seed);
        let mut best = (f64::INFINITY, None);
        for _ in 0..search.plans {
            let plan = self.plan(choices.iter().map(|choices| choices.draw(&mut stream)).collect());
            let cost = self.fitting_cost(&plan)?;
            if cost < best.0 {
                best = (cost, Some(plan));
            }
        }
        let plan = best.1.ok_or(SimulateError::NothingToUse)?;
        self.found(Strategy::Random, plan, search.plans)
    }
}

/// The possible placements of each operator.
///
/// # Errors
/// No processor allowed has a kernel for an operator.
pub fn choices(explorer: &mut Explorer<'_, '_>) -> Result<Vec<Choices>> {
    (0..explorer.stages.len()).map(|stage| Choices::of(explorer, stage)).collect()
}

impl Choices {
    fn of(explorer: &mut Explorer<'_, '_>, index: usize) -> Result<Self> {
        let (stage, options) = (&explorer.stages[index], explorer.options);
        let cores = options.core_sets.iter().map(|&cores| Processor::Cpu(cores));
        let offered = cores.chain([Processor::Gpu, Processor::Npu(GraphCover::Padded)]);
        let whole: Vec<_> = offered.filter(|&by| explorer.prices.whole(index, by).is_some()).collect();
        if whole.is_empty() {
            return Err(missing_kernel(explorer.simulator, stage, options));
        }
        let mut cuts = Vec::new();
        for axis in [Axis::Channels, Axis::Height] {
            let Some(all) = axis.cuttable(&stage.layer.operator) else { continue };
            let step = axis.step(all, options);
            for by in whole.iter().filter(|_| all > step && whole.contains(&Processor::Gpu)) {
                if let &Processor::Cpu(cores) = by {
                    cuts.push(Cut { axis, cores, all, step });
                }
            }
        }
        Ok(Self { whole, cuts })
    }

    /// The operator whole on each processor, and each cut at `parts - 1` evenly spaced points of its
    /// grid.
    pub fn spread(&self, parts: u32) -> Vec<Placement> {
        let cuts = self.cuts.iter().flat_map(|&Cut { axis, cores, all, step }| {
            let places = (1..parts).map(move |part| (all * part / parts).next_multiple_of(step));
            places
                .filter(move |&cpu| cpu < all)
                .map(move |cpu| Placement::cpu_and_gpu(axis, cores, [cpu, all - cpu]))
        });
        self.whole.iter().copied().map(Placement::whole).chain(cuts).collect()
    }

    /// A placement drawn at random: each processor and each kind of cut is equally likely.
    pub fn draw(&self, stream: &mut ChaCha8Rng) -> Placement {
        let choice = stream.random_range(0..self.whole.len() + self.cuts.len());
        if let Some(&by) = self.whole.get(choice) {
            return Placement::whole(by);
        }
        let &Cut { axis, cores, all, step } = &self.cuts[choice - self.whole.len()];
        let cpu = step * stream.random_range(1..all.div_ceil(step));
        Placement::cpu_and_gpu(axis, cores, [cpu, all - cpu])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::profile::Profile;
    use crate::explore::SearchOptions;
    use crate::kernel::cpu::Library;
    use crate::simulate::Simulator;
    use crate::workload::{fuse, network};

    #[test]
    fn a_larger_budget_finds_no_worse_plan_and_the_seed_determines_the_answer() {
        let profile = Profile::load("pixel4").unwrap();
        let stages = fuse(&network("vit-b32-mlp").unwrap());
        let options = SearchOptions::on(&profile);
        let mut simulator = Simulator::new(&profile, Library::Xnnpack);
        let mut explorer = Explorer::new(&mut simulator, &stages, &options);
        let mut latency =
            |plans, seed| explorer.random(RandomSearch { plans, seed }).unwrap().prediction.latency;
        let [few, many, again] = [10, 200, 200].map(|plans| latency(plans, 7));
        assert!(many < few, "{many} of 200 plans, {few} of 10");
        assert_eq!(many, again);
        assert_ne!(many, latency(200, 8));
        let gpu = explorer.find(Strategy::GpuOnly).unwrap().prediction.latency;
        assert!(many < gpu, "chance finds cuts: {many} beside {gpu} of the GPU alone");
    }
}

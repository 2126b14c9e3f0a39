//! Memory footprint of a plan, and its overhead over a single processor.
//!
//! Co-execution packs weights for each processor before the first run, and keeps two
//! copies of results that both processors need in different layouts or memories (`CoDL`,
//! `MobiSys`'22, section 7.6). Other allocations of a framework are not counted.

use derive_more::{Add, Sum};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{GenerationPlan, Lowered};
use crate::device::Profile;
use crate::plan::{Plan, Region, Regions};
use crate::schedule::result_bytes;
use crate::units::Bytes;
use crate::workload::{LanguageTask, Layout, Stage};

/// Memory of weights and results, and the overhead of a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[derive(Add, Sum)]
pub struct Footprint {
    /// All weights, counted once even where operators share them, and each operator's constants.
    pub weights_bytes: Bytes,
    /// Peak of live results, each counted once.
    pub activations_bytes: Bytes,
    /// Second copies of weights: those of operators cut along their height, and of a language model whose
    /// prefill and decode run on different processors with different layouts.
    pub extra_weights_bytes: Bytes,
    /// Peak of live second copies of results: data that crosses between image and buffer or
    /// between two memories, and halo rows that both processors compute.
    pub extra_activations_bytes: Bytes,
}

impl Footprint {
    /// The footprint of a language model under `plan`: its weights in the format of its layers, twice where
    /// prefill and decode need different layouts, and the KV cache of all turns, or of the context of its graphs.
    pub fn of_language(task: &LanguageTask, plan: &GenerationPlan) -> Self {
        let tokens = task.context_before(task.turns.len());
        let steps = plan.prefill.iter().chain([&plan.decode]);
        let context =
            steps.map(|step| plan.graphs_of(step).allocated_context(tokens)).max().unwrap_or(tokens);
        let weights_bytes = task.data_type().weight_bytes(task.model.parameters());
        Self {
            weights_bytes,
            activations_bytes: Bytes(task.model.cache_bytes(context)),
            extra_weights_bytes: if plan.keeps_weights_twice() { weights_bytes } else { Bytes::ZERO },
            ..Self::default()
        }
    }

    /// Overhead of the plan.
    pub fn extra(&self) -> Bytes {
        self.extra_weights_bytes + self.extra_activations_bytes
    }

    /// The sum of all four: an upper bound of the memory that a run of the plan holds.
    pub fn peak(&self) -> Bytes {
        self.weights_bytes + self.activations_bytes + self.extra()
    }

    /// Whether it fits into the device's memory; `None` where the size of that is unknown.
    pub fn fits(&self, device: &Profile) -> Option<bool> {
        device.memory.size().map(|size| self.peak() <= size)
    }

    /// Overhead of the plan, in percent of the memory that one processor needs.
    pub fn extra_percent(&self) -> f64 {
        let one = self.weights_bytes + self.activations_bytes;
        if one == Bytes::ZERO { 0.0 } else { self.extra().0 as f64 / one.0 as f64 * 100.0 }
    }
}

/// The footprint of `stages` under `plan`.
pub(super) fn footprint(device: &Profile, stages: &[Stage], plan: &Plan, lowered: &Lowered) -> Footprint {
    let copies = copies(device, plan);
    let results: Vec<Bytes> = stages.iter().map(|stage| result_bytes(&stage.layer)).collect();
    let second = |stage: usize| {
        let (bytes, whole) = (results[stage], Region::of(stages[stage].layer.operator.output()));
        let crossing: Bytes = lowered.missing[stage].iter().copied().sum();
        let computed: u64 = lowered.computed[stage].iter().map(|region| region.size()).sum();
        let halo = u128::from(bytes.0) * u128::from(computed.saturating_sub(whole.size()));
        let crossing = if copies { crossing.min(bytes) } else { Bytes::ZERO };
        crossing + Bytes((halo / u128::from(whole.size().max(1))) as u64)
    };
    let seconds: Vec<Bytes> = (0..stages.len()).map(second).collect();
    let is_twice = |(stage, regions): &(&Stage, &Regions)| {
        let all = Region::of(stage.layer.operator.output()).channels;
        regions.iter().filter(|region| region.channels == all).count() > 1
    };
    let twice = stages.iter().zip(&lowered.computed).filter(is_twice);
    Footprint {
        weights_bytes: stages.iter().map(Stage::own_weights).sum(),
        activations_bytes: peak_live(stages, plan, &results),
        extra_weights_bytes: twice.map(|(stage, _)| stage.own_weights()).sum(),
        extra_activations_bytes: peak_live(stages, plan, &seconds),
    }
}

/// Whether data that crosses between processors is copied to another layout or memory.
fn copies(device: &Profile, plan: &Plan) -> bool {
    let Some(gpu) = &device.gpu else { return false };
    gpu.memory.is_some() || (plan.synchronisation.maps() && gpu.layout() != Layout::Buffer)
}

/// Peak of live results; `bytes` has the size of each stage's result. A result is live from its
/// computation until its last reader has ended.
fn peak_live(stages: &[Stage], plan: &Plan, bytes: &[Bytes]) -> Bytes {
    let mut ends = vec![stages.len(); stages.len()];
    for (position, reader) in plan.in_order().enumerate() {
        stages[reader].inputs().for_each(|input| ends[input] = position);
    }
    let mut leaving: Vec<Bytes> = vec![Bytes::ZERO; stages.len() + 1];
    let (mut alive, mut most) = (Bytes::ZERO, Bytes::ZERO);
    for (position, stage) in plan.in_order().enumerate() {
        alive += bytes[stage];
        leaving[ends[stage]] += bytes[stage];
        most = most.max(alive);
        alive = Bytes(alive.0 - leaving[position].0);
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::cpu::{CoreSet, Library};
    use crate::plan::synchronisation::Mechanism;
    use crate::plan::{Axis, Placement};
    use crate::simulate::Simulator;
    use crate::workload::{fuse, network};

    fn footprint_of(mechanism: Mechanism, chained: bool) -> Footprint {
        let device = Profile::load("pixel4").unwrap();
        let stages = fuse(&network("vgg16").unwrap());
        let cores = CoreSet::fastest(&device.cpu, 2).unwrap();
        let placements: Vec<Placement> = stages
            .iter()
            .map(|stage| match Axis::Height.extent(&stage.layer.operator) {
                Some(rows) => Placement::cpu_and_gpu(Axis::Height, cores, [rows / 2, rows - rows / 2]),
                None => Placement::GPU,
            })
            .collect();
        let chains =
            placements.iter().map(|placement| (chained && placement.is_cut()).then_some(0)).collect();
        let plan = Plan::new(mechanism, placements).chained(chains);
        Simulator::new(&device, Library::Xnnpack).run(&stages, &plan).unwrap().memory
    }

    #[test]
    fn operators_cut_along_their_height_have_their_weights_twice() {
        let memory = footprint_of(Mechanism::SvmPolling, false);
        // VGG-16: 138,357,544 parameters, of which 14,714,688 are the convolutions'.
        assert_eq!(memory.weights_bytes, Bytes(4 * 138_357_544));
        assert_eq!(memory.extra_weights_bytes, Bytes(4 * 14_714_688));
        // conv1_1 and conv1_2, 224x224x64 each.
        assert_eq!(memory.activations_bytes, Bytes(2 * 4 * 224 * 224 * 64));
    }

    #[test]
    fn shared_weights_count_once() {
        let device = Profile::load("pixel4").unwrap();
        let mut stages = fuse(&network("vit-b32-mlp").unwrap());
        let plan = Plan::new(Mechanism::SvmPolling, vec![Placement::GPU; stages.len()]);
        let weights = |stages: &[Stage]| {
            Simulator::new(&device, Library::Xnnpack).run(stages, &plan).unwrap().memory.weights_bytes
        };
        let all = weights(&stages);
        stages[1].shares_weights = true;
        assert_eq!(weights(&stages), Bytes(all.0 - 4 * (3072 * 768 + 768)));
    }

    #[test]
    fn shared_buffers_need_no_second_copy_and_images_do() {
        assert_eq!(footprint_of(Mechanism::SvmPolling, false).extra_activations_bytes, Bytes::ZERO);
        let images = footprint_of(Mechanism::EventWait, false).extra_activations_bytes;
        assert!(images > Bytes::ZERO, "halos, and what the GPU reads alone");
        assert!(footprint_of(Mechanism::SvmPolling, true).extra_activations_bytes > Bytes::ZERO, "halos");
    }
}

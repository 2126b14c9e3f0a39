//! Memory of `CoDL` and of MACE: section 7.6.
//!
//! The framework's own memory is one constant for every model and system: the paper's MACE
//! with VGG-16, minus weights and results. `CoDL` keeps the weights as loaded, of which the CPU
//! reads its part, and a copy of those that the GPU uses, arranged for it ("pre-arranged",
//! section 3): all weights of an operator cut along its height, and the GPU's share of one cut
//! along output channels. Results that both processors use exist in both layouts.

use super::runs::{MODELS, Runs, System};
use super::{VGG, XIAOMI9};
use crate::{Comparison, Result, mean};
use coexec_sim::{Axis, Placement, Stage};

const MEGABYTE: f64 = 1e6;

/// Compares ours with the published numbers.
pub(super) fn compare(comparison: &mut Comparison, runs: &mut Runs) -> Result {
    const MACE: &str = "xiaomi-9/vgg/memory-mace";
    // Megabytes of each model without the framework: on one processor, and co-executed.
    let mut models = Vec::new();
    for model in 0..MODELS.len() {
        let codl = runs.of(XIAOMI9, model, System::Codl)?;
        let memory = codl.prediction.memory;
        let [alone, copied] =
            [memory.weights_bytes + memory.activations_bytes, memory.extra_activations_bytes]
                .map(|bytes| bytes.0 as f64 / MEGABYTE);
        let arranged: f64 = runs.stages(model).iter().zip(&codl.plan.placements).map(arranged).sum();
        models.push([alone, alone + arranged + copied]);
    }
    let [vgg_alone, vgg_shared] = models[VGG];
    let framework = comparison.published(MACE)? - vgg_alone;
    let more: Vec<f64> = models
        .iter()
        .map(|[alone, shared]| 100.0 * ((framework + shared) / (framework + alone) - 1.0))
        .collect();
    comparison.row("xiaomi-9/vgg/memory-codl", framework + vgg_shared);
    comparison.row(MACE, framework + vgg_alone);
    comparison.row("xiaomi-9/5-models/memory-vs-mace", mean(&more));
    Ok(())
}

/// Megabytes of an operator's weights that are copied and arranged for the GPU.
fn arranged((stage, placement): (&Stage, &Placement)) -> f64 {
    let all = stage.layer.data_type.weight_bytes(stage.layer.operator.parameters()).0 as f64 / MEGABYTE;
    match placement.cpu_and_gpu_extents() {
        Some((Axis::Height, _)) => all,
        Some((Axis::Channels, [cpu, gpu])) => all * f64::from(gpu) / f64::from(cpu + gpu),
        None => 0.0,
    }
}

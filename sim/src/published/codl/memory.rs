//! Memory of `CoDL` and of MACE: section 7.6.
//!
//! The framework's own is one constant, what the paper's MACE takes for VGG-16 beyond weights
//! and results; it is the same for every model and system. `CoDL` keeps the weights as they
//! are loaded, of which the CPU reads its part, and arranges those that the GPU uses for it
//! ("pre-arranged", section 3): all of an operator that is cut along its height, its share of
//! one that is cut along output channels. Results that both use lie in both layouts.

use super::super::{Comparison, Limit};
use super::runs::{MODELS, Run, Runs, System};
use super::{VGG, XIAOMI9, mean};
use crate::plan::Placement;
use crate::simulate::SimulateError;
use crate::workload::Stage;

const MEGABYTE: f64 = 1e6;

/// Memory of one model, in megabytes.
struct Memory {
    weights: f64,
    results: f64,
    /// Of the GPU's weights, arranged besides.
    arranged: f64,
    /// Second copies of results.
    copied: f64,
}

impl Memory {
    fn of(stages: &[Stage], codl: &Run) -> Self {
        let known = codl.prediction.memory;
        let megabytes = |bytes: crate::units::Bytes| bytes.0 as f64 / MEGABYTE;
        Self {
            weights: megabytes(known.weights_bytes),
            results: megabytes(known.activations_bytes),
            arranged: stages.iter().zip(&codl.plan.placements).map(arranged).sum(),
            copied: megabytes(known.extra_activations_bytes),
        }
    }

    /// On one processor, without the framework.
    fn alone(&self) -> f64 {
        self.weights + self.results
    }

    fn shared(&self) -> f64 {
        self.alone() + self.arranged + self.copied
    }
}

/// Megabytes of an operator's weights that are arranged for the GPU beside the CPU's.
fn arranged((stage, placement): (&Stage, &Placement)) -> f64 {
    let all = stage.layer.data_type.weight_bytes(stage.layer.operator.parameters()).0 as f64 / MEGABYTE;
    match placement {
        Placement::HeightSplit { .. } => all,
        Placement::Split { cpu_channels, gpu_channels, .. } => {
            all * f64::from(*gpu_channels) / f64::from(cpu_channels + gpu_channels)
        }
        _ => 0.0,
    }
}

/// Sets ours beside the published numbers.
pub(super) fn compare(comparison: &mut Comparison, runs: &mut Runs) -> Result<(), SimulateError> {
    const MACE: &str = "xiaomi-9/vgg/memory-mace";
    comparison.set_by(MACE, "the framework's own memory");
    let mut models = Vec::new();
    for model in 0..MODELS.len() {
        let codl = runs.of(XIAOMI9, model, System::Codl)?;
        models.push(Memory::of(runs.stages(model), &codl));
    }
    let framework = comparison.number(MACE) - models[VGG].alone();
    let more: Vec<f64> = models
        .iter()
        .map(|memory| 100.0 * ((framework + memory.shared()) / (framework + memory.alone()) - 1.0))
        .collect();
    comparison.group("memory", Limit::default());
    comparison.row("xiaomi-9/vgg/memory-codl", framework + models[VGG].shared()).note(&format!(
        "{:.0} MB of weights and {:.0} MB of results leave {framework:.0} MB of MACE's to the framework; the GPU's weights \
         arranged beside them are {:.0} MB, twice kept results {:.1} MB",
        models[VGG].weights, models[VGG].results, models[VGG].arranged, models[VGG].copied,
    ));
    comparison.row(MACE, framework + models[VGG].alone());
    let each: Vec<String> =
        MODELS.iter().zip(&more).map(|((.., name), more)| format!("{name} {more:.0}")).collect();
    let vgg = 100.0 * (comparison.number("xiaomi-9/vgg/memory-codl") / comparison.number(MACE) - 1.0);
    let published = comparison.number("xiaomi-9/5-models/memory-vs-mace");
    comparison.row("xiaomi-9/5-models/memory-vs-mace", mean(&more)).note(&format!(
        "% more of {}; the paper's VGG-16 alone is {vgg:.0} % more, so its others are below its mean of {published:.0}",
        each.join(", "),
    ));
    Ok(())
}

//! The right half of Table 3: the solver's choices.

use super::table3::{DOWN, SQUARE, WIDE, Weight, on_gpu, on_npu};
use super::{LLAMA_8B, Runs, task};
use crate::{Comparison, Result};
use coexec_sim::{ProcessorKind, Strategy};

/// Largest absolute difference of a share that counts as agreement.
const SHARE_TOLERANCE: f64 = 0.1;

pub(super) fn compare(comparison: &mut Comparison, runs: Runs<'_>) -> Result {
    let is_close = |share: f64, published: f64| (share - published).abs() <= SHARE_TOLERANCE;
    for (weight, product, published) in [(SQUARE, "q", 0.5), (WIDE, "gate-up", 0.75)] {
        let share = balanced(runs, weight)?;
        let text = format!(
            "weight-centric, {:.0} % on the GPU by times like Table 3's; {:.0} % inside the engine, where products \
             are not submitted one by one",
            100.0 * share,
            100.0 * share_of(runs, 256, product, true)?
        );
        comparison.finding(weight.fact("1", "strategy-gpu-npu"), text, is_close(share, published));
    }
    let share = share_of(runs, 256, "down", false)?;
    let text = format!("weight-centric, {:.0} % on the GPU", 100.0 * share);
    comparison.finding(DOWN.fact("256", "strategy-gpu-npu"), text, is_close(share, 0.4));
    let share = share_of(runs, 320, "down", false)?;
    let text =
        format!("channels of graphs of 256 and 64 rows, {:.0} % on the GPU (320 tokens)", 100.0 * share);
    comparison.finding(DOWN.fact("-257-384", "strategy"), text, is_close(share, 0.4));
    Ok(())
}

/// The GPU's share that balances a product by the times available to the paper's solver: those of
/// Table 3, which include overheads beyond the product.
fn balanced(runs: Runs<'_>, weight: Weight) -> Result<f64> {
    let half = Weight { output: weight.output / 2, ..weight };
    let line = |whole: f64, half: f64| (2.0 * half - whole, 2.0 * (whole - half));
    let (gpu_fixed, gpu_slope) = line(on_gpu(runs, weight, 1)?, on_gpu(runs, half, 1)?);
    let (npu_fixed, npu_slope) = line(on_npu(runs, weight, 1)?, on_npu(runs, half, 1)?);
    Ok((npu_fixed + npu_slope - gpu_fixed) / (gpu_slope + npu_slope))
}

/// The GPU's share of a product of Llama-8B in the plan of `hetero-tensor`.
fn share_of(runs: Runs<'_>, prompt: u32, product: &str, decode: bool) -> Result<f64> {
    let task = task(LLAMA_8B, [prompt, 1]);
    let plan = runs.plan(&task, Strategy::HeteroTensor)?;
    let step = if decode { &plan.decode } else { &plan.prefill[0] };
    let stages = task.stages(task.prefill(0)).layer;
    let placed = stages.iter().zip(&step.layer).find(|(stage, _)| stage.name == product);
    Ok(placed.map_or(0.0, |(_, placement)| placement.fraction(ProcessorKind::Gpu)))
}

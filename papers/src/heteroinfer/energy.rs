//! Section 5.8, figure 20: power and energy of 256 tokens read and 32 generated.

use super::{FAST, LLAMA_8B, Runs, id};
use crate::{Comparison, Result};
use coexec_sim::Strategy as S;
use coexec_sim::simulate::generation::{Generation, PhaseReport};

pub(super) fn compare(comparison: &mut Comparison, runs: Runs<'_>) -> Result {
    let answer = |strategy| runs.answer(LLAMA_8B, [256, 32], strategy, FAST);
    let [gpu, layer, tensor] = [S::GpuOnly, S::HeteroLayer, S::HeteroTensor].map(answer);
    let (gpu, layer, tensor) = (gpu?, layer?, tensor?);
    let watts = layer.turns[0].prefill.watts().unwrap_or(f64::NAN);
    comparison.row(id("llama-8b-prefill/power-hetero-layer"), watts);
    let decode = |answer: &Generation| {
        answer.turns[0].decode.as_ref().and_then(PhaseReport::watts).unwrap_or(f64::NAN)
    };
    let [of_gpu, of_layer, of_tensor] = [&gpu, &layer, &tensor].map(decode);
    let text =
        format!("GPU-only {of_gpu:.2} W, Hetero-layer {of_layer:.2} W, Hetero-tensor {of_tensor:.2} W");
    let is_lowest = of_tensor <= of_gpu && of_tensor <= of_layer;
    comparison.finding(id("llama-8b-decode/lowest-power"), text, is_lowest);
    let joules = |answer: &Generation| answer.energy.map_or(f64::NAN, |energy| energy.0);
    for (over, other) in [("gpu-only", &gpu), ("hetero-layer", &layer)] {
        let less = 100.0 * (joules(&tensor) / joules(other) - 1.0);
        comparison.row(id(&format!("llama-8b/energy-hetero-tensor-vs-{over}")), less);
    }
    Ok(())
}

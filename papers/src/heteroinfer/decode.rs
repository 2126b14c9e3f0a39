//! Sections 3.3, 5.4, 5.5 and 5.8: decode, power and energy.

use super::{FAST, LLAMA_8B, Runs, SLOW, id, task};
use crate::{Comparison, Result, bundled};
use coexec_sim::simulate::generation::{Generation, PhaseReport};
use coexec_sim::{Plan, Simulator, Strategy as S};

pub(super) fn compare(comparison: &mut Comparison, runs: Runs<'_>) -> Result {
    let rate = |model, strategy, mechanism| {
        runs.decode(model, strategy, mechanism).map(|report| report.tokens_per_second)
    };
    for (key, model) in
        [("llama-8b", LLAMA_8B), ("llama-3b", "llama3.2-3b"), ("internlm-1-8b", "internlm2-1.8b")]
    {
        let fact = id(&format!("{key}/decode-rate-hetero-tensor"));
        comparison.row(fact, rate(model, S::HeteroTensor, FAST)?);
    }
    let shared = rate(LLAMA_8B, S::HeteroTensor, FAST)?;
    let gain = 100.0 * (shared / rate(LLAMA_8B, S::HeteroLayer, FAST)? - 1.0);
    comparison.row(id("llama-8b-decode/hetero-tensor-over-hetero-layer"), gain);
    let slow = rate(LLAMA_8B, S::HeteroTensor, SLOW)?;
    comparison.row(id("llama-8b-decode/fast-sync-speedup"), shared / slow);
    let both = product_bandwidth(runs, S::HeteroTensor)?;
    comparison.row(id("decode-gpu-only/bandwidth"), product_bandwidth(runs, S::GpuOnly)?);
    comparison.row(id("decode-gpuplusnpu/bandwidth"), both);
    comparison.row(id("decode-gpuplusnpu/bandwidth/5-4"), both);
    energy(comparison, runs)
}

/// The largest matrix product of a token.
const PRODUCT: &str = "gate-up";

/// Bandwidth of Llama-8B's largest product during decode, in gigabytes per second.
fn product_bandwidth(runs: Runs<'_>, strategy: S) -> Result<f64> {
    let task = task(LLAMA_8B, [256, 1]);
    let plan = runs.plan(&task, strategy)?;
    let stages = task.stages(task.first_decode(0)).layer;
    let index = stages.iter().position(|stage| stage.name == PRODUCT);
    let index = bundled(index, || format!("{LLAMA_8B} has no {PRODUCT}"))?;
    let alone = stages[index].isolated();
    let plan = Plan::new(FAST, vec![plan.decode.layer[index]]);
    let mut simulator = Simulator::new(runs.device, runs.library());
    Ok(simulator.run(std::slice::from_ref(&alone), &plan)?.bandwidth.as_gigabytes())
}

/// Section 5.8, figure 20: power and energy of a prompt of 256 tokens and an answer of 32.
fn energy(comparison: &mut Comparison, runs: Runs<'_>) -> Result {
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

//! Sections 3.3, 5.4 and 5.5: generating tokens.

use super::{FAST, LLAMA_8B, Runs, SLOW, id, task};
use crate::{Comparison, Result, bundled};
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
    Ok(())
}

/// The largest product of a token.
const PRODUCT: &str = "gate-up";

/// Gigabytes a second that Llama-8B's largest product of one token moves.
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

//! Sections 3.3, 5.4 and 5.5: generating tokens.

use super::{FAST, LLAMA_8B, Runs, SLOW, argument, id, task};
use crate::explore::language::LanguageStrategy as S;
use crate::plan::Plan;
use crate::published::{Comparison, Limit, Measure, ReproduceError};
use crate::simulate::{SimulateError, Simulator};

pub(super) fn compare(comparison: &mut Comparison, runs: Runs<'_>) -> Result<(), ReproduceError> {
    comparison.group("decode rates", Limit::each(5.0));
    for (key, model) in
        [("llama-8b", LLAMA_8B), ("llama-3b", "llama3.2-3b"), ("internlm-1-8b", "internlm2-1.8b")]
    {
        let fact = id(&format!("{key}/decode-rate-hetero-tensor"));
        comparison.row(&fact, runs.decode(model, S::HeteroTensor, FAST)?.tokens_per_second);
        comparison.note("one constant for the three models, the GPU's launch, is fitted");
    }
    let shared = runs.decode(LLAMA_8B, S::HeteroTensor, FAST)?.tokens_per_second;
    let assigned = runs.decode(LLAMA_8B, S::HeteroLayer, FAST)?.tokens_per_second;
    comparison.group_measured("decode gain of sharing products", Limit::each(15.0), Measure::Points);
    let fact = id("llama-8b-decode/hetero-tensor-over-hetero-layer");
    comparison.row(&fact, 100.0 * (shared / assigned - 1.0));
    bandwidth(comparison, runs)?;
    synchronisation(comparison, runs, shared)
}

fn bandwidth(comparison: &mut Comparison, runs: Runs<'_>) -> Result<(), ReproduceError> {
    comparison.group("memory bandwidth", Limit::each(15.0));
    let alone = product_bandwidth(runs, S::GpuOnly)?;
    let both = product_bandwidth(runs, S::HeteroTensor)?;
    comparison.row(&id("decode-gpu-only/bandwidth"), alone);
    comparison.row(&id("decode-gpuplusnpu/bandwidth"), both);
    comparison
        .note("gate and up of Llama-8B, launch and join included; nothing but the two processors' own rates");
    comparison.row(&id("decode-gpuplusnpu/bandwidth/5-4"), both);
    for end in ["low", "high"] {
        comparison.not_reproduced(
            &id(&format!("decode-one-processor/bandwidth-{end}")),
            "an end of a range over CPU, GPU and NPU; the profile takes the lower one for the NPU's prefill",
        );
    }
    Ok(())
}

/// Gigabytes a second that Llama-8B's largest product of one token moves.
fn product_bandwidth(runs: Runs<'_>, strategy: S) -> Result<f64, SimulateError> {
    let task = task(LLAMA_8B, [256, 1]);
    let plan = runs.plan(&task, strategy)?;
    let stages = task.stages(task.first_decode(0)).layer;
    let Some(index) = stages.iter().position(|stage| stage.name == "gate-up") else { return Ok(f64::NAN) };
    let alone = stages[index].isolated();
    let plan = Plan::new(FAST, vec![plan.decode.layer[index]]);
    let mut simulator = Simulator::new(runs.device, runs.library());
    Ok(simulator.run(std::slice::from_ref(&alone), &plan)?.bandwidth.as_gigabytes())
}

fn synchronisation(comparison: &mut Comparison, runs: Runs<'_>, fast: f64) -> Result<(), ReproduceError> {
    comparison.group("decode without fast synchronisation", Limit::default());
    let gain = fast / runs.decode(LLAMA_8B, S::HeteroTensor, SLOW)?.tokens_per_second;
    let [of_8b, of_others] =
        ["llama-8b-decode", "other-models-decode"].map(|key| id(&format!("{key}/fast-sync-speedup")));
    comparison.row(&of_8b, gain);
    comparison.note("four hand-overs and six joins a layer, of which each also maps and resubmits");
    let rate = |mechanism| runs.decode("llama2-7b", S::HeteroTensor, mechanism);
    let ours = rate(FAST)?.tokens_per_second / rate(SLOW)?.tokens_per_second;
    let published = comparison.number(&id("llama-8b/decode-rate-hetero-tensor"));
    let gains = [comparison.number(&of_8b), comparison.number(&of_others)];
    let finish_us = comparison.number(&id("gpu-npu/synchronisation-clfinish"));
    comparison.not_reproduced(&of_others, &argument::other_models(ours, published, finish_us, gains));
    Ok(())
}

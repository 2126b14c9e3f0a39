//! Sections 5.3, 5.5 and 5.6: prefill.

use super::setting::order_speedup;
use super::table3::{DOWN, on_gpu, on_npu};
use super::{FAST, LENGTHS, LLAMA_8B, Runs, SLOW, id, range};
use crate::{Comparison, Result, mean};
use coexec_sim::Strategy as S;

/// Lengths just above a standard size, where padding wastes most.
const LENGTHS_ABOVE_STANDARD: [u32; 3] = [135, 267, 525];

/// Misaligned lengths in the range of figure 14.
const MISALIGNED: [u32; 10] = [135, 200, 300, 400, 525, 600, 700, 800, 900, 1000];

/// Tokens of the ablation (figure 18).
const ABLATION: u32 = 320;

pub(super) fn compare(comparison: &mut Comparison, runs: Runs<'_>) -> Result {
    rates(comparison, runs)?;
    gains(comparison, runs)?;
    lengths(comparison, runs)?;
    ablation(comparison, runs)
}

fn rates(comparison: &mut Comparison, runs: Runs<'_>) -> Result {
    let rate = |tokens: u32, strategy, mechanism| {
        runs.prefill(tokens, strategy, mechanism).map(|seconds| f64::from(tokens) / seconds)
    };
    let at_256 = "llama-8b-prefill-seq-256/hetero-tensor";
    comparison.row(id(&format!("{at_256}-with-fast-sync")), rate(256, S::HeteroTensor, FAST)?);
    comparison.row(id(&format!("{at_256}-without-fast-sync")), rate(256, S::HeteroTensor, SLOW)?);
    comparison.row(id("llama-8b/prefill-rate-hetero-tensor-max"), rate(1024, S::HeteroTensor, FAST)?);
    let small = runs.answer("internlm2-1.8b", [256, 0], S::HeteroTensor, FAST)?;
    let fact = id("internlm-1-8b-seq-256/prefill-rate-hetero-tensor");
    comparison.row(fact, small.turns[0].prefill.tokens_per_second);
    let chunked = rate(256, S::NpuChunked, FAST)? / rate(1024, S::NpuChunked, FAST)?;
    comparison.row("llm-npu/chunked-prefill/rate-at-256-relative-to-1024", chunked);
    let best = runs.prefill(525, S::HeteroTensor, FAST)?;
    for (over, strategy) in
        [("online-prepare", S::NpuOnline), ("padding", S::NpuPadding), ("npu-pipe", S::NpuPipe)]
    {
        let fact = id(&format!("llama-8b-prefill-seq-525/hetero-tensor-speedup-over-{over}"));
        comparison.row(fact, runs.prefill(525, strategy, FAST)? / best);
    }
    Ok(())
}

/// Mean over `lengths` of the additional time of `slow` over `fast`, in percent.
fn mean_gain(
    lengths: &[u32],
    slow: impl Fn(u32) -> Result<f64>,
    fast: impl Fn(u32) -> Result<f64>,
) -> Result<f64> {
    let gain = |&tokens: &u32| Ok(100.0 * (slow(tokens)? / fast(tokens)? - 1.0));
    Ok(mean(&lengths.iter().map(gain).collect::<Result<Vec<f64>>>()?))
}

fn gains(comparison: &mut Comparison, runs: Runs<'_>) -> Result {
    let time = |strategy, mechanism| move |tokens| runs.prefill(tokens, strategy, mechanism);
    let (layer, tensor) = (time(S::HeteroLayer, FAST), time(S::HeteroTensor, FAST));
    let gain = mean_gain(&LENGTHS, layer, tensor)?;
    comparison.row(id("prefill/hetero-tensor-over-hetero-layer-mean"), gain);
    comparison.row(id("prefill-seq-32/hetero-tensor-over-hetero-layer"), mean_gain(&[32], layer, tensor)?);
    for (name, strategy) in [("layer", S::HeteroLayer), ("tensor", S::HeteroTensor)] {
        let gain = mean_gain(&LENGTHS, time(strategy, SLOW), time(strategy, FAST))?;
        comparison.row(id(&format!("llama-8b-prefill/fast-sync-gain-hetero-{name}-mean")), gain);
    }
    let pieces = time(S::NpuPipe, FAST);
    let reduction = |tokens| Ok(100.0 * (1.0 - tensor(tokens)? / pieces(tokens)?));
    let reductions = MISALIGNED.into_iter().map(reduction).collect::<Result<Vec<f64>>>()?;
    for (end, reduction) in ["low", "high"].into_iter().zip(range(reductions)) {
        comparison.row(id(&format!("llama-8b/latency-reduction-vs-npu-pipe-{end}")), reduction);
    }
    Ok(())
}

fn lengths(comparison: &mut Comparison, runs: Runs<'_>) -> Result {
    for tokens in [135, 1000] {
        let answer = runs.answer(LLAMA_8B, [tokens, 0], S::NpuOnline, FAST)?;
        let turn = &answer.turns[0];
        let fact = id(&format!("llama-8b-seq-{tokens}/graph-preparation"));
        comparison.row(fact, turn.preparation.as_micros() / 1e3);
        if tokens == 135 {
            let share = 100.0 * turn.preparation.as_seconds() / turn.prefill.latency.as_seconds();
            comparison.row(id("llama-8b-seq-135/graph-preparation-share-of-total"), share);
        }
    }
    let time = |strategy| move |tokens| runs.prefill(tokens, strategy, FAST);
    let over_padding = |lengths: &[u32]| {
        mean_gain(lengths, time(S::NpuPadding), time(S::HeteroTensor)).map(|gain| 1.0 + gain / 100.0)
    };
    let fact = id("llama-8b-slightly-above-a-standard-size/padding-overhead-vs-hetero-tensor-mean");
    comparison.row(fact, over_padding(&LENGTHS_ABOVE_STANDARD)?);
    comparison.row(id("misaligned-length/max-gain-over-padding"), over_padding(&[525])?);
    let naive = runs.prefill_unswapped(256)?;
    let fact = id("llama-8b-prefill-seq-256/hetero-layer-speedup-over-powerinfer-2-fp16");
    comparison.row(fact, naive / runs.prefill(256, S::HeteroLayer, FAST)?);
    let ratio = on_gpu(runs, DOWN, 256)? / on_npu(runs, DOWN, 256)?;
    comparison.row(id("ffn-down/npu-speed-relative-to-gpu-high"), ratio);
    comparison.row(id(super::ORDER), order_speedup(runs)?);
    Ok(())
}

/// Adds the paper's techniques one after another.
fn ablation(comparison: &mut Comparison, runs: Runs<'_>) -> Result {
    let fact = |rung: &str| id(&format!("llama-8b-prefill-seq-320/plus-{rung}"));
    let pieces = runs.prefill_unswapped(ABLATION)?;
    let ordered = runs.prefill(ABLATION, S::HeteroLayer, SLOW)?;
    let shared = runs.prefill(ABLATION, S::HeteroTensor, SLOW)?;
    let fast = runs.prefill(ABLATION, S::HeteroTensor, FAST)?;
    comparison.row(fact("tensor-order"), pieces / ordered);
    comparison.row(fact("weight-centric"), ordered / shared);
    comparison.row(fact("fast-synchronisation"), shared / fast);
    Ok(())
}

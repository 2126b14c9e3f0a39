//! The paper's statements about the phone, the models and the tasks.

use std::collections::BTreeSet;

use super::table3::{SQUARE, Weight, on_gpu, on_npu};
use super::{FAST, LLAMA_8B, Runs, id, task};
use crate::{Comparison, Result};
use coexec_sim::Strategy as S;
use coexec_sim::device::npu::Order;
use coexec_sim::plan::GraphCover;

/// Speedup from exchanging the operands of FFN-up, with 256 tokens.
pub(super) fn order_speedup(runs: Runs<'_>) -> Result<f64> {
    let mut device = runs.device.clone();
    if let Some(npu) = device.npu.as_mut().and_then(|npu| npu.systolic.as_mut()) {
        npu.order = Order::WeightsStationary;
    }
    Ok(on_npu(Runs { device: &device }, TALL, 256)? / on_npu(runs, TALL, 256)?)
}

/// FFN-up of Llama-8B, and its transpose.
const TALL: Weight = Weight { output: 14336, input: 4096 };
const LONG: Weight = Weight { output: 4096, input: 14336 };

pub(super) fn compare(comparison: &mut Comparison, runs: Runs<'_>) -> Result {
    npu(comparison, runs)?;
    throughput(comparison, runs)
}

fn npu(comparison: &mut Comparison, runs: Runs<'_>) -> Result {
    let at = |rows| on_npu(runs, SQUARE, rows);
    let same = |one: f64, other: f64| (one / other - 1.0).abs() < 1e-9;
    let agrees = same(at(2)?, at(32)?) && at(33)? > at(32)? && same(at(33)?, at(64)?);
    let text = "2 to 32 rows take the same, 33 to 64 the same again";
    comparison.finding(id("matmul/stage-performance"), text, agrees);
    let (tall, long) = (on_npu(runs, TALL, 256)?, on_npu(runs, LONG, 256)?);
    let text = format!("14336x4096 takes {tall:.0} us with 256 tokens, 4096x14336 {long:.0} us");
    comparison.finding(id("matmul/shape"), text, tall < long);
    let npu = runs.device.systolic();
    let cover = |cover: GraphCover| npu.and_then(|npu| cover.graphs(300, npu)).unwrap_or_default();
    let agrees =
        cover(GraphCover::Pieces).first() == Some(&256) && cover(GraphCover::Padded).as_slice() == [512];
    let text = "256 rows fill a graph and leave 44; padding goes to 512";
    comparison.finding(id("seq-300/activation-centric-example"), text, agrees);
    let task = task(LLAMA_8B, [256, 0]);
    let stages = task.stages(task.prefill(0)).layer;
    let products = stages.iter().filter_map(|stage| stage.layer.operator.product_with_weights());
    let shapes: BTreeSet<(u32, u32)> = products.map(|product| (product.inner, product.outputs)).collect();
    comparison.row(id("llama-8b/npu-graphs-to-prepare"), shapes.len() as f64);
    Ok(())
}

fn throughput(comparison: &mut Comparison, runs: Runs<'_>) -> Result {
    const TOKENS: u32 = 1024;
    let operations = 2.0 * f64::from(SQUARE.output) * f64::from(SQUARE.input) * f64::from(TOKENS);
    let rate = operations / on_gpu(runs, SQUARE, TOKENS)? / 1e6;
    comparison.row(id("gpu/practical-throughput"), rate);
    let answer = runs.answer("internlm2-1.8b", [256, 32], S::HeteroTensor, FAST)?;
    let turn = &answer.turns[0];
    let reading = turn.prefill.tokens_per_second;
    let answering = turn.decode.as_ref().map_or(f64::NAN, |phase| phase.tokens_per_second);
    let fact = id("all/first-engine-above-1000-tok-s-prefill-and-50-tok-s-decode");
    let text = format!("InternLM-1.8B: {reading:.0} and {answering:.1} tokens/s");
    comparison.finding(fact, text, reading > 1000.0 && answering > 50.0);
    Ok(())
}

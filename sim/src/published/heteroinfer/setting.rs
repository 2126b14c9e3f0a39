//! The phone, the models and the tasks: what the paper says of them.

use super::table3::{SQUARE, Weight, on_gpu, on_npu};
use super::{FAST, LLAMA_8B, Runs, id, task};
use crate::device::npu::Order;
use crate::explore::language::LanguageStrategy as S;
use crate::plan::GraphCover;
use crate::published::{Comparison, Limit, ReproduceError};
use crate::simulate::generation::Generation;
use crate::workload::Operator;

/// The fact that figure 4 gives of the operands' order.
pub(super) const ORDER: &str = "14336-4096-x-4096-k-vs-k-4096-x-4096-14336/order-speedup";

/// What exchanging the operands of FFN-up gains with 256 tokens.
pub(super) fn order_speedup(runs: Runs<'_>) -> Result<f64, ReproduceError> {
    let weight = Weight { output: 14336, input: 4096 };
    let mut device = runs.device.clone();
    if let Some(npu) = &mut device.npu {
        npu.order = Order::WeightsStationary;
    }
    Ok(on_npu(Runs { device: &device }, weight, 256)? / on_npu(runs, weight, 256)?)
}

pub(super) fn compare(comparison: &mut Comparison, runs: Runs<'_>) -> Result<(), ReproduceError> {
    constants(comparison, runs);
    npu(comparison, runs)?;
    throughput(comparison, runs)?;
    tasks(comparison);
    Ok(())
}

/// Numbers that the profile holds as they were published.
fn constants(comparison: &mut Comparison, runs: Runs<'_>) {
    comparison.group("constants of the phone", Limit::default());
    let device = runs.device;
    let capacity = |clients| device.memory.capacity(clients).as_gigabytes();
    let rows = [
        (
            "gpu-npu/synchronisation-clfinish",
            device.sync.blocking_finish.notification_us.value,
            "sync.blocking_finish",
        ),
        (
            "npu/systolic-array-size",
            device.npu.as_ref().map_or(f64::NAN, |npu| f64::from(npu.array_dimension)),
            "npu.array_dimension",
        ),
        (
            "dram/theoretical-peak-bandwidth",
            device.memory.peak_bandwidth_gbps.value,
            "memory.peak_bandwidth_gbps",
        ),
        ("dram/achievable-bandwidth", capacity(3), "memory.concurrent_bandwidth_gbps"),
    ];
    for (fact, ours, key) in rows {
        comparison.set_by(&id(fact), &format!("{}: {key}", device.name));
        comparison.row(&id(fact), ours);
    }
    let sleep = &device.sync.sleep_then_poll;
    for end in ["low", "high"] {
        let fact = id(&format!("usleep/granularity-{end}"));
        comparison.set_by(&fact, &format!("{}: sync.sleep_then_poll, the middle of the range", device.name));
        comparison.row(&fact, sleep.sleep_granularity_us.value);
    }
    let poll = sleep.notification_us.value;
    comparison.finding(&id("fast-sync-poll/time"), format!("{poll} us assumed"), (1.0..10.0).contains(&poll));
    let kernels = device.gpu.as_ref().and_then(|gpu| gpu.language.as_ref());
    let submission = kernels.map_or(f64::NAN, |kernels| kernels.submission_us.value);
    let agrees = (10.0..100.0).contains(&submission);
    comparison.finding(&id("prefill-gpu-submission/time"), format!("{submission} us assumed"), agrees);
}

fn npu(comparison: &mut Comparison, runs: Runs<'_>) -> Result<(), ReproduceError> {
    comparison.group("what the NPU likes", Limit::default());
    let at = |rows| on_npu(runs, SQUARE, rows);
    let same = |one: f64, other: f64| (one / other - 1.0).abs() < 1e-9;
    let agrees = same(at(2)?, at(32)?) && at(33)? > at(32)? && same(at(33)?, at(64)?);
    comparison.finding(
        &id("matmul/stage-performance"),
        "2 to 32 rows take the same, 33 to 64 the same again",
        agrees,
    );
    let tall = on_npu(runs, Weight { output: 14336, input: 4096 }, 256)?;
    let long = on_npu(runs, Weight { output: 4096, input: 14336 }, 256)?;
    let text = format!("14336x4096 takes {tall:.0} us with 256 tokens, 4096x14336 {long:.0} us");
    comparison.finding(&id("matmul/shape"), text, tall < long);
    comparison.row(&id(ORDER), order_speedup(runs)?);
    comparison.note(
        "256 tokens; the paper does not say how many, and figure 18 contradicts it for whole prefills: see its row",
    );
    let npu = runs.device.npu.as_ref();
    let cover = |cover: GraphCover| npu.and_then(|npu| cover.graphs(300, npu)).unwrap_or_default();
    let agrees =
        cover(GraphCover::Pieces).first() == Some(&256) && cover(GraphCover::Padded).as_slice() == [512];
    let text = "256 rows fill a graph and leave 44; padding goes to 512";
    comparison.finding(&id("seq-300/activation-centric-example"), text, agrees);
    let sizes = npu.map_or(&[][..], |npu| npu.graph_sizes.as_slice());
    let agrees = [128, 256, 512].iter().all(|size| sizes.contains(size));
    comparison.finding(&id("padding/standard-sizes"), format!("{sizes:?}"), agrees);
    let task = task(LLAMA_8B, [256, 0]);
    let mut shapes: Vec<(u32, u32)> = task
        .stages(task.prefill(0))
        .layer
        .iter()
        .filter_map(|stage| match &stage.layer.operator {
            Operator::Linear(linear) => Some((linear.input_features, linear.output_features)),
            _ => None,
        })
        .collect();
    shapes.sort_unstable();
    shapes.dedup();
    comparison.row(&id("llama-8b/npu-graphs-to-prepare"), shapes.len() as f64);
    comparison.note("different weight matrices of a layer");
    Ok(())
}

fn throughput(comparison: &mut Comparison, runs: Runs<'_>) -> Result<(), ReproduceError> {
    const TOKENS: u32 = 1024;
    comparison.group("practical throughput", Limit::default());
    let operations = 2.0 * f64::from(SQUARE.output) * f64::from(SQUARE.input) * f64::from(TOKENS);
    let rate = |micros: f64| operations / micros / 1e6;
    comparison.row(&id("gpu/practical-throughput"), rate(on_gpu(runs, SQUARE, TOKENS)?));
    let npu = rate(on_npu(runs, SQUARE, TOKENS)?);
    comparison.not_reproduced(
        &id("npu/practical-throughput"),
        &format!("inconsistent: Table 3's 912 and 1884 us are 4.7 and 4.6 TFLOPS; ours {npu:.1}"),
    );
    let fast = |tokens| runs.answer("internlm2-1.8b", tokens, S::HeteroTensor, FAST);
    let answer = fast([256, 32])?;
    let rates = rates(&answer);
    let text = format!("InternLM-1.8B: {:.0} and {:.1} tokens/s", rates[0], rates[1]);
    let fact = id("all/first-engine-above-1000-tok-s-prefill-and-50-tok-s-decode");
    comparison.finding(&fact, text, rates[0] > 1000.0 && rates[1] > 50.0);
    comparison.not_reproduced(&id("profiler/time"), "coexec's models take no measurements of the phone");
    Ok(())
}

fn rates(answer: &Generation) -> [f64; 2] {
    let turn = &answer.turns[0];
    let decode = turn.decode.as_ref().map_or(f64::NAN, |phase| phase.tokens_per_second);
    [turn.prefill.tokens_per_second, decode]
}

/// Table 4, which bundled scenarios run.
fn tasks(comparison: &mut Comparison) {
    comparison.group("tasks (Table 4)", Limit::default());
    let tasks = [
        ("multi-turn-dialogue-belle-multiturn-chat", [54.0, 374.0]),
        ("simple-qa-gsm8k", [296.0, 340.0]),
        ("long-text-processing-longbench-triviaqa", [1787.0, 5.0]),
    ];
    for (task, tokens) in tasks {
        for (phase, tokens) in ["prefill", "decoding"].into_iter().zip(tokens) {
            let fact = format!("all/{task}/mean-{phase}-tokens");
            comparison.set_by(&fact, "a workload");
            comparison.row(&fact, tokens);
        }
    }
}

//! Section 5.6, figure 18: one technique after another, at 320 tokens.

use super::setting::{ORDER, order_speedup};
use super::table3::{DOWN, SQUARE};
use super::{FAST, Runs, SLOW, argument, id};
use crate::explore::language::LanguageStrategy as S;
use crate::published::{Comparison, Limit, ReproduceError};

const TOKENS: u32 = 320;

pub(super) fn compare(comparison: &mut Comparison, runs: Runs<'_>) -> Result<(), ReproduceError> {
    comparison.group("ablation at 320 tokens", Limit::default());
    let fact = |rung: &str| id(&format!("llama-8b-prefill-seq-320/{rung}"));
    let gpu = runs.prefill(TOKENS, S::GpuOnly, FAST)?;
    let pieces = runs.prefill_unswapped(TOKENS, S::NpuPipe)?;
    let ordered = runs.prefill(TOKENS, S::HeteroLayer, SLOW)?;
    let shared = runs.prefill(TOKENS, S::HeteroTensor, SLOW)?;
    let fast = runs.prefill(TOKENS, S::HeteroTensor, FAST)?;
    let (naive, activation) = (fact("naive-npu-vs-gpu-baseline"), fact("plus-activation-centric"));
    let reason = argument::naive_rung(
        gpu,
        [comparison.number(&naive), comparison.number(&activation)],
        ["135", "1000"]
            .map(|tokens| comparison.number(&id(&format!("llama-8b-seq-{tokens}/graph-preparation")))),
    );
    let online = runs.prefill(TOKENS, S::NpuNaive, SLOW)?;
    comparison.not_reproduced(&naive, &format!("{reason}. Ours: {:.2} of the GPU's time", online / gpu));
    comparison.not_reproduced(&activation, &format!("{reason}. Ours: {:.2}", online / pieces));
    comparison.row(&fact("plus-tensor-order"), pieces / ordered);
    let order = order(comparison, runs, pieces / ordered)?;
    comparison.note(&order);
    comparison.row(&fact("plus-weight-centric"), ordered / shared);
    comparison.row(&fact("plus-fast-synchronisation"), shared / fast);
    Ok(())
}

/// Why figures 4 and 18 cannot both hold, where ours of the ladder's step is `of_prefill`.
fn order(comparison: &Comparison, runs: Runs<'_>, of_prefill: f64) -> Result<String, ReproduceError> {
    let published =
        [ORDER, "llama-8b-prefill-seq-320/plus-tensor-order"].map(|fact| comparison.number(&id(fact)));
    let latencies = [SQUARE, DOWN].map(|weight| comparison.number(&weight.fact("256", "npu-latency")));
    let of_one = order_speedup(runs)?;
    Ok(argument::order(published, latencies, [of_one, of_prefill]))
}

//! Dimensions and chains of `CoDL`'s plans, sections 7.3 and 7.4.

use std::cmp::Reverse;

use super::runs::{MODELS, Runs, System};
use super::{RETINAFACE, STYLE, XIAOMI9};
use crate::{Comparison, Result, mean};
use coexec_sim::{Axis, Plan};

/// Number of longest chains of a model that are published.
const RANKS: usize = 3;

/// The dimensions that operators are cut along, and the gain of hybrid dimensions (section 7.3).
pub(super) fn dimensions(comparison: &mut Comparison, runs: &mut Runs) -> Result {
    let mut cut = [0.0; 2];
    let mut gains = Vec::new();
    for model in 0..MODELS.len() {
        let hybrid = runs.of(XIAOMI9, model, System::Unchained)?;
        let along = [Axis::Height, Axis::Channels]
            .map(|axis| hybrid.plan.placements.iter().filter(|one| one.axis() == Some(axis)).count() as f64);
        cut = [cut[0] + along[0], cut[1] + along[1]];
        for single in [System::ByHeight, System::ByChannels] {
            gains.push(runs.of(XIAOMI9, model, single)?.millis() / hybrid.millis());
        }
    }
    let of_all = 100.0 / (cut[0] + cut[1]).max(1.0);
    comparison.row("xiaomi-9/5-models/ops-partitioned-on-h", cut[0] * of_all);
    comparison.row("xiaomi-9/5-models/ops-partitioned-on-oc", cut[1] * of_all);
    comparison.row("xiaomi-9/5-models/hybrid-dimension-speedup-mean", mean(&gains));
    let of_style = |what: &str| format!("xiaomi-9/fast-style-transfer/{what}");
    let most = gains[2 * STYLE].max(gains[2 * STYLE + 1]);
    comparison.row(of_style("hybrid-dimension-speedup-max"), most);
    for (what, system) in [
        ("latency-unified-dimension-first", System::ByHeight),
        ("latency-unified-dimension-second", System::ByChannels),
        ("latency-hybrid-dimension-no-chain", System::Unchained),
    ] {
        comparison.row(of_style(what), runs.of(XIAOMI9, STYLE, system)?.millis());
    }
    Ok(())
}

/// Lengths of the chains of a plan, longest first.
fn chain_lengths(plan: &Plan) -> [f64; RANKS] {
    let chains = plan.chains.chunk_by(|one, next| one == next).filter(|chain| chain[0].is_some());
    let mut lengths: Vec<usize> = chains.map(<[_]>::len).collect();
    lengths.sort_by_key(|length| Reverse(*length));
    std::array::from_fn(|rank| lengths.get(rank).map_or(0.0, |&length| length as f64))
}

/// The share of chained operators, and the reduction of sharing overhead by chains (section 7.4).
pub(super) fn chains(comparison: &mut Comparison, runs: &mut Runs) -> Result {
    let (mut chained, mut less) = (Vec::new(), Vec::new());
    for model in 0..MODELS.len() {
        let plan = runs.of(XIAOMI9, model, System::Codl)?.plan;
        let [without, with] = [System::Unchained, System::Codl].map(|system| runs.of(XIAOMI9, model, system));
        let [without, with] = [without?.sharing_millis(), with?.sharing_millis()];
        chained.push(100.0 * plan.chains.iter().flatten().count() as f64 / plan.placements.len() as f64);
        less.push(100.0 * (1.0 - with / without));
        if model == RETINAFACE {
            let of = |what: &str| format!("xiaomi-9/retinaface/{what}");
            comparison.row(of("sharing-overhead-reduction-by-chains"), less[model]);
            comparison.row(of("sharing-overhead-without-chains"), without);
            comparison.row(of("sharing-overhead-with-chains"), with);
            for (rank, length) in (1..).zip(chain_lengths(&plan)) {
                comparison.row(of(&format!("chain-length-rank-{rank}")), length);
            }
        }
    }
    comparison.row("xiaomi-9/5-models/ops-in-chains-mean", mean(&chained));
    comparison.row("xiaomi-9/5-models/sharing-overhead-reduction-by-chains-mean", mean(&less));
    Ok(())
}

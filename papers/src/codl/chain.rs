//! A chain of `YOLOv2`'s operators, each cut in half between the processors: `CoDL`'s Figure 13.
//!
//! The figure does not state which operators it chains. Here they are the first ones, pools
//! included.

use super::operators::Bench;
use crate::{Comparison, Result};
use coexec_sim::{Axis, Mechanism, Plan, Stage};

/// The figure's chain lengths: the best, and one operator more.
const BEST: usize = 8;
const TOO_LONG: usize = 9;
/// Longest chain tried.
const MAX_LENGTH: usize = 12;
/// One half, in tenths.
pub(super) const HALF: u32 = 5;

/// Compares ours with the published numbers.
pub(super) fn compare(comparison: &mut Comparison, bench: &Bench<'_>, stages: &[Stage]) -> Result {
    let mut best = (0, f64::NEG_INFINITY);
    for length in 2..=MAX_LENGTH.min(stages.len()) {
        let stages = &stages[..length];
        if !stages[length - 1].inputs().eq([length - 2]) {
            break;
        }
        let halves = stages.iter().map(|stage| bench.cut(stage, Axis::Height, HALF)).collect::<Option<_>>();
        let Some(halves) = halves else { break };
        let plan = Plan::new(Mechanism::EventWait, halves);
        let chain = plan.clone().chained(vec![Some(0); length]);
        let unchained = bench.run(stages, &plan)?;
        // An operator has too few rows for a longer chain.
        let Ok(chained) = bench.run(stages, &chain) else { break };
        let gain = 100.0 * (unchained.latency.as_seconds() / chained.latency.as_seconds() - 1.0);
        if gain >= best.1 {
            best = (length, gain);
        }
        if length == BEST {
            comparison.row("xiaomi-9/yolo-chain-of-8/improvement-over-no-chain", gain);
        }
        if length == TOO_LONG {
            let [before, after] = [bench.computing(stages, &plan)?, bench.computing(stages, &chain)?];
            let [with, without] = [&chained, &unchained]
                .map(|run| run.processors.iter().map(|one| one.overhead.0).sum::<u64>());
            let of = |what: &str| format!("xiaomi-9/yolo-chain-of-9/{what}");
            let left = 100.0 * with as f64 / without as f64;
            comparison.row(of("data-sharing-overhead-relative-to-no-chain"), left);
            comparison.row(of("compute-latency-increase-from-padding"), 100.0 * (after / before - 1.0));
        }
    }
    comparison.row("xiaomi-9/yolo/optimal-chain-length", best.0 as f64);
    Ok(())
}

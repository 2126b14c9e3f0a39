//! One chain of `YOLOv2`, half on each processor: `CoDL`'s Figure 13.
//!
//! The figure does not say which operators it chains. The rows are of the first, pools
//! included; the note says what any other place would give.

use super::super::{Comparison, Limit, Measure};
use super::operators::Bench;
use crate::plan::synchronisation::Mechanism;
use crate::plan::{Axis, Plan};
use crate::simulate::{Prediction, SimulateError};
use crate::units::Picos;
use crate::workload::Stage;

/// The chains of the figure: the best, and one operator more.
const BEST: usize = 8;
const TOO_LONG: usize = 9;
/// Longest chain that is tried.
const LONGEST: usize = 12;
/// Half, in tenths.
const HALF: u32 = 5;

/// A chain of so many operators beside the same without.
struct Tried {
    length: usize,
    /// Percent that the chain is faster.
    gain: f64,
    /// Percent of the sharing that is left.
    sharing: f64,
    /// Percent that computing takes more.
    padding: f64,
}

/// Sets ours beside the published numbers.
pub(super) fn compare(
    comparison: &mut Comparison,
    bench: &Bench<'_>,
    stages: &[Stage],
) -> Result<(), SimulateError> {
    let first = from(bench, stages, 0)?;
    let of_length = |wanted: usize| first.iter().find(|tried| tried.length == wanted);
    let number = |wanted, of: fn(&Tried) -> f64| of_length(wanted).map_or(f64::NAN, of);
    let sharing = number(TOO_LONG, |tried| tried.sharing);
    let padding = number(TOO_LONG, |tried| tried.padding);
    let elsewhere = elsewhere(bench, stages)?;
    comparison.group_measured("a chain of YOLOv2", Limit::each(15.0), Measure::Points);
    comparison.row("xiaomi-9/yolo-chain-of-9/data-sharing-overhead-relative-to-no-chain", sharing);
    comparison
        .row("xiaomi-9/yolo-chain-of-9/compute-latency-increase-from-padding", padding)
        .note(&elsewhere);
    comparison.row("xiaomi-9/yolo-chain-of-8/improvement-over-no-chain", number(BEST, |tried| tried.gain));
    let note = impossible(comparison);
    comparison.note(&note);
    comparison.group("its best length", Limit::each(25.0));
    let best = first.iter().max_by(|one, other| one.gain.total_cmp(&other.gain));
    comparison.row("xiaomi-9/yolo/optimal-chain-length", best.map_or(f64::NAN, |tried| tried.length as f64));
    Ok(())
}

/// Chains of 2 operators and more from `start` on.
fn from(bench: &Bench<'_>, stages: &[Stage], start: usize) -> Result<Vec<Tried>, SimulateError> {
    let mut found = Vec::new();
    for length in 2..=LONGEST.min(stages.len() - start) {
        let Some(stages) = alone(&stages[start..start + length], start) else { break };
        let halves = stages.iter().map(|stage| bench.cut(stage, Axis::Height, HALF)).collect::<Option<_>>();
        let Some(halves) = halves else { break };
        let plan = Plan::new(Mechanism::EventWait, halves);
        let chain = plan.clone().chained(vec![Some(0); length]);
        let unchained = bench.run(&stages, &plan)?;
        // A longer chain than the rows of an operator allow is none.
        let Ok(chained) = bench.run(&stages, &chain) else { break };
        let [before, after] = [bench.computing(&stages, &plan)?, bench.computing(&stages, &chain)?];
        found.push(Tried {
            length,
            gain: 100.0 * (unchained.latency.as_seconds() / chained.latency.as_seconds() - 1.0),
            sharing: 100.0 * overhead(&chained).as_seconds() / overhead(&unchained).as_seconds(),
            padding: 100.0 * (after / before - 1.0),
        });
    }
    Ok(found)
}

/// Operators from `start` on as a network of their own; none where one does not read the
/// one before.
fn alone(stages: &[Stage], start: usize) -> Option<Vec<Stage>> {
    let mut own = stages.to_vec();
    for (index, stage) in own.iter_mut().enumerate() {
        if index == 0 {
            stage.inputs.clear();
            continue;
        }
        if stage.inputs != [start + index - 1] {
            return None;
        }
        stage.inputs = vec![index - 1];
    }
    Some(own)
}

/// What chains of the figure's lengths give from every operator on.
fn elsewhere(bench: &Bench<'_>, stages: &[Stage]) -> Result<String, SimulateError> {
    let (mut padding, mut gain, mut lengths) = (Vec::new(), Vec::new(), Vec::new());
    for start in 0..stages.len().saturating_sub(TOO_LONG) {
        let found = from(bench, stages, start)?;
        padding.extend(found.iter().filter(|one| one.length == TOO_LONG).map(|one| one.padding));
        gain.extend(found.iter().filter(|one| one.length == BEST).map(|one| one.gain));
        let best = found.iter().max_by(|one, other| one.gain.total_cmp(&other.gain));
        lengths.extend(best.map(|one| one.length as f64));
    }
    let range = |values: &[f64]| {
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        format!("{least:.0} to {most:.0}")
    };
    Ok(format!(
        "of the first operators, pools included: which it chains the figure does not say. From any operator on, the padding \
         of {TOO_LONG} takes {} % here, a chain of {BEST} gains {} %, and the best has {} operators",
        range(&padding),
        range(&gain),
        range(&lengths),
    ))
}

/// What the figure's numbers say of the step from its best chain to one operator more.
fn impossible(comparison: &Comparison) -> String {
    let sharing =
        comparison.number("xiaomi-9/yolo-chain-of-9/data-sharing-overhead-relative-to-no-chain") / 100.0;
    let padding = comparison.number("xiaomi-9/yolo-chain-of-9/compute-latency-increase-from-padding") / 100.0;
    let gain = comparison.number("xiaomi-9/yolo-chain-of-8/improvement-over-no-chain") / 100.0;
    // A chain of 9 loses: padding * computing > (1 - sharing) * what sharing takes.
    let most_sharing = padding / (1.0 - sharing);
    // A chain of 8 with as much sharing left, of operators like those of the chain of 9.
    let at_best = (1.0 + most_sharing) / (1.0 + gain) - sharing * most_sharing;
    format!(
        "a chain of {TOO_LONG} loses in the paper, so sharing is at most {:.0} % of its computing; then one of {BEST} gains \
         {:.0} % only if its padding takes at most {:.0} %: one operator more costs the rest of {:.0} %",
        100.0 * most_sharing,
        100.0 * gain,
        100.0 * (at_best - 1.0),
        100.0 * padding,
    )
}

/// Time of sharing data.
fn overhead(run: &Prediction) -> Picos {
    run.processors.iter().fold(Picos::ZERO, |sum, one| sum + one.overhead)
}

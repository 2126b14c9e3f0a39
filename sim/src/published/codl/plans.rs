//! What `CoDL`'s plans are made of: dimensions and chains, sections 7.3 and 7.4.

use super::super::{BarSeries, Bars, Comparison, Drawing, Limit, Measure, Picture};
use super::runs::{MODELS, Runs, System};
use super::{RETINAFACE, STYLE, XIAOMI9, evidence, mean};
use crate::plan::{Placement, Plan};
use crate::simulate::SimulateError;

/// Operators of a plan cut along the height and along output channels.
fn cut(plan: &Plan) -> [usize; 2] {
    let count = |wanted: fn(&Placement) -> bool| plan.placements.iter().filter(|one| wanted(one)).count();
    [
        count(|one| matches!(one, Placement::HeightSplit { .. })),
        count(|one| matches!(one, Placement::Split { .. })),
    ]
}

/// What operators are cut along, and what both dimensions gain (section 7.3).
pub(super) fn dimensions(comparison: &mut Comparison, runs: &mut Runs) -> Result<(), SimulateError> {
    let (mut by_height, mut by_channels) = (0, 0);
    let mut shares = Vec::new();
    let mut gains = Vec::new();
    let mut best_of_one = Vec::new();
    for model in 0..MODELS.len() {
        let hybrid = runs.of(XIAOMI9, model, System::Unchained)?;
        let [height, channels] = cut(&hybrid.plan);
        by_height += height;
        by_channels += channels;
        let all = hybrid.plan.placements.len();
        shares.push([height, channels, all - height - channels].map(|part| 100.0 * part as f64 / all as f64));
        for single in [System::ByHeight, System::ByChannels] {
            gains.push(runs.of(XIAOMI9, model, single)?.millis() / hybrid.millis());
        }
        best_of_one.push(gains[2 * model].max(gains[2 * model + 1]));
    }
    comparison.group_measured("dimensions of cuts", Limit::each(15.0), Measure::Points);
    let of_all = 100.0 / (by_height + by_channels).max(1) as f64;
    comparison.row("xiaomi-9/5-models/ops-partitioned-on-h", by_height as f64 * of_all);
    comparison.row("xiaomi-9/5-models/ops-partitioned-on-oc", by_channels as f64 * of_all);
    comparison.group("what both dimensions gain", Limit::each(15.0));
    comparison.row("xiaomi-9/5-models/hybrid-dimension-speedup-mean", mean(&gains));
    comparison.row("xiaomi-9/fast-style-transfer/hybrid-dimension-speedup-max", best_of_one[STYLE]);
    comparison.note(&evidence::of_hybrid_gain(comparison));
    for (id, system, note) in [
        (
            "xiaomi-9/fast-style-transfer/latency-unified-dimension-first",
            System::ByHeight,
            "order of the first two as the sentence names them, height and channels",
        ),
        (
            "xiaomi-9/fast-style-transfer/latency-unified-dimension-second",
            System::ByChannels,
            "here the GPU computes the last operator alone, whose three channels are one slice",
        ),
    ] {
        comparison.row(id, runs.of(XIAOMI9, STYLE, system)?.millis()).note(note);
    }
    let unchained = runs.of(XIAOMI9, STYLE, System::Unchained)?;
    comparison.row("xiaomi-9/fast-style-transfer/latency-hybrid-dimension-no-chain", unchained.millis());
    let note = evidence::of_style_sharing(comparison, runs.stages(STYLE), &unchained);
    comparison.note(&note);
    let series = |name: &str, part: usize| BarSeries {
        name: name.to_owned(),
        is_published: false,
        values: shares.iter().map(|shares| Some(shares[part])).collect(),
    };
    comparison.figure(Picture {
        name: "codl-dimensions".to_owned(),
        title: "What operators are cut along".to_owned(),
        subtitle: "CoDL's base plan on the Xiaomi 9 (Figure 17); published: 77 % height, 23 % channels"
            .to_owned(),
        drawing: Drawing::StackedBars(Bars {
            y: "operators (%)".to_owned(),
            categories: MODELS.iter().map(|(.., name)| (*name).to_owned()).collect(),
            series: vec![series("height", 0), series("output channels", 1), series("not cut", 2)],
        }),
    });
    Ok(())
}

/// Lengths of the chains of a plan, longest first.
fn chain_lengths(plan: &Plan) -> Vec<usize> {
    let mut lengths: Vec<usize> = Vec::new();
    let mut last = None;
    for chain in &plan.chains {
        match (chain, lengths.last_mut()) {
            (Some(_), Some(length)) if *chain == last => *length += 1,
            (Some(_), _) => lengths.push(1),
            (None, _) => {}
        }
        last = *chain;
    }
    lengths.sort_unstable_by(|one, other| other.cmp(one));
    lengths
}

/// Which operators are chained, and the sharing that saves (section 7.4).
pub(super) fn chains(comparison: &mut Comparison, runs: &mut Runs) -> Result<(), SimulateError> {
    let (mut chained, mut less, mut sharing) = (Vec::new(), Vec::new(), Vec::new());
    for model in 0..MODELS.len() {
        let with = runs.of(XIAOMI9, model, System::Codl)?;
        let without = runs.of(XIAOMI9, model, System::Unchained)?;
        let count = with.plan.chains.iter().flatten().count();
        chained.push(100.0 * count as f64 / with.plan.placements.len() as f64);
        sharing.push([without.sharing_millis(), with.sharing_millis()]);
        less.push(100.0 * (1.0 - with.sharing_millis() / without.sharing_millis()));
    }
    comparison.group_measured("chains", Limit::each(15.0), Measure::Points);
    comparison.row("xiaomi-9/5-models/ops-in-chains-mean", mean(&chained));
    comparison.row("xiaomi-9/5-models/sharing-overhead-reduction-by-chains-mean", mean(&less));
    comparison.row("xiaomi-9/retinaface/sharing-overhead-reduction-by-chains", less[RETINAFACE]);
    comparison.note("the paper calls 45 % its greatest reduction, and 55 % the mean");
    comparison.group("sharing overhead and chains of RetinaFace", Limit::each(15.0));
    comparison.row("xiaomi-9/retinaface/sharing-overhead-without-chains", sharing[RETINAFACE][0]);
    comparison.row("xiaomi-9/retinaface/sharing-overhead-with-chains", sharing[RETINAFACE][1]);
    let note = evidence::of_chained_sharing(comparison, runs)?;
    comparison.note(&note);
    let lengths = chain_lengths(&runs.of(XIAOMI9, RETINAFACE, System::Codl)?.plan);
    for rank in 0..3 {
        let length = lengths.get(rank).copied().unwrap_or(0);
        comparison.row(&format!("xiaomi-9/retinaface/chain-length-rank-{}", rank + 1), length as f64);
    }
    let series = |name: &str, which: usize| BarSeries {
        name: name.to_owned(),
        is_published: false,
        values: sharing.iter().map(|pair| Some(pair[which])).collect(),
    };
    comparison.figure(Picture {
        name: "codl-sharing-overhead".to_owned(),
        title: "Data sharing overhead".to_owned(),
        subtitle: "without and with chains on the Xiaomi 9 (Figure 20); RetinaFace published: 118 and 65 ms"
            .to_owned(),
        drawing: Drawing::GroupedBars(Bars {
            y: "overhead (ms)".to_owned(),
            categories: MODELS.iter().map(|(.., name)| (*name).to_owned()).collect(),
            series: vec![series("without chains", 0), series("with chains", 1)],
        }),
    });
    comparison.figure(chain_map(runs)?);
    Ok(())
}

/// Lengths of each model's chains, side by side.
fn chain_map(runs: &mut Runs) -> Result<Picture, SimulateError> {
    const RANKS: usize = 5;
    let mut lengths = Vec::new();
    for model in 0..MODELS.len() {
        lengths.push(chain_lengths(&runs.of(XIAOMI9, model, System::Codl)?.plan));
    }
    let series = (0..RANKS).map(|rank| BarSeries {
        name: format!("chain {}", rank + 1),
        is_published: false,
        values: lengths.iter().map(|lengths| Some(*lengths.get(rank).unwrap_or(&0) as f64)).collect(),
    });
    Ok(Picture {
        name: "codl-chains".to_owned(),
        title: "Operators in chains".to_owned(),
        subtitle: "the longest chains of each model on the Xiaomi 9 (Figure 19)".to_owned(),
        drawing: Drawing::StackedBars(Bars {
            y: "operators".to_owned(),
            categories: MODELS.iter().map(|(.., name)| (*name).to_owned()).collect(),
            series: series.collect(),
        }),
    })
}

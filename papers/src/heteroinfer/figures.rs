//! Figures: rates against prompt length, latency against misaligned length, and the shares
//! that the solver chooses.

use super::{FAST, LLAMA_8B, Runs, curves, id, line, task};
use crate::{Comparison, ReproduceError, picture};
use coexec_plots::figure::{Drawing, HeatMap, Line, Picture};
use coexec_sim::{ProcessorKind, SimulateError, Strategy as S};

/// What all figures are of.
const OF: &str = "Llama-3-8B, 4-bit weights, Snapdragon 8 Gen 3";

const STRATEGIES: [S; 6] =
    [S::HeteroTensor, S::HeteroLayer, S::NpuPipe, S::NpuPadding, S::NpuOnline, S::GpuOnly];

/// Prompt lengths with static graphs.
const STANDARD: [u32; 6] = [32, 64, 128, 256, 512, 1024];

/// Lengths of the latency figure: every 64 tokens, and those just above a standard size.
const MISALIGNED: [u32; 18] =
    [64, 129, 135, 192, 256, 257, 267, 320, 384, 448, 512, 525, 600, 700, 800, 900, 1000, 1024];

pub(super) fn draw(comparison: &mut Comparison, runs: Runs<'_>) -> Result<(), ReproduceError> {
    let with = comparison.published(&id("llama-8b-prefill-seq-256/hetero-tensor-with-fast-sync"))?;
    let name = "Hetero-tensor, published".to_owned();
    // The published points have the colour of the line behind them.
    let mut rates = vec![Line { name, is_published: true, points: vec![(256.0, with)] }];
    rates.extend(lines(runs, &STANDARD, |tokens, seconds| f64::from(tokens) / seconds)?);
    let axes = ["prompt length (tokens)", "prefill (tokens/s)"];
    comparison.figure(curves("prefill-rate", "Rate of reading a prompt, by strategy", OF, axes, rates));
    comparison.figure(curves(
        "misaligned-latency",
        "Latency of prompts whose length no static graph has",
        &format!("{OF}; graphs of 32 to 1024 tokens"),
        ["prompt length (tokens)", "time to the first token (s)"],
        lines(runs, &MISALIGNED, |_, seconds| seconds)?,
    ));
    comparison.figure(shares(runs)?);
    Ok(())
}

/// One line a strategy.
fn lines(
    runs: Runs<'_>,
    lengths: &[u32],
    value: impl Fn(u32, f64) -> f64,
) -> Result<Vec<Line>, SimulateError> {
    let of_strategy = |&strategy: &S| {
        let point =
            |&tokens: &u32| Ok((f64::from(tokens), value(tokens, runs.prefill(tokens, strategy, FAST)?)));
        let points = lengths.iter().map(point).collect::<Result<Vec<_>, SimulateError>>()?;
        Ok(line(strategy.name(), points))
    };
    STRATEGIES.iter().map(of_strategy).collect()
}

/// The GPU's part of each product that the solver chooses, for each length.
fn shares(runs: Runs<'_>) -> Result<Picture, SimulateError> {
    let lengths: Vec<u32> = std::iter::once(1).chain(STANDARD).collect();
    let mut rows: Vec<String> = Vec::new();
    let mut values: Vec<Vec<Option<f64>>> = Vec::new();
    for (column, &tokens) in lengths.iter().enumerate() {
        let task = task(LLAMA_8B, [tokens.max(2), 1]);
        let plan = runs.plan(&task, S::HeteroTensor)?;
        let step = if tokens == 1 { &plan.decode } else { &plan.prefill[0] };
        for (stage, placement) in task.stages(task.prefill(0)).layer.iter().zip(&step.layer) {
            if stage.layer.operator.macs() == 0 || stage.layer.operator.parameters() == 0 {
                continue;
            }
            let share = 100.0 * placement.fraction(ProcessorKind::Gpu);
            let row = rows.iter().position(|name| *name == stage.name).unwrap_or_else(|| {
                rows.push(stage.name.clone());
                values.push(vec![None; lengths.len()]);
                rows.len() - 1
            });
            values[row][column] = Some(share);
        }
    }
    let map = HeatMap {
        x: "tokens at once".to_owned(),
        y: "product".to_owned(),
        value: "GPU share (%)".to_owned(),
        columns: lengths.iter().map(u32::to_string).collect(),
        rows,
        values,
    };
    let title = "Part of each product that the solver gives to the GPU";
    let subtitle = format!("{OF}; the NPU computes the rest");
    Ok(picture("gpu-share", title, &subtitle, Drawing::HeatMap(map)))
}

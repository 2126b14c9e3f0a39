//! Section 5.7, figure 19: a game beside Llama-8B, as the bundled scenario describes it.

use super::{LLAMA_8B, Runs, id};
use crate::explore::language::LanguageStrategy as S;
use crate::published::{Comparison, Limit, Measure, ReproduceError};
use crate::scenario::{Overrides, Scenario};
use crate::simulate::BackgroundReport;
use crate::simulate::generation::{GenerationBeside, generate_beside};

/// The scenario whose game this is.
const SCENARIO: &str = "llama3-8b-beside-game";

/// Frame rate below which a game stands still.
const STANDSTILL: f64 = 3.0;

pub(super) fn compare(comparison: &mut Comparison, runs: &Runs<'_>) -> Result<(), ReproduceError> {
    let Some(game) = Scenario::load(SCENARIO, &Overrides::default())?.background else {
        comparison.rest_not_reproduced("there is no scenario of it", |fact| fact.id.contains("game"));
        return Ok(());
    };
    let task = runs.task(LLAMA_8B, [256, 32]);
    let beside = |strategy| -> Result<GenerationBeside, ReproduceError> {
        let plan = runs.plan(&task, strategy)?;
        Ok(generate_beside(runs.device, runs.library(), &task, &plan, &game)?)
    };
    let (gpu, layer, tensor) = (beside(S::GpuOnly)?, beside(S::HeteroLayer)?, beside(S::HeteroTensor)?);
    let of_decode = |run: &GenerationBeside, value: fn(&BackgroundReport) -> f64| {
        run.decode.as_ref().map_or(f64::NAN, value)
    };
    slowdowns(comparison, [&layer, &tensor]);
    comparison.group("frame rate of the game", Limit::default());
    let shown = |report: &BackgroundReport| report.achieved_frames_per_second.unwrap_or(f64::NAN);
    let still = shown(&gpu.prefill);
    let fact = id("gpu-only-prefill-plus-game/game-fps");
    comparison.finding(&fact, format!("{still:.1} fps"), still < STANDSTILL);
    let fact = id("gpu-only-decode-plus-game/game-fps");
    comparison.set_by(&fact, &format!("{SCENARIO}: background.batches"));
    comparison.row(&fact, of_decode(&gpu, shown));
    let both = [shown(&tensor.prefill), of_decode(&tensor, shown)];
    let text = format!(
        "{:.1} fps beside the prompt, {:.1} beside the answer, of {:.0}",
        both[0], both[1], game.frames_per_second.value
    );
    let unaffected = both.iter().all(|fps| *fps > 0.97 * game.frames_per_second.value);
    comparison.finding(&id("hetero-tensor-plus-game/game-fps"), text, unaffected);
    if !unaffected {
        comparison.note(
            "a balanced plan keeps the GPU busy while it reads a prompt, with kernels of up to 10 ms that nothing \
             interrupts; the paper's must leave it idle at times",
        );
    }
    Ok(())
}

fn slowdowns(comparison: &mut Comparison, [layer, tensor]: [&GenerationBeside; 2]) {
    comparison.group_measured("slowdown beside the game", Limit::default(), Measure::Points);
    comparison.row(&id("llama-8b-plus-game/prefill-slowdown-hetero-layer"), layer.prefill.slowdown_percent);
    let decode = tensor.decode.as_ref().map_or(f64::NAN, |report| report.slowdown_percent);
    for (prefix, suffix) in [("with-game", ""), ("llama-8b-plus-game", "-hetero-tensor")] {
        let fact = id(&format!("{prefix}/prefill-slowdown{suffix}"));
        comparison.row(&fact, tensor.prefill.slowdown_percent);
        let fact = id(&format!("{prefix}/decode-slowdown{suffix}"));
        comparison.set_by(&fact, &format!("{SCENARIO}: background.gpu_us"));
        comparison.row(&fact, decode);
    }
}

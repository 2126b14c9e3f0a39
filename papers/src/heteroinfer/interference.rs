//! Section 5.7, figure 19: a game beside the model.
//!
//! What the game asks of the GPU is not published: two of the section's numbers set it, and
//! the others are predicted.

use super::{LLAMA_8B, Runs, id, task};
use crate::{Comparison, ReproduceError, bundled};
use coexec_sim::simulate::BackgroundReport;
use coexec_sim::simulate::generation::generate_beside;
use coexec_sim::{Overrides, Scenario, Strategy as S};

/// The scenario that describes the game.
const SCENARIO: &str = "llama3-8b-beside-game";
/// Tokens of the prompt, and generated.
const TOKENS: [u32; 2] = [256, 32];
/// Frames a second that count as none.
const STANDSTILL: f64 = 2.0;

pub(super) fn compare(comparison: &mut Comparison, runs: Runs<'_>) -> Result<(), ReproduceError> {
    let scenario = Scenario::load(SCENARIO, &Overrides::default())?;
    let game = bundled(scenario.background.as_ref(), || format!("{SCENARIO} has no [background]"))?;
    let task = task(LLAMA_8B, TOKENS);
    let of =
        |strategy| generate_beside(runs.device, runs.library(), &task, &runs.plan(&task, strategy)?, game);
    let [gpu, layer, tensor] = [S::GpuOnly, S::HeteroLayer, S::HeteroTensor].map(of);
    let (gpu, layer, tensor) = (gpu?, layer?, tensor?);
    comparison.row(id("llama-8b-plus-game/prefill-slowdown-hetero-layer"), layer.prefill.slowdown_percent);
    for fact in ["llama-8b-plus-game/prefill-slowdown-hetero-tensor", "with-game/prefill-slowdown"] {
        comparison.row(id(fact), tensor.prefill.slowdown_percent);
    }
    let decode = tensor.decode.as_ref().map_or(f64::NAN, |report| report.slowdown_percent);
    for fact in ["llama-8b-plus-game/decode-slowdown-hetero-tensor", "with-game/decode-slowdown"] {
        comparison.row(id(fact), decode);
    }
    comparison.row(id("gpu-only-decode-plus-game/game-fps"), gpu.decode.as_ref().map_or(f64::NAN, rate));
    let reading = rate(&gpu.prefill);
    let text = format!("{reading:.1} frames a second");
    comparison.finding(id("gpu-only-prefill-plus-game/game-fps"), text, reading < STANDSTILL);
    let [reading, answering] = [rate(&tensor.prefill), tensor.decode.as_ref().map_or(f64::NAN, rate)];
    let asked = tensor.prefill.frames_per_second;
    let text = format!("of {asked:.0} frames a second {reading:.0} reading, {answering:.0} answering");
    let is_unaffected = reading >= asked && answering >= asked;
    comparison.finding(id("hetero-tensor-plus-game/game-fps"), text, is_unaffected);
    Ok(())
}

fn rate(report: &BackgroundReport) -> f64 {
    report.achieved_frames_per_second.unwrap_or(f64::NAN)
}

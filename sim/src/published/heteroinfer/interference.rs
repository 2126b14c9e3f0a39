//! Section 5.7, figure 19: a game beside the model.
//!
//! What the game asks of the GPU is not published: two of the section's numbers set it, and
//! the others are predicted.

use super::{FAST, LLAMA_8B, Runs, id, task};
use crate::explore::language::LanguageStrategy as S;
use crate::published::{Comparison, Limit, Measure, ReproduceError};
use crate::scenario::{Overrides, Scenario};
use crate::simulate::generation::{GenerationBeside, GenerationPlan, generate_beside};
use crate::simulate::{BackgroundReport, BackgroundWork};
use crate::workload::LanguageTask;

/// The scenario that describes the game.
const SCENARIO: &str = "llama3-8b-beside-game";
/// Tokens of the prompt, and generated.
const TOKENS: [u32; 2] = [256, 32];
/// Frames a second that count as none.
const STANDSTILL: f64 = 2.0;

pub(super) fn compare(comparison: &mut Comparison, runs: Runs<'_>) -> Result<(), ReproduceError> {
    let scenario = Scenario::load(SCENARIO, &Overrides::default())?;
    let Some(game) = &scenario.background else { return Ok(()) };
    let task = task(LLAMA_8B, TOKENS);
    let beside = |plan: &GenerationPlan| generate_beside(runs.device, runs.library(), &task, plan, game);
    let of = |strategy| beside(&runs.plan(&task, strategy)?);
    let [gpu, layer, tensor] = [S::GpuOnly, S::HeteroLayer, S::HeteroTensor].map(of);
    let (gpu, layer, tensor) = (gpu?, layer?, tensor?);
    let table_3 = beside(&as_table_3(runs, &task)?)?;
    for fact in ["with-game/decode-slowdown", "llama-8b-plus-game/decode-slowdown-hetero-tensor"] {
        comparison.set_by(&id(fact), "scenario llama3-8b-beside-game: background.gpu_us");
    }
    comparison.set_by(
        &id("gpu-only-decode-plus-game/game-fps"),
        "scenario llama3-8b-beside-game: background.batches",
    );
    speeds(comparison, game, &layer, &tensor, &table_3);
    frames(comparison, &gpu, &tensor, &table_3);
    Ok(())
}

/// Only FFN-down's products shared while the prompt is read, as Table 3 has it.
fn as_table_3(runs: Runs<'_>, task: &LanguageTask) -> Result<GenerationPlan, ReproduceError> {
    let tensor = runs.plan(task, S::HeteroTensor)?;
    let mut plan = GenerationPlan { synchronisation: FAST, ..runs.plan(task, S::HeteroLayer)? };
    plan.decode.clone_from(&tensor.decode);
    let stages = task.stages(task.prefill(0)).layer;
    for (chosen, shared) in plan.prefill.iter_mut().zip(&tensor.prefill) {
        for (index, stage) in stages.iter().enumerate() {
            if stage.name == "down" {
                chosen.layer[index] = shared.layer[index];
            }
        }
    }
    Ok(plan)
}

fn speeds(
    comparison: &mut Comparison,
    game: &BackgroundWork,
    layer: &GenerationBeside,
    tensor: &GenerationBeside,
    table_3: &GenerationBeside,
) {
    comparison.group_measured("beside a game: speed that is lost", Limit::default(), Measure::Points);
    comparison.row(&id("llama-8b-plus-game/prefill-slowdown-hetero-layer"), layer.prefill.slowdown_percent);
    let with_choices = format!(
        "ours shares every product, which keeps the GPU busy; with Table 3's choices at 256 tokens, where FFN-down \
         alone is shared, {:.1} %",
        table_3.prefill.slowdown_percent
    );
    for fact in ["llama-8b-plus-game/prefill-slowdown-hetero-tensor", "with-game/prefill-slowdown"] {
        comparison.row(&id(fact), tensor.prefill.slowdown_percent);
        comparison.note(&with_choices);
    }
    let decode = tensor.decode.as_ref().map_or(f64::NAN, |report| report.slowdown_percent);
    for fact in ["llama-8b-plus-game/decode-slowdown-hetero-tensor", "with-game/decode-slowdown"] {
        comparison.row(&id(fact), decode);
        comparison.note(&format!(
            "sets the game's time on the GPU, {:.1} ms a frame, which is not published",
            game.gpu_us.value / 1e3
        ));
    }
}

fn frames(
    comparison: &mut Comparison,
    gpu: &GenerationBeside,
    tensor: &GenerationBeside,
    table_3: &GenerationBeside,
) {
    comparison.group("beside a game: its frames", Limit::default());
    comparison.row(&id("gpu-only-decode-plus-game/game-fps"), gpu.decode.as_ref().map_or(f64::NAN, rate));
    comparison.note("sets in how many parts the game hands a frame over, which is not published");
    let reading = rate(&gpu.prefill);
    let text = format!("{reading:.1} frames a second");
    comparison.finding(&id("gpu-only-prefill-plus-game/game-fps"), text, reading < STANDSTILL);
    let [reading, answering] = rates(tensor);
    let [reading_3, answering_3] = rates(table_3);
    let asked = tensor.prefill.frames_per_second;
    let text = format!("of {asked:.0} frames a second {reading:.0} reading, {answering:.0} answering");
    let is_unaffected = reading >= asked && answering >= asked;
    comparison.finding(&id("hetero-tensor-plus-game/game-fps"), text, is_unaffected);
    if !is_unaffected {
        comparison.note(&format!(
            "ours shares every product, which keeps the GPU busy with kernels of up to 10 ms that nothing interrupts; \
             with Table 3's choices at 256 tokens, where FFN-down alone is shared, {reading_3:.0} and {answering_3:.0}"
        ));
    }
}

fn rates(beside: &GenerationBeside) -> [f64; 2] {
    [rate(&beside.prefill), beside.decode.as_ref().map_or(f64::NAN, rate)]
}

fn rate(report: &BackgroundReport) -> f64 {
    report.achieved_frames_per_second.unwrap_or(f64::NAN)
}

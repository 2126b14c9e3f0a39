//! Section 5.7, figure 19: a game running at the same time as the model.
//!
//! The game's GPU load is not published: two of the section's numbers set it, and the others
//! are predicted.

use super::{LLAMA_8B, Runs, id, task};
use crate::{Comparison, Result, bundled};
use coexec_sim::engine::RequestStream;
use coexec_sim::explore::applications::{Application, Job};
use coexec_sim::simulate::applications::{ApplicationSimulator, DEFAULT_QUEUE_DEPTH, Load, PricedRequest};
use coexec_sim::simulate::generation::{Conversation, price_turns};
use coexec_sim::{Overrides, Picos, Scenario, SimulateError, Strategy as S, Workload};

/// The scenario that describes the game.
const SCENARIO: &str = "llama3-8b-beside-game";
/// Tokens of the prompt.
const PROMPT: u32 = 256;
/// Tokens generated during the game: they last dozens of frames.
const TOKENS: u32 = 16;
/// Frames per second below which the game counts as frozen.
const FROZEN_FPS: f64 = 2.0;
/// Duration of the game's frames, as a multiple of the model's time alone: long enough that frames
/// arrive throughout.
const GAME_LENGTH: u32 = 3;

/// Mutual slowdown of the game and one request of the model.
struct Contention {
    /// Speed that the model loses, in percent.
    slowdown_percent: f64,
    /// Frames per second that the game shows meanwhile.
    frames_per_second: f64,
}

pub(super) fn compare(comparison: &mut Comparison, runs: Runs<'_>) -> Result {
    let scenario = Scenario::load(SCENARIO, &Overrides::default())?;
    let games = match &scenario.workload {
        Workload::Applications(several) => several.applications.as_slice(),
        Workload::Model(_) | Workload::Set(_) | Workload::Language(_) => &[],
    };
    let game = games.iter().find(|application| matches!(application.job, Job::Frames(_)));
    let game = bundled(game, || format!("{SCENARIO} has no frames"))?;
    let phases = |strategy| -> Result<[Contention; 2]> {
        let task = task(LLAMA_8B, [PROMPT, TOKENS]);
        let plan = runs.plan(&task, strategy)?;
        let turns = price_turns(Conversation::new(runs.device, runs.library(), &task), &plan)?;
        let [prompt, answer] = &turns[0];
        Ok([contend(runs, prompt, game)?, contend(runs, answer, game)?])
    };
    let [gpu, layer, tensor] = [S::GpuOnly, S::HeteroLayer, S::HeteroTensor].map(phases);
    let ([gpu, tensor], [layer, _]) = ([gpu?, tensor?], layer?);
    comparison.row(id("llama-8b-plus-game/prefill-slowdown-hetero-layer"), layer.slowdown_percent);
    let [reading, answering] = tensor;
    for fact in ["llama-8b-plus-game/prefill-slowdown-hetero-tensor", "with-game/prefill-slowdown"] {
        comparison.row(id(fact), reading.slowdown_percent);
    }
    for fact in ["llama-8b-plus-game/decode-slowdown-hetero-tensor", "with-game/decode-slowdown"] {
        comparison.row(id(fact), answering.slowdown_percent);
    }
    let [gpu_reading, gpu_answering] = gpu.map(|phase| phase.frames_per_second);
    comparison.row(id("gpu-only-decode-plus-game/game-fps"), gpu_answering);
    let text = format!("{gpu_reading:.1} frames per second");
    comparison.finding(id("gpu-only-prefill-plus-game/game-fps"), text, gpu_reading < FROZEN_FPS);
    let asked = 1.0 / game.arrivals.period().as_seconds();
    let [reading, answering] = [reading, answering].map(|phase| phase.frames_per_second);
    let text =
        format!("of {asked:.0} frames per second, {reading:.0} during prefill, {answering:.0} during decode");
    let is_unaffected = reading.min(answering) > asked - 0.5;
    comparison.finding(id("hetero-tensor-plus-game/game-fps"), text, is_unaffected);
    Ok(())
}

/// Simulates one request of the model together with the frames of `game`, both starting at time zero.
fn contend(runs: Runs<'_>, request: &PricedRequest, game: &Application) -> Result<Contention> {
    let Job::Frames(frames) = &game.job else { return Err(SimulateError::NothingToUse.into()) };
    let period = game.arrivals.period();
    let frames = frames.request(runs.device, period)?;
    let load = |name, request, stream| Load { name, request, stream, deadline: None };
    let stream = RequestStream {
        arrivals: vec![Picos::ZERO],
        queue_depth: DEFAULT_QUEUE_DEPTH as usize,
        ..RequestStream::default()
    };
    let mut simulator = ApplicationSimulator::new(runs.device);
    let alone = simulator.latency(request)?;
    let longest = alone.times(GAME_LENGTH);
    let (backpressure, queue_depth) = (game.backpressure, game.queue_depth as usize);
    let frames_come =
        RequestStream { arrivals: game.arrivals.times(longest, 0, 0), backpressure, queue_depth };
    let loads = [load("model", request, stream), load("game", &frames, frames_come)];
    let served = simulator.run(&loads, longest)?;
    let of = |application| served.requests.iter().filter(move |request| request.application == application);
    let end = of(0).map(|request| request.finish).max().unwrap_or_default();
    // A frame is due when its whole period has passed.
    let due = (end.0 / period.0).max(1) as f64;
    let shown = of(1).filter(|frame| frame.finish <= end).count() as f64;
    Ok(Contention {
        slowdown_percent: 100.0 * (1.0 - alone.0 as f64 / end.0.max(1) as f64),
        frames_per_second: (shown / due).min(1.0) / period.as_seconds(),
    })
}

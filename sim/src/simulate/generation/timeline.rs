//! The timeline of a language task.
//!
//! Every operator of the prompts and of each answer's first generated token has a slice of its own;
//! of the tokens behind it, whose operators are the same ones, each layer has one for every processor
//! that works in it.

use super::{GenerationPlan, Run, StepPlan};
use crate::device::profile::Profile;
use crate::kernel::cpu::Library;
use crate::plan::Plan;
use crate::simulate::{SimulateError, timeline};
use crate::timeline::{Activity, Counter, Stretch, Timeline, Track};
use crate::units::Picos;
use crate::workload::{LanguageTask, StepStages, TokenStep};

/// The timeline of `task` under `plan`.
///
/// # Errors
/// As [`super::generate`].
pub fn generation_timeline(
    device: &Profile,
    library: Library,
    task: &LanguageTask,
    plan: &GenerationPlan,
) -> Result<Timeline, SimulateError> {
    let variant = plan.device(device);
    let mut run = Run::new(&variant, library, task, plan);
    let mut whole = Timeline::default();
    for (index, turn) in task.turns.iter().enumerate() {
        whole.end += run.online_preparation(*turn, device);
        let prefill = plan
            .prefill
            .get(index)
            .ok_or(SimulateError::PlanLength { placements: plan.prefill.len(), stages: task.turns.len() })?;
        run.draw(&mut whole, &task.stages(task.prefill(index)), prefill)?;
        if turn.generated_tokens > 0 {
            let first = task.first_decode(index);
            let token = run.draw(&mut whole, &task.stages(first), &plan.decode)?;
            run.draw_tokens(&mut whole, first, turn.generated_tokens, &token)?;
        }
    }
    whole.tracks.sort_by_key(|track| track.kind as u8);
    Ok(whole)
}

/// What the drawing of one token left for those behind it.
struct Token {
    /// The whole step.
    length: Picos,
    /// One layer, and when the first of them begins.
    layer: Picos,
    layers_start: Picos,
    /// Tracks that have something in a layer.
    tracks: Vec<usize>,
}

impl Run<'_> {
    /// Draws one step at the end of `whole`.
    fn draw(
        &mut self,
        whole: &mut Timeline,
        stages: &StepStages,
        plan: &StepPlan,
    ) -> Result<Token, SimulateError> {
        let start = whole.end;
        let mut token =
            Token { length: Picos::ZERO, layer: Picos::ZERO, layers_start: Picos::ZERO, tracks: Vec::new() };
        let counts = [1, self.task.model.layers, 1];
        for (part, ((stages, placements), count)) in
            stages.parts().into_iter().zip(plan.parts()).zip(counts).enumerate()
        {
            let plan = Plan::new(self.plan.synchronisation, placements.clone());
            let piece = timeline(&mut self.simulator, stages, &plan)?;
            if part == 1 {
                token.layers_start = whole.end - start;
                token.layer = piece.end;
            }
            for _ in 0..count {
                append(whole, &piece);
            }
            if part == 1 {
                token.tracks = piece.tracks.iter().map(|track| place(whole, track)).collect();
            }
        }
        token.length = whole.end - start;
        Ok(token)
    }

    /// Draws the tokens behind the first, layer by layer.
    fn draw_tokens(
        &mut self,
        whole: &mut Timeline,
        first: TokenStep,
        tokens: u32,
        token: &Token,
    ) -> Result<(), SimulateError> {
        let layers = self.task.model.layers;
        for step in 1..tokens {
            let step = TokenStep { context: first.context.saturating_add(step), ..first };
            let length = self.step_latency(first, step, token.length)?;
            let grown = length.saturating_sub(token.length).0 / u64::from(layers);
            let layer = Picos(token.layer.0 + grown);
            for number in 0..layers {
                let start = whole.end + token.layers_start + layer * u64::from(number);
                for &track in &token.tracks {
                    whole.tracks[track].slices.push(Stretch {
                        name: format!("layer {number}"),
                        activity: Activity::Compute,
                        start,
                        end: start + layer,
                    });
                }
            }
            whole.end += length;
        }
        Ok(())
    }

    /// What `step` takes, where `first` takes `begin`.
    fn step_latency(
        &mut self,
        first: TokenStep,
        step: TokenStep,
        begin: Picos,
    ) -> Result<Picos, SimulateError> {
        if !self.context_is_on_gpu(first) {
            return Ok(self.step(&self.task.stages(step), &self.plan.decode)?.latency);
        }
        let grown = self.over_context(step)?.saturating_sub(self.over_context(first)?);
        Ok(begin + grown * u64::from(self.task.model.layers))
    }
}

/// Where the track of that name is in `whole`; a new one where it is missing.
fn place(whole: &mut Timeline, track: &Track) -> usize {
    whole.tracks.iter().position(|known| known.name == track.name).unwrap_or_else(|| {
        whole.tracks.push(Track { slices: Vec::new(), ..track.clone() });
        whole.tracks.len() - 1
    })
}

/// Adds `piece` at the end of `whole`.
fn append(whole: &mut Timeline, piece: &Timeline) {
    let offset = whole.end;
    for track in &piece.tracks {
        let place = place(whole, track);
        whole.tracks[place].slices.extend(track.slices.iter().map(|slice| Stretch {
            start: slice.start + offset,
            end: slice.end + offset,
            ..slice.clone()
        }));
    }
    for counter in &piece.counters {
        let shifted = counter.samples.iter().map(|&(time, value)| (time + offset, value));
        if let Some(known) = whole.counters.iter_mut().find(|known| known.name == counter.name) {
            known.samples.extend(shifted);
        } else {
            let samples = shifted.collect();
            whole.counters.push(Counter { samples, ..counter.clone() });
        }
    }
    whole.end += piece.end;
}

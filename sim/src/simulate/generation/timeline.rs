//! The timeline of a language task.
//!
//! Every operator of the prompts and of each answer's first generated token has a slice of its own.
//! Each later token, whose operators are the same, has one slice per track with work in its
//! layers, and the mean bandwidths of the first.

use super::{Conversation, GenerationPlan, GenerationRun, StepPlan};
use crate::simulate::timeline::slice;
use crate::simulate::{Result, timeline};
use crate::timeline::{Activity, Counter, Stretch, Timeline, Track};
use crate::units::Picos;
use crate::workload::TokenStep;

/// The timeline of a conversation under `plan`.
///
/// # Errors
/// As [`super::generate`].
pub fn generation_timeline(of: Conversation<'_>, plan: &GenerationPlan) -> Result<Timeline> {
    let Conversation { device, task, .. } = of;
    let variant = plan.device(device);
    let mut run = GenerationRun::new(Conversation { device: &variant, ..of }, plan);
    let mut whole = Timeline::default();
    for (index, turn) in task.turns.iter().enumerate() {
        whole.end += run.online_preparation(*turn, device);
        let prefill = plan.prefill_plan(task, index)?;
        for (step, times) in plan.graphs_of(prefill).prefill_steps(task, index) {
            for _ in 0..times {
                run.draw(&mut whole, step, prefill)?;
            }
        }
        if turn.generated_tokens > 0 {
            let first = plan.graphs_of(&plan.decode).decode_step(task, index, 0);
            let start = whole.end;
            let tracks = run.draw(&mut whole, first, &plan.decode)?;
            let latencies = run.token_latencies(index, turn.generated_tokens, whole.end - start)?;
            hold_means(&mut whole, start);
            for (token, latency) in (1..).zip(latencies).skip(1) {
                draw_token(&mut whole, &tracks, &format!("token {token}"), latency);
            }
            let end = whole.end;
            whole.counters.iter_mut().for_each(|counter| counter.samples.push((end, 0.0)));
        }
    }
    whole.tracks.sort_by_key(|track| track.kind as u8);
    Ok(whole)
}

impl GenerationRun<'_> {
    /// Appends one step to `whole`; returns the indices of the tracks with slices in a layer.
    fn draw(&mut self, whole: &mut Timeline, step: TokenStep, plan: &StepPlan) -> Result<Vec<usize>> {
        let stages = self.stages(step, plan);
        let mut of_layer = Vec::new();
        for (part, (stages, plan, count)) in self.parts(&stages, plan).into_iter().enumerate() {
            let piece = timeline(&mut self.simulator, stages, &plan)?;
            for _ in 0..count {
                append(whole, &piece);
            }
            if part == 1 {
                of_layer = piece.tracks.iter().map(|track| place(whole, track)).collect();
            }
        }
        Ok(of_layer)
    }
}

/// From the end of `whole` on, each counter has its mean since `start`.
fn hold_means(whole: &mut Timeline, start: Picos) {
    let end = whole.end;
    for Counter { samples, .. } in &mut whole.counters {
        let ends = samples.iter().skip(1).map(|sample| sample.0).chain([end]);
        let moved = samples.iter().zip(ends).filter(|(sample, _)| sample.0 >= start);
        let sum: f64 = moved.map(|(&(from, rate), to)| rate * to.saturating_sub(from).0 as f64).sum();
        let mean = sum / (end - start).0.max(1) as f64;
        samples.push((end, mean));
    }
}

/// Appends a token as one slice on each of `tracks`.
fn draw_token(whole: &mut Timeline, tracks: &[usize], name: &str, latency: Picos) {
    let (start, end) = (whole.end, whole.end + latency);
    for &track in tracks {
        whole.tracks[track].slices.push(slice(name, Activity::Compute, start, end));
    }
    whole.end = end;
}

/// Index of the track in `whole` with the name of `track`, added if missing.
fn place(whole: &mut Timeline, track: &Track) -> usize {
    whole.tracks.iter().position(|known| known.name == track.name).unwrap_or_else(|| {
        whole.tracks.push(Track { slices: Vec::new(), ..track.clone() });
        whole.tracks.len() - 1
    })
}

/// Appends `piece` to `whole`.
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

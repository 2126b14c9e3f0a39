//! The error figures of language models: predicted against measured times to the first token and of
//! the tokens behind it.
//!
//! Responsible for: which strategy stands for a unit. Not for: how a plan is priced
//! (`coexec_sim::simulate::generation`). What a runtime does beside the graphs is not modelled:
//! each has groups of its own.

use rayon::prelude::*;

use super::Validation;
use super::point::Point;
use crate::measure::SkippedRow;
use crate::measure::ai_hub_llm::{Answer, OfLanguageModel, Phase};
use coexec_sim::device::profile::Profile;
use coexec_sim::explore::Strategy;
use coexec_sim::explore::language::explore_language;
use coexec_sim::plan::ProcessorKind;
use coexec_sim::workload::{LanguageTask, Turn};
use coexec_sim::{Library, Mechanism};

/// How long it takes by the profile, in microseconds; why nothing says so otherwise. On an NPU
/// the products are in static graphs that are filled, as engines of language models run them.
///
/// # Errors
/// The device lacks the unit, or the unit language models.
pub fn predict(profile: &Profile, run: &OfLanguageModel, library: Library) -> Result<f64, String> {
    let strategy = match run.unit {
        ProcessorKind::Npu => Strategy::NpuPipe,
        ProcessorKind::Gpu => Strategy::GpuOnly,
        ProcessorKind::Cpu => return Err("no strategy computes a language model on CPU cores".to_owned()),
    };
    let turn = match run.phase {
        Phase::FirstToken(prompt_tokens) => Turn { prompt_tokens, generated_tokens: 0 },
        Phase::NextToken(context) => Turn { prompt_tokens: context.saturating_sub(1), generated_tokens: 1 },
    };
    let task = LanguageTask::single(run.model.clone(), run.weights, turn);
    let answer = explore_language(profile, library, &task, strategy, Mechanism::SvmPolling)
        .map_err(|error| error.to_string())?;
    let report = answer.generation.turns.first().ok_or("there is no turn")?;
    let time = match run.phase {
        Phase::FirstToken(_) => report.time_to_first_token,
        Phase::NextToken(_) => report.time_per_token.ok_or("no token is generated")?,
    };
    Ok(time.as_micros())
}

/// Compares predictions of `profile` with `runs`.
pub fn validate(profile: &Profile, runs: &[Answer], library: Library) -> Validation {
    let predicted: Vec<Result<Point, SkippedRow>> = runs
        .par_iter()
        .map(|run| match predict(profile, &run.what, library) {
            Ok(micros) => Ok(Point::of(run, run.what.group(), run.what.title.clone(), micros)),
            Err(reason) => Err(SkippedRow { line: run.line, reason }),
        })
        .collect();
    let mut validation = Validation::default();
    for predicted in predicted {
        match predicted {
            Ok(point) => validation.points.push(point),
            Err(row) => validation.left_out.push(row),
        }
    }
    validation
}

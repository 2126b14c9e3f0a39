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
use coexec_sim::explore::language::explore_language;
use coexec_sim::workload::{LanguageTask, Turn};
use coexec_sim::{Library, Mechanism, ProcessorKind, Profile, Strategy};

/// How long it takes by the profile, in microseconds; why nothing says so otherwise. On an NPU
/// the products are in static graphs that are filled, as engines of language models run them.
///
/// # Errors
/// The device lacks the unit, or the unit language models.
pub fn predict(profile: &Profile, run: &OfLanguageModel, library: Library) -> Result<f64, String> {
    // An engine that hands products over one by one, or one that compiles whole steps.
    let is_compiled = run.unit == ProcessorKind::Npu && !run.runtime.contains("llama");
    let strategy = match run.unit {
        ProcessorKind::Npu if is_compiled => Strategy::NpuGraphs,
        ProcessorKind::Npu => Strategy::NpuPipe,
        ProcessorKind::Gpu => Strategy::GpuOnly,
        ProcessorKind::Cpu => Strategy::CpuOnly,
    };
    let turn = match run.phase {
        // Both phases are compiled for the whole context.
        Phase::FirstToken(_) | Phase::NextToken(_) if is_compiled => run.whole_context(),
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;
    use crate::measure::ai_hub_llm::read;

    /// Rates that are tried, in gigabytes a second.
    const RATES: std::ops::RangeInclusive<u32> = 58..=70;

    fn eight_elite(token_bandwidth_gbps: f64) -> Profile {
        let mut profile = Profile::load("snapdragon-8elite").unwrap();
        let compiled = profile.npu.as_mut().unwrap().compiled.as_mut().unwrap();
        compiled.token_bandwidth_gbps.as_mut().unwrap().value = token_bandwidth_gbps;
        profile
    }

    /// Absolute errors in percent of times of a token by each rate, with the names of their models.
    fn errors_by_rate() -> Vec<Vec<(String, f64)>> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../data/aihub");
        let mut runs = read(&folder, "8elite").unwrap().runs;
        runs.retain(|run| {
            let OfLanguageModel { runtime, format, phase, .. } = &run.what;
            let is_fitted = format == "w4a16" && ["genie", "geniex_qairt"].contains(&runtime.as_str());
            is_fitted && matches!(phase, Phase::NextToken(_))
        });
        assert_eq!(runs.len(), 18);
        let of_rate = |rate: u32| {
            let points = validate(&eight_elite(f64::from(rate)), &runs, Library::Xnnpack).points;
            let error = |point: &Point| 100.0 * (point.predicted_us / point.measured_us - 1.0).abs();
            points.iter().map(|point| (point.network.clone(), error(point))).collect()
        };
        RATES.map(of_rate).collect()
    }

    fn mean(errors: &[(String, f64)], of: impl Fn(&str) -> bool) -> f64 {
        let kept: Vec<f64> = errors.iter().filter(|(model, _)| of(model)).map(|(_, error)| *error).collect();
        kept.iter().sum::<f64>() / kept.len() as f64
    }

    #[test]
    fn the_time_of_a_token_holds_on_models_kept_out_of_its_rate() {
        let by_rate = errors_by_rate();
        let best = |of: &dyn Fn(&str) -> bool| {
            let least = by_rate.iter().min_by(|one, other| mean(one, of).total_cmp(&mean(other, of)));
            least.unwrap()
        };
        let stated = by_rate.iter().zip(RATES).find(|(errors, _)| std::ptr::eq(*errors, best(&|_| true)));
        let profile = Profile::load("snapdragon-8elite").unwrap();
        let value = profile.npu.unwrap().compiled.unwrap().token_bandwidth_gbps.unwrap().value;
        assert!((f64::from(stated.unwrap().1) - value).abs() <= 1.0, "{stated:?}");
        let models: BTreeSet<&str> = by_rate[0].iter().map(|(model, _)| model.as_str()).collect();
        let kept_out: Vec<f64> =
            models.iter().map(|&left| mean(best(&|model| model != left), |model| model == left)).collect();
        let error = kept_out.iter().sum::<f64>() / kept_out.len() as f64;
        assert!(error <= 12.0, "{error} % of {kept_out:?}");
    }

    /// What the profile says of its CPU's kernels for language models.
    fn rates(profile: &mut Profile) -> [&mut f64; 5] {
        let rates = profile.cpu.language.as_mut().unwrap();
        [
            &mut rates.operator_us.value,
            &mut rates.multiply_accumulates_per_ns.value,
            &mut rates.bandwidth_gbps.value,
            &mut rates.context_multiply_accumulates_per_ns.value,
            &mut rates.token_context_multiply_accumulates_per_ns.value,
        ]
    }

    /// Mean logarithm of the factor by which `profile` is off.
    fn misfit(profile: &Profile, runs: &[Answer]) -> f64 {
        let points = validate(profile, runs, Library::Xnnpack).points;
        points.iter().map(|point| (point.predicted_us / point.measured_us).ln().abs()).sum::<f64>()
            / points.len() as f64
    }

    /// `profile` with rates that a descent along each of them, step by step, finds best for `runs`.
    fn fitted(mut profile: Profile, runs: &[Answer]) -> Profile {
        let mut least = misfit(&profile, runs);
        for step in [1.2_f64, 1.05, 1.02] {
            for rate in (0..5).cycle().take(20) {
                for factor in [step, 1.0 / step] {
                    let mut other = profile.clone();
                    *rates(&mut other)[rate] *= factor;
                    let found = misfit(&other, runs);
                    if found < least {
                        (least, profile) = (found, other);
                    }
                }
            }
        }
        profile
    }

    #[test]
    fn the_cpus_rates_hold_on_models_kept_out_of_them() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../data/aihub");
        let mut runs = read(&folder, "8elite").unwrap().runs;
        runs.retain(|run| run.what.unit == ProcessorKind::Cpu);
        assert_eq!(runs.len(), 22);
        let stated = Profile::load("snapdragon-8elite").unwrap();
        let in_sample = misfit(&stated, &runs);
        assert!(in_sample < 1.05 * misfit(&fitted(stated.clone(), &runs), &runs), "{in_sample}");
        let models: BTreeSet<&str> = runs.iter().map(|run| run.network.as_str()).collect();
        let mut kept_out = [Vec::new(), Vec::new()];
        for left in models {
            let (tested, seen): (Vec<_>, Vec<_>) = runs.iter().cloned().partition(|run| run.network == left);
            for point in validate(&fitted(stated.clone(), &seen), &tested, Library::Xnnpack).points {
                let is_token = usize::from(point.group.ends_with("next_token"));
                kept_out[is_token].push(100.0 * (point.predicted_us / point.measured_us - 1.0).abs());
            }
        }
        let [first, next] = kept_out.map(|errors| errors.iter().sum::<f64>() / errors.len() as f64);
        assert!(first <= 12.0 && next <= 15.0, "{first} % and {next} %");
    }

    #[test]
    fn a_longer_context_takes_longer_a_token_and_a_longer_prompt_to_the_first() {
        let profile = Profile::load("snapdragon-8elite").unwrap();
        let model = coexec_sim::workload::language_model("llama3.2-3b").unwrap();
        let takes = |prompt_tokens, context, phase| {
            let run = OfLanguageModel {
                title: "model".to_owned(),
                model: model.clone(),
                weights: coexec_sim::workload::WeightFormat::W4a16,
                format: "w4a16".to_owned(),
                unit: ProcessorKind::Npu,
                runtime: "genie".to_owned(),
                context,
                phase: if phase { Phase::FirstToken(prompt_tokens) } else { Phase::NextToken(context) },
            };
            predict(&profile, &run, Library::Xnnpack).unwrap()
        };
        assert!(takes(128, 4096, false) > takes(128, 512, false));
        let [one, two] = [128, 256].map(|prompt| takes(prompt, 4096, true));
        assert!((two / one - 2.0).abs() < 1e-6, "graphs of 128 tokens, one after another");
    }
}

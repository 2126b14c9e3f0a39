//! Validation of language models: the time to the first token, and the time per further token.
//!
//! Responsible for: the strategy that represents a unit. Not for: how a plan is priced
//! (`coexec_sim::simulate::generation`). A runtime's overhead outside its graphs is not modelled, so
//! each runtime has groups of its own.

use coexec_sim::simulate::Conversation;
use rayon::prelude::*;

use super::Validation;
use super::point::Point;
use crate::measure::ai_hub_llm::{Answer, OfLanguageModel, Phase};
use coexec_sim::explore::language::{LanguageAnswer, explore_language};
use coexec_sim::workload::{LanguageTask, Turn};
use coexec_sim::{Library, Mechanism, Picos, ProcessorKind, Profile, Strategy};

/// Predicted time of `run` in microseconds and, where the interval `is_drawn`, the 90 % interval over
/// draws of the profile's errors. On an NPU the products run as static graphs that are padded to their
/// size, as in engines for language models.
///
/// # Errors
/// The device lacks the unit, or the unit language models.
pub fn predict(
    profile: &Profile,
    run: &OfLanguageModel,
    library: Library,
    is_drawn: bool,
) -> Result<(f64, Option<[f64; 2]>), String> {
    // llama.cpp hands over one product at a time; other engines compile whole steps.
    let is_compiled = run.unit == ProcessorKind::Npu && !run.runtime.contains("llama");
    let strategy = match run.unit {
        ProcessorKind::Npu if is_compiled => Strategy::NpuGraphs,
        ProcessorKind::Npu => Strategy::NpuKernels,
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
    let answer =
        explore_language(Conversation::new(profile, library, &task), strategy, Mechanism::SvmPolling)
            .map_err(|error| error.to_string())?;
    let LanguageAnswer { plan, generation, .. } = &answer;
    let report = generation.turns.first().ok_or("there is no turn")?;
    let time = match run.phase {
        Phase::FirstToken(_) => report.time_to_first_token,
        Phase::NextToken(_) => report.time_per_token.ok_or("no token is generated")?,
    };
    let drawn =
        is_drawn.then(|| plan.drawn(Conversation::new(profile, library, &task), generation)).transpose();
    let interval = drawn.map_err(|error| error.to_string())?.and_then(|drawn| match run.phase {
        Phase::FirstToken(_) => Some(drawn.first_token.interval()),
        Phase::NextToken(_) => Some(drawn.next_token?.interval()),
    });
    Ok((time.as_micros(), interval.map(|ends| ends.map(Picos::as_micros))))
}

/// Compares predictions of `profile` with `runs`.
pub fn validate(profile: &Profile, runs: &[Answer], library: Library) -> Validation {
    let point = |run: &Answer| {
        let (micros, interval) = predict(profile, &run.what, library, true)?;
        let point = Point::of(run, run.what.group(), run.what.title.clone(), micros);
        Ok::<_, String>(point.within(|_| interval))
    };
    Validation::found(runs, runs.par_iter().map(point).collect())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::ops::RangeInclusive;
    use std::path::Path;

    use coexec_sim::device::{CompiledGraphs, Quantity};

    use super::*;
    use crate::measure::ai_hub_llm::read;
    use crate::validate::score::{coverage_percent, score};
    use crate::validate::{Group, figures};

    /// A bandwidth of weights in graphs of whole steps, with the values to try, in gigabytes per
    /// second.
    struct Rate {
        /// The phase of an answer that it determines.
        phase: &'static str,
        tried: RangeInclusive<u32>,
        of: fn(&mut CompiledGraphs) -> &mut Option<Quantity>,
    }

    const RATES: [Rate; 2] = [
        Rate { phase: "next_token", tried: 58..=70, of: |compiled| &mut compiled.token_bandwidth_gbps },
        Rate { phase: "first_token", tried: 38..=54, of: |compiled| &mut compiled.prompt_bandwidth_gbps },
    ];

    impl Rate {
        fn of(&self, profile: &mut Profile) -> f64 {
            let compiled = profile.npu.as_mut().unwrap().compiled.as_mut().unwrap();
            (self.of)(compiled).as_ref().unwrap().value
        }

        /// The published rows with 4-bit weights of engines that compile whole steps.
        fn published(&self) -> Vec<Answer> {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../data/aihub");
            let mut runs = read(&folder, "8elite").unwrap().runs;
            runs.retain(|run| {
                run.what.format == "w4a16" && run.what.group().to_string().ends_with(self.phase)
            });
            runs
        }

        /// Predictions of all rows for each value.
        fn predicted(&self, runs: &[Answer], errors: &[Group]) -> Vec<Vec<Point>> {
            let by = |value: u32| {
                let mut profile = Profile::load("snapdragon-8elite").unwrap();
                let compiled = profile.npu.as_mut().unwrap().compiled.as_mut().unwrap();
                (self.of)(compiled).as_mut().unwrap().value = f64::from(value);
                profile.calibration.get_or_insert_default().error = errors.to_vec();
                validate(&profile, runs, Library::Xnnpack).points
            };
            self.tried.clone().map(by).collect()
        }
    }

    /// The index of the value with the least MAPE on the models that count, fitted as the profile's
    /// value was: to the exports of both Genie runtimes.
    fn best(by_value: &[Vec<Point>], counts: impl Fn(&str) -> bool) -> usize {
        let is_fitted =
            |point: &&Point| point.group.to_string().starts_with("npu/genie") && counts(&point.network);
        let error = |points: &Vec<Point>| {
            let kept: Vec<(f64, f64)> = points
                .iter()
                .filter(is_fitted)
                .map(|point| (point.predicted_us, point.measured_us))
                .collect();
            figures("", &kept).mape_percent
        };
        let errors: Vec<f64> = by_value.iter().map(error).collect();
        (0..errors.len()).min_by(|&one, &other| errors[one].total_cmp(&errors[other])).unwrap()
    }

    /// Each row predicted by the value fitted without its model.
    fn held_out(by_value: &[Vec<Point>]) -> Vec<Point> {
        let without = |model: &str| best(by_value, |other| other != model);
        let of = |(index, point): (usize, &Point)| by_value[without(&point.network)][index].clone();
        by_value[0].iter().enumerate().map(of).collect()
    }

    #[test]
    fn the_profile_states_the_errors_on_held_out_models() {
        let mut profile = Profile::load("snapdragon-8elite").unwrap();
        let stated = profile.calibration.take().unwrap().error;
        let mut found = Vec::new();
        for rate in &RATES {
            let by_value = rate.predicted(&rate.published(), &[]);
            let fitted = rate.tried.clone().nth(best(&by_value, |_| true)).unwrap();
            assert!((f64::from(fitted) - rate.of(&mut profile)).abs() <= 1.0, "{} {fitted}", rate.phase);
            found.extend(score(&held_out(&by_value)).into_iter().map(|scored| scored.group));
        }
        assert_eq!(stated.len(), found.len(), "{found:#?}");
        for group in &found {
            let stated = stated.iter().find(|stated| stated.name == group.name).unwrap();
            assert_eq!(stated.n, group.n);
            let figures = |group: &Group| [group.mape_percent, group.p95_ape_percent, group.bias_percent];
            let pairs = figures(stated).into_iter().zip(figures(group));
            assert!(pairs.into_iter().all(|(one, other)| (one - other).abs() < 0.01), "{found:#?}");
        }
        // The worst group.
        let mean = |phase: &str| {
            let of = found.iter().filter(|group| group.name.to_string().ends_with(phase));
            of.map(|group| group.mape_percent).fold(0.0, f64::max)
        };
        assert!(mean("first_token") < 25.0 && mean("next_token") < 25.0, "{found:#?}");
    }

    #[test]
    fn intervals_from_the_errors_of_other_models_hold_published_times() {
        let outside_of = |rate: &Rate| {
            let runs = rate.published();
            let by_value = rate.predicted(&runs, &[]);
            let points = held_out(&by_value);
            let models: BTreeSet<&str> = points.iter().map(|point| point.network.as_str()).collect();
            let mut outside = Vec::new();
            for &model in &models {
                let others: Vec<Point> =
                    points.iter().filter(|point| point.network != model).cloned().collect();
                let errors: Vec<Group> = score(&others).into_iter().map(|scored| scored.group).collect();
                let own: Vec<Answer> = runs.iter().filter(|run| run.network == model).cloned().collect();
                let value = best(&by_value, |other| other != model);
                for point in &rate.predicted(&own, &errors)[value] {
                    if !(point.low_us <= Some(point.measured_us) && Some(point.measured_us) <= point.high_us)
                    {
                        outside.push(format!("{} {}", point.group, point.what));
                    }
                }
            }
            (outside, points.len())
        };
        let found = RATES.each_ref().map(outside_of);
        assert_eq!(
            found.each_ref().map(|(outside, all)| (outside.len(), *all)),
            [(2, 19), (1, 19)],
            "{found:#?}"
        );
    }

    #[test]
    fn published_times_of_a_chip_with_scaled_rates_are_in_their_intervals() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../data/aihub");
        let profile = Profile::load("snapdragon-8gen3").unwrap();
        let points = validate(&profile, &read(&folder, "8gen3").unwrap().runs, Library::Xnnpack).points;
        assert_eq!((points.len(), coverage_percent(points.iter())), (4, Some(100.0)), "{points:#?}");
    }

    /// The rates of a unit's kernels for language models, the bandwidth last.
    fn rates(profile: &mut Profile, of: ProcessorKind) -> [&mut f64; 5] {
        let kernels = match of {
            ProcessorKind::Cpu => &mut profile.cpu.language,
            ProcessorKind::Npu => &mut profile.npu.as_mut().unwrap().language,
            ProcessorKind::Gpu => panic!("whose kernels have other rates"),
        };
        let rates = kernels.as_mut().unwrap();
        [
            &mut rates.operator_us.value,
            &mut rates.multiply_accumulates_per_ns.value,
            &mut rates.context_multiply_accumulates_per_ns.value,
            &mut rates.token_context_multiply_accumulates_per_ns.value,
            &mut rates.bandwidth_gbps.value,
        ]
    }

    /// Root of the mean squared log error of `profile`. The least mean of absolute errors is no single fit where
    /// a rate rests on two models.
    fn misfit(profile: &Profile, runs: &[Answer]) -> f64 {
        let error = |run: &Answer| {
            let (micros, _) = predict(profile, &run.what, Library::Xnnpack, false).unwrap();
            (micros / run.measured_us).ln().powi(2)
        };
        (runs.iter().map(error).sum::<f64>() / runs.len() as f64).sqrt()
    }

    /// `profile` with its rates fitted to `runs` by coordinate descent. The cores' bandwidth is not fitted: four
    /// models do not tell it from the wait after each operator.
    fn fitted(mut profile: Profile, runs: &[Answer]) -> Profile {
        let mut least = misfit(&profile, runs);
        let count = if runs[0].what.unit == ProcessorKind::Cpu { 4 } else { 5 };
        for step in [1.2_f64, 1.05, 1.02] {
            for rate in (0..count).cycle().take(20) {
                for factor in [step, 1.0 / step] {
                    let mut other = profile.clone();
                    *rates(&mut other, runs[0].what.unit)[rate] *= factor;
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
    fn kernel_rates_predict_held_out_models() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../data/aihub");
        let stated = Profile::load("snapdragon-8elite").unwrap();
        let is_of_kernels =
            |run: &Answer| run.what.runtime.contains("llama") && run.what.unit != ProcessorKind::Gpu;
        let mut runs = read(&folder, "8elite").unwrap().runs;
        // A model larger than an NPU session has no prediction there.
        runs.retain(|run| is_of_kernels(run) && predict(&stated, &run.what, Library::Xnnpack, false).is_ok());
        let (of_cpu, of_npu): (Vec<_>, Vec<_>) =
            runs.into_iter().partition(|run| run.what.unit == ProcessorKind::Cpu);
        for (runs, count, limits) in [(of_cpu, 22, [8.0, 12.0]), (of_npu, 16, [9.0, 5.0])] {
            assert_eq!(runs.len(), count);
            let [first, next] = held_out_of_kernels(&stated, &runs);
            assert!(first <= limits[0] && next <= limits[1], "{count}: {first} % and {next} %");
        }
    }

    /// MAPE of the first and of the next token, each model predicted by a fit of the rates without it.
    fn held_out_of_kernels(stated: &Profile, runs: &[Answer]) -> [f64; 2] {
        let in_sample = misfit(stated, runs);
        assert!(in_sample < 1.05 * misfit(&fitted(stated.clone(), runs), runs), "{in_sample}");
        let models: BTreeSet<&str> = runs.iter().map(|run| run.network.as_str()).collect();
        let mut held_out = [Vec::new(), Vec::new()];
        for left in models {
            let (tested, seen): (Vec<_>, Vec<_>) = runs.iter().cloned().partition(|run| run.network == left);
            for point in validate(&fitted(stated.clone(), &seen), &tested, Library::Xnnpack).points {
                let is_token = usize::from(point.group.to_string().ends_with("next_token"));
                held_out[is_token].push(100.0 * (point.predicted_us / point.measured_us - 1.0).abs());
            }
        }
        held_out.map(|errors| errors.iter().sum::<f64>() / errors.len() as f64)
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
            predict(&profile, &run, Library::Xnnpack, false).unwrap().0
        };
        assert!(takes(128, 4096, false) > takes(128, 512, false));
        let [one, two] = [128, 256].map(|prompt| takes(prompt, 4096, true));
        assert!((two / one - 2.0).abs() < 1e-6, "graphs of 128 tokens, one after another");
    }
}

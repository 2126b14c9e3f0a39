//! Tables 2 and 4, section 5.5: mean speedups of single operators, and the overhead of synchronisation.

use rayon::prelude::*;

use super::{DATA_TYPE, MAX_THREADS, MOTO, PHONES, fastest, options};
use crate::{Comparison, Inputs, Result, mean, operators};
use coexec_sim::explore::split_search;
use coexec_sim::{CoreSet, Layer, Library, Mechanism, Picos, Plan, Simulator, Stage};

/// The paper's sets of operators: the name in ids of facts, and the bundled set.
const SETS: [(&str, &str); 2] = [("linear", "epew-linear-sample"), ("conv", "epew-conv")];

/// Times of one operator with one core set.
#[derive(Clone, Copy, Debug)]
struct OperatorTimes {
    gpu_only: Picos,
    best: Picos,
    /// The best placement if both processors wait for events.
    event_wait: Picos,
    /// Time that synchronisation adds to the slower processor's, by polling and by waiting for
    /// events; none if one processor computes all.
    overhead: Option<[Picos; 2]>,
}

/// Compares ours with the tables.
pub(super) fn compare(comparison: &mut Comparison, inputs: &Inputs) -> Result {
    for (phone, profile) in PHONES {
        let device = inputs.profile(profile)?;
        let core_sets = (1..=MAX_THREADS).map(|threads| fastest(device, threads));
        let core_sets = core_sets.collect::<Result<Vec<_>, _>>()?;
        for (set, name) in SETS {
            let stages: Vec<Stage> = operators(name)?
                .into_iter()
                .step_by(inputs.every.max(1))
                .map(|(name, operator)| Stage::single(name, Layer::new(operator, DATA_TYPE)))
                .collect();
            // All results are collected first, so that the error reported does not depend on the
            // number of threads.
            let runs: Vec<Result<Vec<OperatorTimes>>> = stages
                .par_iter()
                .map_init(
                    || Simulator::new(device, Library::Xnnpack),
                    |simulator, stage| runs(simulator, stage, &core_sets),
                )
                .collect();
            let runs = runs.into_iter().collect::<Result<Vec<Vec<OperatorTimes>>, _>>()?;
            for threads in 1..=MAX_THREADS as usize {
                let with_threads: Vec<OperatorTimes> =
                    runs.iter().filter_map(|runs| runs.get(threads - 1).copied()).collect();
                rows(comparison, phone, set, threads, &with_threads)?;
            }
        }
    }
    Ok(())
}

/// The rows of one set of operators on a phone with `threads` CPU threads.
fn rows(
    comparison: &mut Comparison,
    phone: &str,
    set: &str,
    threads: usize,
    runs: &[OperatorTimes],
) -> Result {
    let cpu_error = comparison.published(&format!("mape/{phone}/{set}/cpu-{threads}"))?;
    let loss = choosing_loss(comparison.published(&format!("mape/{phone}/{set}/gpu"))?, cpu_error);
    let speedup = mean_of(runs, |run| Some(ratio(run.gpu_only, run.best)));
    comparison.row(format!("speedup/{phone}/{set}/search/{threads}"), speedup);
    comparison.row(format!("speedup/{phone}/{set}/gbdt/{threads}"), speedup * loss);
    if phone == "pixel5" && threads == MAX_THREADS as usize {
        comparison.row(format!("abstract/{set}/search"), speedup);
        comparison.row(format!("abstract/{set}/gbdt"), speedup * loss);
    }
    if phone == MOTO {
        let plain = choosing_loss(comparison.published(&format!("augmentation/{set}/without"))?, cpu_error);
        let waiting = mean_of(runs, |run| Some(ratio(run.gpu_only, run.event_wait)));
        comparison.row(format!("ablation/{set}/ours/{threads}"), speedup * loss);
        comparison.row(format!("ablation/{set}/plain-predictor/{threads}"), speedup * plain);
        comparison.row(format!("ablation/{set}/event-wait/{threads}"), waiting * loss);
    }
    if phone == MOTO && threads == 1 {
        for (which, mechanism) in ["polling", "event-wait"].into_iter().enumerate() {
            let added_us = mean_of(runs, |run| Some(run.overhead?[which].as_micros()));
            comparison.row(format!("sync/{set}/{mechanism}-us"), added_us);
        }
        let share = mean_of(runs, |run| Some(100.0 * ratio(run.overhead?[1], run.event_wait)));
        comparison.row(format!("sync/{set}/event-wait-share"), share);
    }
    Ok(())
}

/// Loss from choosing by predictors: the expected time of the better choice over that of the
/// one made, if the errors of the two predicted times are normal and independent.
///
/// The larger of two such errors is `sqrt(s1^2 + s2^2) / sqrt(2 pi)` on average, and a mean
/// absolute error is `s sqrt(2 / pi)`: hence half of the root of the sum of their squares.
fn choosing_loss(gpu_mape_percent: f64, cpu_mape_percent: f64) -> f64 {
    1.0 / (1.0 + 0.5 * gpu_mape_percent.hypot(cpu_mape_percent) / 100.0)
}

/// Times of one operator with each core set.
fn runs(simulator: &mut Simulator<'_>, stage: &Stage, core_sets: &[CoreSet]) -> Result<Vec<OperatorTimes>> {
    let mut runs = Vec::new();
    for &cores in core_sets {
        let search = split_search(simulator, stage, &options(cores))?;
        let Some(gpu_only) = search.gpu_only else { continue };
        let best = search.best;
        let (mut event_wait, mut overhead) = (best.latency, None);
        if best.placement.is_cut() {
            let plan = Plan::new(Mechanism::EventWait, vec![best.placement]);
            event_wait = simulator.latency(&[stage.isolated()], &plan)?;
            let slower = best.cpu.max(best.gpu);
            overhead = Some([best.latency, event_wait].map(|all| all.saturating_sub(slower)));
        }
        runs.push(OperatorTimes { gpu_only: gpu_only.latency, best: best.latency, event_wait, overhead });
    }
    Ok(runs)
}

/// `slow` over `fast`.
fn ratio(slow: Picos, fast: Picos) -> f64 {
    slow.0 as f64 / fast.0.max(1) as f64
}

/// The mean over the operators that have a value.
fn mean_of(runs: &[OperatorTimes], value: impl Fn(&OperatorTimes) -> Option<f64>) -> f64 {
    mean(&runs.iter().filter_map(value).collect::<Vec<f64>>())
}

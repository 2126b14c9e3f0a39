//! Table 2: mean speedups of single operators.

use rayon::prelude::*;

use super::{MOST_THREADS, MOTO, PHONES, Phone, core_sets, options, published_loss};
use crate::device::profile::Profile;
use crate::explore::{Lead, split_search};
use crate::kernel::cpu::Library;
use crate::plan::Plan;
use crate::plan::synchronisation::Mechanism;
use crate::published::{BarSeries, Bars, Comparison, Drawing, Inputs, Limit, Picture, ReproduceError};
use crate::simulate::{SimulateError, Simulator};
use crate::units::Picos;
use crate::workload::{Layer, Stage, operator_set};

/// The paper's sets of operators: in ids of facts, and here.
pub(super) const SETS: [(&str, &str); 2] = [("linear", "epew-linear-sample"), ("conv", "epew-conv")];

/// One operator with so many CPU threads.
#[derive(Clone, Copy, Debug)]
struct Run {
    gpu_only: Picos,
    best: Picos,
    /// The same placement where both processors wait for events.
    event_wait: Picos,
    /// What synchronisation adds to the slower processor's time, polling and waiting for
    /// events; none where one processor computes all.
    overhead: Option<[Picos; 2]>,
}

/// Means over the operators of a set.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Means {
    /// GPU-only time over the best.
    pub(super) speedup: f64,
    /// GPU-only time over that of the same placement with event waits.
    pub(super) event_wait_speedup: f64,
    /// Microseconds that synchronisation adds where both processors compute: polling, and
    /// waiting for events.
    pub(super) overhead_us: [f64; 2],
    /// Part of an operator's time with event waits that synchronisation takes where both
    /// processors compute, in percent.
    pub(super) event_wait_share_percent: f64,
    /// The same over all operators, none where one processor computes all.
    pub(super) share_of_all_percent: f64,
    /// What synchronisation takes of the summed time of the operators that both compute.
    pub(super) share_of_sum_percent: f64,
}

/// A set of operators on a phone.
#[derive(Clone, Debug)]
pub(super) struct Measured {
    pub(super) phone: Phone,
    /// In ids of facts.
    pub(super) set: &'static str,
    /// With one thread, two and three.
    pub(super) means: Vec<Means>,
}

/// Searches every operator of both sets on each phone.
pub(super) fn measure(inputs: &Inputs) -> Result<Vec<Measured>, ReproduceError> {
    let mut found = Vec::new();
    for phone in PHONES {
        let profile = inputs.profile(phone.profile)?;
        for (key, set) in SETS {
            let operators = operator_set(set).unwrap_or_default();
            let stages: Vec<Stage> = operators
                .into_iter()
                .step_by(inputs.every.max(1))
                .map(|(name, operator)| Stage::single(name, Layer::new(operator, super::DATA_TYPE)))
                .collect();
            // Gathered before the first error is looked for: which one that is must not
            // depend on the number of threads.
            let runs: Vec<Result<Vec<Run>, SimulateError>> = stages
                .par_iter()
                .map_init(
                    || Simulator::new(profile, Library::Xnnpack),
                    |simulator, stage| runs(simulator, stage, profile),
                )
                .collect();
            let runs = runs.into_iter().collect::<Result<Vec<Vec<Run>>, _>>()?;
            let with_threads = |index: usize| runs.iter().filter_map(move |runs| runs.get(index));
            let means = (0..MOST_THREADS as usize).map(|index| means(with_threads(index))).collect();
            found.push(Measured { phone, set: key, means });
        }
    }
    Ok(found)
}

/// One operator with each number of threads.
fn runs(simulator: &mut Simulator<'_>, stage: &Stage, profile: &Profile) -> Result<Vec<Run>, SimulateError> {
    core_sets(profile)
        .filter_map(|cores| {
            let search =
                split_search(simulator, stage, &options(cores, Mechanism::SvmPolling), Lead::default());
            let search = match search {
                Ok(search) => search,
                Err(error) => return Some(Err(error)),
            };
            let gpu_only = search.gpu_only?.latency;
            let best = search.best;
            let run = Run { gpu_only, best: best.latency, event_wait: best.latency, overhead: None };
            if !best.placement.is_cut() {
                return Some(Ok(run));
            }
            let plan = Plan::new(Mechanism::EventWait, vec![best.placement]);
            Some(simulator.latency(&[stage.isolated()], &plan).map(|event_wait| {
                let slower = best.cpu.max(best.gpu);
                let overhead = [best.latency, event_wait].map(|all| all.saturating_sub(slower));
                Run { event_wait, overhead: Some(overhead), ..run }
            }))
        })
        .collect()
}

fn means<'a>(runs: impl Iterator<Item = &'a Run>) -> Means {
    let ratio = |slow: Picos, fast: Picos| slow.0 as f64 / fast.0.max(1) as f64;
    let (mut count, mut shared) = (0.0, 0.0);
    let mut sums = Means::default();
    let mut share = 0.0;
    let mut waited_us = 0.0;
    for run in runs {
        count += 1.0;
        sums.speedup += ratio(run.gpu_only, run.best);
        sums.event_wait_speedup += ratio(run.gpu_only, run.event_wait);
        if let Some([polling, waiting]) = run.overhead {
            shared += 1.0;
            sums.overhead_us[0] += polling.as_micros();
            sums.overhead_us[1] += waiting.as_micros();
            share += ratio(waiting, run.event_wait);
            waited_us += run.event_wait.as_micros();
        }
    }
    Means {
        speedup: sums.speedup / count,
        event_wait_speedup: sums.event_wait_speedup / count,
        overhead_us: sums.overhead_us.map(|sum| sum / shared),
        event_wait_share_percent: 100.0 * share / shared,
        share_of_all_percent: 100.0 * share / count,
        share_of_sum_percent: 100.0 * sums.overhead_us[1] / waited_us,
    }
}

/// Sets the speedups beside Table 2 and the abstract.
pub(super) fn compare(comparison: &mut Comparison, measured: &[Measured]) {
    // A cell by GBDT is the searched one less a loss that Table 1 gives.
    for Measured { phone, set, .. } in measured {
        for threads in 1..=MOST_THREADS {
            if comparison.is_fitted(&format!("speedup/{}/{set}/search/{threads}", phone.key)) {
                let cell = format!("speedup/{}/{set}/gbdt/{threads}", phone.key);
                comparison.set_by(&cell, "as the searched cell beside it");
            }
        }
    }
    // The abstract repeats the largest: where a value was set from the cell, both say so.
    for (set, method) in SETS.iter().flat_map(|(set, _)| [(set, "search"), (set, "gbdt")]) {
        if comparison.is_fitted(&format!("speedup/pixel5/{set}/{method}/3")) {
            comparison.set_by(&format!("abstract/{set}/{method}"), "as its cell of Table 2");
        }
    }
    comparison.group("Table 2: mean speedup of single operators", Limit::mean_and_worst(6.0, 15.0));
    for Measured { phone, set, means } in measured {
        for (threads, means) in (1..).zip(means) {
            let loss = published_loss(comparison, phone.key, set, threads);
            comparison.row(&format!("speedup/{}/{set}/search/{threads}", phone.key), means.speedup);
            comparison.row(&format!("speedup/{}/{set}/gbdt/{threads}", phone.key), means.speedup * loss);
            if phone.key == "pixel5" && threads == MOST_THREADS as usize {
                comparison.row(&format!("abstract/{set}/search"), means.speedup);
                comparison.row(&format!("abstract/{set}/gbdt"), means.speedup * loss);
            }
            if phone.key == MOTO {
                comparison.row(&format!("ablation/{set}/ours/{threads}"), means.speedup * loss);
            }
        }
    }
    for (key, _) in SETS {
        let figure = speedups(comparison, measured, key);
        comparison.figure(figure);
    }
}

/// Bars of the searched speedups, the paper's and ours.
fn speedups(comparison: &Comparison, measured: &[Measured], set: &str) -> Picture {
    let of_set = || measured.iter().filter(|measured| measured.set == set);
    let mut series = Vec::new();
    for threads in 1..=MOST_THREADS as usize {
        let plural = if threads == 1 { "" } else { "s" };
        let published = |measured: &Measured| {
            comparison.number(&format!("speedup/{}/{set}/search/{threads}", measured.phone.key))
        };
        let ours = |measured: &Measured| measured.means.get(threads - 1).map(|means| means.speedup);
        for (name, is_published) in [("published", true), ("coexec", false)] {
            let value =
                |measured: &Measured| if is_published { Some(published(measured)) } else { ours(measured) };
            series.push(BarSeries {
                name: format!("{threads} thread{plural}, {name}"),
                is_published,
                values: of_set().map(value).collect(),
            });
        }
    }
    let operators = if set == "conv" { "convolutions" } else { "linear layers" };
    Picture {
        name: format!("speedup-{set}"),
        title: format!("Mean speedup of {operators} with the CPU's help"),
        subtitle: "over the GPU alone, cuts found by search (EPEW'25, Table 2)".to_owned(),
        drawing: Drawing::GroupedBars(Bars {
            y: "speedup".to_owned(),
            categories: of_set().map(|measured| measured.phone.title.to_owned()).collect(),
            series,
        }),
    }
}

//! `coexec explore` over a set of single operators: the mean speedup from cutting them.

use coexec_sim::explore::{Search, SearchOptions, split_search};
use coexec_sim::simulate::Simulator;
use coexec_sim::{Basis, CoreSet, ProcessorKind, Scenario, Stage, Strategy};
use rayon::prelude::*;
use serde::Serialize;

use crate::output::{record, row};
use crate::{Common, Explore, Failure, OneOrAll, Result, known, output};

/// Speedup from cutting operators between the GPU and one core set.
#[derive(Serialize)]
struct Gain {
    cores: String,
    operators: usize,
    /// Mean of GPU-only latency over the best latency; none if the CPU has no known time for some
    /// operator.
    mean_speedup: Option<f64>,
    /// Percentage of operators whose best placement is a cut.
    cut_percent: f64,
}

pub(crate) fn run(scenario: &Scenario, options: &Explore, common: &Common) -> Result {
    check(scenario, options)?;
    let (operators, known) = (scenario.stages(), known::of(scenario));
    let is_judged =
        known.iter().all(|known| known.missing.is_none() || known.processor != ProcessorKind::Cpu);
    common.note(format_args!("searching {} operators on {}", operators.len(), scenario.device.name));
    // All results are collected first, so that the error reported does not depend on the number of
    // threads.
    let searched: Vec<Result<Vec<Search>>> = operators
        .par_iter()
        .map_init(
            || Simulator::new(&scenario.device, scenario.library),
            |simulator, stage| search(simulator, stage, scenario),
        )
        .collect();
    let rows = searched.into_iter().collect::<Result<Vec<_>, _>>()?;
    let core_sets = scenario.options.core_sets.iter().enumerate();
    let gains = core_sets.map(|(index, cores)| gain(cores.to_string(), &rows, index, is_judged));
    let gains: Vec<Gain> = gains.collect();
    if common.json {
        let entry = |(stage, searches): (&Stage, &Vec<Search>)| {
            record!(Entry {
                name: stage.name.clone(),
                operator: stage.layer.operator.to_string(),
                gpu_only_ps: searches.first().and_then(|search| search.gpu_only).map(|gpu| gpu.latency),
                /// Best latency with each core set, in the order of `core_sets`.
                best_ps: searches.iter().map(|search| search.best.latency).collect::<Vec<_>>(),
            })
        };
        return output::json(&record!(Document {
            scenario: &scenario.name,
            device: &scenario.device.name,
            /// What is known of each processor for these operators.
            known,
            /// One entry per core set, starting with one thread.
            core_sets: gains,
            operators: operators.iter().zip(&rows).map(entry).collect::<Vec<_>>(),
        }));
    }
    output::line(&format!("{}\non {}\n", scenario.title, scenario.device.title));
    let header = ["CPU cores", "operators", "mean speedup over GPU only", "cut"];
    let speedup = |mean: Option<f64>| mean.map_or(Basis::NotKnown.to_string(), |mean| format!("{mean:.3}x"));
    let row = |Gain { cores, operators, mean_speedup, cut_percent }: &Gain| {
        row![cores, operators, speedup(*mean_speedup), format!("{cut_percent:.1} %")]
    };
    output::table(&header, gains.iter().map(row));
    known::print_missing(&known);
    Ok(())
}

/// Refuses options that do not apply to a set.
fn check(scenario: &Scenario, options: &Explore) -> Result {
    let pictures = [&options.plot, &options.timeline, &options.shares];
    let files = [&options.out, &options.trace];
    if pictures.iter().any(|path| path.is_some()) || files.iter().any(|path| path.is_some()) {
        return Err(Failure::usage(
            format!("{} is a set of single operators: it has no single plan or timeline", scenario.name),
            "leave out --out, --plot, --shares, --timeline and --trace, or explore one operator",
        ));
    }
    let is_cut =
        |strategy| matches!(strategy, Strategy::ChannelSplit | Strategy::HeightSplit | Strategy::AnySplit);
    let strategy = match options.place.strategy {
        Some(OneOrAll::All) => Some("all"),
        Some(OneOrAll::One(_)) | None => {
            Some(scenario.options.strategy).filter(|&strategy| !is_cut(strategy)).map(Strategy::name)
        }
    };
    if let Some(strategy) = strategy {
        return Err(Failure::usage(
            format!(
                "{} is a set of single operators, whose best cuts are searched for: strategy {strategy} does not apply",
                scenario.name
            ),
            "name channel-split, height-split or any-split, or explore one operator",
        ));
    }
    let effort = [("--effort", options.place.overrides.effort.is_some())];
    Failure::refuse_given(
        &effort,
        "of the strategy optimal, which searches no single operators",
        "leave it out",
    )
}

fn search(simulator: &mut Simulator<'_>, stage: &Stage, scenario: &Scenario) -> Result<Vec<Search>> {
    let search = |&cores: &CoreSet| {
        let options = SearchOptions { core_sets: vec![cores], ..scenario.options.clone() };
        Ok(split_search(simulator, stage, &options)?)
    };
    scenario.options.core_sets.iter().map(search).collect()
}

/// Means over the operators that the GPU can run alone; no mean speedup unless `is_judged`.
fn gain(cores: String, rows: &[Vec<Search>], index: usize, is_judged: bool) -> Gain {
    let searches = rows.iter().filter_map(|row| row.get(index));
    let (mut operators, mut speedups, mut cut) = (0_usize, 0.0, 0_usize);
    for search in searches {
        let Some(gpu_only) = search.gpu_only else { continue };
        operators += 1;
        speedups += gpu_only.latency.0 as f64 / search.best.latency.0.max(1) as f64;
        cut += usize::from(search.split.is_some_and(|split| split == search.best));
    }
    let count = operators.max(1) as f64;
    let mean_speedup = is_judged.then_some(speedups / count);
    Gain { cores, operators, mean_speedup, cut_percent: 100.0 * cut as f64 / count }
}

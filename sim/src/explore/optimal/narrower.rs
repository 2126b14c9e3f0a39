//! Plans of narrower searches, which a wider one may not be worse than.
//!
//! Responsible for: which narrower searches there are. Invariant: a search for a stream finds no worse plan than those
//! for a single batch and, with more than two batches in flight, for two; a search on more than three threads none
//! worse than on three. Each search keeps other labels and walks elsewhere, and only the one for a single batch tries
//! other orders of branches.

use super::find_alone;
use crate::explore::{DEFAULT_THREADS, Explorer, SearchOptions};
use crate::kernel::CoreSet;
use crate::plan::Plan;
use crate::simulate::Pipeline;

/// The best plans of all searches on up to three threads, where more may be used, for a single batch where there is a
/// stream of them, and for two in flight where more are, as far as there are any.
pub(super) fn plans(explorer: &mut Explorer<'_, '_>) -> Vec<Plan> {
    let (stages, options, pipeline) = (explorer.stages, explorer.options, explorer.period_counts());
    let two = pipeline.map(|pipeline| Pipeline { depth: 2, ..pipeline.clone() });
    let mut streams = vec![pipeline];
    if let Some(pipeline) = pipeline {
        streams.push(None);
        streams.extend((pipeline.depth > 2).then_some(two.as_ref()));
    }
    let is_usual = |cores: &CoreSet| cores.threads() <= DEFAULT_THREADS;
    let core_sets: Vec<CoreSet> = options.core_sets.iter().copied().filter(is_usual).collect();
    let usual = SearchOptions { core_sets, ..options.clone() };
    let mut all_options = vec![options];
    if !usual.core_sets.is_empty() && usual.core_sets.len() < options.core_sets.len() {
        all_options.push(&usual);
    }
    let searches =
        streams.iter().flat_map(|&stream| all_options.iter().map(move |&options| (stream, options)));
    // The first is the wide search itself.
    let found = searches.skip(1).flat_map(|(stream, options)| {
        find_alone(&mut Explorer::new(explorer.simulator, stages, options).streaming(stream))
    });
    found.map(|found| found.plan).collect()
}

#[cfg(test)]
mod tests {
    use crate::Scenario;
    use crate::kernel::CoreSet;
    use crate::simulate::Pipeline;

    #[test]
    fn more_threads_or_batches_in_flight_make_no_plan_worse() {
        let mut wide = Scenario::on("efficientnet-b2", "apple-m4").unwrap();
        let usual = wide.explore().unwrap().prediction.latency;
        wide.options.core_sets =
            (1..=4).map_while(|threads| CoreSet::fastest(&wide.device.cpu, threads)).collect();
        assert!(wide.explore().unwrap().prediction.latency <= usual);
        let mut streamed = Scenario::on("mobilenet-v2", "galaxy-s10").unwrap();
        let mut period = |depth| {
            streamed.pipeline = Some(Pipeline::new(depth, 200.0));
            streamed.explore().unwrap().period.unwrap()
        };
        assert!(period(3) <= period(2));
    }

    #[test]
    fn a_stream_is_no_slower_than_the_plan_for_one_batch_in_another_order_of_branches() {
        let mut scenario = Scenario::on("codl-posenet", "galaxy-s10").unwrap();
        let alone = scenario.explore().unwrap();
        assert!(alone.plan.is_reordered());
        for depth in [1, 3] {
            let pipeline = Pipeline::new(depth, 0.0);
            let streamed = scenario.simulator().stream(scenario.stages(), &alone.plan, &pipeline).unwrap();
            scenario.pipeline = Some(pipeline);
            let answer = scenario.explore().unwrap();
            assert!(answer.period.unwrap() <= streamed.period, "{depth}: {:?}", answer.period);
            assert!(answer.bound.unwrap() <= answer.period.unwrap().as_seconds());
        }
    }
}

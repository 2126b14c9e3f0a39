//! Plans of narrower searches, which a wider one may not be worse than.
//!
//! Responsible for: which narrower searches there are. Invariant: with more than two batches in flight, or more than
//! three threads, a search finds no worse plan than with two or three, although it keeps other labels and walks
//! elsewhere.

use super::find_alone;
use crate::explore::{DEFAULT_THREADS, Explorer, SearchOptions};
use crate::kernel::CoreSet;
use crate::plan::Plan;
use crate::simulate::Pipeline;

/// The best plan for two batches in flight where more are, and the best on up to three threads where more may be
/// used, if there are any.
pub(super) fn plans(explorer: &mut Explorer<'_, '_>) -> Vec<Plan> {
    let (stages, options) = (explorer.stages, explorer.options);
    let pipeline = explorer.period_counts();
    let mut found = Vec::new();
    if let Some(pipeline) = pipeline.filter(|pipeline| pipeline.depth > 2) {
        let fewer = Pipeline { depth: 2, ..pipeline.clone() };
        let streamed = Explorer::new(explorer.simulator, stages, options);
        found.push(find_alone(&mut streamed.streaming(Some(&fewer))));
    }
    let is_usual = |cores: &CoreSet| cores.threads() <= DEFAULT_THREADS;
    let core_sets: Vec<CoreSet> = options.core_sets.iter().copied().filter(is_usual).collect();
    if !core_sets.is_empty() && core_sets.len() < options.core_sets.len() {
        let options = SearchOptions { core_sets, ..options.clone() };
        found.push(find_alone(&mut Explorer::new(explorer.simulator, stages, &options).streaming(pipeline)));
    }
    found.into_iter().flatten().map(|found| found.plan).collect()
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
}

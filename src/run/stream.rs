//! Streamed batches: measured period and latency, compared with the prediction.

use std::time::Duration;

use coexec_hw::execute::{Streamed, Streaming, Variant};
use coexec_sim::Scenario;
use coexec_sim::simulate::Pipeline;
use serde::Serialize;

use crate::output::record;

/// How batches are streamed on this machine.
pub(super) fn streaming(pipeline: &Pipeline) -> Streaming {
    Streaming {
        depth: pipeline.depth,
        host_gap: Duration::from_secs_f64(pipeline.host_gap_us.value / 1e6),
        batches: pipeline.measured(),
    }
}

/// The measured stream of `variant`, as a JSON record and as a sentence.
pub(super) fn compared(
    streamed: &Streamed,
    pipeline: &Pipeline,
    scenario: &Scenario,
    variant: &Variant,
) -> (impl Serialize + use<>, String) {
    // Here the program itself dispatches operators to processors, and that time is measured: none is
    // added.
    let own = Pipeline { dispatch_us: None, ..pipeline.clone() };
    let predicted = scenario.simulator().stream(&variant.stages, &variant.plan, &own).ok();
    let predicted_period_us = predicted.map(|stream| stream.period.as_micros());
    let (period_us, batch_latency_us) = (streamed.period_us(), streamed.batch_latency_us());
    let batches_per_second = 1e6 / period_us;
    let error_percent = predicted_period_us.map(|predicted| 100.0 * (predicted / period_us - 1.0));
    let predicted = match (predicted_period_us, error_percent) {
        (Some(period), Some(error)) => format!("predicted: one every {period:.1} us ({error:+.1} %)"),
        _ => "no prediction".to_owned(),
    };
    let depth = pipeline.depth;
    let sentence = format!(
        "\nbatches with {depth} in flight: {batches_per_second:.2} a second, one every {period_us:.1} us, each \
         takes {batch_latency_us:.1} us from the start of the host's work; {predicted}"
    );
    let record = record!(Stream {
        /// Batches in flight at once, at most.
        depth,
        /// The host's work for each batch before its first operator, emulated by waiting.
        host_gap_us: pipeline.host_gap_us.value,
        /// Batches that were timed.
        batches: streamed.periods_us.len(),
        /// From the end of one batch to the end of the next, on average.
        period_us,
        batches_per_second,
        /// From the start of the host's work for a batch to its last result, on average.
        batch_latency_us,
        predicted_period_us,
        /// Error of the predicted period; positive if it is too long.
        error_percent,
        verified_elements: streamed.verified_elements,
    });
    (record, sentence)
}

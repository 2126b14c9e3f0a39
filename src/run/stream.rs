//! Batches that follow each other: what they took beside what is predicted.

use std::time::Duration;

use coexec_hw::execute::{Streamed, Streaming, Variant};
use coexec_sim::Scenario;
use coexec_sim::simulate::Pipeline;
use serde::Serialize;

use crate::output;

/// A stream of batches, measured and predicted.
#[derive(Serialize)]
pub(super) struct Stream {
    /// Batches in flight at once, at most.
    depth: u32,
    /// What the host does for each before its first operator, which time stands for that
    /// passes.
    host_gap_us: f64,
    /// Batches that count.
    batches: usize,
    /// From the end of one batch to the end of the next, on average.
    period_us: f64,
    batches_per_second: f64,
    /// From the start of the host's work for a batch to its last result, on average.
    batch_latency_us: f64,
    predicted_period_us: Option<f64>,
    /// Of the prediction; positive where it is too long.
    error_percent: Option<f64>,
    verified_elements: usize,
}

/// How batches are to follow each other here.
pub(super) fn streaming(pipeline: &Pipeline) -> Streaming {
    Streaming {
        depth: pipeline.depth,
        host_gap: Duration::from_secs_f64(pipeline.host_gap_us.value / 1e6),
        batches: pipeline.measured(),
    }
}

impl Stream {
    /// What became of batches of `variant`.
    pub(super) fn new(
        streamed: &Streamed,
        pipeline: &Pipeline,
        scenario: &Scenario,
        variant: &Variant,
    ) -> Self {
        // A program gives its operators to the processors itself: that is measured.
        let own = Pipeline { dispatch_us: None, ..pipeline.clone() };
        let mut simulator = scenario.simulator();
        let predicted = simulator.stream(&variant.stages, &variant.plan, &own).ok();
        let predicted_period_us = predicted.map(|stream| stream.period.as_micros());
        let period_us = streamed.period_us();
        Self {
            depth: pipeline.depth,
            host_gap_us: pipeline.host_gap_us.value,
            batches: streamed.periods_us.len(),
            period_us,
            batches_per_second: 1e6 / period_us,
            batch_latency_us: streamed.batch_latency_us(),
            predicted_period_us,
            error_percent: predicted_period_us.map(|predicted| 100.0 * (predicted / period_us - 1.0)),
            verified_elements: streamed.verified_elements,
        }
    }

    /// Prints it.
    pub(super) fn show(&self) {
        let predicted = match (self.predicted_period_us, self.error_percent) {
            (Some(period), Some(error)) => format!("predicted: one every {period:.1} us ({error:+.1} %)"),
            _ => "no prediction".to_owned(),
        };
        output::line(&format!(
            "\nbatches with {} in flight: {:.2} a second, one every {:.1} us, each {:.1} us from the host's work on; \
             {predicted}",
            self.depth, self.batches_per_second, self.period_us, self.batch_latency_us
        ));
    }
}

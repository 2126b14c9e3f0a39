//! Pipelining: several inferences (batches) at once in the processors' queues.
//!
//! Responsible for: the engine program of many batches of one plan, with a bounded
//! number of them in flight and the host's work for each; throughput and the latency of
//! a batch. Not for: which operator runs where (a plan), or when anything runs (the
//! engine). Invariant: with one batch in flight and no gap, the period is
//! [`Simulator::latency`].
//!
//! A batch is a pipeline of segments, each a run of tasks on one processor. Queues are
//! filled like those of a software pipeline: at each step every batch in flight advances
//! by one segment, the oldest batch first.

mod written;

use std::ops::Range;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::lower::PricedCommand;
use super::{Lowered, Result, Simulator};
use crate::device::{Checker, Limits, ProcessorKind, Quantity};
use crate::engine::{NoTrace, ProcessorId, TaskId};
use crate::plan::{MAX_PIPELINE_DEPTH, Plan};
use crate::schedule::What;
use crate::units::{Bytes, Picos};
use crate::workload::Stage;
use written::Written;
pub(super) use written::sinks;

/// Minimum number of unmeasured batches before and after the measured ones, while the
/// pipeline fills and drains (Unified Splitting, section III.G). At least as many as are
/// in flight.
const WARM_UP: u32 = 5;

/// Maximum number of measured batches: a program holds the tasks of all of them.
const MAX_BATCHES: u32 = 200;
/// Longest host work for one batch, in microseconds: one minute.
const MAX_GAP_US: f64 = 60e6;

/// The host's thread, on a core of its own in addition to the processors that coexec plans for.
const HOST: ProcessorId = ProcessorId(ProcessorKind::ALL.len() as u8);

/// The host's thread that dispatches operators to the processors.
const DISPATCHER: ProcessorId = ProcessorId(HOST.0 + 1);

/// The host's thread that submits batches to the GPU, and the one that reads their results back.
const SUBMITTER: ProcessorId = ProcessorId(HOST.0 + 2);
const READER: ProcessorId = ProcessorId(HOST.0 + 3);
/// Number of queues: of the processors and of the host's threads.
const QUEUES: usize = READER.0 as usize + 1;

/// Growth of a batch's latency during the measured batches, as a fraction of the period, from which the pipeline is
/// still filling.
const FILLING: f64 = 1e-3;

/// How batches are streamed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Pipeline {
    /// Maximum number of batches in flight; 1 runs them one after the other, each preceded
    /// by the host's work.
    pub depth: u32,
    /// Time of the host's work for each batch before its first operator, on none of the
    /// processors planned for: fetching the input, preparing it, running the program.
    pub host_gap_us: Quantity,
    /// Time that a framework which runs a model operator by operator, one launch per node of
    /// its graph, needs to dispatch one operator. Dispatching runs ahead of the processors
    /// where it can, so only the part that outlasts them is visible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dispatch_us: Option<Quantity>,
    /// Number of batches measured once the pipeline is full. Rounded up to a multiple of `depth`, so that the
    /// first and the last batch end at the same point of a round.
    #[serde(default = "default_batches")]
    pub batches: u32,
}

fn default_batches() -> u32 {
    50
}

impl Pipeline {
    /// A pipeline with `depth` batches in flight and `host_gap_us` microseconds of host work for each.
    pub fn new(depth: u32, host_gap_us: f64) -> Self {
        let host_gap_us = Quantity::plain(host_gap_us);
        Self { depth, host_gap_us, dispatch_us: None, batches: default_batches() }
    }

    /// Number of batches that are measured: `batches`, rounded up to a multiple of `depth`.
    pub fn measured(&self) -> u32 {
        self.batches.next_multiple_of(self.depth.max(1))
    }

    /// The host's time before a batch of `stages`, and its time to dispatch the operators of the batch.
    pub(crate) fn host(&self, stages: &[Stage]) -> [Picos; 2] {
        let launched = stages.iter().filter(|stage| {
            // Views of existing data launch nothing.
            !stage.layer.operator.is_view()
        });
        let count: usize = launched.map(|stage| stage.nodes.len().max(1)).sum();
        let each = self.dispatch_us.as_ref().map_or(0.0, |each| each.value);
        [self.host_gap_us.value, each * count as f64].map(Picos::from_micros)
    }

    pub(crate) fn check(&self, checker: &mut Checker) {
        checker.count("depth", self.depth, MAX_PIPELINE_DEPTH);
        checker.limited("host_gap_us", &self.host_gap_us, Limits::Within([0.0, MAX_GAP_US]));
        if let Some(dispatch) = &self.dispatch_us {
            checker.limited("dispatch_us", dispatch, Limits::Within([0.0, MAX_GAP_US]));
        }
        checker.count("batches", self.batches, MAX_BATCHES);
    }
}

/// Throughput and latency of a stream of batches once the pipeline is full.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Stream {
    /// From the end of one batch to the end of the next, on average.
    #[serde(rename = "period_ps")]
    pub period: Picos,
    /// Throughput, in batches per second.
    pub batches_per_second: f64,
    /// From the start of the host's work for a batch to its last result, on average over batches of a stream that has
    /// no end. A stream fills slowly where the host is hardly faster than the processors.
    #[serde(rename = "batch_latency_ps")]
    pub batch_latency: Picos,
    /// Busy time of the host and of each processor with tasks, in percent of the period.
    pub busy_percent: Vec<(String, f64)>,
}

impl Simulator<'_> {
    /// Streams batches of `stages` under `plan`.
    ///
    /// # Errors
    /// As [`Simulator::run`].
    pub fn stream(&mut self, stages: &[Stage], plan: &Plan, pipeline: &Pipeline) -> Result<Stream> {
        self.stream_lowered(&Lowered::new(stages, plan, self)?, stages, pipeline, &[])
    }

    /// Streams lowered tasks, each stretched in every batch by its entry of `stretch` (1 beyond its end).
    pub(super) fn stream_lowered(
        &mut self,
        lowered: &Lowered,
        stages: &[Stage],
        pipeline: &Pipeline,
        stretch: &[f64],
    ) -> Result<Stream> {
        let warm_up = WARM_UP.max(pipeline.depth);
        let batches = [pipeline.depth, pipeline.measured() + 2 * warm_up];
        let written = Written::new((lowered, stretch), pipeline.host(stages), batches, &mut self.program);
        self.run_program("the stream of batches", &mut NoTrace)?;
        Ok(self.read_stream(lowered, &written, pipeline, warm_up))
    }

    /// Uncontended busy time of each processor in one batch of a stream under `plan`.
    ///
    /// # Errors
    /// As [`Simulator::run`].
    pub(crate) fn busy(&self, stages: &[Stage], plan: &Plan) -> Result<[Picos; ProcessorKind::ALL.len()]> {
        let mut busy = [Picos::ZERO; ProcessorKind::ALL.len()];
        for task in Lowered::new(stages, plan, self)?.tasks {
            if let Some(busy) = busy.get_mut(usize::from(queue(&task).0)) {
                *busy += task.phases.duration();
            }
        }
        Ok(busy)
    }

    /// Uncontended time and traffic of what each processor computes in one run of `plan`.
    ///
    /// # Errors
    /// As [`Simulator::run`].
    pub(crate) fn computing(&self, stages: &[Stage], plan: &Plan) -> Result<[(Picos, Bytes); 3]> {
        let mut sums = [(Picos::ZERO, Bytes::ZERO); ProcessorKind::ALL.len()];
        for task in Lowered::new(stages, plan, self)?.tasks.iter().filter(|task| task.computes()) {
            let (time, bytes) = &mut sums[task.processor() as usize];
            *time += task.phases.duration();
            *bytes += task.phases.bytes();
        }
        Ok(sums)
    }

    fn read_stream(&self, lowered: &Lowered, written: &Written, pipeline: &Pipeline, warm_up: u32) -> Stream {
        let measured = warm_up..warm_up + pipeline.measured();
        let end = |batch: u32| {
            let tasks = &written.tasks[batch as usize];
            let dispatched = written.dispatches[batch as usize];
            let tasks = tasks.iter().copied().chain([dispatched]);
            tasks.map(|task| self.engine.finish(task)).max().unwrap_or_default()
        };
        let busy = self.busy_per_batch(lowered, written, &measured);
        let length = end(measured.end - 1).saturating_sub(end(measured.start - 1));
        // No less than the busiest thread or processor, even where the first and the last measured batch end at
        // different points of a round.
        let period =
            Picos(length.0 / u64::from(pipeline.measured())).max(busy.into_iter().max().unwrap_or_default());
        let latency = |batches: Range<u32>| {
            let count = u64::from(batches.end - batches.start);
            let latencies = batches.map(|batch| end(batch) - self.engine.start(written.gaps[batch as usize]));
            Picos(latencies.map(|latency| latency.0).sum::<u64>() / count)
        };
        let first = latency(measured.start - pipeline.depth..measured.start);
        let last = latency(measured.end - pipeline.depth..measured.end);
        let is_filling = period > busy[usize::from(HOST.0)] && last > first + period.scale(FILLING);
        // A host that is faster than the processors gets ahead of them until as many batches as may be in flight wait.
        let full = Picos(period.0 * u64::from(pipeline.depth));
        let batch_latency = if is_filling { full } else { latency(measured) };
        let mut shown = vec![("host".to_owned(), HOST)];
        let used = ProcessorKind::ALL
            .into_iter()
            .filter(|processor| lowered.tasks.iter().any(|task| queue(task) == processor.id()));
        shown.extend(used.map(|processor| (format!("{processor:?}").to_lowercase(), processor.id())));
        let percent = |on: ProcessorId| 100.0 * busy[usize::from(on.0)].0 as f64 / period.0.max(1) as f64;
        let busy_percent = shown.into_iter().map(|(name, on)| (name, percent(on))).collect();
        Stream { period, batches_per_second: 1.0 / period.as_seconds(), batch_latency, busy_percent }
    }

    /// Mean busy time per batch of each of the host's threads and the processors, over `batches`.
    fn busy_per_batch(&self, lowered: &Lowered, written: &Written, batches: &Range<u32>) -> [Picos; QUEUES] {
        let mut busy = [Picos::ZERO; QUEUES];
        let length = |task: TaskId| self.engine.finish(task) - self.engine.start(task);
        for batch in batches.start as usize..batches.end as usize {
            busy[usize::from(HOST.0)] += length(written.gaps[batch]);
            for (priced, &task) in lowered.tasks.iter().zip(&written.tasks[batch]) {
                busy[usize::from(queue(priced).0)] += length(task);
            }
        }
        busy.map(|busy| Picos(busy.0 / batches.len().max(1) as u64))
    }
}

/// The queue of a task in a stream: of its processor, or of one of the host's threads.
fn queue(task: &PricedCommand) -> ProcessorId {
    match task.what {
        What::Submit => SUBMITTER,
        What::ReadBack => READER,
        What::Compute { .. } | What::HandOver { .. } | What::Join { .. } | What::Move { .. } => {
            task.processor().id()
        }
    }
}

#[cfg(test)]
mod tests;

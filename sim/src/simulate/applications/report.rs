//! Report on the requests of each application.

use serde::Serialize;

use super::Load;
use crate::device::ProcessorKind;
use crate::engine::{Engine, Request};
use crate::simulate::sample::nearest_rank;
use crate::units::Picos;

/// Report on all requests of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Served {
    /// Length of the interval in which requests arrived.
    #[serde(rename = "duration_ps")]
    pub duration: Picos,
    /// End of the last completed request.
    #[serde(rename = "end_ps")]
    pub end: Picos,
    /// Each application, in order.
    pub applications: Vec<ApplicationReport>,
    /// Each processor that computed something.
    pub processors: Vec<Utilisation>,
    /// Every completed request, ordered by end.
    #[serde(skip)]
    pub requests: Vec<Request>,
}

/// Report on the requests of one application.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ApplicationReport {
    /// Name of the application.
    pub name: String,
    /// Number of requests that arrived.
    pub requests: usize,
    /// Number of requests completed; the others were dropped, or blocked past the end of the run.
    pub completed: usize,
    /// Completed requests per second of the run, which lasts [`Served::duration`], or longer if its last
    /// request ends later.
    pub throughput_per_second: f64,
    /// Time from a request's arrival to its end; `None` where none was completed.
    pub latency: Option<Latencies>,
    /// Longest acceptable latency of a request; `None` without a deadline.
    #[serde(rename = "deadline_ps")]
    pub deadline: Option<Picos>,
    /// Requests that missed the deadline or were not completed, in percent of those that arrived; `None`
    /// without a deadline.
    pub deadline_miss_percent: Option<f64>,
    /// Mean latency with the same plan and requests, without the other applications.
    #[serde(rename = "alone_mean_ps")]
    pub alone_mean: Option<Picos>,
    /// Mean latency divided by that.
    pub slowdown: Option<f64>,
}

/// Mean, nearest-rank percentiles and maximum of latencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[allow(missing_docs, reason = "the names of percentiles document them")]
pub struct Latencies {
    #[serde(rename = "mean_ps")]
    pub mean: Picos,
    #[serde(rename = "p50_ps")]
    pub p50: Picos,
    #[serde(rename = "p90_ps")]
    pub p90: Picos,
    #[serde(rename = "p99_ps")]
    pub p99: Picos,
    #[serde(rename = "max_ps")]
    pub max: Picos,
}

/// Utilisation of a processor.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Utilisation {
    /// The processor.
    pub processor: ProcessorKind,
    /// Busy time in percent of the run.
    pub busy_percent: f64,
}

impl Latencies {
    fn of(mut latencies: Vec<Picos>) -> Option<Self> {
        latencies.sort_unstable();
        let max = *latencies.last()?;
        let sum: u128 = latencies.iter().map(|latency| u128::from(latency.0)).sum();
        let [p50, p90, p99] = [50, 90, 99].map(|percent| nearest_rank(&latencies, percent));
        Some(Self { mean: Picos((sum / latencies.len() as u128) as u64), p50, p90, p99, max })
    }
}

impl ApplicationReport {
    fn of(load: &Load<'_>, requests: &[Request], seconds: f64) -> Self {
        let came = load.stream.arrivals.len();
        let latencies: Vec<Picos> = requests.iter().map(|request| request.finish - request.arrival).collect();
        let completed = latencies.len();
        let missed = |deadline| {
            let in_time = latencies.iter().filter(|&&latency| latency <= deadline).count();
            100.0 * (came - in_time) as f64 / came.max(1) as f64
        };
        Self {
            name: load.name.to_owned(),
            requests: came,
            completed,
            throughput_per_second: completed as f64 / seconds,
            deadline: load.deadline,
            deadline_miss_percent: load.deadline.map(missed),
            latency: Latencies::of(latencies),
            alone_mean: None,
            slowdown: None,
        }
    }

    /// Sets the slowdown over the same requests `alone`.
    pub(super) fn compare_with_alone(&mut self, alone: &Self) {
        self.alone_mean = alone.latency.map(|latency| latency.mean);
        let both = self.latency.zip(alone.latency);
        self.slowdown = both.map(|(this, alone)| this.mean.0 as f64 / alone.mean.0.max(1) as f64);
    }
}

/// The requests of `loads`, without those that stand for background traffic.
pub(super) fn requests<'e>(engine: &'e Engine, loads: &[Load<'_>]) -> impl Iterator<Item = &'e Request> {
    let count = loads.len();
    engine.requests().iter().filter(move |request| request.application < count)
}

/// End of the last of these requests.
pub(super) fn end<'e>(requests: impl Iterator<Item = &'e Request>) -> Picos {
    requests.map(|request| request.finish).max().unwrap_or_default()
}

/// The report on a run of `loads` that `engine` has just finished; requests arrived within `duration`.
pub(super) fn served(engine: &Engine, loads: &[Load<'_>], duration: Picos) -> Served {
    let requests: Vec<Request> = requests(engine, loads).copied().collect();
    let end = end(requests.iter());
    let whole = duration.max(end).max(Picos(1));
    let of = |application: usize| -> Vec<Request> {
        requests.iter().filter(|request| request.application == application).copied().collect()
    };
    let applications = loads
        .iter()
        .enumerate()
        .map(|(index, load)| ApplicationReport::of(load, &of(index), whole.as_seconds()))
        .collect();
    let busy = ProcessorKind::ALL.into_iter().map(|processor| {
        let busy_percent = 100.0 * engine.busy(processor.id()).0 as f64 / whole.0 as f64;
        Utilisation { processor, busy_percent }
    });
    let processors = busy.filter(|usage| usage.busy_percent > 0.0).collect();
    Served { duration, end, applications, processors, requests }
}

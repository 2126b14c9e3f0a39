//! From raw repetitions to rows, figures and a verdict.

use coexec_hw::execute::{Clock, Measured, NoiseFloor, Summary};
use coexec_sim::measure::runs::{Dispatch, Measurement, Ran, Repetition};
use coexec_sim::statistics::median;
use coexec_sim::workload::DataType;
use serde::Serialize;

use super::variants::Candidate;

/// A median below so many steps of the clock is rounded by more than a tenth.
const LEAST_CLOCK_STEPS: f64 = 10.0;
/// Share of the runs that may be meaningless before all of it is.
const MOST_MEANINGLESS: f64 = 0.1;

/// How many processors compute a variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Kind {
    /// One.
    Alone,
    /// Two, each a part of one operator.
    Cut,
    /// A plan of several operators.
    Plan,
}

/// A variant as it was measured, beside its prediction.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    /// Id in the file of runs.
    pub(super) run: String,
    /// The operator, or the workload.
    pub(super) what: String,
    /// Where it ran.
    pub(super) processor: String,
    pub(super) kind: Kind,
    /// Whether the host's clock says what is measured, rather than events.
    pub(super) is_by_host: bool,
    /// Whether it is the plan of the scenario.
    pub(super) is_plan: bool,
    /// Mechanism that was used, and memory.
    pub(super) synchronisation: Option<String>,
    pub(super) memory: Option<&'static str>,
    pub(super) median_us: f64,
    /// The same by the host's clock, from its call until it knows of the end.
    pub(super) wall_us: f64,
    /// From the first kernel's start to the last one's end, where events tell.
    pub(super) kernels_us: Option<f64>,
    pub(super) ci95_us: [f64; 2],
    pub(super) spread_percent: f64,
    pub(super) repetitions: usize,
    pub(super) outliers: usize,
    pub(super) warm_up_runs: usize,
    pub(super) is_warm: bool,
    pub(super) verified_elements: usize,
    pub(super) predicted_us: Option<f64>,
    /// What the prediction is off by, in percent of the measured time.
    pub(super) error_percent: Option<f64>,
    /// Why the times say nothing, if so.
    pub(super) meaningless: Option<String>,
}

/// A variant's row and its measurement for the file.
pub(super) struct Result {
    pub(super) row: Row,
    pub(super) measurement: Measurement,
}

/// What a measurement has in common with all others of the command.
pub(super) struct Common<'a> {
    pub(super) network: &'a str,
    pub(super) fingerprint: &'a str,
    pub(super) noise: NoiseFloor,
    pub(super) max_spread: f64,
    pub(super) seed: u64,
}

impl Result {
    /// The result of run number `number`.
    pub(super) fn new(
        number: usize,
        candidate: &Candidate,
        measured: &Measured,
        common: &Common<'_>,
    ) -> Self {
        let summary = Summary::of(&measured.times_us, common.seed.wrapping_add(number as u64));
        let meaningless = meaningless(&summary, common);
        let what = candidate.operator.as_ref().map_or(common.network, |(name, _)| name).to_owned();
        let is_by_host = candidate.variant.clock == Clock::Host;
        let way = if is_by_host && candidate.ran == Ran::Gpu { ", host to host" } else { "" };
        let run = format!("{number:04} {what} on {}{way}", candidate.ran);
        let repetitions = measured.times_us.iter().zip(&summary.outliers).enumerate().map(
            |(number, (&measured_us, &outlier))| Repetition {
                number: number as u32,
                measured_us,
                // Times that say nothing are kept, and in no median.
                outlier: outlier || meaningless.is_some(),
            },
        );
        let launch = measured
            .launch
            .filter(|_| matches!(candidate.ran, Ran::Gpu | Ran::Split { .. } | Ran::HeightSplit { .. }));
        let measurement = Measurement {
            run: run.clone(),
            network: common.network.to_owned(),
            operator: candidate.operator.clone(),
            data_type: candidate
                .variant
                .stages
                .first()
                .map_or(DataType::default(), |stage| stage.layer.data_type),
            processor: candidate.ran.clone(),
            synchronisation: measured.sharing.map(|(mechanism, _)| mechanism.modelled()),
            kernel: launch.map(|(launch, _)| launch.kernel.to_string()),
            dispatch: launch
                .map(|(launch, dispatch)| Dispatch { grid: launch.grid, work_group: dispatch.work_group }),
            fingerprint: Some(common.fingerprint.to_owned()),
            repetitions: repetitions.collect(),
            line: 0,
        };
        let row = Row {
            run,
            what,
            processor: candidate.ran.to_string(),
            kind: match candidate.ran {
                Ran::Cpu(_) | Ran::Gpu | Ran::Npu => Kind::Alone,
                Ran::Split { .. } | Ran::HeightSplit { .. } => Kind::Cut,
                Ran::Plan(_) => Kind::Plan,
            },
            is_by_host,
            is_plan: candidate.is_plan,
            synchronisation: measured.sharing.map(|(mechanism, _)| mechanism.to_string()),
            memory: measured.sharing.map(|(_, memory)| memory.name()),
            median_us: summary.median_us,
            wall_us: Summary::of(&measured.wall_us, common.seed).median_us,
            kernels_us: median(&measured.kernels_us),
            ci95_us: summary.ci95_us,
            spread_percent: summary.spread_percent(),
            repetitions: measured.times_us.len(),
            outliers: summary.outliers.iter().filter(|outlier| **outlier).count(),
            warm_up_runs: measured.warm_up,
            is_warm: measured.is_warm,
            verified_elements: measured.verified_elements,
            predicted_us: candidate.predicted_us,
            error_percent: candidate
                .predicted_us
                .map(|predicted| 100.0 * (predicted / summary.median_us - 1.0)),
            meaningless,
        };
        Self { row, measurement }
    }
}

impl Row {
    /// Where it ran, and how a GPU alone was timed.
    pub(super) fn processor_and_clock(&self) -> String {
        let way = if self.is_by_host { ", host to host" } else { "" };
        if self.processor == Ran::Gpu.to_string() {
            format!("{}{way}", self.processor)
        } else {
            self.processor.clone()
        }
    }
}

/// Why times say nothing, if so.
fn meaningless(summary: &Summary, common: &Common<'_>) -> Option<String> {
    let spread = summary.spread_percent();
    let least_us = LEAST_CLOCK_STEPS * common.noise.clock_ns / 1e3;
    if spread.is_nan() || spread > common.max_spread {
        Some(format!(
            "its median is known to +-{spread:.1} % only, expected at most {} % (--max-spread)",
            common.max_spread
        ))
    } else if summary.median_us < least_us {
        Some(format!("it takes less than {least_us:.2} us, which the clock cannot tell apart"))
    } else {
        None
    }
}

/// Why all of it says nothing, if so: the plan does, or too many others.
pub(super) fn verdict(rows: &[Row]) -> Option<String> {
    let unsound: Vec<&Row> = rows.iter().filter(|row| row.meaningless.is_some()).collect();
    let plan = unsound.iter().find(|row| row.is_plan);
    let worst = plan.or_else(|| {
        let many = unsound.len() as f64 > MOST_MEANINGLESS * rows.len() as f64;
        unsound.first().filter(|_| many)
    })?;
    let reason = worst.meaningless.as_deref().unwrap_or_default();
    Some(format!("{} of {} runs say nothing; of {}, {reason}", unsound.len(), rows.len(), worst.run))
}

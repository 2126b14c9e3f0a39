//! Turns raw repetitions into rows and a verdict on their soundness.

use coexec_fit::measure::runs::{ExecutedOn, Measurement, Repetition};
use coexec_hw::execute::{Clock, MeasuredVariant, NoiseFloor, Summary};
use coexec_sim::DataType;
use serde::Serialize;

use super::Candidate;

/// Least median in clock steps; rounding shifts a shorter one by more than a tenth.
const MIN_CLOCK_STEPS: f64 = 10.0;
/// Largest share of meaningless runs that leaves the others usable.
const MAX_MEANINGLESS_SHARE: f64 = 0.1;

/// Suffix of a GPU-only run that was timed by the host's clock.
const HOST_TO_HOST: &str = ", host to host";

/// A measured variant, with its prediction.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    /// Id in the file of runs.
    pub(super) run: String,
    /// The operator, or the workload.
    pub(super) what: String,
    /// Where the variant ran.
    pub(super) processor: String,
    /// Whether times are from the host's clock rather than from device events.
    pub(super) is_by_host: bool,
    /// Whether this is the scenario's plan.
    pub(super) is_plan: bool,
    /// Synchronisation mechanism used, if host and device both took part.
    pub(super) synchronisation: Option<String>,
    /// Memory that held the shared data, if both took part.
    pub(super) memory: Option<&'static str>,
    pub(super) median_us: f64,
    /// Median by the host's clock, from the call until the host sees its end.
    pub(super) wall_us: f64,
    /// None of too few repetitions, which no spread makes meaningless.
    pub(super) ci95_us: Option<[f64; 2]>,
    pub(super) spread_percent: Option<f64>,
    pub(super) repetitions: usize,
    /// Number of repetitions that are in no median: all, if the times are meaningless.
    pub(super) outliers: usize,
    pub(super) warm_up_runs: usize,
    pub(super) is_warm: bool,
    pub(super) verified_elements: usize,
    pub(super) predicted_us: Option<f64>,
    /// Error of the prediction, in percent of the measured time.
    pub(super) error_percent: Option<f64>,
    /// Why the times are meaningless, if they are.
    pub(super) meaningless: Option<String>,
}

/// The context that all measurements of the command share.
pub(super) struct Common<'a> {
    pub(super) network: &'a str,
    pub(super) fingerprint: &'a str,
    pub(super) noise: NoiseFloor,
    pub(super) max_spread: f64,
}

impl Row {
    /// The row of run `number`, and its measurement for the file of runs.
    pub(super) fn of(
        number: usize,
        candidate: &Candidate,
        measured: &MeasuredVariant,
        common: &Common<'_>,
    ) -> (Self, Measurement) {
        let summary = Summary::of(&measured.times_us);
        let meaningless = meaningless(&summary, common);
        let what = candidate.operator_or(common.network);
        let is_by_host = candidate.variant.clock == Clock::Host;
        let way = if is_by_host && candidate.ran == ExecutedOn::Gpu { HOST_TO_HOST } else { "" };
        let run = format!("{number:04} {what} on {}{way}", candidate.ran);
        let repetitions = measured.times_us.iter().zip(&summary.outliers).enumerate().map(
            |(number, (&measured_us, &outlier))| Repetition {
                number: number as u32,
                measured_us,
                // Meaningless times are written, but marked so that no median includes them.
                outlier: outlier || meaningless.is_some(),
            },
        );
        let first = candidate.variant.stages.first();
        let data_type = first.map_or(DataType::default(), |stage| stage.layer.data_type);
        let blank = Measurement::new(run.clone(), common.network, data_type, candidate.ran.clone());
        let has_launch = matches!(candidate.ran, ExecutedOn::Gpu | ExecutedOn::Split { .. });
        let measurement = Measurement {
            operator: candidate.operator.clone(),
            synchronisation: measured.sharing.map(|(mechanism, _)| mechanism.modelled()),
            fingerprint: Some(common.fingerprint.to_owned()),
            repetitions: repetitions.collect(),
            ..blank.launched(measured.launch.filter(|_| has_launch))
        };
        let row = Self {
            run,
            what,
            processor: candidate.ran.to_string(),
            is_by_host,
            is_plan: candidate.is_plan,
            synchronisation: measured.sharing.map(|(mechanism, _)| mechanism.to_string()),
            memory: measured.sharing.map(|(_, memory)| memory.name()),
            median_us: summary.median_us,
            wall_us: Summary::of(&measured.wall_us).median_us,
            ci95_us: summary.ci95_us,
            spread_percent: summary.spread_percent(),
            repetitions: measured.times_us.len(),
            outliers: measurement.repetitions.iter().filter(|repetition| repetition.outlier).count(),
            warm_up_runs: measured.warm_up,
            is_warm: measured.is_warm,
            verified_elements: measured.verified_elements,
            predicted_us: candidate.predicted_us,
            error_percent: candidate
                .predicted_us
                .map(|predicted| 100.0 * (predicted / summary.median_us - 1.0)),
            meaningless,
        };
        (row, measurement)
    }

    /// Where the variant ran, and for the GPU alone whether the host's clock timed it.
    pub(super) fn processor_and_clock(&self) -> String {
        let is_copied = self.is_by_host && self.processor == ExecutedOn::Gpu.to_string();
        format!("{}{}", self.processor, if is_copied { HOST_TO_HOST } else { "" })
    }
}

/// Why times are meaningless, if they are: their median is too uncertain or too short for the clock.
fn meaningless(summary: &Summary, common: &Common<'_>) -> Option<String> {
    let least_us = MIN_CLOCK_STEPS * common.noise.clock_ns / 1e3;
    let is_wide = |spread: &f64| spread.is_nan() || *spread > common.max_spread;
    if let Some(spread) = summary.spread_percent().filter(is_wide) {
        Some(format!(
            "its median is only known to +-{spread:.1} %, expected at most {} % (--max-spread)",
            common.max_spread
        ))
    } else if summary.median_us < least_us {
        Some(format!("it takes less than {least_us:.2} us, too short for the clock's resolution"))
    } else {
        None
    }
}

/// Why the whole measurement is unsound, if it is: the plan's times are meaningless, or too many
/// others.
pub(super) fn verdict(rows: &[Row]) -> Option<String> {
    let unsound: Vec<&Row> = rows.iter().filter(|row| row.meaningless.is_some()).collect();
    let plan = unsound.iter().find(|row| row.is_plan);
    let worst = plan.or_else(|| {
        let many = unsound.len() as f64 > MAX_MEANINGLESS_SHARE * rows.len() as f64;
        unsound.first().filter(|_| many)
    })?;
    let reason = worst.meaningless.as_deref().unwrap_or_default();
    Some(format!("{} of {} runs are meaningless; {}: {reason}", unsound.len(), rows.len(), worst.run))
}

//! Predicted against measured: the error figures.
//!
//! Responsible for: the figures, their groups, and what to compare them with: baselines that are
//! linear in FLOPs or a roofline, and the noise of the measurement. Not for: fitting the profile, or
//! reading runs. Invariant: a run without a prediction is reported, never skipped silently.

pub mod choice;
pub mod cpu;
pub mod cut;
pub mod flops_linear;
pub mod gpu;
pub mod host;
pub mod host_timed;
pub mod inference;
pub mod interval;
pub mod language;
pub mod plans;
pub mod point;
pub mod roofline;
pub mod score;

use std::collections::HashSet;

use crate::measure::{ByProcessor, Run, SkippedRow, usable};
pub use coexec_sim::device::calibration::{ErrorGroup, Group};
use coexec_sim::statistics::quantile;
use coexec_sim::{Library, Profile};
use point::Point;

/// Largest relative error of a prediction that counts as close.
pub const CLOSE_ERROR: f64 = 0.10;
/// The 95th percentile, as a fraction.
const HIGH_PERCENTILE: f64 = 0.95;

/// A profile's predictions of runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Validation {
    /// Each prediction with its measurement, in the order of the runs.
    pub points: Vec<Point>,
    /// Runs that the profile cannot predict.
    pub left_out: Vec<SkippedRow>,
}

impl Validation {
    /// The validation on `runs`, each predicted by `point`.
    fn of<W, E: ToString>(runs: &[Run<W>], point: impl FnMut(&Run<W>) -> Result<Point, E>) -> Self {
        Self::found(runs, runs.iter().map(point).collect())
    }

    /// The validation on `runs`, given their predictions.
    fn found<W, E: ToString>(runs: &[Run<W>], found: Vec<Result<Point, E>>) -> Self {
        let (points, left_out) = usable(runs.iter().map(|run| run.line).zip(found));
        Self { points, left_out }
    }

    fn extend(&mut self, other: Self) {
        self.points.extend(other.points);
        self.left_out.extend(other.left_out);
    }
}

/// Compares predictions of `profile` with `runs`. `seen` are the runs that it was fitted to, to which
/// the baselines are fitted too; `library` ran on the CPU.
pub fn validate(
    profile: &Profile,
    runs: &ByProcessor,
    seen: Option<&ByProcessor>,
    library: Library,
) -> Validation {
    let calibration = profile.calibration.as_ref();
    let mut validation = Validation::default();
    if let Some(gpu) = &profile.gpu {
        let layers = seen.map(|seen| seen.gpu.as_slice());
        validation.extend(gpu::validate(gpu, calibration, &runs.gpu, layers));
        let networks = seen.map(|seen| seen.gpu_networks.as_slice());
        validation.extend(host::validate(gpu, calibration, &runs.gpu_networks, networks));
    }
    let networks = seen.map(|seen| seen.cpu.as_slice());
    validation.extend(cpu::validate(&profile.cpu, calibration, &runs.cpu, networks, library));
    validation.extend(host_timed::validate(profile, &runs.host_timed, library));
    validation.extend(plans::validate(profile, &runs.planned, library));
    validation.extend(inference::validate(profile, &runs.inferences, library));
    validation.extend(language::validate(profile, &runs.answers, library));
    validation
}

/// Whether a run's network is not among the runs that the fit has `seen`; false where these are
/// unknown.
fn is_unseen<W>(seen: Option<&[Run<W>]>) -> impl Fn(&Run<W>) -> bool {
    let names: Option<HashSet<&str>> = seen.map(|seen| seen.iter().map(|run| run.network.as_str()).collect());
    move |run| names.as_ref().is_some_and(|names| !names.contains(run.network.as_str()))
}

/// The error figures of pairs of predicted and measured times in the same unit; NaN for no pairs.
pub fn figures(name: impl Into<ErrorGroup>, pairs: &[(f64, f64)]) -> Group {
    let errors = || pairs.iter().map(|&(predicted, measured)| predicted / measured - 1.0);
    let mut absolute: Vec<f64> = errors().map(f64::abs).collect();
    absolute.sort_by(f64::total_cmp);
    let count = pairs.len() as f64;
    let close = absolute.iter().filter(|&&error| error <= CLOSE_ERROR).count() as f64;
    Group {
        name: name.into(),
        n: pairs.len(),
        mape_percent: 100.0 * absolute.iter().sum::<f64>() / count,
        median_ape_percent: 100.0 * quantile(&absolute, 0.5),
        within_10_percent: 100.0 * close / count,
        p95_ape_percent: 100.0 * quantile(&absolute, HIGH_PERCENTILE),
        bias_percent: 100.0 * errors().sum::<f64>() / count,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_relative_to_the_measured_time() {
        let group = figures("gpu/conv2d/all", &[(110.0, 100.0), (100.0, 200.0), (30.0, 30.0), (39.0, 30.0)]);
        assert_eq!(group.n, 4);
        assert!((group.mape_percent - 22.5).abs() < 1e-9, "{group:?}");
        assert!((group.median_ape_percent - 20.0).abs() < 1e-9, "{group:?}");
        assert!((group.bias_percent - -2.5).abs() < 1e-9, "{group:?}");
        assert!((group.p95_ape_percent - 47.0).abs() < 1e-9, "{group:?}");
    }

    #[test]
    fn a_group_of_one_has_its_error_in_every_figure() {
        let group = figures("one", &[(1.05, 1.0)]);
        for figure in
            [group.mape_percent, group.median_ape_percent, group.p95_ape_percent, group.bias_percent]
        {
            assert!((figure - 5.0).abs() < 1e-9, "{group:?}");
        }
        assert!((group.within_10_percent - 100.0).abs() < f64::EPSILON);
    }

    #[test]
    fn an_empty_group_claims_no_accuracy() {
        let group = figures("none", &[]);
        assert_eq!(group.n, 0);
        assert!(
            group.mape_percent.is_nan() && group.within_10_percent.is_nan() && group.p95_ape_percent.is_nan()
        );
    }
}

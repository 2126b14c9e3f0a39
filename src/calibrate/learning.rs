//! The learning curve of a calibration: what fits to few runs are worth.

use coexec_sim::calibrate::learning::{LearningPoint, Options, Series, learning_curve};
use coexec_sim::device::profile::Profile;
use coexec_sim::measure::GpuRun;

use super::prior::Chosen;
use crate::failure::Failure;
use crate::progress::Progress;

/// The curve of fits from the prior that was chosen, beside those from the
/// hardware's where that is another, and, where `residual` says so, with the residual.
pub(super) fn curve(
    profile: &Profile,
    runs: &[GpuRun],
    prior: &Chosen,
    residual: bool,
    seed: u64,
    progress: &Progress,
) -> Result<Vec<LearningPoint>, Failure> {
    let Some(gpu) = &profile.gpu else {
        return Err(Failure::Usage {
            problem: format!("the profile {} has no [gpu] table, which a learning curve is of", profile.name),
            help: "leave out --learning-curve".to_owned(),
        });
    };
    let mut centres = vec![(prior.label(), prior.centre(gpu, &profile.memory, runs)?)];
    if prior.name != HARDWARE
        && let Ok(centre) = Chosen::of(HARDWARE)?.centre(gpu, &profile.memory, runs)
    {
        centres.push((HARDWARE, centre));
    }
    let mut series: Vec<Series<'_>> = centres
        .iter()
        .map(|(prior, centre)| Series::physics(format!("physics, prior {prior}"), centre))
        .collect();
    if let (true, Some((prior, centre))) = (residual, centres.first()) {
        series.push(Series::with_residual(format!("with residual, prior {prior}"), centre));
    }
    let points = learning_curve(runs, &series, &Options { seed, ..Options::default() }, &|done, of| {
        progress.tell(&format!("learning curve: {done} of {of} fits"));
    });
    if points.is_empty() {
        return Err(Failure::Usage {
            problem: format!(
                "a learning curve keeps {} networks out, and the runs are of no more",
                Options::default().held_out
            ),
            help: "leave out --learning-curve, or give runs of more networks".to_owned(),
        });
    }
    Ok(points)
}

/// The prior of the hardware's constants, as typed.
const HARDWARE: &str = "hardware";

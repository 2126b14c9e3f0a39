//! The learning curve of a calibration: what fits to few runs are worth.

use coexec_sim::calibrate::learning::{LearningPoint, Options, Series, learning_curve};
use coexec_sim::device::profile::Profile;
use coexec_sim::measure::GpuRun;

use super::prior::Chosen;
use crate::failure::Failure;
use crate::progress::Progress;

/// The curve of fits from the prior that was chosen, beside those from the
/// hardware's where that is another.
pub(super) fn curve(
    profile: &Profile,
    runs: &[GpuRun],
    prior: &Chosen,
    seed: u64,
    progress: &Progress,
) -> Result<Vec<LearningPoint>, Failure> {
    let Some(gpu) = &profile.gpu else {
        return Err(Failure::Usage {
            problem: format!("the profile {} has no [gpu] table, which a learning curve is of", profile.name),
            help: "leave out --learning-curve".to_owned(),
        });
    };
    let mut centres = vec![(name(&prior.name), prior.centre(gpu, &profile.memory, runs)?)];
    if prior.name != HARDWARE
        && let Ok(centre) = Chosen::of(HARDWARE)?.centre(gpu, &profile.memory, runs)
    {
        centres.push((name(HARDWARE), centre));
    }
    let series: Vec<Series<'_>> =
        centres.iter().map(|(name, centre)| Series::physics(name.clone(), centre)).collect();
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

/// The name of a series.
fn name(prior: &str) -> String {
    format!("physics, prior {prior}")
}

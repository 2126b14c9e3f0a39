//! The learning curve of a calibration: held-out error against the number of runs fitted.

use coexec_fit::calibrate::learning::{LearningPoint, Options, Series, learning_curve};
use coexec_fit::measure::GpuRun;
use coexec_sim::Profile;

use super::prior::HARDWARE;
use crate::{Calibrate, Chosen, Failure, Progress, Result};

/// The curves of fits from the chosen prior and, for comparison, from the hardware prior; without the
/// residual and, unless `options` exclude it, with it for the chosen prior.
pub(super) fn curve(
    profile: &Profile,
    runs: &[GpuRun],
    prior: &Chosen,
    options: &Calibrate,
    progress: &Progress,
) -> Result<Vec<LearningPoint>> {
    let Some(gpu) = &profile.gpu else {
        return Err(Failure::usage(
            format!("a learning curve needs a GPU, and the profile {} has no [gpu] table", profile.name),
            "leave out --learning-curve",
        ));
    };
    let mut centres = vec![(prior.label(), prior.centre(gpu, &profile.memory, runs)?)];
    if prior.name != HARDWARE
        && let Ok(centre) = Chosen::of(HARDWARE)?.centre(gpu, &profile.memory, runs)
    {
        centres.push((HARDWARE, centre));
    }
    let with =
        centres.iter().take(usize::from(!options.no_residual)).map(|centre| ("with residual", true, centre));
    let series = centres.iter().map(|centre| ("physics", false, centre)).chain(with);
    let series = series.map(|(what, residual, (prior, centre))| Series {
        name: format!("{what}, prior {prior}"),
        centre,
        residual,
        choose: None,
    });
    let series: Vec<Series<'_>> = series.collect();
    let points =
        learning_curve(runs, &series, &Options { seed: options.seed, ..Options::default() }, &|done, of| {
            progress.report(&format!("learning curve: {done} of {of} fits"));
        });
    if points.is_empty() {
        return Err(Failure::usage(
            format!(
                "a learning curve holds out {} networks, and the runs have no more than these",
                Options::default().held_out
            ),
            "leave out --learning-curve, or give runs of more networks",
        ));
    }
    Ok(points)
}

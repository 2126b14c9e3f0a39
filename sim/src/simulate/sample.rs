//! Monte-Carlo jitter: the spread of the latency over repeated runs.
//!
//! Each compute task's time is multiplied by a log-normal factor of median 1 with the
//! spread stated in the profile. Every draw comes from a stream keyed by seed, sample
//! and task. Neither more samples nor another processor shifts the other draws, and
//! any number of threads gives the same result.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};
use rayon::prelude::*;
use serde::Serialize;

use super::{Lowered, Pipeline, PricedCommand, Result, Simulator};
use crate::device::{Jitter, ProcessorKind};
use crate::engine::NoTrace;
use crate::plan::Plan;
use crate::units::Picos;
use crate::workload::Stage;

/// Mean absolute deviation of the standard normal distribution, sqrt(2/pi). Profiles
/// state jitter as a mean absolute deviation.
pub(super) const MEAN_ABSOLUTE_DEVIATION: f64 = 0.797_884_560_802_865_4;

/// Two-sided 95 % quantile of the standard normal distribution.
const NORMAL_95: f64 = 1.959_963_984_540_054;

/// Bits of a stream's key that hold the task: with more tasks per sample, streams would collide.
const TASK_BITS: u32 = 24;

/// Latencies of repeated runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Samples {
    /// Seed of the streams.
    pub seed: u64,
    /// Number of samples.
    pub count: usize,
    /// Mean latency.
    #[serde(rename = "mean_ps")]
    pub mean: Picos,
    /// 95 % confidence interval of the mean (normal approximation).
    #[serde(rename = "mean_ci95_ps")]
    pub mean_ci95: [Picos; 2],
    /// Standard deviation.
    #[serde(rename = "standard_deviation_ps")]
    pub standard_deviation: Picos,
    /// 5, 25, 50, 75, 95 and 99 % percentiles (nearest rank).
    #[serde(rename = "percentiles_ps")]
    pub percentiles: [(u8, Picos); 6],
}

/// Runs `plan` `count` times with jitter, on the device and under the measure of
/// `simulator`.
///
/// # Errors
/// As [`Simulator::run`].
pub fn sample(
    simulator: &Simulator<'_>,
    stages: &[Stage],
    plan: &Plan,
    count: usize,
    seed: u64,
) -> Result<Samples> {
    let jitter = &simulator.device.jitter;
    let samples = (0..count.max(1) as u64).collect();
    let mut latencies = stretched(simulator, (stages, plan, None), samples, |sample, index, task| {
        stretch(jitter, task, seed, (sample << TASK_BITS) | index as u64)
    })?;
    latencies.sort_unstable();
    Ok(summarise(&latencies, seed))
}

/// Latencies of a plan, one per run, or periods where a pipeline streams it. The time of each command is
/// multiplied by `factor(run, index, command)`.
///
/// # Errors
/// As [`Simulator::run`].
pub(super) fn stretched<Run: Copy + Send>(
    simulator: &Simulator<'_>,
    (stages, plan, pipeline): (&[Stage], &Plan, Option<&Pipeline>),
    runs: Vec<Run>,
    factor: impl Fn(Run, usize, &PricedCommand) -> f64 + Sync,
) -> Result<Vec<Picos>> {
    let lowered = Lowered::new(stages, plan, simulator)?;
    // The lowered tasks include the host path, so a plain simulator runs them.
    let engine = || Simulator::new(simulator.device, simulator.library);
    let latency = |engine: &mut Simulator<'_>, run: Run| {
        let tasks = lowered.tasks.iter().enumerate();
        let stretch: Vec<f64> = tasks.map(|(index, task)| factor(run, index, task)).collect();
        match pipeline {
            Some(pipeline) => Ok(engine.stream_lowered(&lowered, stages, pipeline, &stretch)?.period),
            None => engine.execute(&lowered, &stretch, &mut NoTrace),
        }
    };
    runs.into_par_iter().map_init(engine, latency).collect()
}

/// The factor on a time, e^(percent / 100 / [`MEAN_ABSOLUTE_DEVIATION`]). Where `percent` is a spread times a
/// standard normal draw, the mean absolute deviation of the factor's logarithm is that spread.
pub(super) fn factor(percent: f64) -> f64 {
    (percent / 100.0 / MEAN_ABSOLUTE_DEVIATION).exp()
}

/// A draw of the standard normal distribution.
pub(super) fn normal(seed: u64, stream: u64) -> f64 {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    random.set_stream(stream);
    StandardNormal.sample(&mut random)
}

fn stretch(jitter: &Jitter, task: &PricedCommand, seed: u64, stream: u64) -> f64 {
    if !task.computes() {
        return 1.0;
    }
    let percent = match task.processor() {
        ProcessorKind::Cpu => jitter.cpu_percent.value,
        ProcessorKind::Gpu => jitter.gpu_percent.value,
        ProcessorKind::Npu => jitter.npu_percent.as_ref().map_or(0.0, |percent| percent.value),
    };
    factor(normal(seed, stream) * percent)
}

/// The nearest-rank percentile of sorted times, of which there is at least one.
pub(super) fn nearest_rank(sorted: &[Picos], percent: u8) -> Picos {
    let rank = (f64::from(percent) / 100.0 * sorted.len() as f64).ceil() as usize;
    sorted[rank.clamp(1, sorted.len()) - 1]
}

/// Summary of sorted latencies, of which there is at least one.
fn summarise(latencies: &[Picos], seed: u64) -> Samples {
    let count = latencies.len();
    let n = count as f64;
    let mean = latencies.iter().map(|latency| latency.0 as f64).sum::<f64>() / n;
    let squares = latencies.iter().map(|latency| (latency.0 as f64 - mean).powi(2)).sum::<f64>();
    let deviation = if count > 1 { (squares / (n - 1.0)).sqrt() } else { 0.0 };
    let half_width = NORMAL_95 * deviation / n.sqrt();
    let percentile = |percent: u8| (percent, nearest_rank(latencies, percent));
    Samples {
        seed,
        count,
        mean: Picos(mean.round() as u64),
        mean_ci95: [Picos((mean - half_width).round() as u64), Picos((mean + half_width).round() as u64)],
        standard_deviation: Picos(deviation.round() as u64),
        percentiles: [5, 25, 50, 75, 95, 99].map(percentile),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::profile::Profile;
    use crate::device::quantity::Quantity;
    use crate::kernel::cpu::Library;
    use crate::plan::Placement;
    use crate::plan::synchronisation::Mechanism;
    use crate::workload::{fuse, network};

    #[test]
    fn without_jitter_every_run_takes_the_latency() {
        let mut profile = Profile::load("pixel4").unwrap();
        profile.jitter.cpu_percent = Quantity::plain(0.0);
        profile.jitter.gpu_percent = Quantity::plain(0.0);
        let stages = fuse(&network("vgg16").unwrap());
        let plan = Plan::new(Mechanism::SvmPolling, vec![Placement::GPU; stages.len()]);
        let mut simulator = Simulator::new(&profile, Library::Xnnpack);
        let prediction = simulator.run(&stages, &plan).unwrap();
        let samples = sample(&simulator, &stages, &plan, 3, 7).unwrap();
        assert!(samples.percentiles.iter().all(|&(_, time)| time == prediction.latency), "{samples:?}");
    }

    #[test]
    fn percentiles_are_nearest_ranks() {
        let latencies: Vec<Picos> = (1..=100).map(Picos).collect();
        let samples = summarise(&latencies, 7);
        assert_eq!(samples.percentiles[0], (5, Picos(5)));
        assert_eq!(samples.percentiles[2], (50, Picos(50)));
        assert_eq!(samples.percentiles[5], (99, Picos(99)));
        assert_eq!(samples.mean, Picos(51), "50.5 rounds up");
    }

    #[test]
    fn one_sample_has_no_spread() {
        let samples = summarise(&[Picos(42)], 0);
        assert_eq!(samples.standard_deviation, Picos::ZERO);
        assert_eq!(samples.mean_ci95, [Picos(42), Picos(42)]);
    }
}

//! Validation of a GPU's layers, per family of operations.

mod predictor;

use std::collections::{HashMap, HashSet};

use super::Validation;
use super::interval::around;
use super::point::Point;
use crate::measure::{GpuRun, grouped};
use coexec_sim::kernel::gpu::execute;
use coexec_sim::statistics::median;
use coexec_sim::{Calibration, Gpu, Layer, Operator, Unsupported};

pub(crate) use predictor::Predictor;

/// Time of `layer` alone on `gpu`, in microseconds.
///
/// # Errors
/// The profile lacks the kernel's parameters.
pub fn predict(layer: &Layer, gpu: &Gpu) -> Result<f64, Unsupported> {
    Ok(execute(layer, gpu)?.phases.duration().as_micros())
}

/// Compares predictions of `gpu` with `runs`. A run is unseen where its operator
/// (operation and shape) does not occur in `seen`, the runs that the profile was
/// fitted to. The intervals come from `calibration`, that of the profile.
pub fn validate(
    gpu: &Gpu,
    calibration: Option<&Calibration>,
    runs: &[GpuRun],
    seen: Option<&[GpuRun]>,
) -> Validation {
    let spreads = calibration.map_or(&[][..], |calibration| &calibration.gpu_table);
    let mut predictor = Predictor::new(gpu, spreads, seen.unwrap_or_default());
    let seen_operators: HashSet<&Operator> =
        seen.unwrap_or_default().iter().map(|run| &run.what.operator).collect();
    let deviation = deviations(runs.iter());
    Validation::of(runs, |run| {
        let (point, uncertainty) = predictor.point(run)?;
        let unseen = seen.is_some() && !seen_operators.contains(&run.what.operator);
        let point = Point { unseen, deviation_us: deviation(run), ..point };
        Ok::<_, Unsupported>(point.within(|predicted| around(predicted, &uncertainty, spreads)))
    })
}

/// Distance of a run from the median of its layer in `runs`, in microseconds; none where the
/// layer was measured once.
pub(crate) fn deviations<'a>(
    runs: impl Iterator<Item = &'a GpuRun>,
) -> impl Fn(&GpuRun) -> Option<f64> + Sync {
    let by_layer = grouped(runs.map(|run| (&run.what, run.measured_us)));
    let repeated = by_layer.into_iter().filter(|(_, times)| times.len() > 1);
    let medians: HashMap<&Layer, f64> =
        repeated.filter_map(|(layer, times)| Some((layer, median(&times)?))).collect();
    move |run| medians.get(&run.what).map(|median| (run.measured_us - median).abs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validate::score::{Scored, score};
    use coexec_sim::workload::{DataType, Linear};

    /// A run of a linear layer whose time is `3 us + 0.5 ns` a multiply-add.
    fn run(output_features: u32, noise: f64) -> GpuRun {
        let linear = Linear { rows: 1, input_features: 1000, output_features, bias: true };
        GpuRun {
            network: "net".to_owned(),
            what: Layer::new(Operator::Linear(linear), DataType::F32),
            deviation_us: None,
            measured_us: (3.0 + 0.5 * f64::from(output_features)) * noise,
            line: 2,
        }
    }

    fn pixel4() -> Gpu {
        coexec_sim::input::from_toml(include_str!("../../../sim/tests/golden/gpu_pixel4.toml")).unwrap()
    }

    fn scored(runs: &[GpuRun], seen: Option<&[GpuRun]>) -> Vec<Scored> {
        score(&validate(&pixel4(), None, runs, seen).points)
    }

    #[test]
    fn the_baseline_is_exact_where_time_is_linear_in_operations() {
        let seen = [run(10, 1.0), run(100, 1.0), run(1000, 1.0)];
        let groups = scored(&[run(500, 1.0), run(10, 1.0)], Some(&seen));
        let mut found: Vec<(String, usize)> =
            groups.iter().map(|scored| (scored.group.name.to_string(), scored.group.n)).collect();
        found.sort_unstable();
        assert_eq!(
            found,
            [("gpu/fully_connected/all", 2), ("gpu/fully_connected/unseen", 1)]
                .map(|(name, n)| (name.to_owned(), n))
        );
        assert!(groups.iter().all(|scored| scored.flops_linear_mape_percent.unwrap() < 1e-6));
    }

    #[test]
    fn one_shape_makes_no_baseline() {
        let seen = [run(100, 1.0), run(100, 1.1)];
        let groups = scored(&seen, Some(&seen));
        assert_eq!((groups.len(), groups[0].flops_linear_mape_percent), (1, None));
    }

    #[test]
    fn the_repeat_noise_is_the_deviation_from_the_median_of_a_layer() {
        let runs = [run(100, 0.8), run(100, 1.0), run(100, 1.25), run(200, 5.0)];
        let groups = scored(&runs, None);
        // A quarter, zero and a fifth of the measured times.
        assert!((groups[0].repeat_noise_percent.unwrap() - 15.0).abs() < 1e-9);
        assert!(scored(&runs[2..], None)[0].repeat_noise_percent.is_none());
    }
}

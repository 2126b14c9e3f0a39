//! The error figures of a GPU model, per family of operations.

mod predictor;

use std::collections::{HashMap, HashSet};

use serde::Serialize;

use super::point::Point;
use super::{Group, coverage_percent, figures, median};
use crate::device::gpu::Gpu;
use crate::device::profile::Calibration;
use crate::kernel::Unsupported;
use crate::kernel::gpu::execute;
use crate::measure::{Family, GpuRun, LeftOut};
use crate::workload::{Layer, Operator};

pub(crate) use predictor::Predictor;

/// The figures of a group and what to hold them against.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Scored {
    /// The model's figures.
    #[serde(flatten)]
    pub group: Group,
    /// MAPE of a launch time plus a time per FLOP, fitted on the seen runs of the
    /// family; none where there are no seen runs, or too few.
    pub flops_linear_mape_percent: Option<f64>,
    /// MAPE of the same model without its residual; none where it has none.
    pub physics_mape_percent: Option<f64>,
    /// Runs within their 90 % interval, of those that have one; none where none has.
    pub interval_coverage_percent: Option<f64>,
    /// Mean absolute deviation from their median of runs of one layer: no model of
    /// layers can do better. On CPUs, the mean standard deviation of the repetitions
    /// of a run. None where nothing was measured twice.
    pub repeat_noise_percent: Option<f64>,
}

/// A GPU model against runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Validation {
    /// Figures by family: all runs, then those of shapes that were not seen.
    pub groups: Vec<Scored>,
    /// Each prediction beside its run, in the order of the runs.
    pub points: Vec<Point>,
    /// Runs the profile cannot predict.
    pub left_out: Vec<LeftOut>,
}

/// A run and its prediction.
#[derive(Clone, Copy)]
struct Predicted<'a> {
    run: &'a GpuRun,
    point: &'a Point,
}

/// Time of `layer` alone on `gpu`, in microseconds.
///
/// # Errors
/// The profile lacks the kernel's parameters.
pub fn predict(layer: &Layer, gpu: &Gpu) -> Result<f64, Unsupported> {
    Ok(execute(layer, gpu)?.phases.duration().as_micros())
}

/// Compares predictions of `gpu` with `runs`. A run is unseen where its operator
/// (operation and shape) does not occur in `seen`, the runs that the profile was
/// fitted on. `calibration` is that of the profile, for the intervals.
pub fn validate(
    gpu: &Gpu,
    calibration: Option<&Calibration>,
    runs: &[GpuRun],
    seen: Option<&[GpuRun]>,
) -> Validation {
    let spreads = calibration.map_or(&[][..], |calibration| &calibration.gpu_table);
    let mut predictor = Predictor::new(gpu, spreads, seen.unwrap_or_default());
    let seen_operators: HashSet<&Operator> =
        seen.unwrap_or_default().iter().map(|run| &run.layer.operator).collect();
    let (mut used, mut points, mut left_out) = (Vec::new(), Vec::new(), Vec::new());
    for run in runs {
        match predictor.point(run) {
            Ok((point, doubt)) => {
                let unseen = seen.is_some() && !seen_operators.contains(&run.layer.operator);
                used.push(run);
                points.push(Point { unseen, ..point }.within(&doubt, spreads));
            }
            Err(unsupported) => {
                left_out.push(LeftOut { line: run.line, reason: unsupported.to_string() });
            }
        }
    }
    let predicted: Vec<Predicted<'_>> =
        used.into_iter().zip(&points).map(|(run, point)| Predicted { run, point }).collect();
    let mut groups = Vec::new();
    for family in Family::ALL {
        let of_family: Vec<Predicted<'_>> =
            predicted.iter().filter(|predicted| predicted.run.family == family).copied().collect();
        let mut add = |part: &str, members: &[Predicted<'_>]| {
            if !members.is_empty() {
                groups.push(score(format!("gpu/{}/{part}", family.name()), members, gpu.residual.is_some()));
            }
        };
        add("all", &of_family);
        if seen.is_some() {
            let unseen = of_family.iter().filter(|predicted| predicted.point.unseen).copied();
            add("unseen", &unseen.collect::<Vec<_>>());
        }
    }
    Validation { groups, points, left_out }
}

fn score(name: String, members: &[Predicted<'_>], has_residual: bool) -> Scored {
    let pairs = |time: fn(&Point) -> Option<f64>| -> Vec<(f64, f64)> {
        members.iter().filter_map(|member| Some((time(member.point)?, member.point.measured_us))).collect()
    };
    let mape = |time: fn(&Point) -> Option<f64>| {
        let pairs = pairs(time);
        (!pairs.is_empty()).then(|| figures("", &pairs).mape_percent)
    };
    Scored {
        group: figures(name, &pairs(|point| Some(point.predicted_us))),
        flops_linear_mape_percent: mape(|point| point.flops_linear_us),
        physics_mape_percent: if has_residual { mape(|point| Some(point.physics_us)) } else { None },
        interval_coverage_percent: coverage_percent(members.iter().map(|member| member.point)),
        repeat_noise_percent: noise(members),
    }
}

/// Mean absolute deviation of runs from the median of their layer, in percent,
/// over the layers that were measured more than once.
fn noise(members: &[Predicted<'_>]) -> Option<f64> {
    let mut by_layer: HashMap<&Layer, Vec<f64>> = HashMap::new();
    for member in members {
        by_layer.entry(&member.run.layer).or_default().push(member.run.measured_us);
    }
    let mut deviations: Vec<f64> = Vec::new();
    for mut times in by_layer.into_values().filter(|times| times.len() > 1) {
        times.sort_by(f64::total_cmp);
        let middle = median(&times);
        deviations.extend(times.iter().map(|time| (time / middle - 1.0).abs()));
    }
    // Summed in ascending order: the order of a hash map must not reach the figure.
    deviations.sort_by(f64::total_cmp);
    (!deviations.is_empty()).then(|| 100.0 * deviations.iter().sum::<f64>() / deviations.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{DataType, Linear};

    /// A run of a linear layer whose time is `3 us + 0.5 ns` a multiply-add.
    fn run(output_features: u32, noise: f64) -> GpuRun {
        let linear = Linear { rows: 1, input_features: 1000, output_features, bias: true };
        GpuRun {
            network: "net".to_owned(),
            family: Family::FullyConnected,
            layer: Layer::new(Operator::Linear(linear), DataType::F32),
            kernel: "fully_connected_1".to_owned(),
            measured_us: (3.0 + 0.5 * f64::from(output_features)) * noise,
            line: 2,
        }
    }

    fn pixel4() -> Gpu {
        toml::from_str(include_str!("../../tests/golden/gpu_pixel4.toml")).unwrap()
    }

    #[test]
    fn the_baseline_is_exact_where_time_is_linear_in_operations() {
        let seen = [run(10, 1.0), run(100, 1.0), run(1000, 1.0)];
        let groups = validate(&pixel4(), None, &[run(500, 1.0), run(10, 1.0)], Some(&seen)).groups;
        let names: Vec<&str> = groups.iter().map(|scored| scored.group.name.as_str()).collect();
        assert_eq!(names, ["gpu/fully_connected/all", "gpu/fully_connected/unseen"]);
        assert_eq!((groups[0].group.n, groups[1].group.n), (2, 1));
        assert!(groups.iter().all(|scored| scored.flops_linear_mape_percent.unwrap() < 1e-6));
    }

    #[test]
    fn one_shape_makes_no_baseline() {
        let seen = [run(100, 1.0), run(100, 1.1)];
        let groups = validate(&pixel4(), None, &seen, Some(&seen)).groups;
        assert_eq!((groups.len(), groups[0].flops_linear_mape_percent), (1, None));
    }

    #[test]
    fn the_repeat_noise_is_the_deviation_from_the_median_of_a_layer() {
        let runs = [run(100, 0.9), run(100, 1.0), run(100, 1.2), run(200, 5.0)];
        let groups = validate(&pixel4(), None, &runs, None).groups;
        assert!((groups[0].repeat_noise_percent.unwrap() - 10.0).abs() < 1e-9);
        assert!(validate(&pixel4(), None, &runs[2..], None).groups[0].repeat_noise_percent.is_none());
    }
}

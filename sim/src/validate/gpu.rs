//! The error figures of a GPU model, per family of operations.

use std::collections::{HashMap, HashSet};

use serde::Serialize;

use super::{Group, figures, median};
use crate::device::gpu::Gpu;
use crate::kernel::gpu::execute;
use crate::measure::{Family, GpuRun, LeftOut};
use crate::workload::{Layer, Operator};

/// The figures of a group and what to hold them against.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Scored {
    /// The model's figures.
    #[serde(flatten)]
    pub group: Group,
    /// MAPE of a launch time plus a time per FLOP, fitted on the seen runs of the
    /// family; none where there are no seen runs.
    pub flops_linear_mape_percent: Option<f64>,
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
    /// Runs the profile cannot predict.
    pub left_out: Vec<LeftOut>,
}

/// A run and what the model says.
struct Predicted<'a> {
    run: &'a GpuRun,
    predicted_us: f64,
}

impl Predicted<'_> {
    fn pair(&self) -> (f64, f64) {
        (self.predicted_us, self.run.measured_us)
    }
}

/// Time of `layer` alone on `gpu`, in microseconds.
///
/// # Errors
/// The profile lacks the kernel's parameters.
pub fn predict(layer: &Layer, gpu: &Gpu) -> Result<f64, crate::kernel::Unsupported> {
    Ok(execute(layer, gpu)?.phases.duration().as_micros())
}

/// Compares predictions of `gpu` with `runs`. A run is unseen where its operator
/// (operation and shape) does not occur in `seen`, the runs that the profile was
/// fitted on.
pub fn validate(gpu: &Gpu, runs: &[GpuRun], seen: Option<&[GpuRun]>) -> Validation {
    let (mut predicted, mut left_out) = (Vec::new(), Vec::new());
    for run in runs {
        match predict(&run.layer, gpu) {
            Ok(predicted_us) => predicted.push(Predicted { run, predicted_us }),
            Err(unsupported) => {
                left_out.push(LeftOut { line: run.line, reason: unsupported.to_string() });
            }
        }
    }
    let seen_operators: HashSet<&Operator> =
        seen.unwrap_or_default().iter().map(|run| &run.layer.operator).collect();
    let mut groups = Vec::new();
    for family in Family::ALL {
        let of_family: Vec<&Predicted<'_>> = predicted.iter().filter(|p| p.run.family == family).collect();
        let baseline = seen.and_then(|seen| FlopsLinear::fit(seen.iter().filter(|run| run.family == family)));
        let mut add = |part: &str, members: &[&Predicted<'_>]| {
            if !members.is_empty() {
                groups.push(score(format!("gpu/{}/{part}", family.name()), members, baseline));
            }
        };
        add("all", &of_family);
        if seen.is_some() {
            let is_unseen = |p: &&&Predicted<'_>| !seen_operators.contains(&p.run.layer.operator);
            add("unseen", &of_family.iter().filter(is_unseen).copied().collect::<Vec<_>>());
        }
    }
    Validation { groups, left_out }
}

fn score(name: String, members: &[&Predicted<'_>], baseline: Option<FlopsLinear>) -> Scored {
    let pairs: Vec<(f64, f64)> = members.iter().map(|member| member.pair()).collect();
    let flops_linear_mape_percent = baseline.map(|baseline| {
        let pairs: Vec<(f64, f64)> = members
            .iter()
            .map(|member| (baseline.predict(&member.run.layer), member.run.measured_us))
            .collect();
        figures("", &pairs).mape_percent
    });
    Scored { group: figures(name, &pairs), flops_linear_mape_percent, repeat_noise_percent: noise(members) }
}

/// Mean absolute deviation of runs from the median of their layer, in percent,
/// over the layers that were measured more than once.
fn noise(members: &[&Predicted<'_>]) -> Option<f64> {
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

/// The model everybody starts with: `launch + time per operation * operations`.
#[derive(Clone, Copy, Debug)]
struct FlopsLinear {
    launch_us: f64,
    us_per_operation: f64,
}

impl FlopsLinear {
    /// Least squares of the relative error.
    fn fit<'a>(runs: impl Iterator<Item = &'a GpuRun>) -> Option<Self> {
        // Normal equations of `(launch + slope * x) / y = 1`.
        let (mut a, mut b, mut c, mut d, mut e) = (0.0, 0.0, 0.0, 0.0, 0.0);
        let mut first = None;
        let mut differ = false;
        for run in runs {
            let x = operations(&run.layer);
            differ |= *first.get_or_insert(x) != x;
            let inverse = run.measured_us.recip();
            a += inverse * inverse;
            b += x * inverse * inverse;
            c += x * x * inverse * inverse;
            d += inverse;
            e += x * inverse;
        }
        first?;
        if !differ {
            return Some(Self { launch_us: d / a, us_per_operation: 0.0 });
        }
        let determinant = a * c - b * b;
        Some(Self {
            launch_us: (d * c - b * e) / determinant,
            us_per_operation: (a * e - b * d) / determinant,
        })
    }

    fn predict(&self, layer: &Layer) -> f64 {
        self.launch_us + self.us_per_operation * operations(layer)
    }
}

/// Multiply-adds of a layer; elements read where it has none.
fn operations(layer: &Layer) -> f64 {
    match layer.operator.macs() {
        0 => layer.operator.input_elements() as f64,
        macs => macs as f64,
    }
}

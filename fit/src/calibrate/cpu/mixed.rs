//! Overheads of cores of several clusters that work together: a slowdown and a fork
//! cost per number format, fitted to the runs of mixed core sets.

use super::rates::table_of;
use crate::calibrate::least_squares::{DEVIATIONS_95, Solution, Stop, minimise, pseudo_huber};
use crate::measure::CpuRun;
use crate::validate::cpu::predict;
use coexec_sim::device::cpu::{Cpu, MixedClusters};
use coexec_sim::statistics::{VALUE_DIGITS, rounded};
use coexec_sim::{DataType, Library, Quantity};

/// Relative error expected of a prediction, from which the loss grows linearly: runs of
/// mixed core sets repeat to 3 to 9 % on the phone with the worst repeatability
/// (mobile-ml-benchmark, Galaxy S10).
const EXPECTED_ERROR: f64 = 0.05;
/// Prior deviation of the log slowdown around no slowdown: the largest known slowdown is
/// 1.4 (CPU model, table 4).
const SLOWDOWN_DEVIATION: f64 = 0.2;
/// Prior deviation of the log fork cost around the largest of the clusters'.
const FORK_DEVIATION: f64 = 1.0;
/// Lower bound of the expected fork cost, in microseconds, as zero has no logarithm.
const MIN_FORK_US: f64 = 0.1;
/// Stopping criteria: far below the difference of two runs of one network.
const STOP: Stop = Stop { iterations: 60, relative_decrease: 1e-6 };

/// A run of a mixed core set, as a function of the two parameters.
struct Observation {
    /// Time without slowdown and with free forks, in microseconds.
    work_us: f64,
    /// Parallel regions with more than one thread.
    forks: f64,
    measured_us: f64,
}

/// Fits `cpu`, whose clusters have been fitted on their own, to `runs` of mixed core sets,
/// one number format at a time.
pub(super) fn fit(cpu: &mut Cpu, runs: &[&CpuRun], source: &str) {
    for data_type in [DataType::F32, DataType::I8] {
        let of_format = runs.iter().filter(|run| run.what.data_type == data_type);
        let observations: Vec<Observation> = of_format.filter_map(|run| observe(cpu, run)).collect();
        if !observations.is_empty() {
            let fitted = fit_format(&observations, expected_fork_us(cpu, data_type), source);
            *mixed_mut(cpu, data_type) = Some(fitted);
        }
    }
}

fn mixed_mut(cpu: &mut Cpu, data_type: DataType) -> &mut Option<MixedClusters> {
    if data_type == DataType::I8 { &mut cpu.mixed_ruy_i8 } else { &mut cpu.mixed_ruy_f32 }
}

/// A run's time as work and forks; none where a cluster has no table.
fn observe(cpu: &Cpu, run: &CpuRun) -> Option<Observation> {
    let mut probe = cpu.clone();
    let mut time = |fork_us: f64| {
        *mixed_mut(&mut probe, run.what.data_type) = Some(MixedClusters {
            source: String::new(),
            slowdown_factor: Quantity::plain(1.0),
            fork_us: Quantity::plain(fork_us),
        });
        predict(run, &probe, Library::Ruy).ok()
    };
    let work_us = time(0.0)?;
    Some(Observation { work_us, forks: time(1.0)? - work_us, measured_us: run.measured_us })
}

/// The prior centre of the fork cost: the largest of the clusters', in microseconds.
fn expected_fork_us(cpu: &Cpu, data_type: DataType) -> f64 {
    let tables = cpu.clusters.iter().filter_map(|cluster| table_of(cluster, data_type));
    tables.map(|table| table.fork_us.value).fold(MIN_FORK_US, f64::max)
}

fn fit_format(observations: &[Observation], expected_fork_us: f64, source: &str) -> MixedClusters {
    let start = vec![0.0, expected_fork_us.ln()];
    let solution = minimise(start, STOP, |logarithms| {
        let [slowdown, fork_us] = [logarithms[0].exp(), logarithms[1].exp()];
        let error = |run: &Observation| {
            let predicted_us = slowdown * (run.work_us + run.forks * fork_us);
            pseudo_huber((predicted_us / run.measured_us).ln() / EXPECTED_ERROR, 1.0)
        };
        let away =
            [logarithms[0] / SLOWDOWN_DEVIATION, (logarithms[1] - expected_fork_us.ln()) / FORK_DEVIATION];
        observations.iter().map(error).chain(away).collect()
    });
    MixedClusters {
        source: source.to_owned(),
        slowdown_factor: quantity(&solution, 0),
        fork_us: quantity(&solution, 1),
    }
}

/// A fitted value and its 95 % interval.
fn quantity(solution: &Solution, index: usize) -> Quantity {
    let value_at = |away: f64| rounded((solution.parameters[index] + away).exp(), VALUE_DIGITS);
    let ci95 = solution.inverse_normal.as_ref().map(|variance| {
        let half = DEVIATIONS_95 * variance[(index, index)].sqrt();
        [value_at(-half), value_at(half)]
    });
    Quantity { value: value_at(0.0), source: Some("fit".to_owned()), ci95 }
}

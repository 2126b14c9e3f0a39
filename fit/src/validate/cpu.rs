//! Validation of networks on CPU cores, per core set and number format.
//!
//! A run is unseen where its network is not among those that the profile was fitted to.

mod baselines;

use super::point::Point;
use super::{Validation, is_unseen};
use crate::measure::{CpuRun, unknown_operators};
use coexec_sim::device::calibration::{Computed, ErrorGroup, Which};
use coexec_sim::device::cpu::{CoreSetSpread, Cpu};
use coexec_sim::kernel::cpu::{CoreSet, Library, execute, execute_in_network};
use coexec_sim::{Calibration, DataType, ProcessorKind};

pub(crate) use baselines::Baselines;

/// Predicted time of a run, the sum over its operators, in microseconds; an error that states
/// why there is none otherwise. A single operator was repeated by itself.
pub(crate) fn predict(run: &CpuRun, cpu: &Cpu, library: Library) -> Result<f64, String> {
    let cores = cores(run, cpu)?;
    let is_network = run.what.layers.len() > 1;
    let execute = if is_network { execute_in_network } else { execute };
    let mut micros = 0.0;
    for layer in &*run.what.layers {
        let execution = execute(layer, cpu, &cores, library).map_err(|error| error.to_string())?;
        micros += execution.phases.duration().as_micros();
    }
    Ok(micros)
}

/// The cores of a run whose operators are known.
pub(crate) fn cores(run: &CpuRun, cpu: &Cpu) -> Result<CoreSet, String> {
    if run.what.layers.is_empty() {
        return Err(unknown_operators(&run.network));
    }
    CoreSet::parse(&run.what.core_set, cpu).map_err(|error| error.to_string())
}

/// Compares predictions of `cpu` with `runs` of `library`. The intervals come from
/// `calibration`, that of the profile; `seen` are the runs that it was fitted to, to which the
/// baselines are fitted too.
pub fn validate(
    cpu: &Cpu,
    calibration: Option<&Calibration>,
    runs: &[CpuRun],
    seen: Option<&[CpuRun]>,
    library: Library,
) -> Validation {
    let baselines = seen.map(|seen| Baselines::fit(cpu, library, seen));
    let is_unseen = is_unseen(seen);
    let spreads = calibration.map_or(&[][..], |calibration| &calibration.cpu_core_set);
    Validation::of(runs, |run| {
        let point = Point { unseen: is_unseen(run), ..point(run, predict(run, cpu, library)?) };
        let point = match &baselines {
            Some(baselines) => baselines.compare(run, point),
            None => point,
        };
        Ok::<_, String>(within(point, run, spreads))
    })
}

/// A run with its prediction, without an interval and marked as seen.
pub(crate) fn point(run: &CpuRun, predicted_us: f64) -> Point {
    Point::of(run, group(run), run.network.clone(), predicted_us)
}

/// The point of `run` with its interval, where its core set has one.
pub(crate) fn within(point: Point, run: &CpuRun, spreads: &[CoreSetSpread]) -> Point {
    let of_run = |spread: &&CoreSetSpread| {
        spread.core_set == run.what.core_set && spread.data_type == run.what.data_type
    };
    point.within(|predicted| Some(spreads.iter().find(of_run)?.interval(predicted)))
}

/// A run's group, such as `cpu/1large2med/float`.
fn group(run: &CpuRun) -> ErrorGroup {
    let format = if run.what.data_type == DataType::I8 { "quant" } else { "float" };
    ErrorGroup::On {
        processor: ProcessorKind::Cpu,
        what: Computed::Kind(run.what.core_set.clone()),
        runs: Some(Which::Format(format.to_owned())),
    }
}

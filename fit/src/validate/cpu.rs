//! The error figures of a CPU model, per core set and number format.
//!
//! A run is unseen where its network does not occur among those the profile was
//! fitted on.

mod baselines;

use std::collections::{HashMap, HashSet};

use super::Validation;
use super::point::Point;
use crate::measure::benchmark_cpu::{CpuNetwork, CpuRun, CpuTable};
use coexec_sim::device::calibration::Calibration;
use coexec_sim::device::cpu::{CoreSetSpread, Cpu};
use coexec_sim::kernel::cpu::{CoreSet, Library, execute};
use coexec_sim::workload::{DataType, Layer};

pub(crate) use baselines::{Baselines, Jobs};

/// The layers of networks, by name and number format.
pub(crate) type Layers<'a> = HashMap<(&'a str, DataType), Vec<Layer>>;

/// The layers of `networks` in both number formats of the tables.
pub(crate) fn layers(networks: &[CpuNetwork]) -> Layers<'_> {
    let formats = [DataType::F32, DataType::I8];
    let each = |network: &CpuNetwork, data_type| network.layers(data_type);
    networks
        .iter()
        .flat_map(|network| {
            formats.map(|data_type| ((network.name.as_str(), data_type), each(network, data_type)))
        })
        .collect()
}

/// Time of a run as the kernel model says, operator after operator, in
/// microseconds; why there is none otherwise.
pub(crate) fn predict(run: &CpuRun, cpu: &Cpu, layers: &Layers<'_>, library: Library) -> Result<f64, String> {
    let network = layers
        .get(&(run.network.as_str(), run.data_type))
        .ok_or_else(|| format!("the operators of {} are not known", run.network))?;
    let cores = CoreSet::parse(&run.core_set, cpu).map_err(|error| error.to_string())?;
    let mut micros = 0.0;
    for layer in network {
        let execution = execute(layer, cpu, &cores, library).map_err(|error| error.to_string())?;
        micros += execution.phases.duration().as_micros();
    }
    Ok(micros)
}

/// Compares predictions of `cpu` with the runs of `table`, which `library` made. `calibration` is that of
/// the profile, for the intervals; `seen` holds the runs it was fitted on, which the
/// FLOPs-linear baseline is fitted on too.
pub fn validate(
    cpu: &Cpu,
    calibration: Option<&Calibration>,
    table: &CpuTable,
    seen: Option<&CpuTable>,
    library: Library,
) -> Validation {
    let layers = layers(&table.networks);
    let jobs = Jobs { cpu, library, layers: &layers };
    let baselines = seen.map(|seen| {
        let layers = self::layers(&seen.networks);
        Baselines::fit(Jobs { layers: &layers, ..jobs }, &seen.runs)
    });
    let names: HashSet<&str> =
        seen.iter().flat_map(|seen| &seen.runs).map(|run| run.network.as_str()).collect();
    let spreads = calibration.map_or(&[][..], |calibration| &calibration.cpu_core_set);
    Validation::of(
        &table.runs,
        |run| run.line,
        |run| {
            let unseen = seen.is_some() && !names.contains(run.network.as_str());
            let point = Point { unseen, ..point(run, predict(run, cpu, &layers, library)?) };
            let point = match &baselines {
                Some(baselines) => baselines.beside(jobs, run, point),
                None => point,
            };
            Ok::<_, String>(within(point, run, spreads))
        },
    )
}

/// A prediction beside its run.
pub(crate) fn point(run: &CpuRun, predicted_us: f64) -> Point {
    Point {
        group: group_name(run),
        network: run.network.clone(),
        what: run.network.clone(),
        measured_us: run.measured_us,
        deviation_us: run.deviation_us,
        predicted_us,
        physics_us: predicted_us,
        ..Point::default()
    }
}

/// The point of `run` with its interval, where its core set has one.
pub(crate) fn within(point: Point, run: &CpuRun, spreads: &[CoreSetSpread]) -> Point {
    let of_run =
        |spread: &&CoreSetSpread| spread.core_set == run.core_set && spread.data_type == run.data_type;
    match spreads.iter().find(of_run) {
        Some(spread) => {
            let [low, high] = spread.interval(point.predicted_us);
            Point { low_us: Some(low), high_us: Some(high), ..point }
        }
        None => point,
    }
}

/// Name of the group a run is in: `cpu/1large2med/float`.
fn group_name(run: &CpuRun) -> String {
    let format = if run.data_type == DataType::I8 { "quant" } else { "float" };
    format!("cpu/{}/{format}", run.core_set)
}

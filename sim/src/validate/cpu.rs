//! The error figures of a CPU model, per core set and number format.
//!
//! A run is unseen where its network does not occur among those the profile was
//! fitted on.

mod codl;

use std::collections::{HashMap, HashSet};

use super::flops_linear::FlopsLinear;
use super::point::Point;
use super::score::{Scored, score};
use crate::device::cpu::{CoreSetSpread, Cpu};
use crate::device::profile::Calibration;
use crate::kernel::cpu::{CoreSet, Library, execute};
use crate::measure::LeftOut;
use crate::measure::benchmark_cpu::{CpuNetwork, CpuRun, CpuTable};
use crate::workload::{DataType, Layer};

pub(crate) use codl::{Codl, Jobs};

/// A CPU model against runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Validation {
    /// Figures by core set and number format, worst first.
    pub groups: Vec<Scored>,
    /// Each prediction beside its run, in the order of the runs.
    pub points: Vec<Point>,
    /// Runs the profile cannot predict.
    pub left_out: Vec<LeftOut>,
}

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
    let baselines = seen.map(|seen| Baselines::fit(seen.runs.iter(), &self::layers(&seen.networks)));
    let jobs = Jobs { cpu, library, layers: &layers };
    let codl = seen.map(|seen| {
        let layers = self::layers(&seen.networks);
        Codl::fit(Jobs { layers: &layers, ..jobs }, &seen.runs)
    });
    let names: HashSet<&str> =
        seen.iter().flat_map(|seen| &seen.runs).map(|run| run.network.as_str()).collect();
    let spreads = calibration.map_or(&[][..], |calibration| &calibration.cpu_core_set);
    let (mut points, mut left_out) = (Vec::new(), Vec::new());
    for run in &table.runs {
        match predict(run, cpu, &layers, library) {
            Ok(predicted_us) => {
                let flops_linear_us =
                    baselines.as_ref().and_then(|baselines| baselines.predict(run, &layers));
                let unseen = seen.is_some() && !names.contains(run.network.as_str());
                let codl_us = codl.as_ref().and_then(|codl| codl.predict(jobs, run));
                let point = Point { unseen, flops_linear_us, codl_us, ..point(run, predicted_us) };
                points.push(within(point, run, spreads));
            }
            Err(reason) => left_out.push(LeftOut { line: run.line, reason }),
        }
    }
    Validation { groups: score(&points), points, left_out }
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

/// The models linear in FLOPs: one for each core set and number format.
pub(crate) struct Baselines {
    of_group: HashMap<String, FlopsLinear>,
}

impl Baselines {
    /// Fitted to `runs`, of networks with those layers.
    pub(crate) fn fit<'a>(runs: impl Iterator<Item = &'a CpuRun>, layers: &Layers<'_>) -> Self {
        let mut pairs: HashMap<String, Vec<(f64, f64)>> = HashMap::new();
        for run in runs {
            if let Some(operations) = operations(run, layers) {
                pairs.entry(group_name(run)).or_default().push((operations, run.measured_us));
            }
        }
        let fitted =
            |(name, pairs): (String, Vec<(f64, f64)>)| Some((name, FlopsLinear::fit(pairs.into_iter())?));
        Self { of_group: pairs.into_iter().filter_map(fitted).collect() }
    }

    /// Time of a run, in microseconds; none on a core set nothing was fitted for.
    pub(crate) fn predict(&self, run: &CpuRun, layers: &Layers<'_>) -> Option<f64> {
        Some(self.of_group.get(&group_name(run))?.predict(operations(run, layers)?))
    }
}

/// Multiply-adds of the network of a run.
fn operations(run: &CpuRun, layers: &Layers<'_>) -> Option<f64> {
    let network = layers.get(&(run.network.as_str(), run.data_type))?;
    Some(network.iter().map(|layer| layer.operator.macs() as f64).sum())
}

/// Name of the group a run is in: `cpu/1large2med/float`.
fn group_name(run: &CpuRun) -> String {
    let format = if run.data_type == DataType::I8 { "quant" } else { "float" };
    format!("cpu/{}/{format}", run.core_set)
}

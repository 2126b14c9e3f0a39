//! The error figures of a CPU model, per core set and number format.

use std::collections::HashMap;

use super::gpu::Scored;
use super::{Group, figures};
use crate::device::cpu::Cpu;
use crate::kernel::cpu::{CoreSet, Library, execute};
use crate::measure::LeftOut;
use crate::measure::benchmark_cpu::{CpuNetwork, CpuRun, CpuTable};
use crate::workload::{DataType, Layer};

/// A run and what the model says.
#[derive(Clone, Debug, PartialEq)]
pub struct Predicted {
    /// The run.
    pub run: CpuRun,
    /// Predicted time, in microseconds.
    pub predicted_us: f64,
}

/// A CPU model against runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Validation {
    /// Figures by core set and number format, in the order of the runs.
    pub groups: Vec<Scored>,
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
pub(crate) fn predict(run: &CpuRun, cpu: &Cpu, layers: &Layers<'_>) -> Result<f64, String> {
    let network = layers
        .get(&(run.network.as_str(), run.data_type))
        .ok_or_else(|| format!("the operators of {} are not known", run.network))?;
    let cores = CoreSet::parse(&run.core_set, cpu).map_err(|error| error.to_string())?;
    let mut micros = 0.0;
    for layer in network {
        let execution = execute(layer, cpu, &cores, Library::Ruy).map_err(|error| error.to_string())?;
        micros += execution.phases.duration().as_micros();
    }
    Ok(micros)
}

/// Compares predictions of `cpu` with the runs of `table`.
pub fn validate(cpu: &Cpu, table: &CpuTable) -> Validation {
    let layers = layers(&table.networks);
    let (mut predicted, mut left_out) = (Vec::new(), Vec::new());
    for run in &table.runs {
        match predict(run, cpu, &layers) {
            Ok(predicted_us) => predicted.push(Predicted { run: run.clone(), predicted_us }),
            Err(reason) => left_out.push(LeftOut { line: run.line, reason }),
        }
    }
    let scored = |group: Group| {
        let repeat_noise_percent = repeat_noise_percent(&predicted, &group.name);
        Scored {
            group,
            flops_linear_mape_percent: None,
            physics_mape_percent: None,
            interval_coverage_percent: None,
            repeat_noise_percent,
        }
    };
    Validation { groups: groups(&predicted).into_iter().map(scored).collect(), left_out }
}

/// Mean, over the runs of a group, of the standard deviation of the repetitions,
/// as a part of their mean; none where no run states it.
fn repeat_noise_percent(predicted: &[Predicted], group: &str) -> Option<f64> {
    let of_group = predicted.iter().map(|predicted| &predicted.run).filter(|run| group_name(run) == group);
    let noise: Vec<f64> =
        of_group.filter_map(|run| run.deviation_us.map(|deviation| deviation / run.measured_us)).collect();
    (!noise.is_empty()).then(|| 100.0 * noise.iter().sum::<f64>() / noise.len() as f64)
}

/// Name of the group a run is in: `cpu/1large2med/float`.
fn group_name(run: &CpuRun) -> String {
    let format = if run.data_type == DataType::I8 { "quant" } else { "float" };
    format!("cpu/{}/{format}", run.core_set)
}

/// The figures by core set and number format.
pub fn groups(predicted: &[Predicted]) -> Vec<Group> {
    let mut pairs: Vec<(String, Vec<(f64, f64)>)> = Vec::new();
    for Predicted { run, predicted_us } in predicted {
        let name = group_name(run);
        let pair = (*predicted_us, run.measured_us);
        match pairs.iter_mut().find(|(known, _)| *known == name) {
            Some((_, pairs)) => pairs.push(pair),
            None => pairs.push((name, vec![pair])),
        }
    }
    pairs.into_iter().map(|(name, pairs)| figures(name, &pairs)).collect()
}

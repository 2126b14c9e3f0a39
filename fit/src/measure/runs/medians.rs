//! From raw repetitions to one time a run, as calibration and validation take it.

use std::path::Path;

use super::{ExecutedOn, Measurement, Network, RunTable};
use crate::measure::benchmark_cpu::{CpuNetwork, CpuRun};
use crate::measure::benchmark_gpu_network::GpuNetwork;
use crate::measure::{Family, GpuRun, SkippedRow};
use coexec_sim::kernel::cpu::separate_passes;
use coexec_sim::plan::synchronisation::Mechanism;
use coexec_sim::scenario::{Overrides, Scenario, Workload};
use coexec_sim::statistics::median;
use coexec_sim::workload::{Class, Elementwise, Layer, Movement, Operator, Reduction, Stage, fuse, network};

/// Runs by the processor they ran on, each with the median of its repetitions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ByProcessor {
    /// Layers on the GPU.
    pub gpu: Vec<GpuRun>,
    /// Whole networks on the GPU.
    pub gpu_networks: Vec<GpuNetwork>,
    /// Networks on the CPU. A layer that ran alone is a network of one, called by
    /// what it computes: what cross-validation keeps together is its shape.
    pub cpu: Vec<CpuRun>,
    /// The networks of `cpu`.
    pub networks: Vec<CpuNetwork>,
    /// Operators that the host timed: cut between processors, or on the GPU alone from the
    /// host's memory and back.
    pub host_timed: Vec<HostTimed>,
    /// Measurements that are none of these, and why.
    pub left_out: Vec<SkippedRow>,
    /// Repetitions that are marked as outliers: in no median.
    pub outliers: usize,
}

/// An operator that the host timed, from its call until it knew of the end.
#[derive(Clone, Debug, PartialEq)]
pub struct HostTimed {
    /// Network or scenario it is part of.
    pub network: String,
    /// The whole operator.
    pub layer: Layer,
    /// How it was cut, or that it was not.
    pub ran: ExecutedOn,
    /// How the processors learned of each other's results.
    pub synchronisation: Option<Mechanism>,
    /// Median time by the host's clock, in microseconds.
    pub measured_us: f64,
    /// Standard deviation of the repetitions.
    pub deviation_us: Option<f64>,
    /// Line of its first row, from 1.
    pub line: u64,
}

impl RunTable {
    /// The runs by processor.
    pub fn by_processor(&self) -> ByProcessor {
        let on_cpu = |network: &Network| CpuNetwork {
            name: network.name.clone(),
            operators: network.layers.iter().flat_map(passes).collect(),
        };
        let networks = self.networks.iter().map(on_cpu).collect();
        let mut sorted = ByProcessor { networks, ..ByProcessor::default() };
        for measurement in &self.measurements {
            sorted.outliers += measurement.repetitions.iter().filter(|repetition| repetition.outlier).count();
            if let Err(reason) = sorted.add(measurement, &self.networks) {
                sorted.left_out.push(SkippedRow { line: measurement.line, reason });
            }
        }
        sorted
    }
}

impl Measurement {
    /// Median of the repetitions that are no outliers, in microseconds; none of none.
    pub fn median_us(&self) -> Option<f64> {
        median(&self.times_us())
    }

    /// Times of the repetitions that are no outliers, in microseconds.
    pub fn times_us(&self) -> Vec<f64> {
        let sound = self.repetitions.iter().filter(|repetition| !repetition.outlier);
        sound.map(|repetition| repetition.measured_us).collect()
    }
}

impl HostTimed {
    fn of(measurement: &Measurement, layer: &Layer, times: &[f64], measured_us: f64) -> Self {
        Self {
            network: measurement.network.clone(),
            layer: layer.clone(),
            ran: measurement.processor.clone(),
            synchronisation: measurement.synchronisation,
            measured_us,
            deviation_us: deviation(times),
            line: measurement.line,
        }
    }
}

impl ByProcessor {
    /// Adds a measurement; whole networks on the GPU are made of the layers that
    /// `networks` knows.
    fn add(&mut self, measurement: &Measurement, networks: &[Network]) -> Result<(), String> {
        let times = measurement.times_us();
        let Some(measured_us) = median(&times) else {
            return Err(format!("every repetition of run {} is an outlier", measurement.run));
        };
        let ran = &measurement.processor;
        match (ran, &measurement.operator) {
            (ExecutedOn::Gpu, Some((_, layer))) if measurement.synchronisation.is_some() => {
                self.host_timed.push(HostTimed::of(measurement, layer, &times, measured_us));
            }
            (ExecutedOn::Gpu, Some((_, layer))) => {
                let family = family(&layer.operator)
                    .ok_or_else(|| format!("there is no group of errors for a {}", layer.operator.name()))?;
                self.gpu.push(GpuRun {
                    network: measurement.network.clone(),
                    family,
                    layer: layer.clone(),
                    kernel: measurement.kernel.clone().unwrap_or_default(),
                    measured_us,
                    line: measurement.line,
                });
            }
            (ExecutedOn::Cpu(core_set), operator) => {
                let network = match operator {
                    Some((_, layer)) => self.network_of_one(layer),
                    None => measurement.network.clone(),
                };
                self.cpu.push(CpuRun {
                    network,
                    core_set: core_set.clone(),
                    data_type: measurement.data_type,
                    measured_us,
                    deviation_us: deviation(&times),
                    line: measurement.line,
                });
            }
            (ExecutedOn::Gpu, None) => {
                let known = networks.iter().find(|network| network.name == measurement.network);
                let layers = known
                    .ok_or_else(|| format!("the operators of {} are not known", measurement.network))?
                    .layers
                    .iter()
                    .map(|layer| Layer { data_type: measurement.data_type, ..layer.clone() });
                self.gpu_networks.push(GpuNetwork {
                    name: measurement.network.clone(),
                    layers: layers.collect(),
                    measured_us,
                    deviation_us: deviation(&times),
                    line: measurement.line,
                });
            }
            (ExecutedOn::Split { .. }, Some((_, layer))) => {
                check_cut(ran, layer)?;
                self.host_timed.push(HostTimed::of(measurement, layer, &times, measured_us));
            }
            (processor, _) => return Err(format!("a run on {processor} is not compared")),
        }
        Ok(())
    }

    /// The network that consists of that layer.
    fn network_of_one(&mut self, layer: &Layer) -> String {
        let operators = passes(layer);
        if let Some(known) = self.networks.iter().find(|known| known.operators == operators) {
            return known.name.clone();
        }
        let parts: Vec<String> = operators.iter().map(ToString::to_string).collect();
        let mut name = parts.join(" then ");
        // Operators of several extents are called by their output alone.
        if self.networks.iter().any(|known| known.name == name) {
            let inputs: Vec<String> = layer.operator.inputs().iter().map(ToString::to_string).collect();
            name = format!("{name} of {}", inputs.join(" and "));
        }
        while self.networks.iter().any(|known| known.name == name) {
            name.push_str(", another");
        }
        self.networks.push(CpuNetwork { name: name.clone(), operators });
        name
    }
}

/// The group of errors that an operator belongs to.
fn family(operator: &Operator) -> Option<Family> {
    Some(match operator.class() {
        Class::Convolution(conv) if conv.groups > 1 => Family::GroupedConv2d,
        Class::Convolution(_) => Family::Conv2d,
        Class::Depthwise(_) => Family::DepthwiseConv2d,
        Class::Product(product) if product.trained => Family::FullyConnected,
        Class::Reduction(Reduction::Pixels { .. }) => Family::Mean,
        Class::Movement(Movement::Joined(_)) => Family::Concat,
        Class::Pool(_) => Family::Pool,
        Class::Product(_)
        | Class::Reduction(_)
        | Class::Elementwise(_)
        | Class::Movement(_)
        | Class::Gather { .. } => return None,
    })
}

/// That the parts of a cut are all of the layer.
fn check_cut(ran: &ExecutedOn, layer: &Layer) -> Result<(), String> {
    let ExecutedOn::Split { axis, cpu, gpu, .. } = ran else { return Ok(()) };
    if axis.extent(&layer.operator).map(u64::from) == Some(u64::from(*cpu) + u64::from(*gpu)) {
        return Ok(());
    }
    Err(format!("the shares of {ran} do not add up to a {}", layer.operator.name()))
}

/// Standard deviation of repetitions around their mean; none of a single one.
fn deviation(times: &[f64]) -> Option<f64> {
    let count = times.len() as f64;
    let mean = times.iter().sum::<f64>() / count;
    let squares: f64 = times.iter().map(|time| (time - mean).powi(2)).sum();
    (times.len() > 1).then(|| (squares / (count - 1.0)).sqrt())
}

/// The networks that ran as a whole and whose layers can be found: bundled ones, and
/// those of scenario files in `folder`.
pub(super) fn networks(measurements: &[Measurement], folder: &Path) -> Vec<Network> {
    let mut networks: Vec<Network> = Vec::new();
    for name in measurements.iter().filter(|run| run.operator.is_none()).map(|run| &run.network) {
        if networks.iter().any(|known| known.name == *name) {
            continue;
        }
        if let Some(stages) = stages(name, folder) {
            let layers = stages.into_iter().map(|stage| stage.layer).collect();
            networks.push(Network { name: name.clone(), layers });
        }
    }
    networks
}

/// The stages of a network or scenario of that name.
fn stages(name: &str, folder: &Path) -> Option<Vec<Stage>> {
    if let Some(graph) = network(name) {
        return Some(fuse(&graph));
    }
    // A name of a row must not lead out of the folder.
    if Path::new(name).file_name() != Some(name.as_ref()) {
        return None;
    }
    let is_file = Path::new(name).extension().is_some_and(|extension| extension == "toml");
    let file = folder.join(if is_file { name.to_owned() } else { format!("{name}.toml") });
    match Scenario::load(file.to_str()?, &Overrides::default()).ok()?.workload {
        Workload::Model(stages) => Some(stages),
        Workload::Set(_) | Workload::Language(_) => None,
    }
}

/// The operators of a layer that a CPU runs one after the other: its own, and each
/// function linked to it that the one before does not apply for free.
fn passes(layer: &Layer) -> Vec<Operator> {
    let output = layer.operator.output();
    let passes = separate_passes(layer).map(|function| {
        let other = function.is_binary().then_some(output);
        Operator::Elementwise(Elementwise { function, input: output, other })
    });
    std::iter::once(layer.operator.clone()).chain(passes).collect()
}

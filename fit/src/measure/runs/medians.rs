//! From raw repetitions to one time per run, as calibration and validation use it.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;

use super::{ExecutedOn, Measurement, RunTable};
use crate::measure::benchmark_cpu::layers;
use crate::measure::{
    ByHost, ByProcessor, OnCores, OnGpu, Run, SkippedRow, UnderPlan, family, grouped, unknown_operators,
};
use coexec_import::ImportOptions;
use coexec_sim::device::{Direction, LinkTransfer};
use coexec_sim::kernel::cpu::separate_passes;
use coexec_sim::schedule::{Command, Setting, What, schedule};
use coexec_sim::statistics::median;
use coexec_sim::workload::{DataType, Layer, Operator, Stage, fuse, network};
use coexec_sim::{Mechanism, Overrides, Placement, Plan, Text, Workload};

impl RunTable {
    /// The runs by processor, each with the median of its repetitions that are not outliers.
    pub fn by_processor(&self) -> ByProcessor {
        let mut on_cpu = OnCpu::default();
        for (name, stages) in &self.networks {
            on_cpu.add(name, stages.iter().flat_map(|stage| passes(&stage.layer)).collect());
        }
        let mut sorted = ByProcessor { left_out: self.left_out.clone(), ..ByProcessor::default() };
        for measurement in &self.measurements {
            if let Err(reason) = sorted.add(measurement, self, &mut on_cpu) {
                sorted.left_out.push(SkippedRow { line: measurement.line, reason });
            }
        }
        sorted
    }

    /// The stages of a network that ran as a whole, in the number format in which it ran.
    fn stages_of(&self, measurement: &Measurement) -> Result<Vec<Stage>, String> {
        let Measurement { network, data_type, .. } = measurement;
        let known = self.networks.iter().find(|(name, _)| name == network);
        let (_, stages) = known.ok_or_else(|| unknown_operators(network))?;
        let in_format = |stage: &Stage| {
            let layer = Layer { data_type: *data_type, ..stage.layer.clone() };
            Stage { layer, ..stage.clone() }
        };
        Ok(stages.iter().map(in_format).collect())
    }

    /// The plan file of that name.
    fn plan(&self, name: &str) -> Result<Text, String> {
        let known = self.plans.iter().find(|(known, _)| known == name);
        let (_, plan) = known.ok_or_else(|| format!("no plan {name} can be read next to the runs"))?;
        Ok(plan.clone())
    }

    /// Number of repetitions that are marked as outliers.
    pub fn outliers(&self) -> usize {
        let repetitions = self.measurements.iter().flat_map(|measurement| &measurement.repetitions);
        repetitions.filter(|repetition| repetition.outlier).count()
    }
}

impl Measurement {
    /// Median of the repetitions that are not outliers, in microseconds; none where all are.
    pub fn median_us(&self) -> Option<f64> {
        median(&self.times_us())
    }

    /// Times of the repetitions that are not outliers, in microseconds.
    pub fn times_us(&self) -> Vec<f64> {
        let sound = self.repetitions.iter().filter(|repetition| !repetition.outlier);
        sound.map(|repetition| repetition.measured_us).collect()
    }
}

impl ByProcessor {
    /// Adds a measurement of `table`, which knows the stages of whole networks and the plans.
    fn add(&mut self, measurement: &Measurement, table: &RunTable, on_cpu: &mut OnCpu) -> Result<(), String> {
        let times = measurement.times_us();
        let middle_us = median(&times)
            .ok_or_else(|| format!("every repetition of run {} is an outlier", measurement.run))?;
        let run = Run::timed(&measurement.network, (middle_us, deviation(&times)), measurement.line)?;
        let (ran, synchronisation) = (&measurement.processor, measurement.synchronisation);
        let by_host = |layer: &Layer, plan| {
            let (layer, ran) = (layer.clone(), ran.clone());
            ByHost { layer, ran, synchronisation, plan }
        };
        match (ran, &measurement.operator) {
            (ExecutedOn::Gpu, Some((_, layer))) if synchronisation.is_some() => {
                self.host_timed.push(run.of(by_host(layer, None)));
            }
            (ExecutedOn::Gpu, Some((_, layer))) => {
                family(&layer.operator)
                    .ok_or_else(|| format!("there is no group of errors for {}", layer.operator.name()))?;
                self.gpu.push(run.of(layer.clone()));
            }
            (ExecutedOn::Cpu(core_set), operator) => {
                let (network, layers) = match operator {
                    Some((_, layer)) => on_cpu.layer(layer, measurement.data_type),
                    None => on_cpu.network(&run.network, measurement.data_type),
                };
                let (core_set, data_type) = (core_set.clone(), measurement.data_type);
                self.cpu.push(Run { network, ..run.of(OnCores { core_set, data_type, layers }) });
            }
            (ExecutedOn::Gpu, None) => {
                let stages = table.stages_of(measurement)?;
                // Otherwise the device timed itself.
                let is_by_host = synchronisation.is_some();
                let copies = if is_by_host { copies_around(&stages)? } else { Vec::new() };
                let launches = stages.into_iter().map(|stage| stage.layer).collect();
                self.gpu_networks.push(run.of(OnGpu { launches, copies }));
            }
            (ExecutedOn::Plan(name), None) => {
                let plan = table.plan(name)?;
                let stages = table.stages_of(measurement)?;
                self.planned.push(run.of(UnderPlan { stages, plan }));
            }
            (ExecutedOn::Plan(file), Some((name, layer))) => {
                let stages = vec![Stage::single(name.clone(), layer.clone())];
                let plan = Some(UnderPlan { stages, plan: table.plan(file)? });
                self.host_timed.push(run.of(by_host(layer, plan)));
            }
            (ExecutedOn::Split { .. }, Some((_, layer))) => {
                check_cut(ran, layer)?;
                self.host_timed.push(run.of(by_host(layer, None)));
            }
            (ExecutedOn::Npu, _) => {
                return Err("of runs on an NPU, only whole models in --format ai-hub are compared".to_owned());
            }
            (ExecutedOn::Split { .. }, None) => {
                return Err(format!("a run on {ran} is of a whole network: name its plan's file, plan:FILE"));
            }
        }
        Ok(())
    }
}

/// What is copied if `stages` run on a GPU with its own memory, from the host's memory and back.
fn copies_around(stages: &[Stage]) -> Result<Vec<(LinkTransfer, Direction)>, String> {
    let plan = Plan::new(Mechanism::EventWait, vec![Placement::GPU; stages.len()]);
    let setting = Setting {
        gpu_has_own_memory: true,
        ends_on_host: true,
        is_inference: true,
        cpu_fills_the_queue: false,
        control: None,
    };
    let commands = schedule(stages, &plan, &setting).map_err(|error| error.to_string())?.commands;
    let copy = |command: Command| match command.what {
        What::Move { bytes, pieces, to, .. } => Some((LinkTransfer { bytes, pieces }, to.into())),
        What::Submit | What::Compute { .. } | What::HandOver { .. } | What::Join { .. } | What::ReadBack => {
            None
        }
    };
    Ok(commands.into_iter().filter_map(copy).collect())
}

/// The networks that the CPU ran so far, by name.
#[derive(Default)]
pub(in crate::measure) struct OnCpu {
    known: HashMap<String, Vec<Operator>>,
    /// Name of each list of operators.
    names: HashMap<Vec<Operator>, String>,
}

impl OnCpu {
    /// Adds a network; for equal names, or equal lists of operators, the first one is kept.
    fn add(&mut self, name: &str, operators: Vec<Operator>) {
        self.names.entry(operators.clone()).or_insert_with(|| name.to_owned());
        self.known.entry(name.to_owned()).or_insert(operators);
    }

    /// The network of that name with its layers, which are empty where they are unknown.
    fn network(&self, name: &str, data_type: DataType) -> (String, Arc<[Layer]>) {
        let layers = self.known.get(name).map(|operators| in_format(operators, data_type));
        (name.to_owned(), layers.unwrap_or_default())
    }

    /// The network that consists of that layer alone.
    pub(in crate::measure) fn layer(&mut self, layer: &Layer, data_type: DataType) -> (String, Arc<[Layer]>) {
        let operators = passes(layer);
        let layers = in_format(&operators, data_type);
        if let Some(name) = self.names.get(&operators) {
            return (name.clone(), layers);
        }
        let is_known = |name: &str| self.known.contains_key(name);
        let parts: Vec<String> = operators.iter().map(ToString::to_string).collect();
        let mut name = parts.join(" then ");
        // Descriptions of operators state only the output, so different inputs can share one.
        if is_known(&name) {
            let inputs: Vec<String> = layer.operator.inputs().iter().map(ToString::to_string).collect();
            name = format!("{name} of {}", inputs.join(" and "));
        }
        while is_known(&name) {
            name.push_str(", another");
        }
        self.add(&name, operators);
        (name, layers)
    }
}

/// Layers in a number format; empty where the CPU's kernels do not have it.
fn in_format(operators: &[Operator], data_type: DataType) -> Arc<[Layer]> {
    let is_known = matches!(data_type, DataType::F32 | DataType::I8);
    if is_known { layers(operators, data_type) } else { Arc::default() }
}

/// Checks that the parts of a cut add up to the layer.
fn check_cut(ran: &ExecutedOn, layer: &Layer) -> Result<(), String> {
    let ExecutedOn::Split { axis, cpu, gpu, .. } = ran else { return Ok(()) };
    if axis.extent(&layer.operator).map(u64::from) == Some(u64::from(*cpu) + u64::from(*gpu)) {
        return Ok(());
    }
    Err(format!("the shares of {ran} do not add up to a {}", layer.operator.name()))
}

/// Sample standard deviation of repetitions; none of a single one.
fn deviation(times: &[f64]) -> Option<f64> {
    let count = times.len() as f64;
    let mean = times.iter().sum::<f64>() / count;
    let squares: f64 = times.iter().map(|time| (time - mean).powi(2)).sum();
    (times.len() > 1).then(|| (squares / (count - 1.0)).sqrt())
}

/// The networks that ran as a whole and are bundled, or have a scenario or model file in `folder`.
pub(super) fn networks(measurements: &[Measurement], folder: &Path) -> Vec<(String, Vec<Stage>)> {
    let whole = measurements.iter().filter(|run| run.operator.is_none());
    let network = |(name, _): (&String, Vec<()>)| Some((name.clone(), stages(name, folder)?));
    grouped(whole.map(|run| (&run.network, ()))).into_iter().filter_map(network).collect()
}

/// The plans under which networks ran, of those whose files are in `folder`.
pub(super) fn plans(measurements: &[Measurement], folder: &Path) -> Vec<(String, Text)> {
    let name = |run: &Measurement| match &run.processor {
        ExecutedOn::Plan(name) => Some(name.clone()),
        ExecutedOn::Gpu | ExecutedOn::Npu | ExecutedOn::Cpu(_) | ExecutedOn::Split { .. } => None,
    };
    let names: BTreeSet<String> = measurements.iter().filter_map(name).collect();
    let in_folder = names.into_iter().filter(|name| is_in_folder(name));
    in_folder.filter_map(|name| Some((name.clone(), Text::read(&folder.join(name)).ok()?))).collect()
}

/// Whether a name in a row does not lead out of the folder of the runs.
fn is_in_folder(name: &str) -> bool {
    Path::new(name).file_name() == Some(name.as_ref())
}

/// The stages of the bundled network, or of the scenario or model file of that name in `folder`.
fn stages(name: &str, folder: &Path) -> Option<Vec<Stage>> {
    if let Some(graph) = network(name) {
        return Some(fuse(&graph));
    }
    if !is_in_folder(name) {
        return None;
    }
    let is_file = Path::new(name).extension().is_some_and(|extension| extension == "toml");
    // A scenario comes first: it may have been imported with options that the model needs.
    let endings: &[&str] = if is_file { &[""] } else { &[".toml", ".onnx", ".tflite"] };
    endings.iter().find_map(|ending| {
        let file = folder.join(format!("{name}{ending}"));
        let (overrides, how) = (Overrides::default(), ImportOptions::default());
        match coexec_import::load(file.to_str()?, &overrides, &how).ok()?.workload {
            Workload::Model(stages) => Some(stages),
            Workload::Set(_) | Workload::Language(_) | Workload::Applications(_) => None,
        }
    })
}

/// The operators of a layer that a CPU runs as separate passes: its own, and each linked
/// function that the operator before does not apply for free.
fn passes(layer: &Layer) -> Vec<Operator> {
    let passes = separate_passes(layer).map(Operator::Elementwise);
    std::iter::once(layer.operator.clone()).chain(passes).collect()
}

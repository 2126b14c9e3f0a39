//! Importer of Qualcomm AI Hub's measurements: whole inferences of networks on one unit of a
//! chip under a runtime, with the networks' graphs.
//!
//! Responsible for: which rows of `measurements.csv` are usable (`row`), which of several rows of a
//! model is used (`choice`), and the networks, each imported once. Not for: predictions
//! (`validate::inference`). Invariant: an unused row is returned with its line and the reason,
//! never dropped.

mod choice;
mod normalisation;
mod row;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rayon::prelude::*;
use strum::{Display, EnumString};

use super::{Run, Runs, SkippedRow, no_such_device, usable};
use crate::csv_rows;
use coexec_import::{ImportOptions, ImportedScenario};
use coexec_sim::device::calibration::{Computed, ErrorGroup, Which};
use coexec_sim::workload::{DataType, Graph, Stage, fuse};
use coexec_sim::{InputError, ProcessorKind, Text};
use row::Row;

/// Name of the table in its folder.
const TABLE: &str = "measurements.csv";
/// Folder of the graphs, next to the table.
const GRAPHS: &str = "graphs";

/// A whole inference of a network on one unit. Its network's name is that of the graph.
pub type Inference = Run<OnUnit>;

/// Times in microseconds by network, runtime and format.
pub type Times = HashMap<(String, Runtime, Format), f64>;

/// What a runtime ran on one unit of a chip.
#[derive(Clone, Debug, PartialEq)]
pub struct OnUnit {
    /// The model's family of architectures, which cross-validation may keep in one fold.
    pub family: String,
    /// The unit that ran all layers.
    pub unit: ProcessorKind,
    /// The runtime that compiled and ran the network.
    pub runtime: Runtime,
    /// The number format.
    pub format: Format,
    /// Whether it is the reference time of the model on that unit and in that format; other times
    /// are grouped by their runtime.
    pub is_reference: bool,
    /// Id of the measurement, by which copies are recognised.
    pub job: String,
    /// The network that was computed.
    pub network: Arc<Network>,
}

/// A network in one number format.
#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    /// The graph, unfused.
    pub graph: Graph,
    /// The stages to which it is fused.
    pub stages: Vec<Stage>,
}

/// A runtime that compiles and runs networks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Display, EnumString)]
#[strum(serialize_all = "snake_case")]
pub enum Runtime {
    /// Qualcomm's, from its model container, compiled on the device.
    QnnDlc,
    /// Qualcomm's, compiled ahead of time.
    QnnContextBinary,
    /// TensorFlow Lite (`LiteRT`), which delegates to Qualcomm's runtime or uses its own kernels.
    Tflite,
    /// ONNX Runtime, which delegates to Qualcomm's runtime or uses its own kernels.
    Onnx,
    /// ONNX Runtime with a network that Qualcomm's runtime compiled ahead of time.
    PrecompiledQnnOnnx,
    /// Qualcomm's for speech.
    VoiceAi,
    /// Earlier versions of Qualcomm's.
    Qnn,
}

impl Runtime {
    /// Rank among the runtimes whose time can be a model's reference, lowest first; none for runtimes
    /// that are only grouped by themselves.
    pub fn preference(self) -> Option<u32> {
        match self {
            Self::QnnDlc => Some(0),
            Self::QnnContextBinary => Some(1),
            Self::Tflite => Some(2),
            Self::Onnx => Some(3),
            Self::PrecompiledQnnOnnx | Self::VoiceAi | Self::Qnn => None,
        }
    }
}

/// Number format of weights and activations, as AI Hub names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Display, EnumString)]
#[strum(serialize_all = "snake_case")]
pub enum Format {
    /// Floating point, in the unit's width.
    Float,
    /// 8-bit integers.
    W8a8,
    /// 8-bit weights, 16-bit activations.
    W8a16,
    /// 4-bit weights, 16-bit activations.
    W4a16,
}

impl Format {
    /// The number format in which a unit computes: on an NPU, floating point has 16 bits; on a GPU,
    /// the profile decides.
    pub fn data_type(self, unit: ProcessorKind) -> DataType {
        match (self, unit) {
            (Self::Float, ProcessorKind::Npu) => DataType::F16,
            (Self::Float, ProcessorKind::Cpu | ProcessorKind::Gpu) => DataType::F32,
            (Self::W8a8, _) => DataType::I8,
            (Self::W8a16, _) => DataType::W8A16,
            (Self::W4a16, _) => DataType::W4A16,
        }
    }
}

impl OnUnit {
    /// Its group of error figures.
    pub fn group(&self) -> ErrorGroup {
        let Self { unit, runtime, format, .. } = self;
        let what = if self.is_reference { Computed::Networks } else { Computed::Kind(runtime.to_string()) };
        ErrorGroup::On { processor: *unit, what, runs: Some(Which::Format(format.to_string())) }
    }
}

/// Whether `folder` holds AI Hub's measurements.
pub fn is_in(folder: &Path) -> bool {
    folder.join(TABLE).is_file()
}

/// The inferences on `chip` in the table of `folder`, with the graphs of that folder.
///
/// # Errors
/// The file does not exist, is not such a table, or has no such chip.
pub fn read(folder: &Path, chip: &str) -> Result<Runs<OnUnit>, InputError> {
    let graphs = folder.join(GRAPHS);
    parse(&Text::read(&folder.join(TABLE))?, chip, |graph| import(&graphs, graph))
}

/// Times on the NPU of `chip` in the table of `folder`, chosen as by [`read`].
///
/// # Errors
/// As [`read`].
pub fn times_on_npu(folder: &Path, chip: &str) -> Result<Times, InputError> {
    let (rows, _) = rows_of(&Text::read(&folder.join(TABLE))?, chip)?;
    let rows = choice::chosen(rows).0.into_iter().filter(|row| row.unit == ProcessorKind::Npu);
    Ok(rows.map(|row| ((row.run.network, row.runtime, row.format), row.run.measured_us)).collect())
}

/// Parses the table; `import` returns the graph of a name. See [`read`].
///
/// # Errors
/// The text is not such a table, or has no such chip.
pub fn parse(
    text: &Text,
    chip: &str,
    import: impl Fn(&str) -> Result<Graph, String> + Sync,
) -> Result<Runs<OnUnit>, InputError> {
    let (rows, mut left_out) = rows_of(text, chip)?;
    let (chosen, others) = choice::chosen(rows);
    left_out.extend(others);
    let names: BTreeSet<&str> = chosen.iter().map(|row| row.cells.graph.as_str()).collect();
    let graphs: BTreeMap<&str, Result<Graph, String>> =
        names.into_par_iter().map(|name| (name, import(name))).collect();
    let mut networks: HashMap<(&str, DataType), Arc<Network>> = HashMap::new();
    let (runs, without_graph) = usable(chosen.iter().map(|row| {
        let name = row.cells.graph.as_str();
        let inference = graphs[name].as_ref().map(|graph| {
            let data_type = row.format.data_type(row.unit);
            let network = networks.entry((name, data_type)).or_insert_with(|| {
                let graph = graph.clone().with_data_type(data_type);
                Arc::new(Network { stages: fuse(&graph), graph })
            });
            row.inference(Arc::clone(network))
        });
        (row.run.line, inference)
    }));
    left_out.extend(without_graph);
    left_out.sort_by_key(|row| row.line);
    Ok(Runs { runs, left_out })
}

/// The usable rows of `chip`, each measurement once, and the others.
fn rows_of(text: &Text, chip: &str) -> Result<(Vec<Row>, Vec<SkippedRow>), InputError> {
    let rows = csv_rows::numbered::<row::Cells>(text, row::HELP)?;
    let chips: BTreeSet<&str> = rows.iter().map(|(_, cells)| cells.chip.as_str()).collect();
    if !chips.contains(chip) {
        return Err(no_such_device(text, chip, "chips", chips));
    }
    let mut jobs = HashSet::new();
    let of_chip = rows.into_iter().filter(|(_, cells)| cells.chip == chip);
    Ok(usable(of_chip.map(|(line, cells)| {
        let is_copy = !jobs.insert(cells.job_id.clone()) && !cells.job_id.is_empty();
        let copy = || Err("a copy of a measurement that is listed above".to_owned());
        (line, if is_copy { copy() } else { Row::of(cells, line) })
    })))
}

/// The graph of that name in a folder, with the normalisation of its pictures.
fn import(folder: &Path, name: &str) -> Result<Graph, String> {
    let path: PathBuf = folder.join(format!("{name}.onnx"));
    let imported = ImportedScenario::load(&path, &ImportOptions::default())
        .map_err(|error| format!("the graph {name} is not imported: {error}"))?;
    normalisation::with_normalisation(name, imported.model.graph)
        .map_err(|error| format!("the graph {name} cannot be normalised: {error}"))
}

#[cfg(test)]
mod tests;

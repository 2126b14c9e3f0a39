//! Importer of whole networks, and of operators in them, timed by other frameworks' tools: TFLite's and
//! LiteRT's, ONNX Runtime's, and ncnn's.
//!
//! Responsible for: which model ran on which processor, and the times of an inference and its
//! operators. Not for: importing the model (`coexec-import`), or which library's kernels ran.
//! Invariant: an unusable result is returned with its file and the reason.

mod litert;
mod ncnn;
mod onnx_runtime;

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::runs::OnCpu;
use super::{ByProcessor, OnCores, Run, SkippedRow};
use coexec_import::{ImportOptions, ImportedScenario, ModelFormat, node_name};
use coexec_sim::workload::{Class, Graph, Movement, Stage, fuse, network};
use coexec_sim::{CoreSet, Cpu, DataType, InputError, Layer, Text};

/// File name extensions of models.
const MODELS: [&str; 2] = ["tflite", "onnx"];

/// The tool that wrote the results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    /// `benchmark_model`: text, `NAME.txt` or `NAME.log`.
    BenchmarkModel,
    /// `litert-benchmark`: `NAME.json`.
    LitertBenchmark,
    /// ONNX Runtime's profile: `NAME_DATE.json`.
    OnnxRuntime,
    /// `benchncnn`: text.
    Ncnn,
}

impl Tool {
    /// File name extensions of its results.
    fn endings(self) -> &'static [&'static str] {
        match self {
            Self::BenchmarkModel | Self::Ncnn => &["txt", "log"],
            Self::LitertBenchmark | Self::OnnxRuntime => &["json"],
        }
    }

    /// Description of the expected files, for errors.
    fn expected(self) -> &'static str {
        match self {
            Self::BenchmarkModel => {
                "a folder with the text of benchmark_model in NAME.txt, next to NAME.tflite"
            }
            Self::LitertBenchmark => {
                "a folder with NAME.json of litert-benchmark --result_json, next to NAME.tflite"
            }
            Self::OnnxRuntime => "a folder with a profile of ONNX Runtime in NAME.json, next to NAME.onnx",
            Self::Ncnn => "the text of benchncnn, or a folder with it in NAME.txt",
        }
    }

    /// Reads a result of one or several models.
    fn read(self, path: &Path) -> Result<Vec<Result<ToolResult, String>>, InputError> {
        let content = Text::read(path)?.content;
        Ok(match self {
            Self::BenchmarkModel => {
                let table = path.with_extension("csv");
                let table = table.is_file().then(|| Text::read(&table)).transpose()?;
                vec![litert::of_text(&content, table.as_ref().map(|table| table.content.as_str()))]
            }
            Self::LitertBenchmark => vec![litert::of_json(&content)],
            Self::OnnxRuntime => vec![onnx_runtime::of_profile(&content)],
            Self::Ncnn => ncnn::of_text(&content),
        })
    }
}

/// A tool's measurement of one model.
#[derive(Clone, Debug, Default, PartialEq)]
struct ToolResult {
    /// Line of the time in the result; 0 where the result has no lines.
    line: u64,
    /// Name of the model, or its path on the measured device; none where the result's file has the
    /// model's name.
    model: Option<String>,
    /// Number format, where the tool chose it.
    data_type: Option<DataType>,
    on_gpu: bool,
    threads: u32,
    /// Time of an inference, in microseconds.
    micros: f64,
    deviation_us: Option<f64>,
    /// The nodes that the result identifies.
    operators: Vec<OfNode>,
    /// Reason that it does not identify others.
    unnamed: Option<String>,
}

/// The time of a node in an inference.
#[derive(Clone, Debug, PartialEq)]
struct OfNode {
    /// Name in the model, or of its result.
    node: String,
    /// Number of elements of its result, where the tool states it.
    elements: Option<u64>,
    /// Whether it is a product or a convolution, even if it has the name of a node that was merged into
    /// it.
    multiplies: bool,
    micros: f64,
}

/// A measured model.
struct Model {
    name: String,
    graph: Graph,
    stages: Vec<Stage>,
}

impl Model {
    fn of(name: String, graph: Graph) -> Self {
        let stages = fuse(&graph);
        Self { name, graph, stages }
    }

    /// The time of each stage whose operator is among `operators`, and the reasons that others are
    /// unusable. The times of nodes of one stage add up.
    fn timed(&self, operators: &[OfNode]) -> (Vec<(&Layer, f64)>, Vec<String>) {
        let of_stage = |(index, stage): (usize, &Stage)| {
            stage.nodes.iter().map(|&id| (self.graph.node(id).name.as_str(), index)).collect::<Vec<_>>()
        };
        let stage_of: HashMap<&str, usize> = self.stages.iter().enumerate().flat_map(of_stage).collect();
        let (mut times, mut others) = (BTreeMap::new(), Vec::new());
        for OfNode { node, elements, multiplies, micros } in operators {
            let node = node_name(node);
            let Some(&stage) = stage_of.get(node.as_str()) else {
                others.push("an operator that is not in the model as it was imported".to_owned());
                continue;
            };
            let operator = &self.stages[stage].layer.operator;
            if elements.is_some_and(|elements| elements != operator.output().elements()) {
                others.push("an operator whose result has a different extent in the model".to_owned());
            } else if let Class::Movement(Movement::Rearranged(_)) = operator.class() {
                others.push("an operator that computes nothing".to_owned());
            } else {
                let (time, is_there) = times.entry(stage).or_insert((0.0, false));
                *time += micros;
                *is_there |= *multiplies || node == self.stages[stage].name;
            }
        }
        let (whole, rests): (Vec<_>, Vec<_>) = times.into_iter().partition(|(_, (_, is_there))| *is_there);
        others.extend(rests.iter().map(|_| "functions fused to an operator without a time".to_owned()));
        let whole = whole.into_iter().map(|(stage, (micros, _))| (&self.stages[stage].layer, micros));
        (whole.collect(), others)
    }
}

/// The results of `tool` at `path`, a folder or one of its files. The models must be in that folder or
/// be bundled. `n` threads are assumed to have run on the `n` fastest cores of `cpu`.
///
/// # Errors
/// The folder or a file in it cannot be read, or the folder has no results of that tool.
pub fn read(path: &Path, tool: Tool, cpu: &Cpu) -> Result<ByProcessor, InputError> {
    let is_file = path.is_file();
    let folder = if is_file { path.parent().unwrap_or(Path::new("")) } else { path };
    let results = if is_file { vec![path.to_owned()] } else { results(folder, tool)? };
    if results.is_empty() {
        return Err(InputError::Option {
            option: "--runs",
            found: folder.display().to_string(),
            expected: tool.expected().to_owned(),
        });
    }
    let (models, on_cpu, runs) = Default::default();
    let mut reader = Reader { folder, cpu, models, on_cpu, runs };
    for result in results {
        for measured in tool.read(&result)? {
            let line = measured.as_ref().map_or(1, |measured| measured.line.max(1));
            if let Err(reason) = measured.and_then(|measured| reader.add(&result, &measured, line)) {
                let reason = format!("{}: {reason}", result.display());
                reader.runs.left_out.push(SkippedRow { line, reason });
            }
        }
    }
    Ok(reader.runs)
}

/// The result files of a tool, sorted by name.
fn results(folder: &Path, tool: Tool) -> Result<Vec<PathBuf>, InputError> {
    let unreadable = |error: std::io::Error| InputError::Unreadable {
        file: folder.display().to_string(),
        reason: error.to_string(),
    };
    let entries = std::fs::read_dir(folder).map_err(unreadable)?;
    let found: std::io::Result<Vec<PathBuf>> = entries.map(|entry| Ok(entry?.path())).collect();
    let mut found = found.map_err(unreadable)?;
    found.retain(|path| {
        path.extension().is_some_and(|ending| tool.endings().iter().any(|known| ending == *known))
    });
    found.sort();
    Ok(found)
}

struct Reader<'a> {
    folder: &'a Path,
    cpu: &'a Cpu,
    /// The models loaded so far, by file or name.
    models: BTreeMap<PathBuf, Result<Arc<Model>, String>>,
    on_cpu: OnCpu,
    runs: ByProcessor,
}

impl Reader<'_> {
    /// Adds a measurement to the runs of its processor.
    fn add(&mut self, result: &Path, measured: &ToolResult, line: u64) -> Result<(), String> {
        let model = self.model(result, measured.model.as_deref())?;
        let data_type = measured.data_type.unwrap_or(model.graph.data_type());
        let layer = |stage: &Stage| {
            let own = measured.data_type.unwrap_or(stage.layer.data_type);
            Layer { data_type: own, ..stage.layer.clone() }
        };
        let layers: Arc<[Layer]> = model.stages.iter().map(layer).collect();
        let whole = Run::timed(&model.name, (measured.micros, measured.deviation_us), line)?;
        if measured.on_gpu {
            self.runs.gpu_networks.push(whole.of(layers.iter().cloned().collect()));
            return Ok(());
        }
        let threads = measured.threads;
        let cores = CoreSet::fastest(self.cpu, threads)
            .ok_or_else(|| format!("the profile has no {threads} cores"))?;
        let on_cores = |layers| OnCores { core_set: cores.to_string(), data_type, layers };
        self.runs.cpu.push(whole.of(on_cores(layers)));
        let (timed, mut others) = model.timed(&measured.operators);
        for (layer, micros) in timed {
            let (network, layers) = self.on_cpu.layer(layer, data_type);
            match Run::timed(&network, (micros, None), line) {
                Ok(run) => self.runs.cpu.push(run.of(on_cores(layers))),
                Err(reason) => others.push(format!("an operator: {reason}")),
            }
        }
        let others = others.into_iter().chain(measured.unnamed.clone());
        self.runs.left_out.extend(others.map(|reason| SkippedRow { line, reason }));
        Ok(())
    }

    /// The model that the tool named, else the one with the name of the result's file.
    fn model(&mut self, result: &Path, named: Option<&str>) -> Result<Arc<Model>, String> {
        let name = named.and_then(|name| name.rsplit(['/', '\\']).next());
        let stem = result.file_stem().unwrap_or_default().to_string_lossy();
        // ONNX Runtime appends a date to the name.
        let file = |name: &str| {
            let exact = self.folder.join(name);
            let files = MODELS.map(|ending| self.folder.join(format!("{name}.{ending}")));
            let is_model = ModelFormat::of_name(name).is_some();
            std::iter::once(exact).filter(|_| is_model).chain(files).find(|path| path.is_file())
        };
        let mut names = name
            .into_iter()
            .chain([&*stem])
            .chain(stem.match_indices('_').rev().map(|(at, _)| &stem[..at]).filter(|_| named.is_none()));
        if let Some(path) = names.find_map(file) {
            return self.models.entry(path.clone()).or_insert_with(|| import(&path).map(Arc::new)).clone();
        }
        let absent = || format!("{} is not in the folder", name.unwrap_or(&stem));
        let bundled = name.map(|name| name.replace('_', "-")).ok_or_else(absent)?;
        let model =
            || network(&bundled).map(|graph| Arc::new(Model::of(bundled.clone(), graph))).ok_or_else(absent);
        self.models.entry(PathBuf::from(&bundled)).or_insert_with(model).clone()
    }
}

fn import(path: &Path) -> Result<Model, String> {
    let imported =
        ImportedScenario::load(path, &ImportOptions::default()).map_err(|error| error.to_string())?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    Ok(Model::of(name, imported.model.graph))
}

#[cfg(test)]
mod tests;

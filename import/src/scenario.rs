//! Imported models as scenario files.

use std::collections::BTreeSet;
use std::path::Path;

use super::model::Model;
use super::{
    ImportError, ImportOptions, Imported, ModelFormat, OpenDimensions, Replacement, imported, onnx, tflite,
};
use coexec_sim::Measure;
use coexec_sim::input::{InputError, Text, open, read_bytes};
use coexec_sim::scenario::{Overrides, Scenario, ScenarioFile};
use coexec_sim::workload::{Node, OperatorTable, Source};

/// Maximum size of a model file: the limit of Protocol Buffers and `FlatBuffers`.
const MAX_MODEL_BYTES: u64 = 2 << 30;

/// A model with its symbolic dimensions.
type OpenModel = (Model, OpenDimensions);

/// A scenario as read, before a device resolves it: its name, text and content.
pub type ReadScenario = (String, Text, ScenarioFile);

/// The scenario called `name`: imported where `name` has the extension of a model file, else loaded by
/// [`Scenario::load`].
///
/// # Errors
/// As [`Scenario::load`], or the model cannot be imported, or `how` has import options for something that is
/// not a model file.
pub fn load(name: &str, overrides: &Overrides, how: &ImportOptions) -> Result<Scenario, InputError> {
    let (name, text, file) = read_each(&[name.to_owned()], how)?.swap_remove(0);
    file.resolve(&name, &text, overrides)
}

/// Each of several scenarios, read as [`load`] does: a dimension that some of the models have is set in these
/// alone, and where there are models, the options do not apply to other scenarios.
///
/// # Errors
/// As [`load`].
pub fn read_each(names: &[String], how: &ImportOptions) -> Result<Vec<ReadScenario>, InputError> {
    let model = |name: &String| {
        let is_model = ModelFormat::of_name(name).is_some();
        is_model.then(|| read(Path::new(name), how)).transpose()
    };
    let models = names.iter().map(model).collect::<Result<Vec<_>, _>>()?;
    let is_known = |name: &&String| models.iter().flatten().any(|model| has_dimension(model, name));
    let known: BTreeSet<&String> = how.dimensions.keys().filter(is_known).collect();
    let is_for_models = models.iter().any(Option::is_some) || *how == ImportOptions::default();
    let scenario = |(name, model): (&String, Option<OpenModel>)| {
        let Some(model) = model else {
            return if is_for_models { ScenarioFile::named(name, name) } else { Err(not_a_model(name)) };
        };
        let mut how = how.clone();
        how.dimensions.retain(|name, _| has_dimension(&model, name) || !known.contains(name));
        let imported = ImportedScenario::of(Path::new(name), model, &how)?;
        Ok((name.clone(), Text { name: name.clone(), content: String::new() }, imported.file))
    };
    names.iter().zip(models).map(scenario).collect()
}

/// Whether options can set the size called `name` in a model.
fn has_dimension((model, dimensions): &OpenModel, name: &str) -> bool {
    dimensions.contains_key(name) || model.scalar_input(name).is_some()
}

fn not_a_model(name: &str) -> InputError {
    InputError::Model {
        file: name.to_owned(),
        message: "--dim, --signature and --skip-unknown apply to model files only, and this is not one"
            .to_owned(),
        help: "leave them out, or give a file whose name ends in .onnx or .tflite".to_owned(),
    }
}

/// An imported model and its scenario.
#[derive(Clone, Debug, PartialEq)]
pub struct ImportedScenario {
    /// The scenario file.
    pub file: ScenarioFile,
    /// The model.
    pub model: Imported,
}

impl ImportedScenario {
    /// Reads and imports the model in a file, whose name ends in `.onnx` or `.tflite`.
    ///
    /// # Errors
    /// The file cannot be read or has another extension; otherwise as [`import`](crate::import()).
    pub fn load(path: &Path, options: &ImportOptions) -> Result<Self, InputError> {
        Self::of(path, read(path, options)?, options)
    }

    /// Imports the model that was read from `path`.
    fn of(path: &Path, model: OpenModel, options: &ImportOptions) -> Result<Self, InputError> {
        let file = path.display().to_string();
        let name = path.file_stem().map_or_else(|| file.clone(), |stem| stem.to_string_lossy().into_owned());
        let model = imported(&name, model, options).map_err(|error| refused(&file, &error))?;
        let source = path.file_name().map_or(file, |name| name.to_string_lossy().into_owned());
        let file = scenario(&model, name, source);
        Ok(Self { file, model })
    }

    /// The scenario as TOML, with a comment on top for each replaced node.
    ///
    /// # Errors
    /// A value has no TOML representation; those of a scenario always have one.
    pub fn to_toml(&self) -> Result<String, toml::ser::Error> {
        let Imported { skipped, approximated, .. } = &self.model;
        let skipped = skipped.iter().map(|replaced| (replaced, "replaced by"));
        let replaced = skipped.chain(approximated.iter().map(|replaced| (replaced, "approximated by")));
        let mut text = String::new();
        for (Replacement { node, kind, instead }, what) in replaced {
            let line = format!("# {node} ({kind}) {what} {instead}");
            // A name from the file must not end the comment.
            text.extend(line.chars().map(|character| if character.is_control() { ' ' } else { character }));
            text.push('\n');
        }
        Ok(text + &self.file.to_toml()?)
    }
}

/// Reads a model file.
fn read(path: &Path, options: &ImportOptions) -> Result<OpenModel, InputError> {
    let file = path.display().to_string();
    let Some(format) = ModelFormat::of_name(&file) else {
        return Err(InputError::Model {
            file,
            message: "the name does not end in a model format".to_owned(),
            help: "give a file whose name ends in .onnx or .tflite".to_owned(),
        });
    };
    let model = match format {
        ModelFormat::Onnx => onnx::read(open(path, MAX_MODEL_BYTES)?, path.parent(), options),
        ModelFormat::TfLite => tflite::read(&read_bytes(path, MAX_MODEL_BYTES)?, options),
    };
    model.map_err(|error| refused(&file, &error))
}

fn refused(file: &str, error: &ImportError) -> InputError {
    InputError::Model { file: file.to_owned(), message: error.to_string(), help: error.help() }
}

/// The scenario file of a model.
fn scenario(model: &Imported, name: String, source: String) -> ScenarioFile {
    let title = if model.skipped.is_empty() { name } else { format!("{name} ({})", model.coverage) };
    let graph = &model.graph;
    let name_of = |source: &Source| match *source {
        Source::Input(input) => model.inputs[input as usize].name.clone(),
        Source::Node(id) => graph.node(id).name.clone(),
    };
    let operator = |(index, node): (usize, &Node)| {
        let above = |source: &Source| matches!(source, Source::Node(id) if id.index() + 1 == index);
        let reads_above = node.inputs.len() == 1 && node.inputs.iter().all(above);
        let from = (!reads_above).then(|| node.inputs.iter().map(name_of).collect());
        OperatorTable {
            from,
            data_type: node.data_type,
            shares_weights: node.shares_weights.then_some(true),
            ..OperatorTable::new(&node.name, &node.operator)
        }
    };
    ScenarioFile {
        title,
        source: Some(source),
        data_type: Some(graph.data_type()),
        measure: Some(Measure::Inference),
        input: Some(model.inputs.clone()).filter(|inputs| !inputs.is_empty()),
        operator: Some(graph.nodes().iter().enumerate().map(operator).collect()),
        ..ScenarioFile::default()
    }
}

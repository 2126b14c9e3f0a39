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

/// The scenario called `name`: imported where `name` has the extension of a model file, else loaded by
/// [`Scenario::load`].
///
/// # Errors
/// As [`Scenario::load`], or the model cannot be imported, or `how` has import options for something that is
/// not a model file.
pub fn load(name: &str, overrides: &Overrides, how: &ImportOptions) -> Result<Scenario, InputError> {
    if ModelFormat::of_name(name).is_none() {
        if *how != ImportOptions::default() {
            return Err(InputError::Model {
                file: name.to_owned(),
                message: "--dim, --signature and --skip-unknown apply to model files only, and this is not one".to_owned(),
                help: "leave them out, or give a file whose name ends in .onnx or .tflite; --batch sets any batch".to_owned(),
            });
        }
        return Scenario::load(name, overrides);
    }
    let imported = ImportedScenario::load(Path::new(name), how)?;
    let text = Text { name: name.to_owned(), content: String::new() };
    imported.file.resolve(name, &text, overrides)
}

/// How to import each of several scenarios: a dimension that some of the models have is set in these alone, and where
/// there are models, the options do not apply to other scenarios.
///
/// # Errors
/// A model file cannot be read, or is not a valid model.
pub fn options_of_each(names: &[String], how: &ImportOptions) -> Result<Vec<ImportOptions>, InputError> {
    let own = |name: &String| -> Result<Option<BTreeSet<String>>, InputError> {
        let is_model = ModelFormat::of_name(name).is_some();
        let read = (is_model && names.len() > 1).then(|| read(Path::new(name), how)).transpose()?;
        let has = |(mut model, dimensions): (Model, OpenDimensions)| {
            let is_own = |name: &&String| dimensions.contains_key(*name) || model.set_scalar_input(name, 0);
            how.dimensions.keys().filter(is_own).cloned().collect()
        };
        Ok(read.map(|(_, model)| has(model)))
    };
    let each = names.iter().map(own).collect::<Result<Vec<_>, _>>()?;
    let known: BTreeSet<&String> = each.iter().flatten().flatten().collect();
    let options = |own: &Option<BTreeSet<String>>| {
        let mut options = how.clone();
        match own {
            Some(own) => options.dimensions.retain(|name, _| own.contains(name) || !known.contains(name)),
            None if each.iter().any(Option::is_some) => options = ImportOptions::default(),
            None => {}
        }
        options
    };
    Ok(each.iter().map(options).collect())
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
        let (file, model) = read(path, options)?;
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

/// Reads a model file; returns its name as given, and the model with its symbolic dimensions.
fn read(path: &Path, options: &ImportOptions) -> Result<(String, (Model, OpenDimensions)), InputError> {
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
    let model = model.map_err(|error| refused(&file, &error))?;
    Ok((file, model))
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

//! Imported models as scenario files.

use std::fmt::Write as _;
use std::path::Path;

use super::inline::InlineOperator;
use crate::input::{InputError, Text, read_bytes};
use crate::workload::import::{ImportOptions, Imported, ModelFormat, import};
use crate::workload::{Source, Stage, fuse};

/// Largest model file that is read: what Protocol Buffers and `FlatBuffers` can hold.
const MAX_MODEL_BYTES: u64 = 2 << 30;

/// A model as a scenario, and what there is to tell of it.
#[derive(Clone, Debug, PartialEq)]
pub struct ImportedScenario {
    /// The scenario file.
    pub text: String,
    /// The model.
    pub model: Imported,
}

impl ImportedScenario {
    /// Reads and imports the model in a file, whose name ends in `.onnx` or `.tflite`.
    ///
    /// # Errors
    /// Where the file is not there or has another name, or as [`import`].
    pub fn load(path: &Path, options: &ImportOptions) -> Result<Self, InputError> {
        let file = path.display().to_string();
        let Some(format) = ModelFormat::of_name(&file) else {
            return Err(InputError::Model {
                file,
                message: "the name tells no format of models".to_owned(),
                help: "give a file whose name ends in .onnx or .tflite".to_owned(),
            });
        };
        let bytes = read_bytes(path, MAX_MODEL_BYTES)?;
        let name = path.file_stem().map_or_else(|| file.clone(), |stem| stem.to_string_lossy().into_owned());
        let model = import(format, &name, bytes, options).map_err(|error| InputError::Model {
            file: file.clone(),
            message: error.to_string(),
            help: error.help(),
        })?;
        let source = path.file_name().map_or(file, |name| name.to_string_lossy().into_owned());
        let text = scenario(&model, &name, &source);
        Ok(Self { text, model })
    }

    /// The stages that the workload's graph is fused to.
    pub fn stages(&self) -> Vec<Stage> {
        fuse(&self.model.graph)
    }

    /// The scenario file as it is read, under the model's name.
    pub(super) fn into_text(self, name: &str) -> Text {
        Text { name: name.to_owned(), content: self.text }
    }
}

/// The scenario file of a model.
fn scenario(model: &Imported, title: &str, source: &str) -> String {
    let mut text = String::new();
    for (what, replacements) in [("in its place", &model.skipped), ("stands for it", &model.approximated)] {
        for replacement in replacements {
            let (node, kind, instead) = (&replacement.node, &replacement.kind, &replacement.instead);
            let _ = writeln!(text, "# {node} ({kind}): {instead} {what}");
        }
    }
    let _ = writeln!(text, "title = {}", quoted(title));
    let _ = writeln!(text, "source = {}", quoted(source));
    let _ = writeln!(text, "data_type = \"{}\"", model.graph.data_type());
    let _ = writeln!(text, "measure = \"inference\"");
    for input in &model.inputs {
        let shape = input.shape;
        let _ = writeln!(text, "\n[[input]]\nname = {}", quoted(&input.name));
        let (batch, height, width, channels) = (shape.batch, shape.height, shape.width, shape.channels);
        let _ = writeln!(text, "extent = [{batch}, {height}, {width}, {channels}]");
    }
    let graph = &model.graph;
    for (index, node) in graph.nodes().iter().enumerate() {
        let _ = writeln!(text, "\n[[operator]]\nname = {}", quoted(&node.name));
        let above = |source: &Source| matches!(source, Source::Node(id) if id.index() + 1 == index);
        if !(node.inputs.len() == 1 && node.inputs.iter().all(above)) {
            let names = node.inputs.iter().map(|&source| match source {
                Source::Input(input) => quoted(&model.inputs[input as usize].name),
                Source::Node(id) => quoted(&graph.node(id).name),
            });
            let _ = writeln!(text, "from = [{}]", names.collect::<Vec<_>>().join(", "));
        }
        if let Some(operator) = InlineOperator::of(&node.name, &node.operator) {
            text.push_str(&kind(&operator));
        }
    }
    text
}

/// The line that says what an operator is, without what is usual.
fn kind(operator: &InlineOperator) -> String {
    let Ok(toml::Value::Table(table)) = toml::Value::try_from(operator) else { return String::new() };
    let lines = table.into_iter().filter(|(key, _)| key != "name").map(|(key, mut value)| {
        if let toml::Value::Table(inner) = &mut value {
            inner.retain(|key, value| !is_usual(key, value));
        }
        format!("{key} = {value}\n")
    });
    lines.collect()
}

/// Whether a key means the same when it is left out.
fn is_usual(key: &str, value: &toml::Value) -> bool {
    match (key, value) {
        ("bias", value) => value.as_bool() == Some(true),
        ("groups" | "multiplier" | "batch", value) => value.as_integer() == Some(1),
        ("stride" | "dilation", toml::Value::Array(sides)) => {
            sides.iter().all(|side| side.as_integer() == Some(1))
        }
        ("padding", toml::Value::Table(sides)) => sides.values().all(|side| side.as_integer() == Some(0)),
        _ => false,
    }
}

fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}

//! Builds the graph of the operators in a file.
//!
//! An operator reads the operator above it, or those named in `from`; the first reads
//! the workload's input. An input whose extent does not follow from its first reader,
//! or one of several named inputs, is an `[[input]]`.

use std::collections::HashMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::operator::{Operator, OperatorTable, check_shape};
use super::{DataType, Graph, Node, NodeId, Shape, Source};
use crate::input::{Result, Text, Violation};

/// Name by which an operator reads the workload's input.
const INPUT: &str = "input";

/// An input of the workload: a tensor that no operator writes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InputTable {
    /// Name by which operators read it.
    pub name: String,
    /// Its extent, `[batch, height, width, channels]`.
    pub extent: Shape,
    /// Whether it is a constant of the model, which each processor has before an inference, like weights.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub constant: bool,
}

/// Indices of the constants among `inputs`.
pub fn constants(inputs: &[InputTable]) -> impl Iterator<Item = u32> + '_ {
    (0..).zip(inputs).filter(|(_, input)| input.constant).map(|(index, _)| index)
}

/// Builds the graph of the operators in `text`.
///
/// # Errors
/// The first operator that has no kind or several, reads an unknown name, or does
/// not accept its inputs.
pub(crate) fn graph(
    text: &Text,
    name: &str,
    data_type: DataType,
    inputs: &[InputTable],
    operators: &[OperatorTable],
) -> Result<Graph> {
    let mut assembly = Assembly::default();
    for (index, input) in inputs.iter().enumerate() {
        check_shape("the input", input.extent).map_err(|error| {
            text.refuse(&format!("input[{index}].extent"), error.to_string(), error.help())
        })?;
        assembly.inputs.push(input.extent);
        assembly.by_name.insert(input.name.clone(), Source::Input(index as u32));
    }
    for (index, table) in operators.iter().enumerate() {
        assembly.add(text, index, table)?;
    }
    let graph = Graph::new(name, data_type, assembly.inputs, assembly.nodes).map_err(|error| {
        let at = operators.iter().position(|table| Some(table.name.as_str()) == error.node());
        let key = at.map_or("operator".to_owned(), |index| format!("operator[{index}].name"));
        text.refuse(&key, error.to_string(), error.help())
    })?;
    Ok(graph.with_constants(constants(inputs)))
}

/// A graph under construction.
#[derive(Debug, Default)]
struct Assembly {
    inputs: Vec<Shape>,
    nodes: Vec<Node>,
    by_name: HashMap<String, Source>,
}

impl Assembly {
    fn add(&mut self, text: &Text, index: usize, table: &OperatorTable) -> Result<()> {
        let reject = |violation: Violation| text.reject(violation.inside(&format!("operator[{index}]")));
        if table.name.trim().is_empty() {
            return Err(reject(Violation::new("name", format!("{:?}", table.name), "a name")));
        }
        if self.by_name.contains_key(&table.name) {
            let message = format!("two operators are named {:?}, this is the second", table.name);
            let key = format!("operator[{index}].name");
            return Err(text.refuse(&key, message, "Give each operator a name of its own."));
        }
        let mut sources = self.sources(table).map_err(reject)?;
        let given: Vec<Shape> = sources.iter().filter_map(|&source| self.shape(source)).collect();
        let operator = table.operator(&given).map_err(reject)?;
        // Checked before any shape is derived from it, so that none can overflow.
        operator.check().map_err(|error| {
            let message = format!("{:?}: {error}", table.name);
            text.refuse(&format!("operator[{index}].name"), message, error.help())
        })?;
        self.complete(&operator, &mut sources);
        let id = NodeId(self.nodes.len() as u32);
        let OperatorTable { data_type, shares_weights, .. } = *table;
        self.nodes.push(Node {
            name: table.name.clone(),
            operator,
            inputs: sources,
            data_type,
            shares_weights: shares_weights.unwrap_or(false),
        });
        self.by_name.insert(table.name.clone(), Source::Node(id));
        Ok(())
    }

    /// The sources that the file names for an operator.
    fn sources(&self, table: &OperatorTable) -> Result<Vec<Source>, Violation> {
        let Some(from) = &table.from else {
            let above = self.nodes.len().checked_sub(1);
            return Ok(vec![above.map_or(Source::Input(0), |above| Source::Node(NodeId(above as u32)))]);
        };
        from.iter()
            .enumerate()
            .map(|(position, name)| match self.by_name.get(name) {
                Some(&source) => Ok(source),
                None if name == INPUT => Ok(Source::Input(0)),
                None => Err(Violation::new(
                    format!("from[{position}]"),
                    format!("{name:?}"),
                    "the name of an operator above, of an [[input]], or \"input\"",
                )),
            })
            .collect()
    }

    fn shape(&self, source: Source) -> Option<Shape> {
        match source {
            Source::Node(id) => self.nodes.get(id.index()).map(|node| node.operator.output()),
            Source::Input(index) => self.inputs.get(index as usize).copied(),
        }
    }

    /// Adds operands without a source as inputs of the workload.
    fn complete(&mut self, operator: &Operator, sources: &mut Vec<Source>) {
        let read = operator.inputs();
        if self.inputs.is_empty() && sources.contains(&Source::Input(0)) {
            self.inputs.extend(read.first());
        }
        for &shape in read.iter().skip(sources.len()) {
            sources.push(Source::Input(self.inputs.len() as u32));
            self.inputs.push(shape);
        }
    }
}

impl OperatorTable {
    /// The operator, on inputs of the extents `given`.
    ///
    /// # Errors
    /// The table has no kind of operator or several, or the operator takes its extent from
    /// an input and no input has one.
    pub fn operator(&self, given: &[Shape]) -> Result<Operator, Violation> {
        let kinds = self.operators();
        let expected = || format!("exactly one of {}", Self::KINDS.join(", "));
        match kinds.as_slice() {
            [operator] if operator.takes_extents() && given.is_empty() => Err(Violation::new(
                "name",
                "an operator that takes its extent from its input, and no input has one",
                "an operator with an extent of its own above it",
            )),
            [operator] if operator.takes_extents() => Ok(operator.reading(given)),
            [operator] => Ok(operator.clone()),
            [] => Err(Violation::new("name", "an operator of no kind", expected())),
            _ => Err(Violation::new("name", "an operator of several kinds", expected())),
        }
    }
}

//! The graph that the operators of a scenario file make.

use std::collections::HashMap;

use super::inline::{InlineInput, InlineOperator};
use super::violation;
use crate::device::check::Violation;
use crate::input::{InputError, Text};
use crate::workload::{
    Concat, DataType, Elementwise, Graph, Mean, Node, NodeId, Norm, Operator, Reshape, Shape, Slice, Softmax,
    Source, check_operator,
};

/// Name by which an operator reads the workload's input.
const INPUT: &str = "input";

/// Keys of [`InlineOperator`] that say what an operator is.
const KINDS: &str = "linear, matmul, conv2d, depthwise_conv2d, pool, mean, concat, function, softmax, norm, \
                     embedding, slice or reshape";

/// Builds the graph of the operators in `text`.
///
/// # Errors
/// The first operator that is not one thing, reads something unknown, or does
/// not accept what it reads.
pub(super) fn graph(
    text: &Text,
    name: &str,
    data_type: DataType,
    inputs: &[InlineInput],
    operators: &[InlineOperator],
) -> Result<Graph, InputError> {
    let mut assembly = Assembly::default();
    for (index, input) in inputs.iter().enumerate() {
        let [batch, height, width, channels] = input.extent;
        let extent = Shape { batch, height, width, channels };
        check_operator(&Operator::Mean(Mean { input: extent })).map_err(|error| {
            text.refuse(&format!("input[{index}].extent"), error.to_string(), error.help())
        })?;
        assembly.inputs.push(extent);
        assembly.by_name.insert(input.name.clone(), Source::Input(index as u32));
    }
    for (index, inline) in operators.iter().enumerate() {
        assembly.add(text, index, inline)?;
    }
    Graph::new(name, data_type, assembly.inputs, assembly.nodes).map_err(|error| {
        let at = operators.iter().position(|inline| Some(inline.name.as_str()) == error.node());
        let key = at.map_or("operator".to_owned(), |index| format!("operator[{index}].name"));
        text.refuse(&key, error.to_string(), error.help())
    })
}

/// A graph as it grows.
#[derive(Debug, Default)]
struct Assembly {
    inputs: Vec<Shape>,
    nodes: Vec<Node>,
    by_name: HashMap<String, Source>,
}

impl Assembly {
    fn add(&mut self, text: &Text, index: usize, inline: &InlineOperator) -> Result<(), InputError> {
        let reject = |violation: Violation| {
            text.reject(Violation { key: format!("operator[{index}].{}", violation.key), ..violation })
        };
        if inline.name.trim().is_empty() {
            return Err(reject(violation("name", format!("{:?}", inline.name), "a name")));
        }
        if self.by_name.contains_key(&inline.name) {
            let message = format!("two operators are named {:?}, this is the second", inline.name);
            let key = format!("operator[{index}].name");
            return Err(text.refuse(&key, message, "Give each operator a name of its own."));
        }
        let mut sources = self.sources(inline).map_err(reject)?;
        let given: Vec<Shape> = sources.iter().filter_map(|&source| self.shape(source)).collect();
        let operator = inline.operator(&given).map_err(reject)?;
        // Before any shape is derived from it, so that none can overflow.
        check_operator(&operator).map_err(|error| {
            let message = format!("{:?}: {error}", inline.name);
            text.refuse(&format!("operator[{index}].name"), message, error.help())
        })?;
        self.complete(&operator, &mut sources);
        let id = NodeId(self.nodes.len() as u32);
        self.nodes.push(Node { name: inline.name.clone(), operator, inputs: sources });
        self.by_name.insert(inline.name.clone(), Source::Node(id));
        Ok(())
    }

    /// What the operator reads, as far as the file says.
    fn sources(&self, inline: &InlineOperator) -> Result<Vec<Source>, Violation> {
        let Some(from) = &inline.from else {
            let above = self.nodes.len().checked_sub(1);
            return Ok(vec![above.map_or(Source::Input(0), |above| Source::Node(NodeId(above as u32)))]);
        };
        from.iter()
            .enumerate()
            .map(|(position, name)| match self.by_name.get(name) {
                Some(&source) => Ok(source),
                None if name == INPUT => Ok(Source::Input(0)),
                None => Err(violation(
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

    /// Operands that no operator produces are inputs of the workload.
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

impl InlineOperator {
    /// The operator, given the extents of what it reads.
    pub(crate) fn operator(&self, given: &[Shape]) -> Result<Operator, Violation> {
        let mut kinds = [
            self.linear.map(Operator::from),
            self.matmul.map(Operator::from),
            self.conv2d.map(Operator::from),
            self.depthwise_conv2d.map(Operator::from),
            self.pool.map(Operator::from),
            self.embedding.map(Operator::from),
        ]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>();
        kinds.extend(self.shaped_by_input(given)?);
        match kinds.as_slice() {
            [operator] => Ok(operator.clone()),
            [] => Err(violation("name", "an operator of no kind", format!("exactly one of {KINDS}"))),
            _ => Err(violation("name", "an operator of several kinds", format!("exactly one of {KINDS}"))),
        }
    }

    /// The kinds that take their extents from what they read.
    fn shaped_by_input(&self, given: &[Shape]) -> Result<Vec<Operator>, Violation> {
        let wanted = [
            self.mean == Some(true),
            self.concat == Some(true),
            self.function.is_some(),
            self.softmax == Some(true),
            self.norm.is_some(),
            self.slice.is_some(),
            self.reshape.is_some(),
        ];
        if !wanted.contains(&true) {
            return Ok(Vec::new());
        }
        let Some(&input) = given.first() else {
            return Err(violation(
                "name",
                "an operator that takes its extent from its input, and no input has one",
                "an operator with an extent of its own above it",
            ));
        };
        let mut operators = Vec::new();
        if self.mean == Some(true) {
            operators.push(Operator::Mean(Mean { input }));
        }
        if self.concat == Some(true) {
            let channels = given.iter().map(|shape| shape.channels).collect();
            operators.push(Operator::Concat(Concat { extent: input, channels }));
        }
        if let Some(function) = self.function {
            let other = function.is_binary().then(|| given.get(1).copied().unwrap_or(input));
            operators.push(Operator::Elementwise(Elementwise { function, input, other }));
        }
        if self.softmax == Some(true) {
            operators.push(Operator::Softmax(Softmax { input }));
        }
        if let Some(kind) = self.norm {
            operators.push(Operator::Norm(Norm { kind, input }));
        }
        if let Some([first_channel, channels]) = self.slice {
            operators.push(Operator::Slice(Slice { input, first_channel, channels }));
        }
        if let Some([batch, height, width, channels]) = self.reshape {
            let output = Shape { batch, height, width, channels };
            operators.push(Operator::Reshape(Reshape { input, output }));
        }
        Ok(operators)
    }
}

//! Fusion: the layers that a framework launches for a graph.
//!
//! Responsible for: folding batch norms into weights and linking element-wise
//! functions to their producers, as the `TFLite` GPU delegate merges nodes.
//! Not for: kernels, or the cost of the merged functions.
//! Invariant: every node is in exactly one stage, stages are in topological
//! order, and the multiply-accumulates of the graph are those of its stages.

use std::ops::Range;

use super::operator::Operator;
use super::{Elementwise, Graph, Layer, Node, NodeId, SecondOperand, Source};
use crate::units::Bytes;

/// A result of another stage that a stage reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
    /// Position among all tensors that the reader reads.
    pub position: usize,
    /// The stage whose result it is.
    pub input: usize,
}

/// One layer of a fused graph and its inputs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stage {
    /// Name of the node with the layer's operator.
    pub name: String,
    /// The layer.
    pub layer: Layer,
    /// The results of other stages that it reads: those of the operator in its order, then those of linked
    /// functions. Graph inputs are omitted.
    pub reads: Vec<Read>,
    /// Number of tensors that it reads, graph inputs included.
    pub input_count: usize,
    /// Positions of constants of the model among all tensors that it reads, those of the operator before those of
    /// linked functions.
    pub constants: Vec<usize>,
    /// The nodes merged into the stage, the operator's first.
    pub nodes: Vec<NodeId>,
    /// Whether an earlier stage has the same weights.
    pub shares_weights: bool,
}

impl Stage {
    /// Bytes of its constants and of its weights, unless an earlier stage has the same weights.
    pub fn own_weights(&self) -> Bytes {
        let parameters = if self.shares_weights { 0 } else { self.layer.operator.parameters() };
        self.layer.data_type.weight_bytes(parameters) + self.constant_bytes()
    }

    /// Bytes of the constants that it reads besides its weights.
    pub fn constant_bytes(&self) -> Bytes {
        let constants = self.layer.read_shapes().enumerate().filter(|(at, _)| self.constants.contains(at));
        let elements: u64 = constants.map(|(_, shape)| shape.elements()).sum();
        Bytes(elements * self.layer.data_type.activation_bytes())
    }

    /// The stages whose results it reads.
    pub fn inputs(&self) -> impl ExactSizeIterator<Item = usize> + DoubleEndedIterator + Clone + '_ {
        self.reads.iter().map(|read| read.input)
    }

    /// Rows of the tensor at `position` that `rows` of the output need; `None` if they need all of them, as
    /// those of a second operand that is broadcast along the rows.
    pub fn rows_read(&self, position: usize, rows: Range<u32>) -> Option<Range<u32>> {
        let operator = &self.layer.operator;
        let is_elementwise = matches!(operator, Operator::Elementwise(_));
        if position == 0 || !is_elementwise && operator.input(position).is_some() {
            return Some(operator.rows_reached(rows));
        }
        let (output, other) = (operator.output(), self.layer.read_shapes().nth(position));
        let is_broadcast =
            other.is_some_and(|other| SecondOperand::new(output, other).repeats(output.line_dimension()));
        (!is_broadcast).then_some(rows)
    }

    /// A stage without inputs from other stages.
    pub fn single(name: String, layer: Layer) -> Self {
        Self {
            name,
            layer,
            reads: Vec::new(),
            input_count: 1,
            constants: Vec::new(),
            nodes: Vec::new(),
            shares_weights: false,
        }
    }

    /// This stage without its inputs from other stages.
    #[must_use]
    pub fn isolated(&self) -> Self {
        self.renumbered(|_| None)
    }

    /// This stage with other numbers for the stages whose results it reads; without those that have none.
    #[must_use]
    pub fn renumbered(&self, number: impl Fn(usize) -> Option<usize>) -> Self {
        let renumber = |read: &Read| Some(Read { input: number(read.input)?, ..*read });
        Self { reads: self.reads.iter().filter_map(renumber).collect(), ..self.clone() }
    }
}

/// The layers of `graph`, in topological order.
///
/// A batch norm folds into the weights of the convolution or linear layer before
/// it. An element-wise function is linked to its producer if the producer's result
/// has no other reader, the epilogue has room, the function has no number format
/// other than the producer's, and the other operand, if any, is computed before the
/// producer. Of two operands with the same extent, the producer is the one computed
/// last; if the second is broadcast, it is the first (`TFLite` GPU delegate, `gpu_model.cc`).
/// Nothing is linked to a reshape, which is free as long as no kernel runs.
pub fn fuse(graph: &Graph) -> Vec<Stage> {
    let mut fusion = Fusion {
        reads: graph.reads(),
        stage_of: Vec::with_capacity(graph.nodes().len()),
        stages: Vec::new(),
    };
    for (index, node) in graph.nodes().iter().enumerate() {
        let id = NodeId(index as u32);
        let stage = if let Operator::Elementwise(elementwise) = &node.operator {
            fusion.link(node, elementwise, graph)
        } else if node.operator.folds() {
            fusion.fold(node)
        } else {
            None
        };
        let stage = stage.unwrap_or_else(|| fusion.start(node, graph));
        fusion.stages[stage].nodes.push(id);
        fusion.stage_of.push(stage);
    }
    fusion.stages
}

struct Fusion {
    /// Reads of each node's result.
    reads: Vec<u32>,
    /// Stage of each node handled so far.
    stage_of: Vec<usize>,
    stages: Vec<Stage>,
}

impl Fusion {
    fn start(&mut self, node: &Node, graph: &Graph) -> usize {
        let computed = |(position, &source)| Some(Read { position, input: self.producing_stage(source)? });
        let reads = (0..).zip(&node.inputs).filter_map(computed).collect();
        self.stages.push(Stage {
            name: node.name.clone(),
            layer: Layer::new(node.operator.clone(), node.data_type.unwrap_or(graph.data_type())),
            reads,
            input_count: node.inputs.len(),
            constants: (0..)
                .zip(&node.inputs)
                .filter(|(_, source)| graph.is_constant(**source))
                .map(|(at, _)| at)
                .collect(),
            nodes: Vec::new(),
            shares_weights: node.shares_weights,
        });
        self.stages.len() - 1
    }

    /// The stage that computes `source`; `None` for a graph input.
    fn producing_stage(&self, source: Source) -> Option<usize> {
        match source {
            Source::Input(_) => None,
            Source::Node(id) => Some(self.stage_of[id.index()]),
        }
    }

    /// The stage that computes `source`, if nothing else reads that result.
    fn sole_producer(&self, source: Source) -> Option<usize> {
        match source {
            Source::Node(id) if self.reads[id.index()] == 1 => self.producing_stage(source),
            Source::Node(_) | Source::Input(_) => None,
        }
    }

    fn fold(&mut self, norm: &Node) -> Option<usize> {
        let stage = self.sole_producer(norm.inputs[0])?;
        let layer = &mut self.stages[stage].layer;
        if !layer.linked.functions().is_empty() {
            return None;
        }
        // The norm's shift becomes the bias of the folded weights.
        layer.operator = layer.operator.with_bias()?;
        Some(stage)
    }

    fn link(&mut self, node: &Node, elementwise: &Elementwise, graph: &Graph) -> Option<usize> {
        let same_extent = elementwise.other == Some(elementwise.input);
        // Of two operands with the same extent, the one written last; graph inputs come first.
        let position = usize::from(same_extent && node.inputs[1] > node.inputs[0]);
        let stage = self.sole_producer(node.inputs[position])?;
        let other = node.inputs.get(1 - position).map(|&source| self.producing_stage(source));
        let ready = other.flatten().is_none_or(|other| other < stage);
        let host = &mut self.stages[stage];
        let has_same_type = node.data_type.is_none_or(|own| own == host.layer.data_type);
        if !ready
            || !has_same_type
            || !host.layer.operator.takes_functions()
            || !host.layer.linked.push(elementwise.function, elementwise.second_operand())
        {
            return None;
        }
        let is_constant = node.inputs.get(1 - position).is_some_and(|&source| graph.is_constant(source));
        host.constants.extend(is_constant.then_some(host.input_count));
        if let Some(input) = other.flatten() {
            host.reads.push(Read { position: host.input_count, input });
        }
        host.input_count += usize::from(other.is_some());
        Some(stage)
    }
}

#[cfg(test)]
mod tests;

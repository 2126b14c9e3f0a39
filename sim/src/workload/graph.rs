//! Graphs: operators and the tensors between them, checked once when built.
//!
//! Responsible for: connecting operators, checking that they accept each
//! other's tensors, totals over the graph. Not for: merging operators
//! (`fuse.rs`) or placing them.
//! Invariant: every [`Graph`] is sound. Its nodes are in topological order, and
//! no method of its operators can overflow or divide by zero.

use std::collections::{BTreeSet, HashSet};

use super::operator::{Operator, check_shape};
use super::{DataType, MAX_WORK, Shape};

mod batch;
mod builder;
mod error;

pub use builder::GraphBuilder;
pub use error::GraphError;

/// Index of a node in its graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

impl NodeId {
    /// As an index into [`Graph::nodes`].
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The source of a tensor; inputs of the graph are ordered before results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// An input of the graph, by its index.
    Input(u32),
    /// The result of an earlier node.
    Node(NodeId),
}

/// One operator in a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Name, unique in the graph.
    pub name: String,
    /// Its operator.
    pub operator: Operator,
    /// The tensors that it reads, in the operator's order.
    pub inputs: Vec<Source>,
    /// Its number format, if that is not the graph's.
    pub data_type: Option<DataType>,
    /// Whether an earlier node has the same weights: they count once.
    pub shares_weights: bool,
}

/// A checked graph of operators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Graph {
    name: String,
    data_type: DataType,
    inputs: Vec<Shape>,
    /// The inputs that are constants of the model.
    constants: BTreeSet<u32>,
    nodes: Vec<Node>,
}

impl Graph {
    /// A graph that reads tensors of the extents `inputs`.
    ///
    /// # Errors
    /// A [`GraphError`] for the first node (in order) that is unsound by itself,
    /// reads a source that does not precede it, or reads a tensor of another extent
    /// than its operator expects; for a repeated name; for no nodes at all; and for
    /// totals beyond [`MAX_WORK`].
    pub fn new(
        name: impl Into<String>,
        data_type: DataType,
        inputs: Vec<Shape>,
        nodes: Vec<Node>,
    ) -> Result<Self, GraphError> {
        Self { name: name.into(), data_type, inputs, constants: BTreeSet::new(), nodes }.checked()
    }

    fn checked(self) -> Result<Self, GraphError> {
        let graph = self;
        for (index, &shape) in graph.inputs.iter().enumerate() {
            check_shape("graph input", shape)
                .map_err(|error| GraphError::Input { index: index as u32, error })?;
        }
        if graph.nodes.is_empty() {
            return Err(GraphError::Empty);
        }
        let (mut names, mut known) = (HashSet::new(), HashSet::new());
        let (mut work, mut parameters) = (0_u64, 0_u64);
        for (index, node) in graph.nodes.iter().enumerate() {
            if !names.insert(node.name.as_str()) {
                return Err(GraphError::DuplicateName { node: node.name.clone() });
            }
            node.operator.check().map_err(|error| GraphError::Operator { node: node.name.clone(), error })?;
            graph.check_sources(index, node)?;
            // Each term is at most MAX_WORK, so that the sum cannot overflow.
            work += node.operator.macs();
            let own = node.operator.parameters();
            // Weights are compared without biases: each use may have a bias of its own, or none.
            if known.insert(node.operator.weights()[0]) && node.shares_weights {
                return Err(GraphError::NoneShares { node: node.name.clone() });
            }
            parameters += if node.shares_weights { 0 } else { own };
            if work > MAX_WORK || parameters > MAX_WORK {
                return Err(GraphError::TooLarge { node: node.name.clone() });
            }
        }
        Ok(graph)
    }

    /// The graph's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Number format of the model: that of all nodes without one of their own.
    pub fn data_type(&self) -> DataType {
        self.data_type
    }

    /// The same graph with all of its nodes in another number format.
    #[must_use]
    pub fn with_data_type(mut self, data_type: DataType) -> Self {
        self.nodes.iter_mut().for_each(|node| node.data_type = None);
        Self { data_type, ..self }
    }

    /// The same graph, of whose inputs these are constants of the model: each processor has them before an
    /// inference, like weights.
    #[must_use]
    pub fn with_constants(self, constants: impl IntoIterator<Item = u32>) -> Self {
        Self { constants: constants.into_iter().collect(), ..self }
    }

    /// Whether a tensor is a constant of the model.
    pub fn is_constant(&self, source: Source) -> bool {
        matches!(source, Source::Input(index) if self.constants.contains(&index))
    }

    /// Extents of the graph's inputs.
    pub fn inputs(&self) -> &[Shape] {
        &self.inputs
    }

    /// The nodes, in topological order.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// One node.
    ///
    /// # Panics
    /// If `id` is not from this graph.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }

    /// Extent of the tensor from `source`.
    ///
    /// # Panics
    /// If `source` is not from this graph.
    pub fn shape(&self, source: Source) -> Shape {
        match source {
            Source::Input(index) => self.inputs[index as usize],
            Source::Node(id) => self.node(id).operator.output(),
        }
    }

    /// How many times each node's result is read, by node index.
    pub fn reads(&self) -> Vec<u32> {
        let mut reads = vec![0; self.nodes.len()];
        for source in self.nodes.iter().flat_map(|node| &node.inputs) {
            if let Source::Node(id) = source {
                reads[id.index()] += 1;
            }
        }
        reads
    }

    /// Trained parameters of all nodes; shared ones count once.
    pub fn parameters(&self) -> u64 {
        let own = self.nodes.iter().filter(|node| !node.shares_weights);
        own.map(|node| node.operator.parameters()).sum()
    }

    /// Multiply-accumulates of all nodes, counted as [`Definition::macs`](super::Definition::macs) does.
    pub fn macs(&self) -> u64 {
        self.nodes.iter().map(|node| node.operator.macs()).sum()
    }

    /// Adds a node without checking it, and returns its result.
    fn push(&mut self, node: Node) -> Source {
        self.nodes.push(node);
        Source::Node(NodeId(self.nodes.len() as u32 - 1))
    }

    /// Name of `source` in messages.
    fn source_name(&self, source: Source) -> String {
        match source {
            Source::Input(index) => format!("graph input {index}"),
            Source::Node(id) => self.node(id).name.clone(),
        }
    }

    fn check_sources(&self, index: usize, node: &Node) -> Result<(), GraphError> {
        let name = || node.name.clone();
        let expected = node.operator.inputs();
        let (found, wanted) = (node.inputs.len(), expected.len());
        if found != wanted {
            return Err(GraphError::InputCount { node: name(), found, expected: wanted });
        }
        for (&source, expected) in node.inputs.iter().zip(expected) {
            let (position, limit) = match source {
                Source::Input(input) => (input as usize, self.inputs.len()),
                Source::Node(id) => (id.index(), self.nodes.len()),
            };
            if position >= limit {
                return Err(GraphError::UnknownSource { node: name(), read: source, limit });
            }
            if matches!(source, Source::Node(_)) && position >= index {
                return Err(GraphError::ForwardSource { node: name(), read: self.source_name(source) });
            }
            let found = self.shape(source);
            if found != expected {
                let read = self.source_name(source);
                return Err(GraphError::Mismatch { node: name(), read, found, expected });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;

//! A graph for several images, or sequences of tokens, at once.
//!
//! Responsible for: the operators that compute a batch. Not for: batches that follow each
//! other (`simulate/pipeline.rs`).
//!
//! Images lie one behind the other in the batch of a tensor. Tokens of all sequences are
//! rows of one matrix, as a linear layer computes them; attention has a product for each
//! head of each sequence.

use super::{Graph, GraphError, Node, NodeId, Source};
use crate::workload::operator::Operator;
use crate::workload::{BatchOf, Class, Reduction, Reshape, Shape};

/// Whether an operator looks at pixels in relation to each other.
fn is_of_images(operator: &Operator) -> bool {
    let mean = matches!(operator.class(), Class::Reduction(Reduction::Pixels { .. }));
    mean || operator.window().is_some()
}

impl Graph {
    /// The same graph for `count` images or sequences at once. A linear layer that reads
    /// one pixel an image gets a reshape in front of it, named after it.
    ///
    /// # Errors
    /// A [`GraphError`] where an operator becomes too large, and
    /// [`GraphError::NoBatch`] where it would mix what belongs to different sequences: a
    /// mean over tokens.
    pub fn with_batch(&self, count: u32) -> Result<Self, GraphError> {
        if count == 1 {
            return Ok(self.clone());
        }
        let readers = |source: Source| self.nodes.iter().filter(move |node| node.inputs.contains(&source));
        let inputs: Vec<Shape> = (0..)
            .zip(&self.inputs)
            .map(|(index, &shape)| {
                let of_images = readers(Source::Input(index)).any(|node| is_of_images(&node.operator));
                if of_images { shape.images(count) } else { shape.repeated(count) }
            })
            .collect();
        let graph = Self { inputs, nodes: Vec::new(), name: self.name.clone(), ..*self };
        let mut batch = Batch { count, graph, moved: Vec::new() };
        for (index, node) in self.nodes.iter().enumerate() {
            let result = Source::Node(NodeId(index as u32));
            let feeds_product = readers(result).any(|node| node.operator.multiplies_activations());
            batch.add(node, feeds_product)?;
        }
        batch.graph.checked()
    }
}

/// A graph of a batch as it grows.
struct Batch {
    count: u32,
    graph: Graph,
    /// Where each node of the graph for one stands here.
    moved: Vec<NodeId>,
}

impl Batch {
    fn add(&mut self, node: &Node, feeds_product: bool) -> Result<(), GraphError> {
        let moved = |source: &Source| match *source {
            Source::Node(id) => Source::Node(self.moved[id.index()]),
            input @ Source::Input(_) => input,
        };
        let mut sources: Vec<Source> = node.inputs.iter().map(moved).collect();
        let given: Vec<Shape> = sources.iter().map(|&source| self.graph.shape(source)).collect();
        let batch = BatchOf { count: self.count, given: &given, feeds_product };
        let mixed = || GraphError::NoBatch { node: node.name.clone() };
        let operator = node.operator.batched(&batch).ok_or_else(mixed)?;
        if let (Operator::Linear(linear), &[read]) = (&operator, given.as_slice()) {
            let rows = Shape::tokens(linear.rows, linear.input_features);
            if read != rows {
                let reshape = Operator::Reshape(Reshape { input: read, output: rows });
                let id = self.graph.push(format!("{}.rows", node.name), reshape, sources);
                sources = vec![Source::Node(id)];
            }
        }
        // Before any shape is derived from it, so that none can overflow.
        operator.check().map_err(|error| GraphError::Operator { node: node.name.clone(), error })?;
        let id = self.graph.push(node.name.clone(), operator, sources);
        self.moved.push(id);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::workload::{network, networks};

    #[test]
    fn a_batch_of_a_network_is_as_many_times_its_work_on_the_same_weights() {
        for (name, _) in networks() {
            let one = network(name).expect("it is bundled");
            let eight = one.with_batch(8).expect("the network's operators keep images apart");
            assert_eq!(eight.macs(), 8 * one.macs(), "{name}");
            assert_eq!(eight.parameters(), one.parameters(), "{name}");
            let elements = |graph: &crate::workload::Graph| -> u64 {
                graph.outputs().iter().map(|&id| graph.node(id).operator.output().elements()).sum()
            };
            assert_eq!(elements(&eight), 8 * elements(&one), "{name}");
        }
    }

    #[test]
    fn a_batch_of_one_is_the_network_itself() {
        let one = network("vit-tiny-p16").expect("it is bundled");
        assert_eq!(one.with_batch(1).as_ref(), Ok(&one));
    }

    #[test]
    fn a_batch_that_no_tensor_can_hold_is_refused() {
        let network = network("vgg16").expect("it is bundled");
        let error = network.with_batch(1 << 23).expect_err("it has too many elements");
        assert!(error.to_string().contains("expected at most"), "{error}");
    }
}

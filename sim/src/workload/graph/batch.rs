//! A graph for a batch of images or sequences of tokens.
//!
//! Responsible for: the operators of a batch. Not for: streams of batches
//! (`simulate/pipeline.rs`).
//!
//! Images follow each other along the batch dimension of a tensor. The tokens of all sequences
//! are rows of one matrix, as linear layers compute them; attention has one product for each
//! head of each sequence.

use super::{Graph, GraphError, Node, NodeId, Source};
use crate::workload::operator::Operator;
use crate::workload::{BatchOf, Class, Reduction, Reshape, Shape};

impl Node {
    /// Whether it broadcasts `source` over all images or sequences: one value per channel, or a constant. The
    /// sequences of a matrix of tokens are further rows of it, so that a constant of several rows is not read again.
    fn broadcasts(&self, source: Source, is_constant: bool) -> bool {
        let Class::Elementwise(function) = self.operator.class() else { return false };
        let Some(other) = function.other.filter(|_| function.is_broadcast()) else { return false };
        let is_per_channel = other.batch == 1 && other.pixels() == 1;
        let is_read_again = is_constant && (!function.input.is_tokens() || other.width == 1);
        (is_per_channel || is_read_again) && self.inputs.first() != Some(&source)
    }
}

/// Whether an operator combines pixels of an image.
fn is_of_images(operator: &Operator) -> bool {
    let mean = matches!(operator.class(), Class::Reduction(Reduction::Pixels { .. }));
    mean || operator.window().is_some()
}

impl Graph {
    /// The same graph for a batch of `count` images or sequences. An operator that needs the tokens of
    /// several sequences in another layout, such as a linear layer that reads one pixel per image or a
    /// mean over tokens, gets a reshape before it, named after it. A constant that all its readers
    /// broadcast, or one value per channel, is not repeated.
    ///
    /// # Errors
    /// A [`GraphError`] if an operator becomes too large, and
    /// [`GraphError::NoBatch`] if it would mix different images or sequences.
    pub fn with_batch(&self, count: u32) -> Result<Self, GraphError> {
        if count == 1 {
            return Ok(self.clone());
        }
        let readers = |source: Source| self.nodes.iter().filter(move |node| node.inputs.contains(&source));
        let inputs: Vec<Shape> = (0..)
            .zip(&self.inputs)
            .map(|(index, &shape)| {
                let input = Source::Input(index);
                if readers(input).any(|node| is_of_images(&node.operator)) {
                    shape.images(count)
                } else if readers(input).all(|node| node.broadcasts(input, self.is_constant(input))) {
                    shape
                } else {
                    shape.repeated(count)
                }
            })
            .collect();
        let (name, constants) = (self.name.clone(), self.constants.clone());
        let graph = Self { inputs, nodes: Vec::new(), name, constants, ..*self };
        let mut batch = Batch { count, graph, moved: Vec::new() };
        for (index, node) in self.nodes.iter().enumerate() {
            let result = Source::Node(NodeId(index as u32));
            let feeds_product = readers(result).any(|node| node.operator.multiplies_activations());
            batch.add(node, feeds_product)?;
        }
        batch.graph.checked()
    }
}

/// The graph of a batch under construction.
struct Batch {
    count: u32,
    graph: Graph,
    /// The result of each node of the original graph in this one.
    moved: Vec<Source>,
}

impl Batch {
    fn add(&mut self, node: &Node, feeds_product: bool) -> Result<(), GraphError> {
        let moved = |source: &Source| match *source {
            Source::Node(id) => self.moved[id.index()],
            input @ Source::Input(_) => input,
        };
        let mut sources: Vec<Source> = node.inputs.iter().map(moved).collect();
        let given: Vec<Shape> = sources.iter().map(|&source| self.graph.shape(source)).collect();
        let batch = BatchOf { count: self.count, given: &given, feeds_product };
        let mixes = || GraphError::NoBatch { node: node.name.clone(), kind: node.operator.name() };
        // An operator that would mix the sequences of one matrix reads them as separate images.
        let apart = || {
            let inputs = (0..).map_while(|index| node.operator.input(index));
            let given: Vec<Shape> = inputs.map(|input| input.images(self.count)).collect();
            node.operator.batched(&BatchOf { given: &given, ..batch })
        };
        let operator = node.operator.batched(&batch).or_else(apart).ok_or_else(mixes)?;
        for (index, (source, &read)) in sources.iter_mut().zip(&given).enumerate() {
            let Some(wanted) = operator.input(index).filter(|&wanted| wanted != read) else { continue };
            let reshape = Operator::Reshape(Reshape { input: read, output: wanted });
            if reshape.check().is_ok() {
                let number = if index == 0 { String::new() } else { format!(".{}", index + 1) };
                let name = format!("{}.rows{number}", node.name);
                let inputs = vec![*source];
                let rows = Node { name, operator: reshape, inputs, shares_weights: false, ..node.clone() };
                *source = self.graph.push(rows);
            }
        }
        // Checked before any shape is derived from it, so that none can overflow.
        operator.check().map_err(|error| GraphError::Operator { node: node.name.clone(), error })?;
        let node = Node { operator, inputs: sources, ..node.clone() };
        self.moved.push(self.graph.push(node));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::workload::{
        Concat, Conv2d, DataType, DepthwiseConv2d, Dimension, GraphBuilder, Operator, Pool, PoolKind, Shape,
        Slice, Transpose, Window, network, networks,
    };

    #[test]
    fn a_batch_multiplies_the_work_of_a_network_but_not_its_weights() {
        for (name, _) in networks() {
            let one = network(name).expect("it is bundled");
            let eight = one.with_batch(8).expect("the network's operators keep images apart");
            assert_eq!(eight.macs(), 8 * one.macs(), "{name}");
            assert_eq!(eight.parameters(), one.parameters(), "{name}");
            let elements = |graph: &crate::workload::Graph| -> u64 {
                let unread = graph.nodes().iter().zip(graph.reads()).filter(|&(_, reads)| reads == 0);
                unread.map(|(node, _)| node.operator.output().elements()).sum()
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
    fn inputs_that_are_only_broadcast_are_one_for_all() {
        let mut builder = GraphBuilder::new("scaled", DataType::F32);
        let [x, scale, beside] = [Shape::tokens(50, 64), Shape::tokens(1, 64), Shape::tokens(50, 64)]
            .map(|shape| builder.input(shape));
        let scaled = builder.multiply(x, scale);
        builder.add(scaled, beside);
        let three = builder.build().unwrap().with_batch(3).unwrap();
        assert_eq!(three.inputs(), [Shape::tokens(150, 64), Shape::tokens(1, 64), Shape::tokens(150, 64)]);
        assert_eq!(three.nodes()[0].operator.output(), Shape::tokens(150, 64));
    }

    #[test]
    fn constants_that_are_broadcast_are_one_for_all_images_but_not_for_rows_of_tokens() {
        let (image, tokens) = (Shape::image(8, 8, 4), Shape::tokens(50, 64));
        let mut builder = GraphBuilder::new("masked", DataType::F32);
        let [picture, given] = [image, image.with_channels(1)].map(|shape| builder.input(shape));
        let stored = builder.constant(image.with_channels(1));
        let masked = builder.multiply(picture, given);
        builder.multiply(masked, stored);
        let x = builder.input(tokens);
        let gate = builder.constant(tokens.with_channels(1));
        builder.multiply(x, gate);
        let three = builder.build().unwrap().with_batch(3).unwrap();
        let one = image.with_channels(1);
        let wanted = [image.images(3), one.images(3), one, Shape::tokens(150, 64), Shape::tokens(150, 1)];
        assert_eq!(three.inputs(), wanted);
    }

    #[test]
    fn operators_along_tokens_take_each_sequence_on_its_own() {
        let order = [Dimension::Batch, Dimension::Height, Dimension::Channels, Dimension::Width];
        let mut builder = GraphBuilder::new("mixer", DataType::F32);
        let tokens = Shape::tokens(50, 64);
        let x = builder.input(tokens);
        let turned = builder.operator("turn", Transpose { input: tokens, images: 1, order }, &[x]);
        let mixed = builder.linear(turned, 50);
        let back =
            builder.operator("back", Transpose { input: Shape::tokens(64, 50), images: 1, order }, &[mixed]);
        let sum = builder.add(x, back);
        builder.mean(sum);
        let one = builder.build().unwrap();
        let three = one.with_batch(3).unwrap();
        assert_eq!(three.macs(), 3 * one.macs());
        let reshapes = three.nodes().iter().filter(|node| node.name.contains(".rows")).count();
        assert_eq!(
            reshapes, 5,
            "both transposes, the layer between them, the sum's second operand, the mean"
        );
        assert_eq!(
            three.nodes().last().map(|node| node.operator.output()),
            Some(Shape::image(1, 1, 64).images(3))
        );
    }

    #[test]
    fn a_window_over_tokens_does_not_reach_from_one_sequence_into_the_next() {
        let (tokens, three) = (Shape::tokens(50, 64), Shape::tokens(50, 64).images(3));
        let wide = Window::of([1, 5]);
        let operators: [(Operator, Shape); 4] = [
            (Conv2d::new(tokens, 32, wide).into(), Shape::tokens(46, 32).images(3)),
            (DepthwiseConv2d::new(tokens, wide).into(), Shape::tokens(46, 64).images(3)),
            (
                Pool { kind: PoolKind::Max, input: tokens, window: wide }.into(),
                Shape::tokens(46, 64).images(3),
            ),
            // A pointwise convolution keeps all tokens apart anyway.
            (Conv2d::new(tokens, 32, Window::of([1, 1])).into(), Shape::tokens(150, 32)),
        ];
        for (operator, output) in operators {
            let mut builder = GraphBuilder::new("windows", DataType::F32);
            let x = builder.input(tokens);
            let embedded = builder.linear(x, 64);
            builder.operator("window", operator, &[embedded]);
            let batch = builder.build().unwrap().with_batch(3).unwrap();
            let last = &batch.nodes().last().unwrap().operator;
            assert_eq!(last.output(), output);
            assert!(output.batch == 1 || last.input(0) == Some(three));
        }
    }

    #[test]
    fn rows_of_a_matrix_and_separate_images_are_joined_in_one_form() {
        let order = [Dimension::Batch, Dimension::Height, Dimension::Channels, Dimension::Width];
        let mut builder = GraphBuilder::new("heads", DataType::F32);
        let [x, rows] = [Shape::tokens(50, 64), Shape::tokens(20, 50)].map(|shape| builder.input(shape));
        let turn = Transpose { input: Shape::tokens(50, 64), images: 1, order };
        let turned = builder.operator("turn", turn, &[x]);
        let embedded = builder.linear(rows, 50);
        let concat =
            Concat { extent: Shape::tokens(64, 50), dimension: Dimension::Width, extents: vec![64, 20] };
        builder.operator("joined", concat, &[turned, embedded]);
        let three = builder.build().unwrap().with_batch(3).unwrap();
        let joined = three.nodes().last().unwrap().operator.output();
        assert_eq!(joined, Shape::tokens(84, 50).images(3));
    }

    #[test]
    fn an_operator_that_mixes_images_is_named_in_the_error() {
        let slice = |from| Slice { dimension: Dimension::Batch, ..Slice::of_channels(from, 0, 1) };
        let mut builder = GraphBuilder::new("first", DataType::F32);
        let two = Shape::image(8, 8, 4).images(2);
        let x = builder.input(two);
        builder.operator("first", slice(two), &[x]);
        let error = builder.build().unwrap().with_batch(3).expect_err("it takes one image of all");
        assert!(error.to_string().contains("(slice)"), "{error}");
    }

    #[test]
    fn a_batch_that_no_tensor_can_hold_is_refused() {
        let network = network("vgg16").expect("it is bundled");
        let error = network.with_batch(1 << 23).expect_err("it has too many elements");
        assert!(error.to_string().contains("expected at most"), "{error}");
    }
}

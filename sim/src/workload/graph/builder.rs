//! A builder that infers shapes and names, so that code for a network reads like a list.

use std::collections::{BTreeSet, HashMap};

use super::{Graph, GraphError, Node, Source};
use crate::workload::operator::{Operator, check_shape};
use crate::workload::{
    Concat, Conv2d, DataType, DepthwiseConv2d, Elementwise, Function, Linear, Mean, Norm, NormKind, Pool,
    PoolKind, Reshape, Shape, Softmax, Window,
};

/// Builds a [`Graph`] node by node.
///
/// Methods that add a node take the tensors it reads and return the one it
/// writes. Nodes are named after their operators: `conv1`, `conv2` and so on.
/// After the first error, later calls add nothing, and [`GraphBuilder::build`]
/// returns it.
#[derive(Debug)]
pub struct GraphBuilder {
    /// The graph so far, not checked yet.
    graph: Graph,
    uses: HashMap<String, u32>,
    error: Option<GraphError>,
}

impl GraphBuilder {
    /// A builder with no inputs and no nodes.
    pub fn new(name: impl Into<String>, data_type: DataType) -> Self {
        let graph = Graph {
            name: name.into(),
            data_type,
            inputs: Vec::new(),
            constants: BTreeSet::new(),
            nodes: Vec::new(),
        };
        Self { graph, uses: HashMap::new(), error: None }
    }

    /// The finished graph.
    ///
    /// # Errors
    /// The first error, as [`Graph::new`] reports it.
    pub fn build(self) -> Result<Graph, GraphError> {
        match self.error {
            Some(error) => Err(error),
            None => self.graph.checked(),
        }
    }

    /// Adds an input of the graph.
    pub fn input(&mut self, shape: Shape) -> Source {
        let index = self.graph.inputs.len() as u32;
        // A placeholder keeps shape inference sound after an error.
        self.graph.inputs.push(match check_shape("graph input", shape) {
            Ok(()) => shape,
            Err(error) => {
                self.error.get_or_insert(GraphError::Input { index, error });
                Shape::tokens(1, 1)
            }
        });
        Source::Input(index)
    }

    /// Adds an input of the graph that is a constant of the model.
    pub fn constant(&mut self, shape: Shape) -> Source {
        self.graph.constants.insert(self.graph.inputs.len() as u32);
        self.input(shape)
    }

    /// Extent of the tensor from `source`.
    ///
    /// # Panics
    /// If `source` is not from this builder.
    pub fn shape(&self, source: Source) -> Shape {
        self.graph.shape(source)
    }

    /// Adds any operator, named after `stem`.
    pub fn operator(&mut self, stem: &str, operator: impl Into<Operator>, inputs: &[Source]) -> Source {
        let operator = operator.into();
        let uses = self.uses.entry(stem.to_owned()).or_insert(0);
        *uses += 1;
        let name = format!("{stem}{uses}");
        if let Err(error) = operator.check() {
            self.error.get_or_insert(GraphError::Operator { node: name.clone(), error });
        }
        if self.error.is_some() {
            return inputs.first().copied().unwrap_or_else(|| self.input(Shape::tokens(1, 1)));
        }
        let inputs = inputs.to_vec();
        self.graph.push(Node { name, operator, inputs, data_type: None, shares_weights: false })
    }

    /// A convolution with bias.
    pub fn conv(&mut self, from: Source, channels: u32, window: Window) -> Source {
        self.any_conv(from, channels, window, true)
    }

    /// A convolution and its batch normalisation.
    pub fn conv_norm(&mut self, from: Source, channels: u32, window: Window) -> Source {
        let conv = self.any_conv(from, channels, window, false);
        self.norm(conv, NormKind::Batch)
    }

    fn any_conv(&mut self, from: Source, channels: u32, window: Window, bias: bool) -> Source {
        let conv = Conv2d::new(self.shape(from), channels, window).bias(bias);
        self.operator("conv", conv, &[from])
    }

    /// A depthwise convolution and its batch normalisation.
    pub fn depthwise_norm(&mut self, from: Source, window: Window) -> Source {
        let conv = DepthwiseConv2d::new(self.shape(from), window).bias(false);
        let conv = self.operator("depthwise", conv, &[from]);
        self.norm(conv, NormKind::Batch)
    }

    /// A pooling window.
    pub fn pool(&mut self, from: Source, kind: PoolKind, window: Window) -> Source {
        self.operator("pool", Pool { kind, input: self.shape(from), window }, &[from])
    }

    /// The mean of each channel over all pixels.
    pub fn mean(&mut self, from: Source) -> Source {
        self.operator("mean", Mean { input: self.shape(from) }, &[from])
    }

    /// A linear layer with bias over tokens.
    pub fn linear(&mut self, from: Source, features: u32) -> Source {
        let Shape { width: rows, channels: input_features, .. } = self.shape(from);
        let linear = Linear { rows, input_features, output_features: features, bias: true };
        self.operator("linear", linear, &[from])
    }

    /// A function of one tensor.
    pub fn activate(&mut self, from: Source, function: Function) -> Source {
        let elementwise = Elementwise { function, input: self.shape(from), other: None };
        self.operator(&function.word(), elementwise, &[from])
    }

    /// The sum of two tensors.
    pub fn add(&mut self, first: Source, second: Source) -> Source {
        self.binary(Function::Add, first, second)
    }

    /// The product of two tensors; `second` may be broadcast.
    pub fn multiply(&mut self, first: Source, second: Source) -> Source {
        self.binary(Function::Multiply, first, second)
    }

    fn binary(&mut self, function: Function, first: Source, second: Source) -> Source {
        let elementwise = Elementwise { function, input: self.shape(first), other: Some(self.shape(second)) };
        self.operator(&function.word(), elementwise, &[first, second])
    }

    /// A concatenation along channels.
    pub fn concat(&mut self, parts: &[Source]) -> Source {
        let shapes: Vec<Shape> = parts.iter().map(|&part| self.shape(part)).collect();
        let extent = shapes.first().copied().unwrap_or(Shape::tokens(1, 1));
        let channels = shapes.iter().map(|shape| shape.channels).collect();
        self.operator("concat", Concat::of_channels(extent, channels), parts)
    }

    /// A reshape to the extent `output`.
    pub fn reshape(&mut self, from: Source, output: Shape) -> Source {
        self.operator("reshape", Reshape { input: self.shape(from), output }, &[from])
    }

    /// Softmax over channels.
    pub fn softmax(&mut self, from: Source) -> Source {
        self.operator("softmax", Softmax { input: self.shape(from) }, &[from])
    }

    /// A normalisation.
    pub fn norm(&mut self, from: Source, kind: NormKind) -> Source {
        self.operator("norm", Norm { kind, input: self.shape(from) }, &[from])
    }
}

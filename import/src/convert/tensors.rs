//! Access to the tensors of the model, and emission of operators.

use std::collections::HashSet;

use super::{Conversion, Converter, MAX_OPERATORS, MAX_RANK, MISSING, Value, node_name, unknown, unsound};
use crate::Replacement;
use crate::error::{ImportError, Problem};
use crate::model::{Constant, Extents, ImageOrder, Reshaping, SourceNode, TensorId, Work, elements};
use crate::view::{View, natural_shape, wide, wide_axes};
use coexec_sim::workload::{
    DataType, Generic, GenericKind, MAX_ELEMENTS, Node, NodeId, Operator, Padding, Shape, Source,
};

/// Number of operators per node of the file that a model may have in addition to [`MAX_OPERATORS`]. Attention becomes
/// some ten, most other nodes one.
const OPERATORS_PER_NODE: usize = 16;

/// The node being converted.
#[derive(Clone, Debug, Default)]
pub(super) struct CurrentNode {
    pub(super) name: String,
    /// Its operator type in the file.
    pub(super) kind: String,
    /// Its number format, if the file states it.
    pub(super) data_type: Option<DataType>,
    /// The tensor of its weights, if they are one constant.
    pub(super) weights: Option<TensorId>,
}

impl CurrentNode {
    pub(super) fn refused(&self, problem: Problem) -> ImportError {
        ImportError::Node { node: self.name.clone(), kind: self.kind.clone(), problem }
    }

    pub(super) fn replaced(&self, instead: String) -> Replacement {
        Replacement { node: self.name.clone(), kind: self.kind.clone(), instead }
    }
}

/// Access to tensors.
impl Converter<'_> {
    pub(super) fn read(&self, node: &SourceNode, operand: usize) -> Conversion<&Value> {
        let Some(tensor) = node.operand(operand) else {
            return unsound(format!("it has no operand {operand}"));
        };
        match &self.values[tensor] {
            Some(value) => Ok(value),
            None => unsound(MISSING),
        }
    }

    /// An operand, if it is constant.
    pub(super) fn constant(&self, node: &SourceNode, operand: usize) -> Option<&Constant> {
        self.value(node, operand)?.constant()
    }

    /// The first value of an operand, if known.
    pub(super) fn number(&self, node: &SourceNode, operand: usize) -> Option<f64> {
        self.constant(node, operand)?.first()
    }

    /// The integer values of an operand.
    pub(super) fn numbers(&self, node: &SourceNode, operand: usize) -> Conversion<Vec<i64>> {
        match self.constant(node, operand).and_then(Constant::integers) {
            Some(numbers) => Ok(numbers),
            None => unknown(format!("its operand {operand} is computed by the network")),
        }
    }

    /// An operand as a tensor of the graph, with its padding materialised.
    pub(super) fn view(&mut self, node: &SourceNode, operand: usize) -> Conversion<View> {
        let view = self.unpadded_view(node, operand)?;
        self.with_zeros(view)
    }

    /// The value of an operand, with its padding materialised.
    pub(super) fn tensor(&mut self, node: &SourceNode, operand: usize) -> Conversion<Value> {
        Ok(match self.read(node, operand)?.clone() {
            Value::View(view) => Value::View(self.with_zeros(view)?),
            Value::Constant(constant) => Value::Constant(constant),
        })
    }

    /// An operand as a tensor of the graph, with its padding left to the caller.
    pub(super) fn unpadded_view(&mut self, node: &SourceNode, operand: usize) -> Conversion<View> {
        match self.read(node, operand)?.clone() {
            Value::View(view) => Ok(view),
            Value::Constant(constant) => {
                if constant.elements() == 0 {
                    let name = self.name_of(node, operand);
                    return unsound(format!("its operand {operand} ({name}) has no elements"));
                }
                self.constant_view(node.reads[operand].unwrap_or_default(), constant.extents)
            }
        }
    }

    /// The name of an operand in the file, for messages.
    pub(super) fn name_of(&self, node: &SourceNode, operand: usize) -> String {
        let name = node.operand(operand).map(|tensor| self.model.tensors[tensor].name.escape_debug());
        name.map_or_else(String::new, |name| name.to_string())
    }

    /// A constant as an input of the graph.
    pub(super) fn constant_view(&mut self, tensor: TensorId, extents: Vec<u32>) -> Conversion<View> {
        Self::check_extents(&extents)?;
        let order = wide_axes(&extents);
        self.laid_out(extents, order, |converter, shape| converter.constant_input(tensor, shape))
    }

    /// An input of the graph with the memory order `order`; `input` creates it with a given shape.
    pub(super) fn laid_out(
        &mut self,
        extents: Vec<u32>,
        order: Vec<usize>,
        input: impl FnOnce(&mut Self, Shape) -> Source,
    ) -> Conversion<View> {
        let memory: Vec<u32> = order.iter().map(|&axis| extents[axis]).collect();
        let Some(shape) = natural_shape(&memory) else { return unsound("a tensor is too large") };
        let source = input(self, shape);
        Ok(self.view_as(source, extents, order))
    }

    /// The input of the graph that holds a constant in `shape`, created on first use.
    pub(super) fn constant_input(&mut self, tensor: TensorId, shape: Shape) -> Source {
        if let Some(&source) = self.constant_inputs.get(&(tensor, shape)) {
            return source;
        }
        let name = self.model.tensors[tensor].name.clone();
        let source = self.stored_input(if name.is_empty() { "constant" } else { &name }, shape);
        self.constant_inputs.insert((tensor, shape), source);
        source
    }

    /// A new input of the graph that holds a constant.
    pub(super) fn stored_input(&mut self, name: &str, shape: Shape) -> Source {
        let source = self.input(name, shape, true);
        self.stored.insert(source);
        source
    }

    pub(super) fn write(&mut self, node: &SourceNode, index: usize, view: View) {
        self.set(node, index, Value::View(view));
    }

    pub(super) fn set(&mut self, node: &SourceNode, index: usize, mut value: Value) {
        if let Value::Constant(constant) = &mut value {
            self.folded += constant.numbers.as_ref().map_or(0, Vec::len);
            constant.numbers.take_if(|_| self.folded > super::MAX_FOLDED);
        }
        if let Some(tensor) = node.result(index) {
            self.values[tensor] = Some(value);
        }
    }

    /// The axes of an image, a row of pixels or a volume in channels-last order.
    pub(super) fn image_order(&self, rank: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..rank).collect();
        if self.model.order == ImageOrder::ChannelsFirst && matches!(rank, 3..=5) {
            order[1..].rotate_left(1);
        }
        order
    }

    /// Extents of an image, a row of pixels, a volume, or weights over these, in channels-last order.
    pub(super) fn image_extents(&self, extents: &[u32]) -> Vec<u32> {
        self.image_order(extents.len()).into_iter().map(|axis| extents[axis]).collect()
    }

    /// Height and width among an image's axes.
    pub(super) fn spatial_axes(&self) -> [usize; 2] {
        let order = self.image_order(4);
        [order[1], order[2]]
    }

    /// Checks that a tensor has elements, and not too many.
    pub(super) fn check_extents(extents: &[u32]) -> Conversion<()> {
        if extents.contains(&0) {
            return unsound("a tensor has no elements");
        }
        Self::check_size(extents)
    }

    /// Checks bounds that keep every product of extents in range.
    pub(super) fn check_size(extents: &[u32]) -> Conversion<()> {
        if extents.len() > MAX_RANK {
            return unsound(format!("a tensor has {} axes, expected at most {MAX_RANK}", extents.len()));
        }
        if elements(extents) > MAX_ELEMENTS {
            return unsound(format!("a tensor has more than {MAX_ELEMENTS} elements"));
        }
        Ok(())
    }
}

/// Emission of operators.
impl Converter<'_> {
    /// Adds an operator, named after the current node.
    pub(super) fn emit(
        &mut self,
        suffix: &str,
        operator: impl Into<Operator>,
        inputs: &[Source],
    ) -> Conversion<Source> {
        let operator = operator.into();
        if let Err(error) = operator.check() {
            return unsound(error.to_string());
        }
        if self.out.nodes.len() >= MAX_OPERATORS + OPERATORS_PER_NODE * self.model.nodes.len() {
            return unknown(format!(
                "with the nodes before it, it becomes {} operators",
                self.out.nodes.len()
            ));
        }
        let name = self.unique(&format!("{}{suffix}", self.at.name));
        let data_type = self.at.data_type.filter(|&own| own != self.model.data_type);
        let source = Source::Node(NodeId(self.out.nodes.len() as u32));
        let count = operator.parameters();
        let weights = self.at.weights.filter(|_| count > 0);
        self.out.weights.extend(weights.map(|weights| (source, (weights, count))));
        let inputs = inputs.to_vec();
        self.out.nodes.push(Node { name, operator, inputs, data_type, shares_weights: false });
        Ok(source)
    }

    /// Records the original of a constant that a node only transposes or copies.
    pub(super) fn record_transposed(&mut self, node: &SourceNode) {
        if let (Work::Transpose | Work::Identity, Some(&Some(written)), Some(constant)) =
            (&node.work, node.writes.first(), self.constant_of(node))
        {
            self.origins.insert(written, constant);
        }
    }

    /// The tensor of the weights of a node that multiplies by one constant or gathers its rows, before any transposes
    /// of it.
    pub(super) fn weights_of(&self, node: &SourceNode) -> Option<TensorId> {
        let has_weights = matches!(
            node.work,
            Work::Convolution(_)
                | Work::TransposedConvolution(_)
                | Work::Product { .. }
                | Work::Linear { .. }
                | Work::Gather { .. }
                | Work::Generic { extents: Extents::Places { .. }, .. }
        );
        self.constant_of(node).filter(|_| has_weights)
    }

    /// The first constant among a node's first two operands, before any transposes of it.
    fn constant_of(&self, node: &SourceNode) -> Option<TensorId> {
        let is_constant = |tensor: &TensorId| matches!(self.values[*tensor], Some(Value::Constant(_)));
        let constant = node.reads.iter().take(2).copied().flatten().find(is_constant)?;
        Some(self.origins.get(&constant).copied().unwrap_or(constant))
    }

    /// Adds a generic operator with `passes` passes over its elements.
    pub(super) fn emit_generic(
        &mut self,
        suffix: &str,
        (kind, passes): (GenericKind, u32),
        inputs: &[Source],
        output: Shape,
    ) -> Conversion<Source> {
        let shapes = inputs.iter().map(|&source| self.shape(source)).collect();
        self.emit(suffix, Generic { kind, inputs: shapes, output, passes }, inputs)
    }

    /// Shape of the tensor from `source`.
    pub(super) fn shape(&self, source: Source) -> Shape {
        match source {
            Source::Input(index) => self.out.inputs[index as usize].extent,
            Source::Node(id) => self.out.nodes[id.index()].operator.output(),
        }
    }

    /// A view of a tensor of the graph with `extents`, whose axes are in memory order `order`.
    pub(super) fn view_as(&self, source: Source, extents: Vec<u32>, order: Vec<usize>) -> View {
        let order = Some(wide(&extents, order));
        View { source, shape: self.shape(source), extents, order, padding: Padding::NONE }
    }

    /// `view` in memory order `order`, with its natural shape.
    pub(super) fn in_natural_shape(&mut self, view: &View, order: Vec<usize>) -> Conversion<View> {
        let Some(shape) = self.natural(view, &order) else { return unsound("a tensor is too large") };
        let source = self.arranged(view, &order, shape)?;
        Ok(View { source, shape, order: Some(order), ..view.clone() })
    }

    /// The natural shape of `view` in memory order `order`; for a single image, that of an image.
    pub(super) fn natural(&self, view: &View, order: &[usize]) -> Option<Shape> {
        let at = |axis: usize| view.extents[axis];
        let has_channels_last = order.last().is_none_or(|&axis| axis == 1);
        match (view.extents.len(), self.model.order) {
            (4, ImageOrder::ChannelsFirst) if has_channels_last && at(0) == 1 => {
                Some(Shape::image(at(2), at(3), at(1)))
            }
            (4, ImageOrder::ChannelsLast) if view.shape.height > 1 && at(0) == 1 && order.is_sorted() => {
                Some(Shape::image(at(1), at(2), at(3)))
            }
            _ => natural_shape(&order.iter().map(|&axis| at(axis)).collect::<Vec<u32>>()),
        }
    }

    /// `view` with the innermost axis in memory as its channels.
    pub(super) fn with_inner_channels(&mut self, view: &View) -> Conversion<View> {
        let extent = |order: &Vec<usize>| order.last().map_or(1, |&axis| view.extents[axis]);
        if view.order.as_ref().map(extent) == Some(view.shape.channels) {
            return Ok(view.clone());
        }
        self.in_natural_shape(view, self.order_of(view))
    }

    /// The memory order of a view. A view without one gets the order that its readers probably
    /// need: an image's if it was one, else the file's.
    pub(super) fn order_of(&self, view: &View) -> Vec<usize> {
        let was_image = view.shape.height > 1 && view.extents.len() == 4;
        match &view.order {
            Some(order) => order.clone(),
            None if was_image => wide(&view.extents, self.image_order(4)),
            None => view.file_order(),
        }
    }

    /// A unique name, `name` with a number if it is taken.
    pub(super) fn unique(&mut self, name: &str) -> String {
        let name = node_name(name);
        // After 32, continue from the number of names, so that few are tried.
        let numbers = (2..=32).chain(self.names.len() + 1..);
        let numbered = numbers.map(|number| format!("{name}.{number}"));
        let free = |name: &String| !self.names.contains(name);
        let unique = std::iter::once(name.clone()).chain(numbered).find(free).unwrap_or_default();
        self.names.insert(unique.clone());
        unique
    }

    /// Records that the current node is approximated by another operator.
    pub(super) fn approximate(&mut self, instead: impl Into<String>) {
        let replacement = self.at.replaced(instead.into());
        if self.out.approximated.last() != Some(&replacement) {
            self.out.approximated.push(replacement);
        }
    }
}

/// Tensors that matrix products read, or that are repeated, as keys and values that several heads share are: directly or
/// through identities, slices, splits, concatenations and new axes.
pub(super) fn matrices(nodes: &[&SourceNode]) -> HashSet<TensorId> {
    let mut matrices = read_by(nodes, Work::reads_matrices);
    let is_through = |work: &Work| work.keeps_places() || *work == Work::Reshape(Reshaping::Unsqueeze);
    // Nodes are in topological order, so one backward pass finds everything.
    for node in nodes.iter().rev().filter(|node| is_through(&node.work)) {
        if node.writes.iter().flatten().any(|tensor| matrices.contains(tensor)) {
            matrices.extend(node.reads.iter().copied().flatten());
        }
    }
    matrices
}

/// Tensors with a reader that satisfies `is_reader`.
pub(super) fn read_by(nodes: &[&SourceNode], is_reader: fn(&Work) -> bool) -> HashSet<TensorId> {
    let readers = nodes.iter().filter(|node| is_reader(&node.work));
    readers.flat_map(|node| node.reads.iter().copied().flatten()).collect()
}

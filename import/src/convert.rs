//! Converts a model's nodes to operators of a graph.
//!
//! Responsible for: the sequence of conversion, the tensors, and emitting operators
//! such that each reads the shape it expects. Reshapes, transposes and shape
//! computations emit nothing until an operator needs another shape or memory order;
//! then a single copy moves the elements. Constants that an operator reads in addition
//! to weights (position embeddings, a mask) become inputs of the graph.
//! Not for: the semantics of each node, which the files of `convert/` implement.
//! Invariant: whatever the file contains, nothing here panics or runs for long.

mod attention;
mod choice;
mod einsum;
pub(super) mod elementwise;
mod extents;
mod folded;
mod generic;
pub(super) mod join;
mod list;
mod loops;
mod moves;
mod product;
mod reason;
mod recurrent;
pub(super) mod reduce;
mod rows;
mod shapes;
mod skip;
mod tensors;
mod value;
mod volume;
mod window;

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use super::error::{ImportError, Problem};
use super::model::{Constant, Extents, MAX_NODES, Model, NUMBERS_PER_NODE, SourceNode, TensorId, Work};
use super::view::wide_axes;
use super::{ImportOptions, Replacement, Result};
use coexec_sim::workload::{InputTable, Node, Shape, Source};
use tensors::{CurrentNode, matrices, read_by};
pub(super) use value::Value;

/// Maximum rank of a tensor; ONNX has no limit, frameworks stop at 8.
const MAX_RANK: usize = 12;

/// Maximum number of operators that do not follow from the number of nodes in the file, such as those of unrolled
/// loops: a search of plans for this many takes seconds.
const MAX_OPERATORS: usize = 30_000;

/// Maximum number of values of constants that are computed, together; those of further ones are as if they were
/// not known. Shapes have far fewer.
const MAX_FOLDED: usize = MAX_NODES * NUMBERS_PER_NODE;

/// Maximum length of a name, in characters; longer names are truncated.
const MAX_NAME: usize = 80;

pub(super) type Conversion<T> = Result<T, Problem>;

pub(super) fn unknown<T>(reason: impl Into<String>) -> Conversion<T> {
    Err(Problem::Unknown(reason.into()))
}

pub(super) fn unsound<T>(reason: impl Into<String>) -> Conversion<T> {
    Err(Problem::Unsound(reason.into()))
}

/// The graph's nodes and inputs, and the replacements made.
#[derive(Debug, Default)]
pub(super) struct Converted {
    pub(super) inputs: Vec<InputTable>,
    pub(super) nodes: Vec<Node>,
    pub(super) skipped: Vec<Replacement>,
    pub(super) approximated: Vec<Replacement>,
    /// Names of nodes whose operands have guessed extents, or extents that follow from guessed ones.
    pub(super) following: HashSet<String>,
    /// Names of operators and inputs of the graph that belong to such nodes, or replace skipped ones.
    pub(super) uncovered: HashSet<String>,
    /// Whether any extents were guessed.
    pub(super) is_guessed: bool,
    /// Constants that skipped nodes read, with their numbers of elements.
    pub(super) skipped_weights: HashMap<TensorId, u64>,
    /// The weights of operators that have some, as their tensor and number.
    pub(super) weights: HashMap<Source, (TensorId, u64)>,
    /// Roots of the graph: the model's outputs, and operands of replaced nodes that the replacement does not read.
    pub(super) wanted: Vec<Source>,
}

/// Key of a copy: source, extents, old memory order, new memory order, new shape.
type CopyKey = (Source, Vec<u32>, Vec<usize>, Vec<usize>, Shape);

/// State of a conversion.
pub(super) struct Converter<'a> {
    model: &'a Model,
    skip_unknown: bool,
    values: Vec<Option<Value>>,
    /// Number of readers of each tensor, counting an output of the model or of a loop's body as one.
    readers: Vec<u32>,
    /// Tensors that a transpose materialises: outputs, and operands of nodes that do not arrange axes themselves.
    materialised: HashSet<TensorId>,
    out: Converted,
    names: HashSet<String>,
    /// Copies made so far.
    moved: HashMap<CopyKey, Source>,
    /// Contents of the sequences of tensors.
    lists: HashMap<TensorId, Rc<Vec<Value>>>,
    /// Number of values of constants computed so far.
    folded: usize,
    /// Number of nodes converted in loops, with units of their operands, plus elements of sequences copied or split off:
    /// a bound on the work.
    repeated: usize,
    /// Constants that became inputs of the graph.
    constant_inputs: HashMap<(TensorId, Shape), Source>,
    /// For a transposed or copied constant, the original.
    origins: HashMap<TensorId, TensorId>,
    /// Inputs of the graph that hold constants, and so can be stored in any layout.
    stored: HashSet<Source>,
    /// Tensors that matrix products read, which are not images.
    matrices: HashSet<TensorId>,
    /// Tensors read by at least one node that is not specific to channels-last images.
    images: HashSet<TensorId>,
    /// Results of reshapes.
    reshaped: HashSet<TensorId>,
    /// For each branch being converted, the index of its first node in the graph.
    begun: Vec<usize>,
    /// Tensors whose extents were guessed, or follow from guessed ones, with the skipped node that caused it.
    guessed: HashMap<TensorId, Rc<str>>,
    /// Tensors that have as many elements as a node can have results at most, or follow from such, with that node.
    bounded: HashMap<TensorId, Rc<str>>,
    /// Why a conditional branch could not be converted.
    refused: Option<ImportError>,
    /// The node being converted.
    at: CurrentNode,
}

/// Converts `model`, whose inputs must have extents.
///
/// # Errors
/// For the first node that is invalid or, unless such nodes are skipped, has no counterpart.
pub(super) fn convert(model: &Model, options: &ImportOptions) -> Result<Converted> {
    let mut converter = Converter::new(model, options);
    for &input in &model.inputs {
        let tensor = &model.tensors[input];
        converter.at =
            CurrentNode { name: tensor.name.clone(), kind: "input".to_owned(), ..CurrentNode::default() };
        let given = converter.give(input, &tensor.name, tensor.extents.as_deref());
        given.map_err(|problem| converter.at.refused(problem))?;
    }
    converter.nodes(&model.nodes)?;
    for &output in &model.outputs {
        let name = node_name(&model.tensors[output].name);
        converter.at = CurrentNode { name, kind: "output".to_owned(), ..CurrentNode::default() };
        let wanted = converter.output(output).map_err(|problem| converter.at.refused(problem))?;
        converter.out.wanted.extend(wanted);
    }
    Ok(converter.out)
}

impl<'a> Converter<'a> {
    fn new(model: &'a Model, options: &ImportOptions) -> Self {
        let nodes: Vec<&SourceNode> = model.nodes.iter().flat_map(SourceNode::with_inner).collect();
        let mut readers = vec![0; model.tensors.len()];
        let reads = nodes.iter().flat_map(|node| node.reads.iter().chain(node.work.loop_outputs()).flatten());
        for &tensor in reads.chain(&model.outputs) {
            readers[tensor] += 1;
        }
        let mut materialised = read_by(&nodes, |work| !work.arranges());
        materialised.extend(&model.outputs);
        let reshapes = nodes.iter().filter(|node| matches!(node.work, Work::Reshape(_)));
        let reshaped = reshapes.flat_map(|node| node.writes.iter().copied().flatten()).collect();
        let constant = |tensor: &super::model::SourceTensor| tensor.constant.clone().map(Value::Constant);
        Self {
            model,
            skip_unknown: options.skip_unknown,
            values: model.tensors.iter().map(constant).collect(),
            readers,
            materialised,
            out: Converted::default(),
            names: HashSet::new(),
            moved: HashMap::new(),
            lists: HashMap::new(),
            folded: 0,
            repeated: 0,
            constant_inputs: HashMap::new(),
            origins: HashMap::new(),
            stored: HashSet::new(),
            matrices: matrices(&nodes),
            images: read_by(&nodes, |work| !work.has_channels_last()),
            reshaped,
            begun: Vec::new(),
            guessed: HashMap::new(),
            bounded: HashMap::new(),
            refused: None,
            at: CurrentNode::default(),
        }
    }

    /// Adds an input of the model. Images are stored with their channels innermost, matrices with heads
    /// in the file's order.
    fn give(&mut self, tensor: TensorId, name: &str, extents: Option<&[u32]>) -> Conversion<()> {
        let extents = extents.unwrap_or_default().to_vec();
        Self::check_extents(&extents)?;
        let order = if extents.len() != 4 || self.matrices.contains(&tensor) {
            wide_axes(&extents)
        } else if self.images.contains(&tensor) {
            self.image_order(4)
        } else {
            (0..4).collect()
        };
        let view = self.laid_out(extents, order, |converter, shape| converter.input(name, shape, false))?;
        self.values[tensor] = Some(view.into());
        Ok(())
    }

    fn input(&mut self, name: &str, extent: Shape, constant: bool) -> Source {
        let name = self.unique(name);
        self.out.inputs.push(InputTable { name, extent, constant });
        Source::Input(self.out.inputs.len() as u32 - 1)
    }

    fn node(&mut self, node: &SourceNode) -> Result<()> {
        // The operator type is printed on terminals and in comments, so it is escaped.
        let kind = node.kind.escape_debug().take(MAX_NAME).collect();
        self.record_transposed(node);
        let weights = self.weights_of(node);
        self.at = CurrentNode { name: node_name(&node.name), kind, data_type: node.data_type, weights };
        let (at, before) = (self.at.clone(), self.out.nodes.len());
        let mut guess = self.guess_among(&node.reads);
        let bound = node.reads.iter().flatten().find_map(|tensor| self.bounded.get(tensor)).cloned();
        let done = if let Work::Loop(body) = &node.work {
            self.follow_from(guess.clone(), &body.inputs);
            let done = self.unroll(node, body);
            guess = guess.or_else(|| self.guess_among(&body.outputs));
            done
        } else {
            let done = self.single(node).map_err(|problem| self.explained(node, problem));
            done.map_err(|problem| at.refused(problem.after(guess.as_deref(), bound.as_deref())))
        };
        let written = node.writes.iter().flatten();
        self.bounded.extend(written.filter_map(|&tensor| Some((tensor, bound.clone()?))));
        let is_replaced = matches!(&done, Err(ImportError::Node { problem, .. }) if problem.is_replaceable());
        if !self.skip_unknown || !is_replaced {
            self.follow(node, guess, before);
            return done;
        }
        // Operators emitted before the problem arose would have no reader.
        self.roll_back(before);
        self.at = at;
        self.skip(node).map_err(|problem| self.at.refused(problem.after(guess.as_deref(), bound.as_deref())))
    }

    /// Converts a node other than a loop: by constant folding, to its counterpart, or else to a generic operator.
    fn single(&mut self, node: &SourceNode) -> Conversion<()> {
        let before = self.out.nodes.len();
        let folded = self.folded(node);
        let done = folded.and_then(|is_done| if is_done { Ok(()) } else { self.computed(node) });
        if !matches!(done, Err(Problem::Unknown(_))) || node.work.generic().is_none() {
            return done;
        }
        self.roll_back(before);
        self.generic(node).or(done)?;
        if self.out.nodes.len() > before {
            self.approximate("an operator of as many elements");
        }
        Ok(())
    }

    /// Removes the emitted nodes from `first` on, with everything derived from them.
    fn roll_back(&mut self, first: usize) {
        if self.out.nodes.len() == first {
            return;
        }
        for node in self.out.nodes.drain(first..) {
            self.names.remove(&node.name);
            self.out.uncovered.remove(&node.name);
        }
        let is_kept = |source: &Source| !matches!(source, Source::Node(id) if id.index() >= first);
        self.moved.retain(|_, source| is_kept(source));
        self.out.weights.retain(|source, _| is_kept(source));
        self.out.wanted.retain(is_kept);
        // In a damaged file, values of earlier nodes may depend on later ones.
        let is_there = |value: &Value| value.view().is_none_or(|view| is_kept(&view.source));
        for value in &mut self.values {
            value.take_if(|value| !is_there(value));
        }
        self.lists.retain(|_, list| list.iter().all(is_there));
    }

    fn computed(&mut self, node: &SourceNode) -> Conversion<()> {
        let value = match &node.work {
            Work::Convolution(convolution) => self.convolution(node, convolution)?.into(),
            Work::TransposedConvolution(transposed) => self.transposed_convolution(node, transposed)?.into(),
            Work::Pool { kind, window } => self.pool(node, *kind, window)?.into(),
            Work::GlobalPool(kind) => self.global_pool(node, *kind)?.into(),
            Work::Product { transpose, flatten } => self.product(node, *transpose, *flatten)?.into(),
            Work::Function(elemental) => self.function(node, *elemental)?.into(),
            Work::Arithmetic(arithmetic) => self.arithmetic(node, *arithmetic)?.into(),
            Work::Reduce { reduction, keep } => self.reduce(node, *reduction, *keep)?.into(),
            Work::AlongAxis { operator, axis, to_the_end } => {
                self.along_axis(node, operator, *axis, *to_the_end)?.into()
            }
            Work::SkipNorm { kind } => self.skip_norm(node, *kind)?.into(),
            Work::BatchNorm => self.batch_norm(node)?.into(),
            Work::Gather { axis } => self.gather(node, *axis)?.into(),
            Work::Generic { extents: Extents::Places { shared: 0 }, .. } => self.gather_places(node)?.into(),
            Work::Pad => self.pad(node)?.into(),
            Work::Expand => self.expand(node)?.into(),
            Work::Tile => self.tile(node)?.into(),
            Work::Resize(interpolation) => self.resize(node, *interpolation)?.into(),
            Work::BlockRearrangement { block, to_space } => {
                self.rearrange_blocks(node, *block, *to_space)?.into()
            }
            Work::Linear { depth, outputs } => {
                let input = self.view(node, 0)?;
                self.linear(&input, *depth, *outputs, node.operand(2).is_some())?.into()
            }
            Work::Einsum(equation) => self.einsum(node, equation)?.into(),
            Work::GroupNorm { groups } => self.group_norm(node, *groups)?.into(),
            Work::EmbeddingNorm => self.embedding_norm(node)?.into(),
            Work::Concat { axis, is_new } => self.concat(node, *axis, *is_new)?,
            Work::Slice(slicing) => self.slice(node, slicing)?,
            Work::Reshape(reshaping) => self.reshape(node, reshaping)?,
            Work::Transpose => self.transpose(node)?,
            Work::Identity => self.read(node, 0)?.clone(),
            Work::List(listing) => match self.list(node, *listing)? {
                Some(value) => value,
                None => return Ok(()),
            },
            Work::Split { squeeze } => return self.split(node, *squeeze),
            Work::Recurrent { gates, features, batch_first } => {
                return self.recurrent(node, [*gates, *features], *batch_first);
            }
            Work::Attention(attention) => return self.attention(node, attention),
            Work::LinearAttention(attention) => return self.linear_attention(node, attention),
            Work::Choice => return self.choice(node),
            Work::Where | Work::Generic { .. } => return self.generic(node),
            Work::Loop(_) => return unsound("a loop where a single node is expected"),
            Work::Unknown(help) => return unknown(help),
            Work::ConstantOfShape(_) | Work::Range | Work::Shape { .. } | Work::Size => {
                return unknown("its result depends on computed values, and so does the work after it");
            }
        };
        self.set(node, 0, value);
        Ok(())
    }
}

/// The problem of a node that reads a tensor without a writer.
const MISSING: &str = "it reads a tensor that no node before it writes";

/// The name in a graph of a node that a file calls `name`: printable, of limited length, without the decorations that
/// frameworks add.
pub fn node_name(name: &str) -> String {
    let first = name.split(';').next().unwrap_or_default();
    let printable: String =
        first.trim_matches('/').chars().filter(|c| !c.is_control()).take(MAX_NAME).collect();
    if printable.is_empty() { "operator".to_owned() } else { printable }
}

/// The index of an axis, which counts from the end if negative.
pub(super) fn axis(axis: i64, rank: usize) -> Conversion<usize> {
    let counted = if axis < 0 { axis.saturating_add(rank as i64) } else { axis };
    match usize::try_from(counted) {
        Ok(counted) if counted < rank => Ok(counted),
        _ => unsound(format!("axis {axis} of a tensor with {rank} axes")),
    }
}

/// The axes in an operand, sorted and without duplicates; `None` if the operand is absent.
pub(super) fn axes(operand: Option<&Constant>, rank: usize) -> Conversion<Option<Vec<usize>>> {
    let Some(constant) = operand else { return Ok(None) };
    let Some(numbers) = constant.integers() else { return unknown("its axes are computed by the network") };
    let mut found = numbers.iter().map(|&number| axis(number, rank)).collect::<Conversion<Vec<usize>>>()?;
    found.sort_unstable();
    found.dedup();
    Ok(Some(found))
}

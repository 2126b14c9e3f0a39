//! A model's nodes as operators of a graph.
//!
//! Responsible for: the order of work, the tensors, and emitting operators so that
//! each reads the extent it expects. Reshapes, transposes and what only computes
//! shapes cost nothing here until an operator needs another extent than is there;
//! then one reshape moves the elements. Constants that an operator reads beside
//! weights (a position a token, a mask) are inputs of the graph, which lie in memory.
//! Not for: what a node means, which the files of `convert/` say.
//! Invariant: whatever the file says, nothing here panics or loops for long.

mod attention;
mod choice;
mod einsum;
pub(super) mod elementwise;
mod extents;
mod folded;
mod generic;
pub(super) mod join;
mod list;
mod moves;
mod product;
mod recurrent;
pub(super) mod reduce;
mod rounds;
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
use super::model::{Constant, Model, SourceNode, TensorId, Work};
use super::view::wide_axes;
use super::{ImportOptions, Replacement};
use coexec_sim::workload::{InputTable, Node, Shape, Source};
use tensors::{AtWork, matrices, read_by};
pub(super) use value::Value;

/// Most axes of a tensor; ONNX has no limit, frameworks stop at 8.
const MAX_RANK: usize = 12;

/// Longest name that is kept.
const MAX_NAME: usize = 80;

pub(super) type Step<T> = Result<T, Problem>;

pub(super) fn unknown<T>(reason: impl Into<String>) -> Step<T> {
    Err(Problem::Unknown(reason.into()))
}

pub(super) fn unsound<T>(reason: impl Into<String>) -> Step<T> {
    Err(Problem::Unsound(reason.into()))
}

/// The graph's nodes and inputs, and what was put in the place of what.
#[derive(Debug, Default)]
pub(super) struct Converted {
    pub(super) inputs: Vec<InputTable>,
    pub(super) nodes: Vec<Node>,
    pub(super) skipped: Vec<Replacement>,
    pub(super) approximated: Vec<Replacement>,
    /// Nodes that read extents which were guessed, or follow from such.
    pub(super) following: HashSet<String>,
    /// Operators and inputs of the graph that are for those, or for what was skipped.
    pub(super) uncovered: HashSet<String>,
    /// Whether any extents were guessed.
    pub(super) is_guessed: bool,
    /// How many numbers the constants have that skipped nodes read.
    pub(super) skipped_weights: HashMap<TensorId, u64>,
    /// What the model's outputs are, and what stand-ins should have read.
    pub(super) wanted: Vec<Source>,
}

/// A moved tensor: where from, its extents and order in memory, and those it got.
type Moved = (Source, Vec<u32>, Vec<usize>, Vec<usize>, Shape);

/// The conversion at work.
pub(super) struct Converter<'a> {
    model: &'a Model,
    skip_unknown: bool,
    values: Vec<Option<Value>>,
    /// Nodes that read each tensor, the model's outputs included.
    readers: Vec<u32>,
    /// Outputs, and what is read by a node that takes any order of its axes.
    read_as_they_lie: HashSet<TensorId>,
    out: Converted,
    names: HashSet<String>,
    moved: HashMap<Moved, Source>,
    /// Lists of tensors.
    lists: HashMap<TensorId, Rc<Vec<Value>>>,
    /// How many nodes ran in rounds, and how many tensors of lists were copied.
    repeated: usize,
    /// Constants that became inputs of the graph.
    given: HashMap<(TensorId, Shape), Source>,
    /// By the tensor of its weights, and how many they are, the first node that has them.
    owners: HashMap<(TensorId, u64), usize>,
    /// Of constants that were turned, those that they were.
    origins: HashMap<TensorId, TensorId>,
    /// Those inputs, which are stored as whoever reads them needs.
    stored: HashSet<Source>,
    /// What products of matrices read, and is no image.
    matrices: HashSet<TensorId>,
    /// What is read by more than nodes for which an image has its channels last.
    images: HashSet<TensorId>,
    /// What was given other extents.
    reshaped: HashSet<TensorId>,
    /// Where the nodes of each branch begin that is being converted.
    begun: Vec<usize>,
    /// Tensors whose extents were guessed or follow from such, with the skipped node that is to blame.
    guessed: HashMap<TensorId, Rc<str>>,
    /// Why a branch could not be converted, if one could not.
    refused: Option<ImportError>,
    at: AtWork,
}

/// Converts `model`, whose inputs have extents.
///
/// # Errors
/// The first node that has no counterpart, unless they are skipped, or makes no sense.
pub(super) fn convert(model: &Model, options: &ImportOptions) -> Result<Converted, ImportError> {
    let mut converter = Converter::new(model, options);
    for &input in &model.inputs {
        let tensor = &model.tensors[input];
        converter.at = AtWork { name: tensor.name.clone(), kind: "input".to_owned(), ..AtWork::default() };
        let given = converter.give(input, &tensor.name, tensor.extents.as_deref());
        given.map_err(|problem| converter.at.refused(problem))?;
    }
    for node in &model.nodes {
        converter.enter(node);
        let done = converter.node(node);
        converter.leave(node, done)?;
    }
    for &output in &model.outputs {
        let name = node_name(&model.tensors[output].name);
        converter.at = AtWork { name, kind: "output".to_owned(), ..AtWork::default() };
        let wanted = converter.output(output).map_err(|problem| converter.at.refused(problem))?;
        converter.out.wanted.extend(wanted);
    }
    Ok(converter.out)
}

impl<'a> Converter<'a> {
    fn new(model: &'a Model, options: &ImportOptions) -> Self {
        let nodes: Vec<&SourceNode> = model.nodes.iter().flat_map(SourceNode::with_inner).collect();
        let mut readers = vec![0; model.tensors.len()];
        let reads = nodes.iter().flat_map(|node| node.reads.iter().chain(node.work.hands_on()).flatten());
        for &tensor in reads.chain(&model.outputs) {
            readers[tensor] += 1;
        }
        let mut read_as_they_lie = read_by(&nodes, |work| !work.arranges());
        read_as_they_lie.extend(&model.outputs);
        let reshapes = nodes.iter().filter(|node| matches!(node.work, Work::Reshape(_)));
        let reshaped = reshapes.flat_map(|node| node.writes.iter().copied().flatten()).collect();
        let constant = |tensor: &super::model::SourceTensor| tensor.constant.clone().map(Value::Constant);
        Self {
            model,
            skip_unknown: options.skip_unknown,
            values: model.tensors.iter().map(constant).collect(),
            readers,
            read_as_they_lie,
            out: Converted::default(),
            names: HashSet::new(),
            moved: HashMap::new(),
            lists: HashMap::new(),
            repeated: 0,
            given: HashMap::new(),
            owners: HashMap::new(),
            origins: HashMap::new(),
            stored: HashSet::new(),
            matrices: matrices(&nodes),
            images: read_by(&nodes, |work| !work.has_channels_last()),
            reshaped,
            begun: Vec::new(),
            guessed: HashMap::new(),
            refused: None,
            at: AtWork::default(),
        }
    }

    /// An input of the model: images lie with their channels innermost, heads of matrices as in
    /// the file.
    fn give(&mut self, tensor: TensorId, name: &str, extents: Option<&[u32]>) -> Step<()> {
        let extents = extents.unwrap_or_default().to_vec();
        Self::check_extents(&extents)?;
        let order = if extents.len() != 4 || self.matrices.contains(&tensor) {
            wide_axes(&extents)
        } else if self.images.contains(&tensor) {
            self.image_order(4)
        } else {
            (0..4).collect()
        };
        let view = self.lying(extents, order, |converter, shape| converter.input(name, shape))?;
        self.values[tensor] = Some(view.into());
        Ok(())
    }

    fn input(&mut self, name: &str, extent: Shape) -> Source {
        let name = self.unique(name);
        self.out.inputs.push(InputTable { name, extent });
        Source::Input(self.out.inputs.len() as u32 - 1)
    }

    fn node(&mut self, node: &SourceNode) -> Result<(), ImportError> {
        // Whatever the file calls it goes to terminals and into comments.
        let kind = node.kind.escape_debug().take(MAX_NAME).collect();
        self.remember_turned(node);
        let weights = self.weights_of(node);
        self.at = AtWork { name: node_name(&node.name), kind, data_type: node.data_type, weights };
        let (at, before) = (self.at.clone(), self.out.nodes.len());
        let mut guess = self.guess_among(&node.reads);
        let done = if let Work::Rounds(rounds) = &node.work {
            self.follow_from(guess.clone(), &rounds.inputs);
            let done = self.rounds(node, rounds);
            guess = guess.or_else(|| self.guess_among(&rounds.outputs));
            done
        } else {
            let done = self.once(node).map_err(|problem| self.explained(node, problem));
            done.map_err(|problem| at.refused(problem.after(guess.as_deref())))
        };
        let is_unknown = matches!(done, Err(ImportError::Node { problem: Problem::Unknown(_), .. }));
        if !self.skip_unknown || !is_unknown {
            self.follow(node, guess, before);
            return done;
        }
        // Nodes that were added on the way to the problem would have no reader.
        self.forget(before);
        self.at = at;
        self.skip(node).map_err(|problem| self.at.refused(problem.after(guess.as_deref())))
    }

    /// A node that runs once, by its counterpart, or by its class where it has none.
    fn once(&mut self, node: &SourceNode) -> Step<()> {
        let before = self.out.nodes.len();
        let folded = self.folded(node);
        let done = folded.and_then(|is_done| if is_done { Ok(()) } else { self.computed(node) });
        if !matches!(done, Err(Problem::Unknown(_))) || node.work.generic().is_none() {
            return done;
        }
        self.forget(before);
        self.generic(node).or(done)?;
        if self.out.nodes.len() > before {
            self.approximate("an operator of as many elements");
        }
        Ok(())
    }

    /// Takes the nodes from `first` on back.
    fn forget(&mut self, first: usize) {
        for node in self.out.nodes.drain(first..) {
            self.names.remove(&node.name);
            self.out.uncovered.remove(&node.name);
        }
        let is_kept = |source: &Source| !matches!(source, Source::Node(id) if id.index() >= first);
        self.moved.retain(|_, source| is_kept(source));
        self.owners.retain(|_, owner| *owner < first);
        self.out.wanted.retain(is_kept);
        // A damaged file has nodes that read what they write.
        let is_there = |value: &Value| value.view().is_none_or(|view| is_kept(&view.source));
        for value in &mut self.values {
            value.take_if(|value| !is_there(value));
        }
        self.lists.retain(|_, list| list.iter().all(is_there));
    }

    fn computed(&mut self, node: &SourceNode) -> Step<()> {
        let value = match &node.work {
            Work::Convolution { window, groups, is_depthwise } => {
                self.convolution(node, window, *groups, *is_depthwise)?.into()
            }
            Work::TransposedConvolution { window, groups, output_pads } => {
                self.transposed_convolution(node, window, *groups, output_pads)?.into()
            }
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
            Work::Recurrent { gates, batch_first } => return self.recurrent(node, *gates, *batch_first),
            Work::Attention(attention) => return self.attention(node, attention),
            Work::LinearAttention(attention) => return self.linear_attention(node, attention),
            Work::Choice => return self.choice(node),
            Work::Where | Work::Generic { .. } => return self.generic(node),
            Work::Rounds(_) => return unsound("rounds in a place of one node"),
            Work::Unknown(help) => return unknown(help),
            Work::ConstantOfShape(_) | Work::Range | Work::Shape { .. } | Work::Size => {
                return unknown(
                    "its result depends on what the network computes, and so does the work after it",
                );
            }
        };
        self.set(node, 0, value);
        Ok(())
    }
}

/// What is said of a tensor that nobody wrote.
const MISSING: &str = "it reads a tensor that no node before it writes";

/// The name in a graph of a node that a file calls `name`: one that reads well, without what frameworks put before and
/// behind it.
pub fn node_name(name: &str) -> String {
    let first = name.split(';').next().unwrap_or_default();
    let printable: String =
        first.trim_matches('/').chars().filter(|c| !c.is_control()).take(MAX_NAME).collect();
    if printable.is_empty() { "operator".to_owned() } else { printable }
}

/// An axis counted from the end where it is negative.
pub(super) fn axis(axis: i64, rank: usize) -> Step<usize> {
    let counted = if axis < 0 { axis.saturating_add(rank as i64) } else { axis };
    match usize::try_from(counted) {
        Ok(counted) if counted < rank => Ok(counted),
        _ => unsound(format!("axis {axis} of a tensor with {rank} axes")),
    }
}

/// Axes that an operand says, if it is there.
pub(super) fn axes(operand: Option<&Constant>, rank: usize) -> Step<Option<Vec<usize>>> {
    let Some(constant) = operand else { return Ok(None) };
    let Some(numbers) = constant.integers() else { return unknown("its axes are computed by the network") };
    let mut found = numbers.iter().map(|&number| axis(number, rank)).collect::<Step<Vec<usize>>>()?;
    found.sort_unstable();
    found.dedup();
    Ok(Some(found))
}

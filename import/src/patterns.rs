//! Pattern matching: recognises functions that an exporter decomposed into primitive nodes.
//!
//! Responsible for: GELU, swish and hard swish written with error functions, sigmoids or
//! clips; norms written with means and square roots; dilated convolutions written with blocks
//! of pixels; and removing nodes that no output needs. Not for: functions that are already a single node.
//! Invariant: a rewritten node has the inputs and outputs of the whole function; inner
//! nodes stay for their other readers.

mod activation;
mod dilation;
mod norm;

use std::collections::HashSet;
use std::iter::successors;

use super::model::{Arithmetic, Constant, Model, SourceNode, TensorId, Work};

/// Maximum number of nodes in a row that only copy a tensor, and are passed over.
const MAX_COPIES: usize = 8;

/// Fuses decomposed functions, and removes nodes that no output needs.
pub(super) fn rewrite(model: &mut Model) {
    drop_unread(model);
    fold_copies_of_constants(model);
    dilation::rewrite(model);
    norm::rewrite(model);
    drop_unread(model);
    activation::rewrite(model);
    drop_unread(model);
}

/// Writer and readers of each tensor.
struct Links {
    writer: Vec<Option<usize>>,
    /// Reading nodes, once per operand.
    readers: Vec<Vec<usize>>,
    outputs: HashSet<TensorId>,
}

impl Links {
    fn of(model: &Model) -> Self {
        let count = model.tensors.len();
        let mut links = Self {
            writer: vec![None; count],
            readers: vec![Vec::new(); count],
            outputs: model.outputs.iter().copied().collect(),
        };
        for (index, node) in model.nodes.iter().enumerate() {
            for &tensor in node.reads.iter().flatten() {
                links.readers[tensor].push(index);
            }
            for &tensor in node.writes.iter().flatten() {
                links.writer[tensor] = Some(index);
            }
        }
        links
    }

    /// The single reader of a tensor; `None` if the tensor is read more than once or is an output.
    fn only_reader(&self, tensor: TensorId) -> Option<usize> {
        match self.readers[tensor][..] {
            [reader] if !self.outputs.contains(&tensor) => Some(reader),
            _ => None,
        }
    }

    /// As [`Self::only_reader`], of a tensor or of its only copy, such as a quantised one.
    fn only_reader_of_copies(&self, model: &Model, tensor: TensorId) -> Option<usize> {
        first_other(model, self.only_reader(tensor), |copy| self.only_reader(result(copy)?))
    }

    /// The writer of a tensor or of what it is a copy of.
    fn writer_of_original(&self, model: &Model, tensor: TensorId) -> Option<usize> {
        first_other(model, self.writer[tensor], |copy| self.writer[copy.operand(0)?])
    }
}

/// The first of the nodes from `start` on that does more than copy a tensor.
fn first_other(
    model: &Model,
    start: Option<usize>,
    next: impl Fn(&SourceNode) -> Option<usize>,
) -> Option<usize> {
    let mut nodes = successors(start, |&node| next(&model.nodes[node])).take(MAX_COPIES);
    nodes.find(|&node| model.nodes[node].work != Work::Identity)
}

/// The result of a node with exactly one.
fn result(node: &SourceNode) -> Option<TensorId> {
    match node.writes[..] {
        [result] => result,
        _ => None,
    }
}

/// Operands that are not constant.
fn computed<'a>(model: &'a Model, node: &'a SourceNode) -> impl Iterator<Item = TensorId> + 'a {
    node.reads.iter().copied().flatten().filter(|&tensor| model.tensors[tensor].constant.is_none())
}

/// Number of elements of the constant operand of a binary node whose other operand is computed.
fn constant_elements(model: &Model, node: &SourceNode) -> Option<u64> {
    let [Some(left), Some(right)] = node.reads[..] else { return None };
    let of = |tensor: TensorId| model.tensors[tensor].constant.as_ref().map(Constant::elements);
    match (of(left), of(right)) {
        (Some(count), None) | (None, Some(count)) => Some(count),
        _ => None,
    }
}

fn is_elementwise(work: &Work) -> bool {
    matches!(work, Work::Function(_) | Work::Identity)
        || matches!(work, Work::Arithmetic(arithmetic) if !matches!(arithmetic, Arithmetic::Comparison(_)))
}

/// Makes copies of constants constant, without their numbers, where only element-wise nodes read them: files of integers
/// dequantise factors and addends. Weights stay as they are stored, since those that are shared count once.
fn fold_copies_of_constants(model: &mut Model) {
    let links = Links::of(model);
    for node in &model.nodes {
        let (Work::Identity, Some(from), Some(copy)) = (&node.work, node.operand(0), result(node)) else {
            continue;
        };
        if links.readers[copy].iter().all(|&reader| is_elementwise(&model.nodes[reader].work)) {
            let stored = model.tensors[from].constant.clone();
            model.tensors[copy].constant = stored.map(|stored| Constant { numbers: None, ..stored });
        }
    }
}

/// Removes nodes that no output needs. Keeps everything in a model without outputs.
fn drop_unread(model: &mut Model) {
    if model.outputs.is_empty() {
        return;
    }
    let mut wanted: HashSet<TensorId> = model.outputs.iter().copied().collect();
    // Nodes are in topological order, so one backward pass finds everything.
    model.nodes.reverse();
    model.nodes.retain(|node| {
        let is_kept = node.writes.iter().flatten().any(|tensor| wanted.contains(tensor));
        if is_kept {
            wanted.extend(node.reads.iter().copied().flatten());
        }
        is_kept
    });
    model.nodes.reverse();
}

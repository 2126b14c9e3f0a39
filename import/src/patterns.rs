//! Functions that an exporter spelled out, found again.
//!
//! Responsible for: GELU, swish and their kin written with error functions, sigmoids
//! or clippings; norms written with means and square roots; and leaving out nodes that
//! no output needs. Not for: what is already one node.
//! Invariant: a rewritten node reads what the whole function read and writes what it
//! wrote; nodes inside stay for whoever else reads them.

mod activation;
mod norm;

use std::collections::HashSet;

use super::model::{Arithmetic, Model, SourceNode, TensorId, Work};

/// Finds functions again, and leaves out what no output needs.
pub(super) fn rewrite(model: &mut Model) {
    drop_unread(model);
    norm::rewrite(model);
    drop_unread(model);
    activation::rewrite(model);
    drop_unread(model);
}

/// Who writes and who reads each tensor.
struct Links {
    writer: Vec<Option<usize>>,
    /// A reading node for each operand that it is.
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

    /// The one node that reads a tensor, once, where nothing else does.
    fn only_reader(&self, tensor: TensorId) -> Option<usize> {
        match self.readers[tensor][..] {
            [reader] if !self.outputs.contains(&tensor) => Some(reader),
            _ => None,
        }
    }
}

/// What a node writes, of one that writes one tensor.
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

/// Elements of the constant that a node of two operands has beside a computed one.
fn constant_beside(model: &Model, node: &SourceNode) -> Option<u64> {
    let [Some(left), Some(right)] = node.reads[..] else { return None };
    let of = |tensor: TensorId| model.tensors[tensor].constant.as_ref().map(super::model::Constant::elements);
    match (of(left), of(right)) {
        (Some(count), None) | (None, Some(count)) => Some(count),
        _ => None,
    }
}

fn is_elementwise(work: &Work) -> bool {
    matches!(work, Work::Function(_) | Work::Identity)
        || matches!(work, Work::Arithmetic(arithmetic) if !matches!(arithmetic, Arithmetic::Comparison(_)))
}

/// Leaves out nodes that no output needs. Everything stays in a model without outputs.
fn drop_unread(model: &mut Model) {
    if model.outputs.is_empty() {
        return;
    }
    let mut wanted: HashSet<TensorId> = model.outputs.iter().copied().collect();
    // Readers come after writers, so one pass from the end finds everything.
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

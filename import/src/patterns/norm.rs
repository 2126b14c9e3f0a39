//! Layer and root-mean-square norms, spelled out.
//!
//! From a mean along the last axis, or along the channels of images that have them first: the nodes that compute from `x` alone, by
//! functions of each element and such means, up to the first product that everything
//! inside leads to, a square root included. A scale and a shift behind it belong to it.

use std::collections::HashSet;

use super::super::model::{Arithmetic, Elemental, ImageOrder, Model, Reduction, SourceNode, TensorId, Work};
use super::{Links, computed, constant_beside, is_elementwise, result};
use coexec_sim::workload::{Norm, NormKind};

/// The innermost axis.
const LAST: i64 = -1;
/// Channels of an image that has them first.
const CHANNELS: i64 = 1;
/// Most nodes of the file that a norm is spread over.
const MAX_SPREAD: usize = 48;

pub(super) fn rewrite(model: &mut Model) {
    let links = Links::of(model);
    let mut done = 0;
    for index in 0..model.nodes.len() {
        // What lies inside a norm that was found is none by itself.
        if index < done {
            continue;
        }
        let Some(axis) = axis_of_mean(model, index) else { continue };
        if let Some((from, last, kind)) = found(model, &links, index) {
            let node = &mut model.nodes[last];
            node.work = Work::along_axis(Norm::from(kind), axis, axis == LAST);
            node.reads = vec![Some(from)];
            done = last;
        }
    }
}

/// The axis of a mean along the last axis, or along the channels of an image.
fn axis_of_mean(model: &Model, index: usize) -> Option<i64> {
    let node = &model.nodes[index];
    if !matches!(node.work, Work::Reduce { reduction: Reduction::Mean, .. }) {
        return None;
    }
    let axes = node.reads.get(1).copied().flatten()?;
    let axes = model.tensors[axes].constant.as_ref()?.integers()?;
    let operand = node.reads.first().copied().flatten()?;
    let rank = model.tensors[operand].extents.as_ref().map(|extents| extents.len() as i64);
    let &[axis] = axes.as_slice() else { return None };
    let is_image = model.order == ImageOrder::ChannelsFirst && rank.is_none_or(|rank| rank == 4);
    match axis {
        LAST => Some(LAST),
        axis if rank.is_some_and(|rank| axis == rank - 1) => Some(LAST),
        CHANNELS | -3 if is_image => Some(CHANNELS),
        _ => None,
    }
}

/// The `x`, the last node and the kind of the norm whose mean is at `key`.
fn found(model: &Model, links: &Links, key: usize) -> Option<(TensorId, usize, NormKind)> {
    let operand = model.nodes[key].reads.first().copied().flatten()?;
    let mut candidates = vec![operand];
    let mut from = operand;
    for _ in 0..3 {
        let Some(writer) = links.writer[from] else { break };
        let writer = &model.nodes[writer];
        if !is_elementwise(&writer.work) {
            break;
        }
        let mut operands = computed(model, writer);
        let Some(first) = operands.next() else { break };
        if operands.any(|other| other != first) {
            break;
        }
        from = first;
        candidates.push(from);
    }
    candidates.into_iter().rev().find_map(|from| region(model, links, key, from))
}

/// The norm of `from` that has the mean at `key` in it.
fn region(model: &Model, links: &Links, key: usize, from: TensorId) -> Option<(TensorId, usize, NormKind)> {
    // Nodes are listed in order, and so are readers.
    let first = *links.readers[from].first()?;
    let mut inside: HashSet<TensorId> = HashSet::new();
    let mut members: HashSet<usize> = HashSet::new();
    let along = axis_of_mean(model, key);
    let (mut means, mut has_root) = (0, false);
    for index in first..model.nodes.len().min(key.saturating_add(MAX_SPREAD)) {
        let node = &model.nodes[index];
        let mut operands = computed(model, node).peekable();
        let belongs =
            operands.peek().is_some() && operands.all(|tensor| tensor == from || inside.contains(&tensor));
        let is_mean = along.is_some() && axis_of_mean(model, index) == along;
        if !belongs || !(is_mean || is_elementwise(&node.work)) {
            continue;
        }
        let written = result(node)?;
        inside.insert(written);
        members.insert(index);
        means += usize::from(is_mean);
        has_root |= is_root(model, node);
        let joins = computed(model, node).count() == 2;
        let is_closed = |&tensor: &TensorId| {
            tensor == written
                || (!links.is_output[tensor] && links.readers[tensor].iter().all(|r| members.contains(r)))
        };
        if joins && has_root && members.contains(&key) && inside.iter().all(is_closed) {
            let kind = if means > 1 { NormKind::Layer } else { NormKind::Rms };
            return Some((from, with_scale(model, links, index), kind));
        }
    }
    None
}

fn is_root(model: &Model, node: &SourceNode) -> bool {
    let exponent = || {
        let tensor = node.reads.get(1).copied().flatten()?;
        model.tensors[tensor].constant.as_ref()?.numbers.as_ref()?.first().copied()
    };
    matches!(node.work, Work::Function(Elemental::Sqrt | Elemental::ReciprocalSqrt))
        || node.work == Work::Arithmetic(Arithmetic::Power)
            && exponent().is_some_and(|exponent| (exponent.abs() - 0.5).abs() < 1e-6)
}

/// The node behind a norm that scales, and shifts, each feature.
fn with_scale(model: &Model, links: &Links, norm: usize) -> usize {
    let mut last = norm;
    for wanted in [Arithmetic::Multiply, Arithmetic::Add] {
        let reader = result(&model.nodes[last]).and_then(|tensor| links.only_reader(tensor));
        let Some(reader) = reader else { break };
        let node = &model.nodes[reader];
        if node.work == Work::Arithmetic(wanted)
            && constant_beside(model, node).is_some_and(|count| count > 1)
        {
            last = reader;
        }
    }
    last
}

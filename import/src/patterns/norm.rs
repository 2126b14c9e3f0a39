//! Recognises decomposed layer, RMS and group norms.
//!
//! For layer and RMS norms the match starts at a mean along the last axis, or along the channels of channels-first
//! images. It collects the nodes that compute from `x` alone by element-wise functions and
//! such means, up to the first binary node that all of them lead to; a square root must be
//! among them. A scale and a shift after it belong to the norm. In TFLite files, whose
//! runtime executes each node, a layer norm is a single step only where the GPU delegate
//! fuses it into one kernel. A group norm is an instance norm between two reshapes: one that
//! makes each group of channels an instance, and one back to the image.

use std::collections::HashSet;
use std::iter::successors;

use super::super::model::{Arithmetic, Elemental, ImageOrder, Model, Reduction, SourceNode, TensorId, Work};
use super::{Links, computed, constant_elements, is_elementwise, result};
use coexec_sim::workload::{Norm, NormKind};

/// The innermost axis.
const LAST: i64 = -1;
/// Channels of an image that has them first.
const CHANNELS: i64 = 1;
/// Number of axes of an image.
const IMAGE_RANK: usize = 4;
/// Maximum distance, in nodes of the file, from the mean to the end of a norm.
const MAX_SPREAD: usize = 48;

pub(super) fn rewrite(model: &mut Model) {
    let links = Links::of(model);
    let mut done = 0;
    for index in 0..model.nodes.len() {
        // A mean inside a norm that was found is not a norm by itself.
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
    for index in 0..model.nodes.len() {
        if let Some((from, last, groups)) = of_groups(model, &links, index) {
            let node = &mut model.nodes[last];
            node.work = Work::GroupNorm { groups: Some(groups) };
            node.reads = vec![Some(from)];
        }
    }
}

/// For the instance norm at node `key`, if its instances are groups of channels: the image, the last
/// node and the number of groups.
fn of_groups(model: &Model, links: &Links, key: usize) -> Option<(TensorId, usize, u32)> {
    let node = &model.nodes[key];
    let is_reshape = |index: usize| matches!(model.nodes[index].work, Work::Reshape(_));
    let grouping = links.writer_of_original(model, node.operand(0)?)?;
    let back = links.only_reader_of_copies(model, result(node)?)?;
    if node.work != (Work::GroupNorm { groups: None }) || !is_reshape(grouping) || !is_reshape(back) {
        return None;
    }
    let grouping = &model.nodes[grouping];
    let from = grouping.operand(0)?;
    let target = model.tensors[grouping.operand(1)?].constant.as_ref()?.integers()?;
    let &[_, groups, _] = target.as_slice() else { return None };
    // Back to the extents of the image: those that the file states, those read from the image, or, where the file states
    // none, those of any image.
    let extents = model.nodes[back].operand(1)?;
    let is_back = if let Some(stated) = &model.tensors[extents].constant {
        let stated = stated.integers()?;
        let is_of =
            |image: &Vec<u32>| image.iter().map(|&extent| i64::from(extent)).eq(stated.iter().copied());
        model.tensors[from].extents.as_ref().map_or(stated.len() == IMAGE_RANK, is_of)
    } else {
        let writer = &model.nodes[links.writer[extents]?];
        matches!(writer.work, Work::Shape { .. }) && writer.operand(0) == Some(from)
    };
    Some((from, with_scale(model, links, back), u32::try_from(groups).ok().filter(|_| is_back)?))
}

/// The axis of a mean along the last axis or the channels of an image; `None` for other nodes.
fn axis_of_mean(model: &Model, index: usize) -> Option<i64> {
    let node = &model.nodes[index];
    if !matches!(node.work, Work::Reduce { reduction: Reduction::Mean, .. }) {
        return None;
    }
    let axes = node.operand(1)?;
    let axes = model.tensors[axes].constant.as_ref()?.integers()?;
    let operand = node.operand(0)?;
    let extents = model.tensors[operand].extents.as_ref();
    let rank = extents.map(|extents| extents.len() as i64);
    let is_of_one_image = extents.is_some_and(|extents| extents.first() == Some(&1));
    let axis = match *axes.as_slice() {
        [axis] => axis,
        // Over the batch, too, as litert-torch writes it.
        [0, axis] if is_of_one_image => axis,
        _ => return None,
    };
    let is_image = model.order == ImageOrder::ChannelsFirst && rank.is_none_or(|rank| rank == 4);
    match axis {
        LAST => Some(LAST),
        axis if rank.is_some_and(|rank| axis == rank - 1) => Some(LAST),
        CHANNELS | -3 if is_image => Some(CHANNELS),
        _ => None,
    }
}

/// For the mean at node `key`: the tensor `x`, and the last node and kind of the norm.
fn found(model: &Model, links: &Links, key: usize) -> Option<(TensorId, usize, NormKind)> {
    let before = |&from: &TensorId| {
        let writer = &model.nodes[links.writer[from]?];
        let mut operands = computed(model, writer);
        let first = operands.next().filter(|_| is_elementwise(&writer.work))?;
        operands.all(|other| other == first).then_some(first)
    };
    // Up to three element-wise nodes before the mean may belong to the norm.
    let candidates: Vec<TensorId> = successors(model.nodes[key].operand(0), before).take(4).collect();
    candidates.into_iter().rev().find_map(|from| region(model, links, key, from))
}

/// The norm of `from` that contains the mean at node `key`.
fn region(model: &Model, links: &Links, key: usize, from: TensorId) -> Option<(TensorId, usize, NormKind)> {
    // Readers are listed in node order.
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
        // A mean may get its axis back.
        let is_reshaped =
            || matches!(node.work, Work::Reshape(_)) && computed(model, node).all(|tensor| tensor != from);
        if !belongs || !(is_mean || is_elementwise(&node.work) || is_reshaped()) {
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
                || (!links.outputs.contains(&tensor)
                    && links.readers[tensor].iter().all(|r| members.contains(r)))
        };
        if joins && has_root && members.contains(&key) && inside.iter().all(is_closed) {
            let in_steps = || model.order == ImageOrder::ChannelsLast && !is_one_kernel(model, &members);
            let kind = match means {
                0 | 1 => NormKind::Rms,
                _ if in_steps() => NormKind::LayerInSteps,
                _ => NormKind::Layer,
            };
            return Some((from, with_scale(model, links, index), kind));
        }
    }
    None
}

/// Whether the nodes of a layer norm are those that the GPU delegate fuses: mean, difference, its
/// square, the square's mean, plus epsilon, reciprocal square root, product
/// (`mean_stddev_normalization.cc`).
fn is_one_kernel(model: &Model, members: &HashSet<usize>) -> bool {
    let count =
        |wanted: fn(&Work) -> bool| members.iter().filter(|&&index| wanted(&model.nodes[index].work)).count();
    let counts = [
        count(|work| matches!(work, Work::Reduce { reduction: Reduction::Mean, .. })),
        count(|work| *work == Work::Arithmetic(Arithmetic::Subtract)),
        count(|work| *work == Work::Function(Elemental::Square)),
        count(|work| *work == Work::Arithmetic(Arithmetic::Add)),
        count(|work| *work == Work::Function(Elemental::ReciprocalSqrt)),
        count(|work| *work == Work::Arithmetic(Arithmetic::Multiply)),
    ];
    counts == [2, 1, 1, 1, 1, 1] && members.len() == 7
}

fn is_root(model: &Model, node: &SourceNode) -> bool {
    let exponent = || model.tensors[node.operand(1)?].constant.as_ref()?.first();
    matches!(node.work, Work::Function(Elemental::Sqrt | Elemental::ReciprocalSqrt))
        || node.work == Work::Arithmetic(Arithmetic::Power)
            && exponent().is_some_and(|exponent| (exponent.abs() - 0.5).abs() < 1e-6)
}

/// The last node of a norm with the per-feature scale and shift that follow it, if any.
fn with_scale(model: &Model, links: &Links, norm: usize) -> usize {
    let mut last = norm;
    for wanted in [Arithmetic::Multiply, Arithmetic::Add] {
        let reader = result(&model.nodes[last]).and_then(|tensor| links.only_reader_of_copies(model, tensor));
        let Some(reader) = reader else { break };
        let node = &model.nodes[reader];
        if node.work == Work::Arithmetic(wanted)
            && constant_elements(model, node).is_some_and(|count| count > 1)
        {
            last = reader;
        }
    }
    last
}

#[cfg(test)]
mod tests {
    use super::super::super::model::{Constant, Reshaping, SourceTensor};
    use super::*;

    /// A layer norm of tokens with the nodes `works`, each with the tensors that it reads. Tensor 0 is the
    /// input, 1 the axis, 2 epsilon; each node writes the next tensor.
    fn layer_norm(order: ImageOrder, works: &[(Work, &[TensorId])]) -> Model {
        let constant = |constant| SourceTensor { constant: Some(constant), ..SourceTensor::default() };
        let tokens = SourceTensor { extents: Some(vec![1, 50, 64]), ..SourceTensor::default() };
        let small = Constant::number(1e-6);
        let mut tensors = vec![tokens.clone(), constant(Constant::list([-1])), constant(small)];
        let node = |(index, (work, reads)): (usize, &(Work, &[TensorId]))| SourceNode {
            data_type: None,
            name: String::new(),
            kind: String::new(),
            branches: 0,
            work: work.clone(),
            reads: reads.iter().map(|&read| Some(read)).collect(),
            writes: vec![Some(3 + index)],
        };
        let nodes: Vec<SourceNode> = works.iter().enumerate().map(node).collect();
        tensors.extend(nodes.iter().map(|_| tokens.clone()));
        let outputs = vec![tensors.len() - 1];
        Model {
            order,
            data_type: coexec_sim::DataType::F32,
            tensors,
            inputs: vec![0],
            outputs,
            unset: Vec::new(),
            nodes,
        }
    }

    #[test]
    fn a_layer_norm_of_tflite_is_one_step_where_the_delegate_has_a_kernel_for_its_nodes() {
        let mean = || Work::Reduce { reduction: Reduction::Mean, keep: true };
        let arithmetic = Work::Arithmetic;
        let root = || Work::Function(Elemental::ReciprocalSqrt);
        let with_square: [(Work, &[TensorId]); 7] = [
            (mean(), &[0, 1]),
            (arithmetic(Arithmetic::Subtract), &[0, 3]),
            (Work::Function(Elemental::Square), &[4]),
            (mean(), &[5, 1]),
            (arithmetic(Arithmetic::Add), &[6, 2]),
            (root(), &[7]),
            (arithmetic(Arithmetic::Multiply), &[4, 8]),
        ];
        let with_squared_difference: [(Work, &[TensorId]); 7] = [
            (mean(), &[0, 1]),
            (arithmetic(Arithmetic::SquaredDifference), &[0, 3]),
            (mean(), &[4, 1]),
            (arithmetic(Arithmetic::Add), &[5, 2]),
            (root(), &[6]),
            (arithmetic(Arithmetic::Subtract), &[0, 3]),
            (arithmetic(Arithmetic::Multiply), &[8, 7]),
        ];
        let reshape = || Work::Reshape(Reshaping::ToOperand { zero_is_zero: true });
        let with_reshapes: [(Work, &[TensorId]); 12] = [
            (mean(), &[0, 1]),
            (reshape(), &[3, 1]),
            (arithmetic(Arithmetic::SquaredDifference), &[0, 4]),
            (mean(), &[5, 1]),
            (arithmetic(Arithmetic::Add), &[6, 2]),
            (root(), &[7]),
            (arithmetic(Arithmetic::Multiply), &[8, 3]),
            (arithmetic(Arithmetic::Subtract), &[2, 9]),
            (reshape(), &[8, 1]),
            (arithmetic(Arithmetic::Multiply), &[0, 11]),
            (reshape(), &[10, 1]),
            (arithmetic(Arithmetic::Add), &[12, 13]),
        ];
        let mut model = layer_norm(ImageOrder::ChannelsLast, &with_reshapes);
        model.tensors[1].constant = Some(Constant::list([0, 2]));
        rewrite(&mut model);
        let norm = Work::along_axis(Norm::from(NormKind::LayerInSteps), LAST, true);
        assert_eq!((&model.nodes[11].work, &model.nodes[11].reads[..]), (&norm, &[Some(0)][..]));
        let found = |order, works| {
            let mut model = layer_norm(order, works);
            rewrite(&mut model);
            model.nodes[6].work.clone()
        };
        for (order, works, kind) in [
            (ImageOrder::ChannelsLast, &with_square, NormKind::Layer),
            (ImageOrder::ChannelsLast, &with_squared_difference, NormKind::LayerInSteps),
            (ImageOrder::ChannelsFirst, &with_squared_difference, NormKind::Layer),
        ] {
            assert_eq!(found(order, works), Work::along_axis(Norm::from(kind), LAST, true), "{order:?}");
        }
    }
}

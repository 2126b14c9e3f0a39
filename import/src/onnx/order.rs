//! The execution order of nodes, which does not depend on their order in the file.
//!
//! An ONNX file lists nodes in any topological order. ONNX Runtime runs them in the order of a
//! depth-first search from the outputs, and so does this module. Two files of one model therefore
//! give the same workload.

use crate::model::{Model, SourceNode, TensorId};

/// Sorts nodes depth-first from the outputs, following operands in order; nodes that no output needs come last.
pub(super) fn depth_first(model: &mut Model) {
    let mut writer: Vec<Option<usize>> = vec![None; model.tensors.len()];
    for (index, node) in model.nodes.iter().enumerate() {
        for &tensor in node.writes.iter().flatten() {
            writer[tensor].get_or_insert(index);
        }
    }
    let mut is_seen = vec![false; model.nodes.len()];
    let mut order = Vec::with_capacity(model.nodes.len());
    // The stack: a node, and the number of its operands already followed.
    let mut open: Vec<(usize, usize)> = Vec::new();
    let outputs = model.outputs.iter().filter_map(|&tensor| writer[tensor]);
    for root in outputs.chain(0..model.nodes.len()) {
        if !std::mem::replace(&mut is_seen[root], true) {
            open.push((root, 0));
        }
        while let Some((node, followed)) = open.last_mut() {
            let reads = &model.nodes[*node].reads;
            let Some(&read) = reads.get(*followed) else {
                order.push(*node);
                open.pop();
                continue;
            };
            *followed += 1;
            let before = read.and_then(|tensor: TensorId| writer[tensor]);
            if let Some(before) = before.filter(|&before| !std::mem::replace(&mut is_seen[before], true)) {
                open.push((before, 0));
            }
        }
    }
    let mut nodes: Vec<Option<SourceNode>> = std::mem::take(&mut model.nodes).into_iter().map(Some).collect();
    model.nodes = order.into_iter().filter_map(|index| nodes[index].take()).collect();
}

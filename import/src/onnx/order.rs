//! The order in which nodes run: that of the results, not of the file.
//!
//! An ONNX file lists nodes in any order in which none comes before what it reads. ONNX Runtime
//! runs them as following the results back from the outputs finds them, and so do we: two files
//! of one model are one workload.

use crate::model::{Model, SourceNode, TensorId};

/// Puts what each node reads, in the order of its operands, before it; nodes that no output needs come last.
pub(super) fn by_results(model: &mut Model) {
    let mut writer: Vec<Option<usize>> = vec![None; model.tensors.len()];
    for (index, node) in model.nodes.iter().enumerate() {
        for &tensor in node.writes.iter().flatten() {
            writer[tensor].get_or_insert(index);
        }
    }
    let mut is_seen = vec![false; model.nodes.len()];
    let mut order = Vec::with_capacity(model.nodes.len());
    // A node, and how many of its operands were followed.
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

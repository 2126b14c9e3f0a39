//! The order of a graph's nodes: each after those it reads.
//!
//! Files should have them so; some have not, and ONNX Runtime sorts them.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use super::messages::{GraphProto, NodeProto};

/// Places of the nodes, each after those it reads and else as in the file; those of a circle last.
pub(super) fn of(graph: &GraphProto) -> Vec<usize> {
    let count = graph.node.len();
    let outputs = |(index, node): (usize, &NodeProto)| -> Vec<(String, usize)> {
        node.output.iter().filter(|name| !name.is_empty()).map(|name| (name.clone(), index)).collect()
    };
    let writers: HashMap<String, usize> = graph.node.iter().enumerate().flat_map(outputs).collect();
    let mut readers = vec![Vec::new(); count];
    let mut missing = vec![0_usize; count];
    let mut is_sorted = true;
    for (index, node) in graph.node.iter().enumerate() {
        let mut names = Vec::new();
        read(node, &mut names);
        for writer in names.into_iter().filter_map(|name| writers.get(name).copied()) {
            is_sorted &= writer < index;
            readers[writer].push(index);
            missing[index] += 1;
        }
    }
    if is_sorted {
        return (0..count).collect();
    }
    let mut ready: BinaryHeap<Reverse<usize>> =
        (0..count).filter(|&index| missing[index] == 0).map(Reverse).collect();
    let mut order = Vec::with_capacity(count);
    while let Some(Reverse(index)) = ready.pop() {
        order.push(index);
        for &reader in &readers[index] {
            missing[reader] -= 1;
            if missing[reader] == 0 {
                ready.push(Reverse(reader));
            }
        }
    }
    order.extend((0..count).filter(|&index| missing[index] > 0));
    order
}

/// Names of what a node reads, and what its branches read.
fn read<'a>(node: &'a NodeProto, names: &mut Vec<&'a str>) {
    names.extend(node.input.iter().map(String::as_str));
    for graph in node.attribute.iter().filter_map(|attribute| attribute.g.as_ref()) {
        for inner in &graph.node {
            read(inner, names);
        }
        names.extend(graph.output.iter().map(|info| info.name.as_str()));
    }
}

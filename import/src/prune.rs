//! Dead-code elimination after conversion.
//!
//! Responsible for: removing operators that were only added on the way, and inputs
//! without a reader; and which of the remaining operators share the weights of earlier
//! ones. Not for: nodes of the file that no output needs, which `patterns.rs` has removed
//! before.

use std::collections::{HashMap, HashSet};

use super::convert::Converted;
use coexec_sim::workload::{NodeId, Source};

/// Removes nodes that no wanted node needs, and inputs without a reader. Keeps everything
/// where nothing is wanted.
pub(super) fn prune(converted: &mut Converted) {
    let mut kept: HashSet<Source> =
        converted.wanted.iter().copied().filter(|source| matches!(source, Source::Node(_))).collect();
    let keeps_all = kept.is_empty();
    // Nodes are in topological order, so one backward pass finds everything.
    for (index, node) in converted.nodes.iter().enumerate().rev() {
        let source = node_at(index);
        if keeps_all || kept.contains(&source) {
            kept.insert(source);
            kept.extend(&node.inputs);
        }
    }
    let mut seen = HashSet::new();
    for (index, node) in converted.nodes.iter_mut().enumerate() {
        let weights = converted.weights.get(&node_at(index)).filter(|_| kept.contains(&node_at(index)));
        node.shares_weights = weights.is_some_and(|weights| !seen.insert(weights));
    }
    let mut places = HashMap::new();
    keep(&mut converted.inputs, |index| Source::Input(index as u32), &kept, &mut places);
    keep(&mut converted.nodes, node_at, &kept, &mut places);
    for source in converted.nodes.iter_mut().flat_map(|node| &mut node.inputs) {
        *source = places[source];
    }
}

fn node_at(index: usize) -> Source {
    Source::Node(NodeId(index as u32))
}

/// Removes the sources that are not kept, and records the new places of the others.
fn keep<T>(
    list: &mut Vec<T>,
    at: impl Fn(usize) -> Source,
    kept: &HashSet<Source>,
    places: &mut HashMap<Source, Source>,
) {
    let old = (0..list.len()).map(&at).filter(|source| kept.contains(source));
    places.extend(old.enumerate().map(|(new, old)| (old, at(new))));
    let mut index = 0..;
    list.retain(|_| index.next().is_some_and(|index| kept.contains(&at(index))));
}

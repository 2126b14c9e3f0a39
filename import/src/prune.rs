//! What no output of a model needs.
//!
//! Responsible for: leaving out nodes that were only added on the way, and inputs
//! that nobody reads. Not for: nodes of the file that no output needs;
//! `patterns.rs` leaves those out before.

use super::convert::Converted;
use coexec_sim::workload::{NodeId, Source};

/// Leaves out nodes that nothing wanted reads, and inputs without a reader. Everything
/// stays where nothing is wanted.
pub(super) fn prune(converted: &mut Converted) {
    let mut wanted = vec![false; converted.nodes.len()];
    let mut open: Vec<usize> = converted.wanted.iter().filter_map(|&source| index(source)).collect();
    if open.is_empty() {
        wanted.fill(true);
    }
    while let Some(node) = open.pop() {
        if !std::mem::replace(&mut wanted[node], true) {
            open.extend(converted.nodes[node].inputs.iter().filter_map(|&source| index(source)));
        }
    }
    let mut read = vec![false; converted.inputs.len()];
    for (node, _) in converted.nodes.iter().zip(&wanted).filter(|(_, wanted)| **wanted) {
        for &source in &node.inputs {
            if let Source::Input(input) = source {
                read[input as usize] = true;
            }
        }
    }
    let (nodes, inputs) = (places(&wanted), places(&read));
    keep(&mut converted.nodes, &wanted);
    keep(&mut converted.inputs, &read);
    for source in converted.nodes.iter_mut().flat_map(|node| &mut node.inputs) {
        *source = match *source {
            Source::Input(input) => Source::Input(inputs[input as usize]),
            Source::Node(id) => Source::Node(NodeId(nodes[id.index()])),
        };
    }
}

fn index(source: Source) -> Option<usize> {
    match source {
        Source::Input(_) => None,
        Source::Node(id) => Some(id.index()),
    }
}

/// Place of each among those kept.
fn places(kept: &[bool]) -> Vec<u32> {
    let mut next = 0;
    let place = |&kept: &bool| {
        let place = next;
        next += u32::from(kept);
        place
    };
    kept.iter().map(place).collect()
}

fn keep<T>(list: &mut Vec<T>, kept: &[bool]) {
    let mut kept = kept.iter();
    list.retain(|_| kept.next().copied().unwrap_or(false));
}

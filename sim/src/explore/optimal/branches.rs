//! Parts of a graph whose operators need not wait for each other.
//!
//! Responsible for: finding them. Not for: who computes what in them (`concurrent`).
//! Invariant: of what a region computes, only the result of its last stage is read behind
//! it.

use std::ops::Range;

use crate::workload::Stage;

/// Most stages of a region: an ancestor is a bit.
const MAX_REGION_STAGES: usize = 48;

/// The regions of a graph, in order, none inside another. `live` says for each position
/// which stages before it are read from there on.
pub(super) fn regions(stages: &[Stage], live: &[Vec<usize>]) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    for head in 0..stages.len() {
        if let Some(end) = end_of(stages, live, head)
            && found.last().is_none_or(|known| end > known.end)
        {
            found.push(head..end);
        }
    }
    found
}

/// Where the smallest region from `head` on ends.
fn end_of(stages: &[Stage], live: &[Vec<usize>], head: usize) -> Option<usize> {
    // For each stage from the head on, the stages from there on that it waits for.
    let mut ancestors: Vec<u64> = Vec::new();
    let mut is_branched = false;
    for end in head + 1..=stages.len().min(head + MAX_REGION_STAGES) {
        let stage = end - 1;
        let inputs = stages[stage].inputs.iter().filter(|&&input| input >= head);
        let waits = inputs.fold(0, |set, &input| set | ancestors[input - head] | 1 << (input - head));
        is_branched |= waits.count_ones() as usize != stage - head;
        ancestors.push(waits);
        let escapes = live[end].iter().any(|&input| input >= head && input != stage);
        if is_branched && !escapes {
            let is_whole = !(head + 1..end).any(|middle| falls_apart(live, &ancestors, head, middle));
            return is_whole.then_some(end);
        }
    }
    None
}

/// Whether everything from `middle` on waits for the one result that is handed on there.
fn falls_apart(live: &[Vec<usize>], ancestors: &[u64], head: usize, middle: usize) -> bool {
    let bottleneck = middle - 1;
    let hands_on_one = live[middle].iter().all(|&input| input < head || input == bottleneck);
    let waits = |waits: &u64| waits & (1 << (bottleneck - head)) != 0;
    hands_on_one && ancestors[middle - head..].iter().all(waits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explore::optimal::state::live;
    use crate::workload::{fuse, network};

    fn of(name: &str) -> (Vec<Stage>, Vec<Range<usize>>) {
        let stages = fuse(&network(name).unwrap());
        let live = live(stages.iter().map(|stage| stage.inputs.as_slice()));
        let regions = regions(&stages, &live);
        (stages, regions)
    }

    #[test]
    fn a_chain_of_operators_has_no_branches() {
        for name in ["vgg16", "codl-vgg16", "mobilenet-v2"] {
            assert!(of(name).1.is_empty(), "{name}: {:?}", of(name).1);
        }
    }

    #[test]
    fn every_inception_block_is_one_region_that_ends_with_its_concatenation() {
        let (stages, regions) = of("inception-v3");
        assert_eq!(regions.len(), 11);
        for region in regions {
            assert!(stages[region.end - 1].name.contains("concat"), "{}", stages[region.end - 1].name);
        }
    }

    #[test]
    fn a_residual_block_has_none_where_its_addition_links_behind_the_shortcut() {
        // The shortcut's convolution adds what the block computed, and so waits for it.
        assert!(of("resnet50").1.is_empty());
    }
}

//! Dependences between stages in their order.
//!
//! Responsible for: live results, runs, meeting points, and other orders of branches. Not for:
//! prices (`model`). Invariant: everything follows from the stages' inputs alone.

use std::cmp::Reverse;

use crate::workload::Stage;

/// Other orders of the branches. Depth-first walks from the last result back, in which each stage follows its inputs,
/// and the later or the earlier ones of these come first; and all branches side by side, by the number of stages on the
/// longest path up to each stage, or by that from it to the end, the longest first.
pub(super) fn other_orders(stages: &[Stage]) -> Vec<Vec<usize>> {
    let count = stages.len();
    let [mut before, mut after] = [vec![0; count], vec![0; count]];
    for stage in 0..count {
        before[stage] = stages[stage].inputs().map(|input| before[input] + 1).max().unwrap_or(0);
    }
    for stage in (0..count).rev() {
        stages[stage].inputs().for_each(|input| after[input] = after[input].max(after[stage] + 1));
    }
    let [mut by_start, mut by_end] = [0, 1].map(|_| (0..count).collect::<Vec<usize>>());
    by_start.sort_by_key(|&stage| before[stage]);
    by_end.sort_by_key(|&stage| Reverse(after[stage]));
    let mut orders = Vec::new();
    for order in [depth_first(stages, true), depth_first(stages, false), by_start, by_end] {
        if !order.is_sorted() && !orders.contains(&order) {
            orders.push(order);
        }
    }
    orders
}

fn depth_first(stages: &[Stage], later_first: bool) -> Vec<usize> {
    let (mut order, mut is_placed) = (Vec::with_capacity(stages.len()), vec![false; stages.len()]);
    for result in (0..stages.len()).rev() {
        let mut open = vec![result];
        while let Some(&stage) = open.last() {
            let missing = stages[stage].inputs().filter(|&input| !is_placed[input]);
            if let Some(input) = if later_first { missing.max() } else { missing.min() } {
                open.push(input);
                continue;
            }
            open.pop();
            if !std::mem::replace(&mut is_placed[stage], true) {
                order.push(stage);
            }
        }
    }
    order
}

/// Whether a workload has branches that can be computed in another order.
pub fn has_branches(stages: &[Stage]) -> bool {
    !other_orders(stages).is_empty()
}

/// The stages in `order`, with their inputs renumbered.
pub(super) fn reordered(stages: &[Stage], order: &[usize]) -> Vec<Stage> {
    let mut positions = vec![0; stages.len()];
    order.iter().enumerate().for_each(|(position, &stage)| positions[stage] = position);
    order.iter().map(|&stage| stages[stage].renumbered(|input| Some(positions[input]))).collect()
}

/// At each position, the earlier stages whose results are read from there on; and the results that each stage is
/// the last to read.
pub(super) fn live(stages: &[Stage]) -> [Vec<Vec<usize>>; 2] {
    let mut last_read = vec![0; stages.len()];
    for (index, stage) in stages.iter().enumerate() {
        stage.inputs().for_each(|input| last_read[input] = index);
    }
    let (mut live, mut last_reads) = (vec![Vec::new(); stages.len() + 1], vec![Vec::new(); stages.len()]);
    for (stage, &last) in last_read.iter().enumerate().filter(|(stage, last)| *last > stage) {
        live[stage + 1..=last].iter_mut().for_each(|live| live.push(stage));
        last_reads[last].push(stage);
    }
    [live, last_reads]
}

/// Most distinct sets of inputs in [`next`].
const MAX_NEXT_SETS: usize = 8;

/// At each position, the inputs of the later stages whose inputs are all computed before it, each set
/// once; empty if such a stage has no input, or there are more than [`MAX_NEXT_SETS`] sets.
pub(super) fn next(stages: &[Stage]) -> Vec<Vec<Vec<usize>>> {
    let mut next: Vec<Option<Vec<Vec<usize>>>> = vec![Some(Vec::new()); stages.len() + 1];
    for (index, stage) in stages.iter().enumerate() {
        let inputs: Vec<usize> = stage.inputs().collect();
        let first = inputs.iter().max().map_or(0, |&input| input + 1);
        for at in &mut next[first..=index] {
            let Some(known) = at else { continue };
            if inputs.is_empty() || known.len() == MAX_NEXT_SETS {
                *at = None;
            } else if !known.contains(&inputs) {
                known.push(inputs.clone());
            }
        }
    }
    next.into_iter().map(Option::unwrap_or_default).collect()
}

/// For each stage, the readers of its result, with the position among the tensors that the reader reads.
pub(super) fn readers(stages: &[Stage]) -> Vec<Vec<(usize, usize)>> {
    let mut readers = vec![Vec::new(); stages.len()];
    for (index, stage) in stages.iter().enumerate() {
        stage.reads.iter().for_each(|read| readers[read.input].push((index, read.position)));
    }
    readers
}

/// Start and end of each stage's run, in which each stage reads the one before.
pub(super) fn runs(stages: &[Stage]) -> (Vec<usize>, Vec<usize>) {
    let count = stages.len();
    let reads_previous =
        |stage: usize| stage > 0 && stage < count && stages[stage].inputs().any(|input| input + 1 == stage);
    let (mut starts, mut ends): (Vec<usize>, Vec<usize>) = ((0..count).collect(), (1..=count).collect());
    for stage in 1..count {
        if reads_previous(stage) {
            starts[stage] = starts[stage - 1];
        }
    }
    for stage in (0..count.saturating_sub(1)).rev() {
        if reads_previous(stage + 1) {
            ends[stage] = ends[stage + 1];
        }
    }
    (starts, ends)
}

/// From each position, the next meeting point: from there on, every stage waits for the stage before
/// it. That holds if every later stage has an input at or after that stage.
pub(super) fn meeting_points(stages: &[Stage]) -> Vec<usize> {
    let count = stages.len();
    let mut meets = vec![count; count + 1];
    // The least position after the last input of any stage from `position` on.
    let mut earliest = count;
    for position in (1..count).rev() {
        let last_input = stages[position].inputs().max().map_or(0, |input| input + 1);
        earliest = earliest.min(last_input);
        meets[position] = if earliest >= position { position } else { meets[position + 1] };
    }
    meets
}

/// Whether each stage waits for all stages before it: each of those is read by it or by an earlier
/// stage.
pub(super) fn waits_for_all(readers: &[Vec<(usize, usize)>]) -> Vec<bool> {
    // The latest first reader of all stages before the current one.
    let mut latest = 0;
    let waits_for_all = |stage: usize| {
        if stage > 0 {
            latest = latest.max(readers[stage - 1].first().map_or(usize::MAX, |reader| reader.0));
        }
        latest <= stage
    };
    (0..readers.len()).map(waits_for_all).collect()
}

/// Whether, at each position, every stage from there on waits for all stages before it: each waits for
/// the stage just before the position, and that one for all others.
pub(super) fn completion_points(meets: &[usize], waits_for_all: &[bool]) -> Vec<bool> {
    let count = waits_for_all.len();
    let is_complete = |position: usize| {
        position > 0 && position < count && meets[position] == position && waits_for_all[position - 1]
    };
    (0..=count).map(is_complete).collect()
}

//! The nesting of the slices of a track.
//!
//! Responsible for: the levels of nested slices, and for enforcing what readers
//! of a timeline rely on even if the timeline violates it: slices lie inside the
//! run and inside the slice that holds them; and for what is left of slices that are too
//! thin to be seen. Not for: drawing.

use std::collections::HashMap;

use coexec_sim::Picos;
use coexec_sim::timeline::{Activity, Stretch};

/// A slice, clipped to the run and to its holder.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Nested<'a> {
    /// The original slice, whose times may exceed those of its holder.
    pub(crate) slice: &'a Stretch,
    /// Clipped start.
    pub(crate) start: Picos,
    /// Clipped end, exclusive.
    pub(crate) end: Picos,
    /// Number of slices that hold this one.
    pub(crate) level: usize,
    /// Whether this slice holds another.
    pub(crate) holds: bool,
}

/// The slices of a track that start within the run, in order, each clipped to
/// `[0, run_end]` and to the slice that holds it.
///
/// A slice holds a later one that starts before its end; of two equal slices
/// the first holds the second. A slice of no length holds nothing.
pub(crate) fn nest(slices: &[Stretch], run_end: Picos) -> Vec<Nested<'_>> {
    let mut nested: Vec<Nested<'_>> = Vec::with_capacity(slices.len());
    let mut open: Vec<usize> = Vec::new();
    let mut latest_start = Picos::ZERO;
    for slice in slices {
        let start = slice.start.max(latest_start);
        if start > run_end {
            continue;
        }
        latest_start = start;
        while open.last().is_some_and(|&holder| nested[holder].end <= start) {
            open.pop();
        }
        let limit = open.last().map_or(run_end, |&holder| nested[holder].end);
        if let Some(&holder) = open.last() {
            nested[holder].holds = true;
        }
        let end = slice.end.min(limit).max(start);
        open.push(nested.len());
        nested.push(Nested { slice, start, end, level: open.len() - 1, holds: false });
    }
    nested
}

/// What of `nested` a figure shows whose columns are `column` long: slices of one level that are thinner and begin in
/// the same column are one slice, with the activity that takes the longest. If others hold them, they are shown only
/// where they take most of the column: many short launches would otherwise hide what is computed between them.
pub(crate) fn visible<'a>(nested: &[Nested<'a>], column: Picos) -> Vec<Nested<'a>> {
    // Each shown slice, and the time of each activity in it if it is thin.
    let mut shown: Vec<(Nested<'a>, HashMap<Activity, u64>)> = Vec::with_capacity(nested.len());
    // Index of the last slice of each level.
    let mut last: Vec<usize> = Vec::new();
    for &slice in nested {
        let length = slice.end - slice.start;
        let is_thin = length < column;
        last.truncate(slice.level + 1);
        let joined = last.get(slice.level).map(|&index| &mut shown[index]).filter(|(first, taken)| {
            is_thin && !taken.is_empty() && first.start.0 / column.0 == slice.start.0 / column.0
        });
        if let Some((first, taken)) = joined {
            first.end = slice.end;
            *taken.entry(slice.slice.activity).or_default() += length.0;
            if taken[&slice.slice.activity] > taken[&first.slice.activity] {
                first.slice = slice.slice;
            }
        } else {
            last.truncate(slice.level);
            last.push(shown.len());
            let taken = is_thin.then_some((slice.slice.activity, length.0));
            shown.push((slice, taken.into_iter().collect()));
        }
    }
    let is_seen = |(slice, taken): &(Nested<'_>, HashMap<Activity, u64>)| {
        slice.level == 0 || taken.is_empty() || 2 * taken.values().sum::<u64>() >= column.0
    };
    let mut seen: Vec<Nested<'a>> = shown.into_iter().filter(is_seen).map(|(slice, _)| slice).collect();
    for index in 0..seen.len() {
        seen[index].holds = seen.get(index + 1).is_some_and(|next| next.level > seen[index].level);
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;
    use coexec_sim::timeline::Activity;

    fn stretches(spans: &[(u64, u64)]) -> Vec<Stretch> {
        spans
            .iter()
            .map(|&(start, end)| Stretch {
                name: String::new(),
                activity: Activity::Compute,
                start: Picos(start),
                end: Picos(end),
            })
            .collect()
    }

    fn shape(spans: &[(u64, u64)], run_end: u64) -> Vec<(u64, u64, usize, bool)> {
        nest(&stretches(spans), Picos(run_end))
            .iter()
            .map(|nested| (nested.start.0, nested.end.0, nested.level, nested.holds))
            .collect()
    }

    #[test]
    fn a_slice_within_another_is_one_level_deeper() {
        let spans = [(0, 10), (0, 4), (4, 10), (5, 6), (10, 12)];
        let expected =
            [(0, 10, 0, true), (0, 4, 1, false), (4, 10, 1, true), (5, 6, 2, false), (10, 12, 0, false)];
        assert_eq!(shape(&spans, 12), expected);
    }

    #[test]
    fn nothing_leaves_the_run_or_its_holder() {
        assert_eq!(
            shape(&[(0, 9), (3, 20), (30, 40)], 8),
            [(0, 8, 0, true), (3, 8, 1, false)],
            "clipped to the run, and a slice after it is left out"
        );
        assert_eq!(shape(&[(0, 5), (3, 7)], 9), [(0, 5, 0, true), (3, 5, 1, false)]);
        assert_eq!(shape(&[(6, 4)], 9), [(6, 6, 0, false)]);
    }

    #[test]
    fn short_launches_hide_neither_what_holds_them_nor_what_they_alternate_with() {
        let slice = |activity, start: u64, end: u64| Stretch {
            name: String::new(),
            activity,
            start: Picos(start),
            end: Picos(end),
        };
        let shown = |slices: &[Stretch]| -> Vec<(Activity, usize, bool)> {
            let seen = visible(&nest(slices, Picos(10_000)), Picos(100));
            seen.iter().map(|nested| (nested.slice.activity, nested.level, nested.holds)).collect()
        };
        let each = |number: u64| {
            let start = 10 * number;
            [slice(Activity::Launch, start, start + 3), slice(Activity::Compute, start + 3, start + 10)]
        };
        let alternating: Vec<Stretch> = (0..1_000).flat_map(each).collect();
        assert_eq!(shown(&alternating), [(Activity::Compute, 0, false); 100]);
        let held = |number: u64| {
            let start = 10 * number;
            [slice(Activity::Compute, start, start + 10), slice(Activity::Launch, start, start + 3)]
        };
        let holding: Vec<Stretch> = (0..1_000).flat_map(held).collect();
        assert_eq!(shown(&holding), [(Activity::Compute, 0, false); 100]);
        let wide = [slice(Activity::Compute, 0, 900), slice(Activity::Launch, 0, 300)];
        assert_eq!(shown(&wide), [(Activity::Compute, 0, true), (Activity::Launch, 1, false)]);
        let rounds = (0..40).map(|round| slice(Activity::Compute, 25 * round, 25 * round + 25));
        let of_rounds: Vec<Stretch> =
            [slice(Activity::Compute, 0, 1_000)].into_iter().chain(rounds).collect();
        assert_eq!(shown(&of_rounds).len(), 11, "rounds that fill their columns are seen");
    }

    #[test]
    fn slices_of_no_length_follow_one_another() {
        assert_eq!(shape(&[(2, 2), (2, 2), (2, 3)], 9).iter().map(|s| s.2).max(), Some(0));
    }
}

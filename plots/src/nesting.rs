//! The nesting of the slices of a track.
//!
//! Responsible for: the levels of nested slices, and for enforcing what readers
//! of a timeline rely on even if the timeline violates it: slices lie inside the
//! run and inside the slice that holds them. Not for: drawing.

use coexec_sim::Picos;
use coexec_sim::timeline::Stretch;

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
    fn slices_of_no_length_follow_one_another() {
        assert_eq!(shape(&[(2, 2), (2, 2), (2, 3)], 9).iter().map(|s| s.2).max(), Some(0));
    }
}

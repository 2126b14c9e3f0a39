//! A timeline in text: one row per track, one character per slice of time.

use coexec_sim::Picos;
use coexec_sim::timeline::{Activity, Timeline, Track};

/// Width of a row, in characters.
const WIDTH: usize = 64;

/// The rows of `timeline`, with a scale and a legend below; empty for an empty timeline.
pub(crate) fn text(timeline: &Timeline) -> String {
    if timeline.end == Picos::ZERO {
        return String::new();
    }
    let name_width = timeline.tracks.iter().map(|track| track.name.len()).max().unwrap_or(0);
    let mut lines: Vec<String> = timeline
        .tracks
        .iter()
        .map(|track| format!("{:<name_width$} |{}|", track.name, row(track, timeline.end)))
        .collect();
    let end = timeline.end.to_string();
    lines.push(format!("{:<name_width$} 0{end:>width$}", "", width = WIDTH + 1));
    let mut slices = timeline.tracks.iter().flat_map(|track| &track.slices);
    let waits = if slices.any(|slice| slice.activity == Activity::Wait) { "  . waits" } else { "" };
    lines.push(format!("{:<name_width$} # computes  : launch, fork-join  = synchronises{waits}", ""));
    lines.join("\n")
}

/// Marks of activities: computes, launch, synchronises or moves, waits.
const MARKS: [char; 4] = ['#', ':', '=', '.'];

/// Each cell has the mark of what takes the longest in it, and a blank only where nothing happens.
fn row(track: &Track, end: Picos) -> String {
    let width = WIDTH as u128;
    // Times are multiplied by the number of cells, so that one cell is as long as `end` and none is rounded.
    let cell_units = u128::from(end.0);
    let mut taken = [[0; MARKS.len()]; WIDTH];
    for slice in &track.slices {
        let mark = match slice.activity {
            Activity::Compute => 0,
            Activity::Launch => 1,
            Activity::Transform | Activity::Transfer | Activity::Synchronise => 2,
            Activity::Wait => 3,
        };
        let [from, to] = [slice.start, slice.end].map(|time| u128::from(time.0) * width);
        let first = ((from / cell_units) as usize).min(WIDTH - 1);
        for (cell, taken) in (first..).zip(&mut taken[first..]) {
            let starts = cell as u128 * cell_units;
            if cell > first && starts >= to {
                break;
            }
            // What takes no time is seen where nothing else is.
            taken[mark] += to.min(starts + cell_units).saturating_sub(from.max(starts)).max(1);
        }
    }
    let longest = |taken: &[u128; MARKS.len()]| -> char {
        let marks = MARKS.into_iter().zip(taken).filter(|(_, taken)| **taken > 0);
        marks.reduce(|most, next| if next.1 > most.1 { next } else { most }).map_or(' ', |(mark, _)| mark)
    };
    taken.iter().map(longest).collect()
}

#[cfg(test)]
mod tests {
    use coexec_sim::timeline::{Stretch, TrackKind};

    use super::*;

    #[test]
    fn half_the_time_is_half_the_row() {
        let slice = |activity, start, end| Stretch {
            name: "x".into(),
            activity,
            start: Picos(start),
            end: Picos(end),
        };
        let track = Track {
            name: "GPU".into(),
            kind: TrackKind::GpuQueue,
            slices: vec![slice(Activity::Compute, 0, 50), slice(Activity::Wait, 50, 100)],
        };
        let row = row(&track, Picos(100));
        assert_eq!(row.matches('#').count(), WIDTH / 2);
        assert_eq!(row.matches('.').count(), WIDTH / 2);
    }

    #[test]
    fn many_short_launches_do_not_hide_what_is_computed_between_them() {
        let slice = |activity, start: u64, end: u64| Stretch {
            name: "x".into(),
            activity,
            start: Picos(start),
            end: Picos(end),
        };
        let pair = |number: u64| {
            let start = 100 * number;
            [slice(Activity::Compute, start, start + 80), slice(Activity::Launch, start + 80, start + 100)]
        };
        let slices = (0..640).flat_map(pair).collect();
        let track = Track { name: "NPU".into(), kind: TrackKind::GpuQueue, slices };
        assert_eq!(row(&track, Picos(64_000)), "#".repeat(WIDTH));
    }
}

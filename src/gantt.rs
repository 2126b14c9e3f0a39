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

fn row(track: &Track, end: Picos) -> String {
    let mut cells = [' '; WIDTH];
    let cell =
        |time: Picos| ((u128::from(time.0) * WIDTH as u128 / u128::from(end.0)) as usize).min(WIDTH - 1);
    for slice in &track.slices {
        let mark = match slice.activity {
            Activity::Compute => '#',
            Activity::Launch => ':',
            Activity::Transform | Activity::Transfer | Activity::Synchronise => '=',
            Activity::Wait => '.',
        };
        // The last cell a slice touches goes to the slice after it, unless this slice would vanish.
        let (first, last) = (cell(slice.start), cell(slice.end.saturating_sub(Picos(1))));
        cells[first..=last.max(first)].fill(mark);
    }
    cells.iter().collect()
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
}

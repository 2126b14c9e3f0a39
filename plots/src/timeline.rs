//! The timeline of a run: one lane per track, counters below, one time axis.

use coexec_sim::Picos;
use coexec_sim::timeline::{Activity, Counter, Timeline, Track, TrackKind};

use crate::lanes::{Fill, Lane, Slab};
use crate::nesting::{Nested, nest, visible};
use crate::{
    Axis, BLUE, Colour, Format, GREEN, GREY, Legend, MUTED, ORANGE, PURPLE, PlotError, Unit, VERMILION,
    YELLOW, lanes, tint,
};

// Lengths are in figure pixels.

/// Width of the plot.
const WIDTH: f64 = 760.0;
/// Height of a slice that holds no other and is held by none.
const SLICE_HEIGHT: f64 = 24.0;
/// Height of a holding slice that is visible above the slices it holds, and below them.
const HEADER: f64 = 16.0;
const FOOTER: f64 = 3.0;
const COUNTER_HEIGHT: f64 = 56.0;
/// Distance from the upper edge of a counter's lane to its largest value.
const COUNTER_TOP: f64 = 12.0;
/// Fraction of white in the colour of a slice that holds others: at the outermost level, its decrease
/// per level, and its minimum.
const HOLDER_TINT: f64 = 0.65;
const HOLDER_TINT_STEP: f64 = 0.2;
const MIN_HOLDER_TINT: f64 = 0.25;
const COUNTER_TINT: f64 = 0.6;

/// Meanings of the slices' colours, in the order of the legend.
const COLOUR_MEANINGS: [(Colour, &str); 8] = [
    (MUTED, "request"),
    (BLUE, "CPU compute"),
    (GREEN, "GPU compute"),
    (PURPLE, "NPU compute"),
    (ORANGE, "launch, fork or join"),
    (YELLOW, "data transformation"),
    (VERMILION, "synchronisation"),
    (GREY, "waiting"),
];

/// The colour of a slice of a track.
fn colour(track: TrackKind, activity: Activity) -> Colour {
    match (activity, track) {
        (Activity::Compute, TrackKind::Application) => MUTED,
        (Activity::Compute, TrackKind::Core) => BLUE,
        (Activity::Compute, TrackKind::GpuQueue | TrackKind::ComputeUnits) => GREEN,
        (Activity::Compute, TrackKind::Npu) => PURPLE,
        (Activity::Launch, _) => ORANGE,
        (Activity::Transform | Activity::Transfer, _) => YELLOW,
        (Activity::Synchronise, _) => VERMILION,
        (Activity::Wait, _) => GREY,
    }
}

/// Draws `timeline` as the bytes of a file in `format`.
///
/// # Errors
///
/// [`PlotError::TooTall`] for more tracks than a figure can show; [`PlotError::Draw`] and
/// [`PlotError::Encode`] if a library fails.
pub fn timeline(timeline: &Timeline, title: &str, format: Format) -> Result<Vec<u8>, PlotError> {
    let end = timeline.end;
    let tracks = timeline.tracks.iter().map(|track| track_lane(track, end));
    let counters = timeline.counters.iter().map(|counter| counter_lane(counter, end));
    let lanes: Vec<Lane> = if end == Picos::ZERO { Vec::new() } else { tracks.chain(counters).collect() };
    let fills: Vec<Fill> = lanes.iter().flat_map(|lane| lane.slabs.iter().map(|slab| slab.fill)).collect();
    let is_shown = |colour: Colour| {
        let paler = (0..3).map(|level| tint(colour, holder_tint(level)));
        paler.chain([colour]).any(|colour| fills.contains(&Fill::Separated(colour)))
    };
    let shown = COLOUR_MEANINGS.into_iter().filter(|(colour, _)| is_shown(*colour));
    let subtitle = if lanes.is_empty() {
        "nothing ran".to_owned()
    } else {
        format!("ends after {}", Unit::Micros.label(end.as_micros()))
    };
    let x = Axis::linear("time", (0.0, end.as_micros()), Unit::Micros);
    let figure = lanes::figure(&lanes, WIDTH, x, Legend::bands(shown));
    figure.titled(title, &subtitle).render(format)
}

/// The time that one column of the figure shows, as wide as the thinnest box.
fn column(end: Picos) -> Picos {
    end.scale(lanes::MIN_WIDTH / WIDTH).max(Picos(1))
}

/// Fraction of white in the colour of a slice that holds others.
fn holder_tint(level: usize) -> f64 {
    (HOLDER_TINT - HOLDER_TINT_STEP * level as f64).max(MIN_HOLDER_TINT)
}

fn track_lane(track: &Track, end: Picos) -> Lane {
    let slices = visible(&nest(&track.slices, end), column(end));
    let levels = slices.iter().map(|nested| nested.level).max().unwrap_or(0);
    let height = SLICE_HEIGHT + levels as f64 * (HEADER + FOOTER);
    let slab = |nested: &Nested<'_>| {
        let colour = colour(track.kind, nested.slice.activity);
        let white = if nested.holds { holder_tint(nested.level) } else { 0.0 };
        let level = nested.level as f64;
        let (top, bottom) = (level * HEADER, height - level * FOOTER);
        let middle = if nested.holds { top + HEADER / 2.0 } else { f64::midpoint(top, bottom) };
        Slab {
            span: (nested.start.as_micros(), nested.end.as_micros()),
            edges: (top, bottom),
            fill: Fill::Separated(tint(colour, white)),
            label: Some((nested.slice.name.clone(), middle)),
        }
    };
    Lane { height, names: vec![(height / 2.0, track.name.clone())], slabs: slices.iter().map(slab).collect() }
}

/// The lane of a counter, with a box for each drawable sample within the run, or for the mean of samples that are
/// thinner than a column.
fn counter_lane(counter: &Counter, end: Picos) -> Lane {
    let is_drawn =
        |&&(time, value): &&(Picos, f64)| time <= end && (0.0..=f64::from(f32::MAX)).contains(&value);
    let samples: Vec<&(Picos, f64)> = counter.samples.iter().filter(is_drawn).collect();
    let ends = samples.iter().skip(1).map(|sample| sample.0).chain([end]);
    let held = samples.iter().zip(ends).map(|(&&(start, value), end)| (start, end.max(start), value));
    let shown = averaged(held, column(end));
    let highest = shown.iter().map(|shown| shown.2).fold(f64::MIN_POSITIVE, f64::max);
    let slab = |&(start, end, value): &(Picos, Picos, f64)| {
        let span = (start.as_micros(), end.as_micros());
        let top = COUNTER_HEIGHT - (COUNTER_HEIGHT - COUNTER_TOP) * value / highest;
        Slab::bare(span, (top, COUNTER_HEIGHT), Fill::Joined(tint(BLUE, COUNTER_TINT)))
    };
    let slabs: Vec<Slab> = shown.iter().filter(|shown| shown.2 > 0.0).map(slab).collect();
    let mut names = vec![(f64::midpoint(COUNTER_TOP, COUNTER_HEIGHT), counter.name.clone())];
    if !slabs.is_empty() {
        names.push((COUNTER_TOP, format!("{highest:.1} {}", counter.unit)));
        names.push((COUNTER_HEIGHT, "0".to_owned()));
    }
    Lane { height: COUNTER_HEIGHT, names, slabs }
}

/// Values with their start and end, in order; those that are thinner than `column` are joined up to its length, and
/// have their mean.
fn averaged(values: impl Iterator<Item = (Picos, Picos, f64)>, column: Picos) -> Vec<(Picos, Picos, f64)> {
    let mut joined: Vec<(Picos, Picos, f64)> = Vec::new();
    for (start, end, value) in values {
        match joined.last_mut() {
            Some(last) if last.1 - last.0 < column && end - start < column => {
                let [before, added] = [last.1 - last.0, end - start].map(|time| time.0 as f64);
                last.2 = (last.2 * before + value * added) / (before + added).max(1.0);
                last.1 = end;
            }
            Some(_) | None => joined.push((start, end, value)),
        }
    }
    joined
}

#[cfg(test)]
mod tests;

//! The timeline figure: one lane a track, counters below, one time axis.
//!
//! Responsible for: where lanes, counters, legend and axis stand. Not for: what
//! happens inside a lane ([`lanes`]) or a counter ([`counters`]).
//! Invariant: nothing is drawn outside of `[0, end]`, and no label leaves the
//! slice it names.

mod counters;
mod lanes;

use coexec_sim::timeline::{Timeline, Track, TrackKind};
use coexec_sim::units::Picos;

use crate::axis::{Ticks, TimeUnit};
use crate::canvas::render::{MAX_HEIGHT, render};
use crate::canvas::{Align, Area, Drawing, at};
use crate::font;
use crate::nesting::{Nested, nest};
use crate::palette::{GRID, INK, MUTED, Meaning};
use crate::{Format, PlotError};

// Lengths are in figure pixels, text sizes in pixels an em.

/// Width of the figure: a page of two columns at 150 pixels an inch.
const WIDTH: u32 = 1000;
const MARGIN: f64 = 16.0;
/// Room right of the plot for half a tick label.
const RIGHT_MARGIN: f64 = 28.0;
const TITLE_SIZE: f64 = 16.0;
const TITLE_HEIGHT: f64 = 28.0;
const NAME_SIZE: f64 = 12.0;
const TICK_SIZE: f64 = 11.0;
/// Widest column of track names.
const WIDEST_NAMES: f64 = 190.0;
/// Between a name and the plot.
const NAME_GAP: f64 = 10.0;
const LEGEND_ROW: f64 = 18.0;
const SWATCH: (f64, f64) = (16.0, 10.0);
/// Between a swatch and its text, and between entries.
const LEGEND_GAPS: (f64, f64) = (6.0, 18.0);
/// Strip above the lanes that holds the end marker's label.
const END_STRIP: f64 = 20.0;
const LANE_GAP: f64 = 5.0;
/// Between lanes of different kinds.
const KIND_GAP: f64 = 12.0;
const COUNTER_HEIGHT: f64 = 64.0;
const COUNTER_GAP: f64 = 16.0;
/// Between the lowest lane and the time axis; a counter stands on the axis.
const AXIS_GAP: f64 = 5.0;
/// Ticks, their labels and the axis title.
const AXIS_HEIGHT: f64 = 48.0;
const TICK_LENGTH: f64 = 5.0;
/// Most intervals between ticks of the time axis.
const MOST_TIME_INTERVALS: u32 = 10;
/// Height kept for the message of a timeline that shows nothing.
const EMPTY_HEIGHT: f64 = 48.0;

/// A track in its place.
struct Lane<'a> {
    track: &'a Track,
    slices: Vec<Nested<'a>>,
    area: Area,
}

/// The time axis.
#[derive(Clone, Copy)]
struct TimeAxis {
    left: f64,
    right: f64,
    end: Picos,
}

impl TimeAxis {
    /// Where a time stands; what lies beyond the end stands at the end.
    fn x(self, time: Picos) -> f64 {
        if self.end == Picos::ZERO {
            return self.left;
        }
        let part = time.min(self.end).0 as f64 / self.end.0 as f64;
        self.left + part * (self.right - self.left)
    }

    fn unit(self) -> TimeUnit {
        TimeUnit::for_micros(self.end.as_micros())
    }
}

/// Draws `timeline` under `title` as the bytes of a file in `format`.
///
/// Each track is a lane: slices in the colour of what they do (waiting is
/// hatched), nested slices under the name of the slice that holds them. A label
/// too long for its slice is shortened, and left out where not even a stem
/// fits. Slices and samples are clipped to `[0, end]`. A timeline that shows
/// nothing says so.
///
/// # Errors
///
/// [`PlotError::TooTall`] for more lanes, or deeper nesting, than one figure
/// shows; [`PlotError::Draw`] and [`PlotError::Encode`] where a library refuses.
pub fn timeline(timeline: &Timeline, title: &str, format: Format) -> Result<Vec<u8>, PlotError> {
    render(&draw(timeline, title)?, format)
}

fn draw(timeline: &Timeline, title: &str) -> Result<Drawing, PlotError> {
    let names = timeline.tracks.iter().map(|track| &track.name);
    let names = names.chain(timeline.counters.iter().map(|counter| &counter.name));
    let names_width = names.map(|name| font::width(&font::drawable(name), NAME_SIZE)).fold(0.0, f64::max);
    let time = TimeAxis {
        left: MARGIN + names_width.clamp(40.0, WIDEST_NAMES) + NAME_GAP,
        right: f64::from(WIDTH) - RIGHT_MARGIN,
        end: timeline.end,
    };

    let legend = legend_places(timeline);
    let legend_rows = legend.last().map_or(0.0, |entry| entry.row + 1.0);
    let top = MARGIN + TITLE_HEIGHT + legend_rows * LEGEND_ROW + END_STRIP;
    let lanes = place_lanes(timeline, time, top);
    let mut bottom = lanes.last().map_or(top, |lane| lane.area.bottom);
    let mut panels = Vec::new();
    for _ in &timeline.counters {
        let panel_top = bottom + COUNTER_GAP;
        bottom = panel_top + COUNTER_HEIGHT;
        panels.push(Area { left: time.left, top: panel_top, right: time.right, bottom });
    }
    if panels.is_empty() {
        bottom += AXIS_GAP;
    }
    let shows_nothing = timeline.end == Picos::ZERO || (lanes.is_empty() && panels.is_empty());
    if shows_nothing {
        bottom += EMPTY_HEIGHT;
    }
    let height = (bottom + AXIS_HEIGHT + MARGIN).ceil();
    if height > f64::from(MAX_HEIGHT) {
        return Err(PlotError::TooTall { height: height as u32, limit: MAX_HEIGHT });
    }

    let mut drawing = Drawing::new(WIDTH, height as u32);
    let title = font::fit(title, TITLE_SIZE, f64::from(WIDTH) - 2.0 * MARGIN).unwrap_or_default();
    drawing.text(&title, at(MARGIN, MARGIN + TITLE_SIZE / 2.0), TITLE_SIZE, INK, Align::Left);
    for entry in &legend {
        draw_legend_entry(&mut drawing, entry, MARGIN + TITLE_HEIGHT);
    }
    let plot = Area { left: time.left, top, right: time.right, bottom };
    let ground = lanes.iter().map(|lane| lane.area).chain(panels.iter().copied());
    for area in ground {
        drawing.rectangle(area, crate::palette::LANE);
    }
    let ticks = time_ticks(time);
    for (x, _) in &ticks {
        drawing.line(vec![at(*x, plot.top), at(*x, plot.bottom)], GRID, 1.0);
    }
    for lane in &lanes {
        lanes::draw(&mut drawing, lane, time);
    }
    for (counter, &panel) in timeline.counters.iter().zip(&panels) {
        counters::draw(&mut drawing, counter, panel, time);
    }
    draw_time_axis(&mut drawing, &ticks, time.unit(), plot);
    if shows_nothing {
        let middle = at(plot.middle().x, bottom - EMPTY_HEIGHT / 2.0);
        drawing.text("nothing ran", middle, NAME_SIZE, MUTED, Align::Center);
    } else {
        draw_end(&mut drawing, time, plot);
    }
    Ok(drawing)
}

fn place_lanes(timeline: &Timeline, time: TimeAxis, mut top: f64) -> Vec<Lane<'_>> {
    let mut lanes: Vec<Lane<'_>> = Vec::with_capacity(timeline.tracks.len());
    let mut kind_above: Option<TrackKind> = None;
    for track in &timeline.tracks {
        if let Some(above) = kind_above {
            top += if above == track.kind { LANE_GAP } else { KIND_GAP };
        }
        kind_above = Some(track.kind);
        let slices = nest(&track.slices, timeline.end);
        let levels = slices.iter().map(|slice| slice.level).max().unwrap_or(0);
        let bottom = top + lanes::height(levels);
        lanes.push(Lane { track, slices, area: Area { left: time.left, top, right: time.right, bottom } });
        top = bottom;
    }
    lanes
}

/// An entry of the legend in its place.
struct LegendEntry {
    meaning: Meaning,
    left: f64,
    row: f64,
}

/// The meanings that occur, in rows.
fn legend_places(timeline: &Timeline) -> Vec<LegendEntry> {
    let occurs = |meaning: &Meaning| {
        timeline
            .tracks
            .iter()
            .any(|track| track.slices.iter().any(|slice| Meaning::of(track.kind, slice.activity) == *meaning))
    };
    let (mut left, mut row) = (MARGIN, 0.0);
    let mut entries = Vec::new();
    for meaning in Meaning::ALL.into_iter().filter(occurs) {
        let width = SWATCH.0 + LEGEND_GAPS.0 + font::width(meaning.label(), TICK_SIZE);
        if left + width > f64::from(WIDTH) - MARGIN {
            (left, row) = (MARGIN, row + 1.0);
        }
        entries.push(LegendEntry { meaning, left, row });
        left += width + LEGEND_GAPS.1;
    }
    entries
}

fn draw_legend_entry(drawing: &mut Drawing, entry: &LegendEntry, top: f64) {
    let middle = top + (entry.row + 0.5) * LEGEND_ROW;
    let swatch = Area {
        left: entry.left,
        top: middle - SWATCH.1 / 2.0,
        right: entry.left + SWATCH.0,
        bottom: middle + SWATCH.1 / 2.0,
    };
    lanes::fill(drawing, swatch, entry.meaning, 0.0);
    let text_left = swatch.right + LEGEND_GAPS.0;
    drawing.text(entry.meaning.label(), at(text_left, middle), TICK_SIZE, INK, Align::Left);
}

/// Where the time axis has ticks, and what they say.
fn time_ticks(time: TimeAxis) -> Vec<(f64, String)> {
    if time.end == Picos::ZERO {
        return Vec::new();
    }
    let end = time.end.as_micros() / time.unit().micros();
    let ticks = Ticks::decimal(0.0, end, MOST_TIME_INTERVALS);
    let place = |value: f64| time.left + value / end * (time.right - time.left);
    ticks.values.iter().map(|&value| (place(value), ticks.label(value))).collect()
}

fn draw_time_axis(drawing: &mut Drawing, ticks: &[(f64, String)], unit: TimeUnit, plot: Area) {
    for (x, label) in ticks {
        drawing.line(vec![at(*x, plot.bottom), at(*x, plot.bottom + TICK_LENGTH)], INK, 1.0);
        let label_y = plot.bottom + TICK_LENGTH + TICK_SIZE;
        drawing.text(label, at(*x, label_y), TICK_SIZE, INK, Align::Center);
    }
    drawing.line(vec![at(plot.left, plot.bottom), at(plot.right, plot.bottom)], INK, 1.0);
    let title = format!("time ({})", unit.symbol());
    let title_y = plot.bottom + AXIS_HEIGHT - NAME_SIZE;
    drawing.text(&title, at(plot.middle().x, title_y), NAME_SIZE, INK, Align::Center);
}

fn draw_end(drawing: &mut Drawing, time: TimeAxis, plot: Area) {
    let flag_top = plot.top - 4.0;
    drawing.line(vec![at(time.right, flag_top), at(time.right, plot.bottom)], INK, 1.5);
    let label = format!("end {}", time.unit().show(time.end.as_micros()));
    drawing.text(&label, at(time.right, flag_top - TICK_SIZE * 0.7), TICK_SIZE, INK, Align::Right);
}

#[cfg(test)]
mod tests;

//! The timeline figure: one lane a track, counters below, one time axis.
//!
//! Responsible for: where lanes, counters, legend and axis stand. Not for: what
//! happens inside a lane ([`lanes`]) or a counter ([`counters`]).
//! Invariant: nothing is drawn outside of `[0, end]`, and no label leaves the
//! slice it names.

mod counters;
mod lanes;

use coexec_sim::timeline::{Counter, Timeline, Track};
use coexec_sim::units::Picos;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use crate::axis::{TimeUnit, tick_labels};
use crate::nesting::{Nested, nest};
use crate::palette::{GRID, INK, LANE, MUTED, Meaning};
use crate::sheet::{Drawn, Figure, Plane, render, sheet, steps, text};
use crate::{Format, PlotError, font};

// Lengths are in figure pixels, text sizes in pixels an em.

/// Width of the figure: a page of two columns at 150 pixels an inch.
const WIDTH: u32 = 1000;
const MARGIN: f64 = 16.0;
/// Room right of the plot for the tick labels of counters.
const RIGHT: f64 = 40.0;
const TITLE_SIZE: f64 = 16.0;
const TITLE_HEIGHT: f64 = 28.0;
const NAME_SIZE: f64 = 12.0;
const TICK_SIZE: f64 = 11.0;
/// Narrowest and widest column of track names.
const NARROWEST_NAMES: f64 = 40.0;
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
const AXIS_HEIGHT: f64 = 42.0;
const TICK_LENGTH: f64 = 5.0;
const MOST_TIME_TICKS: usize = 11;
/// Tallest figure: its grid, 16 steps a figure pixel, takes well under 300 MB.
const MAX_HEIGHT: u32 = 6_000;
/// How far the line at the end of the run rises above the lanes.
const END_FLAG: f64 = 4.0;
/// Height kept for the message of a timeline that shows nothing.
const EMPTY_HEIGHT: f64 = 48.0;

/// A track in its place.
struct Lane<'a> {
    track: &'a Track,
    slices: Vec<Nested<'a>>,
    top: f64,
    bottom: f64,
}

/// A counter in its place.
struct Panel<'a> {
    counter: &'a Counter,
    top: f64,
}

/// The time axis.
#[derive(Clone, Copy)]
struct TimeAxis {
    unit: TimeUnit,
    /// End of the run in that unit; 1 for a run that takes no time.
    end: f64,
    /// A figure pixel in that unit.
    pixel: f64,
}

impl TimeAxis {
    /// A time in the unit of the axis.
    fn value(self, time: Picos) -> f64 {
        (time.as_micros() / self.unit.micros).min(self.end)
    }
}

/// An entry of the legend in its place.
struct LegendEntry {
    meaning: Meaning,
    left: f64,
    row: f64,
}

/// The figure with everything in its place, in figure pixels.
struct Layout<'a> {
    run: &'a Timeline,
    title: String,
    legend: Vec<LegendEntry>,
    lanes: Vec<Lane<'a>>,
    panels: Vec<Panel<'a>>,
    time: TimeAxis,
    /// Left, upper and lower edge of the plot.
    left: f64,
    top: f64,
    bottom: f64,
    shows_nothing: bool,
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
    render(&lay_out(timeline, title)?, format)
}

fn lay_out<'a>(run: &'a Timeline, title: &str) -> Result<Layout<'a>, PlotError> {
    let names = run.tracks.iter().map(|track| &track.name);
    let names = names.chain(run.counters.iter().map(|counter| &counter.name));
    let names_width = names.map(|name| font::width(&font::drawable(name), NAME_SIZE)).fold(0.0, f64::max);
    let left = (MARGIN + names_width.clamp(NARROWEST_NAMES, WIDEST_NAMES) + NAME_GAP).round();

    let legend = legend_places(run);
    let legend_rows = legend.last().map_or(0.0, |entry| entry.row + 1.0);
    let top = MARGIN + TITLE_HEIGHT + legend_rows * LEGEND_ROW + END_STRIP;
    let lanes = place_lanes(run, top);
    let mut bottom = lanes.last().map_or(top, |lane| lane.bottom);
    let mut panels = Vec::new();
    for counter in &run.counters {
        panels.push(Panel { counter, top: bottom + COUNTER_GAP });
        bottom += COUNTER_GAP + COUNTER_HEIGHT;
    }
    if panels.is_empty() {
        bottom += AXIS_GAP;
    }
    let shows_nothing = run.end == Picos::ZERO || (lanes.is_empty() && panels.is_empty());
    if shows_nothing {
        bottom += EMPTY_HEIGHT;
    }

    let unit = TimeUnit::for_micros(run.end.as_micros());
    let end = if run.end == Picos::ZERO { 1.0 } else { run.end.as_micros() / unit.micros };
    let time = TimeAxis { unit, end, pixel: end / (f64::from(WIDTH) - RIGHT - left) };
    let title = font::fit(title, TITLE_SIZE, f64::from(WIDTH) - 2.0 * MARGIN).unwrap_or_default();
    let layout = Layout { run, title, legend, lanes, panels, time, left, top, bottom, shows_nothing };
    match layout.size() {
        (_, height) if height > MAX_HEIGHT => Err(PlotError::TooTall { height, limit: MAX_HEIGHT }),
        _ => Ok(layout),
    }
}

fn place_lanes(run: &Timeline, mut top: f64) -> Vec<Lane<'_>> {
    let mut lanes: Vec<Lane<'_>> = Vec::with_capacity(run.tracks.len());
    for track in &run.tracks {
        if let Some(above) = lanes.last() {
            top = above.bottom + if above.track.kind == track.kind { LANE_GAP } else { KIND_GAP };
        }
        let slices = nest(&track.slices, run.end);
        let levels = slices.iter().map(|slice| slice.level).max().unwrap_or(0);
        lanes.push(Lane { track, slices, top, bottom: top + lanes::height(levels) });
    }
    lanes
}

/// The meanings that occur, in rows.
fn legend_places(run: &Timeline) -> Vec<LegendEntry> {
    let occurs = |meaning: &Meaning| {
        run.tracks
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

impl Figure for Layout<'_> {
    fn size(&self) -> (u32, u32) {
        (WIDTH, (self.bottom + AXIS_HEIGHT + MARGIN).ceil() as u32)
    }

    fn draw<DB: DrawingBackend>(&self, root: &DrawingArea<DB, Shift>) -> Drawn<DB> {
        let sheet = sheet(root);
        sheet.draw(&text(&self.title, (MARGIN, MARGIN + TITLE_SIZE / 2.0), TITLE_SIZE, INK, HPos::Left))?;
        for entry in &self.legend {
            draw_legend_entry(&sheet, entry)?;
        }
        self.draw_plot(root)?;
        for lane in &self.lanes {
            let name = font::fit(&lane.track.name, NAME_SIZE, WIDEST_NAMES).unwrap_or_default();
            let place = (self.left - NAME_GAP, f64::midpoint(lane.top, lane.bottom));
            sheet.draw(&text(&name, place, NAME_SIZE, INK, HPos::Right))?;
        }
        for panel in &self.panels {
            counters::draw(root, panel, self)?;
        }
        let right = f64::from(WIDTH) - RIGHT;
        if self.shows_nothing {
            let middle = (f64::midpoint(self.left, right), self.bottom - EMPTY_HEIGHT / 2.0);
            return sheet.draw(&text("nothing ran", middle, NAME_SIZE, MUTED, HPos::Center));
        }
        let flag_top = self.top - END_FLAG;
        sheet.draw(&PathElement::new(
            [(right, flag_top), (right, self.bottom)],
            INK.stroke_width(steps(1.5)),
        ))?;
        let label = format!("end {}", self.time.unit.show(self.run.end.as_micros()));
        sheet.draw(&text(&label, (right, flag_top - TICK_SIZE * 0.7), TICK_SIZE, INK, HPos::Right))
    }
}

impl Layout<'_> {
    /// Draws the time axis and the lanes on it: a chart whose rows are figure
    /// pixels of the sheet.
    fn draw_plot<DB: DrawingBackend>(&self, root: &DrawingArea<DB, Shift>) -> Drawn<DB> {
        let TimeAxis { unit, end, .. } = self.time;
        let mut chart = ChartBuilder::on(root)
            .margin_left(steps(self.left))
            .margin_right(steps(RIGHT))
            .margin_top(steps(self.top))
            .margin_bottom(steps(MARGIN))
            .x_label_area_size(steps(AXIS_HEIGHT))
            .build_cartesian_2d(0.0..end, self.bottom..self.top)?;
        let lanes = self.lanes.iter().map(|lane| (lane.top, lane.bottom));
        let panels = self.panels.iter().map(|panel| (panel.top, panel.top + COUNTER_HEIGHT));
        let ground = |(top, bottom)| Rectangle::new([(0.0, top), (end, bottom)], LANE.filled());
        chart.draw_series(lanes.chain(panels).map(ground))?;
        let ticks = if self.run.end == Picos::ZERO { 0 } else { MOST_TIME_TICKS };
        chart
            .configure_mesh()
            .disable_y_mesh()
            .y_labels(0)
            .x_labels(ticks)
            .x_label_formatter(&tick_labels((0.0, end), ticks))
            .x_max_light_lines(0)
            .bold_line_style(GRID.stroke_width(steps(1.0)))
            .axis_style(INK.stroke_width(steps(1.0)))
            .set_all_tick_mark_size(steps(TICK_LENGTH))
            .label_style(font::style(TICK_SIZE, INK, HPos::Center))
            .x_desc(format!("time ({})", unit.symbol))
            .axis_desc_style(font::style(NAME_SIZE, INK, HPos::Center))
            .draw()?;
        for lane in &self.lanes {
            lanes::draw(chart.plotting_area(), lane, self.time)?;
        }
        Ok(())
    }
}

fn draw_legend_entry<DB: DrawingBackend>(sheet: &Plane<DB>, entry: &LegendEntry) -> Drawn<DB> {
    let middle = MARGIN + TITLE_HEIGHT + (entry.row + 0.5) * LEGEND_ROW;
    let right = entry.left + SWATCH.0;
    let swatch = [(entry.left, middle - SWATCH.1 / 2.0), (right, middle + SWATCH.1 / 2.0)];
    lanes::fill(sheet, swatch, 1.0, entry.meaning, entry.meaning.colour())?;
    let place = (right + LEGEND_GAPS.0, middle);
    sheet.draw(&text(entry.meaning.label(), place, TICK_SIZE, INK, HPos::Left))
}

#[cfg(test)]
mod tests;

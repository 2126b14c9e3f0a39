//! The channel curve figure: latency against output channels.
//!
//! Responsible for: the curves' data, axes, lines and legend. Not for: where
//! the labels of marks stand ([`labels`]).
//! Invariant: the axes hold every point, so that nothing is clipped; a line
//! joins neighbouring samples and leaves out none, so that steps and spikes
//! show as they are.

mod labels;

use crate::axis::{Ticks, TimeUnit, range};
use crate::canvas::render::render;
use crate::canvas::{Align, Area, Drawing, Point, at};
use crate::font;
use crate::palette::{BLUE, Colour, GREEN, GRID, INK, MUTED, VERMILION, WHITE};
use crate::{Format, PlotError};

// Lengths are in figure pixels, text sizes in pixels an em.

const WIDTH: u32 = 900;
const HEIGHT: u32 = 520;
const MARGIN: f64 = 16.0;
const TITLE_SIZE: f64 = 16.0;
const TITLE_HEIGHT: f64 = 24.0;
const SUBTITLE_SIZE: f64 = 12.0;
const SUBTITLE_HEIGHT: f64 = 20.0;
const TEXT_SIZE: f64 = 12.0;
const TICK_SIZE: f64 = 12.0;
const LEGEND_ROW: f64 = 20.0;
/// Length of a line's sample in the legend.
const SAMPLE: f64 = 26.0;
/// Between a sample and its text, and between entries.
const LEGEND_GAPS: (f64, f64) = (6.0, 20.0);
/// Between the legend and the plot.
const PLOT_GAP: f64 = 10.0;
/// Left of the plot: axis title and tick labels.
const LEFT: f64 = 76.0;
/// Right of the plot: half a tick label.
const RIGHT: f64 = 30.0;
/// Below the plot: tick labels and axis title.
const BELOW: f64 = 62.0;
const TICK_LENGTH: f64 = 5.0;
const TICK_LABEL_GAP: f64 = 8.0;
const MOST_CHANNEL_INTERVALS: u32 = 12;
const MOST_LATENCY_INTERVALS: u32 = 8;
/// Empty part of the axes beyond the points.
const CHANNEL_HEADROOM: f64 = 0.02;
const LATENCY_HEADROOM: f64 = 0.08;
const LINE_WIDTH: f64 = 1.5;
/// The line of co-execution, which the figure is about.
const STRONG_WIDTH: f64 = 2.25;
/// Radius of a published point, and of the white in it.
const RING: (f64, f64) = (4.5, 2.75);
/// White added to the colour of each further series of one kind, and most.
const VARIANT_TINT: f64 = 0.35;
const MOST_TINT: f64 = 0.7;

/// What the points of a series are, which decides how they look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeriesKind {
    /// Latency of the GPU's part, or of the GPU alone: a line.
    Gpu,
    /// Latency of the CPU's part, or of the CPU alone: a line.
    Cpu,
    /// Latency of both together: a stronger line.
    CoExecution,
    /// Values a paper gives: rings without a line.
    Published,
}

/// One curve.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// What it shows.
    pub kind: SeriesKind,
    /// Output channels and latency in microseconds, in any order. A latency
    /// that is negative or not finite is left out.
    pub points: Vec<(u32, f64)>,
}

/// One labelled point: a chosen split, a published optimum.
#[derive(Clone, Debug, PartialEq)]
pub struct Mark {
    /// What stands beside it.
    pub label: String,
    /// Output channels.
    pub channels: u32,
    /// Latency in microseconds; a mark whose latency is negative or not finite
    /// is left out.
    pub us: f64,
}

/// Latency against output channels.
#[derive(Clone, Debug, PartialEq)]
pub struct ChannelCurve {
    /// First line above the plot.
    pub title: String,
    /// Second line, with less weight; may be empty.
    pub subtitle: String,
    /// Title of the channel axis: `output channels on the GPU`.
    pub channels_label: String,
    /// The curves, the later over the earlier.
    pub series: Vec<Series>,
    /// Labelled points, over the curves.
    pub marks: Vec<Mark>,
}

/// Where values stand.
struct Axes {
    plot: Area,
    channels: (f64, f64),
    us: (f64, f64),
}

impl Axes {
    fn place(&self, channels: f64, us: f64) -> Point {
        let part = |value: f64, (low, high): (f64, f64)| (value - low) / (high - low);
        at(
            self.plot.left + part(channels, self.channels) * self.plot.width(),
            self.plot.bottom - part(us, self.us) * self.plot.height(),
        )
    }
}

/// Draws `curve` as the bytes of a file in `format`.
///
/// The latency axis starts at zero unless all points lie close together.
///
/// # Errors
///
/// [`PlotError::NoPoints`] for a curve without a point; [`PlotError::Draw`] and
/// [`PlotError::Encode`] where a library refuses.
pub fn channel_curve(curve: &ChannelCurve, format: Format) -> Result<Vec<u8>, PlotError> {
    render(&draw(curve)?, format)
}

fn draws(us: f64) -> bool {
    us.is_finite() && us >= 0.0
}

fn draw(curve: &ChannelCurve) -> Result<Drawing, PlotError> {
    let legend = legend_places(&curve.series);
    let legend_rows = legend.last().map_or(0.0, |&(_, row)| row + 1.0);
    let subtitle_height = if curve.subtitle.is_empty() { 0.0 } else { SUBTITLE_HEIGHT };
    let legend_top = MARGIN + TITLE_HEIGHT + subtitle_height;
    // The legend takes its rows from below, so that the plot keeps its height.
    let height = f64::from(HEIGHT) + (legend_rows - 1.0).max(0.0) * LEGEND_ROW;
    let plot = Area {
        left: LEFT,
        top: legend_top + legend_rows * LEGEND_ROW + PLOT_GAP,
        right: f64::from(WIDTH) - RIGHT,
        bottom: height - BELOW,
    };
    let axes = axes(curve, plot)?;

    let mut drawing = Drawing::new(WIDTH, height as u32);
    let room = f64::from(WIDTH) - 2.0 * MARGIN;
    let title = font::fit(&curve.title, TITLE_SIZE, room).unwrap_or_default();
    drawing.text(&title, at(MARGIN, MARGIN + TITLE_SIZE / 2.0), TITLE_SIZE, INK, Align::Left);
    let subtitle = font::fit(&curve.subtitle, SUBTITLE_SIZE, room).unwrap_or_default();
    let subtitle_y = MARGIN + TITLE_HEIGHT + SUBTITLE_SIZE / 2.0;
    drawing.text(&subtitle, at(MARGIN, subtitle_y), SUBTITLE_SIZE, MUTED, Align::Left);
    for (index, (series, &(left, row))) in curve.series.iter().zip(&legend).enumerate() {
        let middle = legend_top + (row + 0.5) * LEGEND_ROW;
        let colour = colour(&curve.series, index);
        draw_sample(&mut drawing, series.kind, colour, at(left, middle));
        let name_at = at(left + SAMPLE + LEGEND_GAPS.0, middle);
        drawing.text(&legend_name(series), name_at, TEXT_SIZE, INK, Align::Left);
    }
    draw_axes(&mut drawing, &axes, &curve.channels_label);

    let mut lines = Vec::new();
    for (index, series) in curve.series.iter().enumerate() {
        let points = placed(series, &axes);
        draw_series(&mut drawing, series.kind, colour(&curve.series, index), &points);
        lines.push(points);
    }
    let marks: Vec<(Point, &str)> = curve
        .marks
        .iter()
        .filter(|mark| draws(mark.us))
        .map(|mark| (axes.place(f64::from(mark.channels), mark.us), mark.label.as_str()))
        .collect();
    labels::draw(&mut drawing, &marks, &lines, plot);
    Ok(drawing)
}

fn axes(curve: &ChannelCurve, plot: Area) -> Result<Axes, PlotError> {
    let points = curve.series.iter().flat_map(|series| series.points.iter().copied());
    let marks = curve.marks.iter().map(|mark| (mark.channels, mark.us));
    let mut points = points.chain(marks).filter(|&(_, us)| draws(us));
    let nothing = PlotError::NoPoints { title: curve.title.clone() };
    let (channels, us) = points.next().ok_or(nothing)?;
    let (mut fewest, mut most, mut fastest, mut slowest) = (channels, channels, us, us);
    for (channels, us) in points {
        (fewest, most) = (fewest.min(channels), most.max(channels));
        (fastest, slowest) = (fastest.min(us), slowest.max(us));
    }
    Ok(Axes {
        plot,
        channels: range(f64::from(fewest), f64::from(most), CHANNEL_HEADROOM),
        us: range(fastest, slowest, LATENCY_HEADROOM),
    })
}

/// The points of a series on the sheet, by channels.
fn placed(series: &Series, axes: &Axes) -> Vec<Point> {
    let mut points: Vec<(u32, f64)> = series.points.iter().copied().filter(|&(_, us)| draws(us)).collect();
    points.sort_by_key(|&(channels, _)| channels);
    points.into_iter().map(|(channels, us)| axes.place(f64::from(channels), us)).collect()
}

/// The colour of the series at `index`: its kind's, paler for each series of
/// that kind before it.
fn colour(series: &[Series], index: usize) -> Colour {
    let kind = series[index].kind;
    let before = series[..index].iter().filter(|other| other.kind == kind).count();
    let base = match kind {
        SeriesKind::Gpu => GREEN,
        SeriesKind::Cpu => BLUE,
        SeriesKind::CoExecution => VERMILION,
        SeriesKind::Published => INK,
    };
    base.tint((before as f64 * VARIANT_TINT).min(MOST_TINT))
}

fn legend_name(series: &Series) -> String {
    font::fit(&series.name, TEXT_SIZE, f64::from(WIDTH) / 2.0).unwrap_or_default()
}

/// Left edge and row of each series' entry in the legend.
fn legend_places(series: &[Series]) -> Vec<(f64, f64)> {
    let (mut left, mut row) = (MARGIN, 0.0);
    let mut places = Vec::with_capacity(series.len());
    for one in series {
        let width = SAMPLE + LEGEND_GAPS.0 + font::width(&legend_name(one), TEXT_SIZE);
        if left > MARGIN && left + width > f64::from(WIDTH) - MARGIN {
            (left, row) = (MARGIN, row + 1.0);
        }
        places.push((left, row));
        left += width + LEGEND_GAPS.1;
    }
    places
}

fn draw_sample(drawing: &mut Drawing, kind: SeriesKind, colour: Colour, left: Point) {
    let points = match kind {
        SeriesKind::Published => vec![at(left.x + SAMPLE / 2.0, left.y)],
        SeriesKind::Gpu | SeriesKind::Cpu | SeriesKind::CoExecution => {
            vec![left, at(left.x + SAMPLE, left.y)]
        }
    };
    draw_series(drawing, kind, colour, &points);
}

fn draw_series(drawing: &mut Drawing, kind: SeriesKind, colour: Colour, points: &[Point]) {
    let width = match kind {
        SeriesKind::Gpu | SeriesKind::Cpu => LINE_WIDTH,
        SeriesKind::CoExecution => STRONG_WIDTH,
        SeriesKind::Published => {
            for &point in points {
                drawing.disc(point, RING.0, colour);
                drawing.disc(point, RING.1, WHITE);
            }
            return;
        }
    };
    match points {
        [] => {}
        [alone] => drawing.disc(*alone, STRONG_WIDTH, colour),
        _ => drawing.line(points.to_vec(), colour, width),
    }
}

fn draw_axes(drawing: &mut Drawing, axes: &Axes, channels_label: &str) {
    let plot = axes.plot;
    let unit = TimeUnit::for_micros(axes.us.1);
    let (low, high) = (axes.us.0 / unit.micros(), axes.us.1 / unit.micros());
    let latency = Ticks::decimal(low, high, MOST_LATENCY_INTERVALS);
    for &value in &latency.values {
        let y = axes.place(axes.channels.0, value * unit.micros()).y;
        drawing.line(vec![at(plot.left, y), at(plot.right, y)], GRID, 1.0);
        drawing.line(vec![at(plot.left - TICK_LENGTH, y), at(plot.left, y)], INK, 1.0);
        let label_at = at(plot.left - TICK_LABEL_GAP, y);
        drawing.text(&latency.label(value), label_at, TICK_SIZE, INK, Align::Right);
    }
    let channels = Ticks::channels(axes.channels.0, axes.channels.1, MOST_CHANNEL_INTERVALS);
    for &value in &channels.values {
        let x = axes.place(value, axes.us.0).x;
        drawing.line(vec![at(x, plot.top), at(x, plot.bottom)], GRID, 1.0);
        drawing.line(vec![at(x, plot.bottom), at(x, plot.bottom + TICK_LENGTH)], INK, 1.0);
        let label_at = at(x, plot.bottom + TICK_LENGTH + TICK_SIZE);
        drawing.text(&channels.label(value), label_at, TICK_SIZE, INK, Align::Center);
    }
    let corner = at(plot.left, plot.bottom);
    drawing.line(vec![at(plot.left, plot.top), corner, at(plot.right, plot.bottom)], INK, 1.0);

    let label = font::fit(channels_label, TEXT_SIZE, plot.width()).unwrap_or_default();
    let label_at = at(plot.middle().x, plot.bottom + BELOW - MARGIN - TEXT_SIZE / 2.0);
    drawing.text(&label, label_at, TEXT_SIZE, INK, Align::Center);
    let title = format!("latency ({})", unit.symbol());
    drawing.upright_text(&title, at(MARGIN + TEXT_SIZE / 2.0, plot.middle().y), TEXT_SIZE, INK);
}

#[cfg(test)]
mod tests;

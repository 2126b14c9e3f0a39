//! The channel curve figure: latency against output channels.
//!
//! Responsible for: the curves' data, axes, lines and legend. Not for: where
//! the labels of marks and the legend stand ([`labels`]).
//! Invariant: the axes hold every point, so that nothing is clipped; a line
//! joins neighbouring samples and leaves out none, so that steps and spikes
//! show as they are.

mod labels;

use coexec_sim::units::Picos;
use plotters::coord::Shift;
use plotters::coord::combinators::WithKeyPoints;
use plotters::coord::types::{RangedCoordf64, RangedCoordu32};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::area::{Area, Place};
use crate::axis::{TimeUnit, tick_labels};
use crate::line::one_way;
use crate::palette::{BLUE, GREEN, GRID, INK, MUTED, VERMILION, tint};
use crate::sheet::{Drawn, Figure, SCALE, render, sheet, steps, text};
use crate::{Format, PlotError, font};

// Lengths are in figure pixels, text sizes in pixels an em.

const WIDTH: u32 = 900;
const HEIGHT: u32 = 520;
const MARGIN: f64 = 16.0;
const TITLE_SIZE: f64 = 16.0;
const TITLE_HEIGHT: f64 = 24.0;
const SUBTITLE_SIZE: f64 = 12.0;
const SUBTITLE_HEIGHT: f64 = 20.0;
const TEXT_SIZE: f64 = 12.0;
/// Between the titles and the plot.
const PLOT_GAP: f64 = 10.0;
/// Left of the plot: axis title and tick labels.
const LEFT_LABELS: f64 = 60.0;
/// Right of the plot: half a tick label.
const RIGHT: f64 = 30.0;
/// Below the plot: tick labels and axis title.
const LOWER_LABELS: f64 = 46.0;
const TICK_LENGTH: f64 = 5.0;
/// Length of a line's sample in the legend, and from there to the name.
const SAMPLE: f64 = 26.0;
const SAMPLE_GAP: f64 = 6.0;
/// Between the legend's edge and its entries.
const LEGEND_MARGIN: f64 = 8.0;
/// Lines of plotters' legend are this much apart, in heights of a line.
const LEGEND_SPACING: f64 = 1.25;
const WIDEST_NAME: f64 = 300.0;
/// How much the ground of the legend hides.
const LEGEND_COVER: f64 = 0.85;
const MOST_CHANNEL_INTERVALS: u32 = 12;
const MOST_LATENCY_TICKS: usize = 9;
/// Empty part of the axes beyond the points.
const CHANNEL_HEADROOM: f64 = 0.02;
const LATENCY_HEADROOM: f64 = 0.08;
/// Smallest value, as a part of the largest, at which an axis still starts at 0.
const START_AT_ZERO_BELOW: f64 = 0.5;
/// Least empty part of an axis that does not, as a part of the largest value.
const LEAST_ROOM: f64 = 1e-3;
const LINE_WIDTH: f64 = 1.5;
/// The line of co-execution, which the figure is about.
const STRONG_WIDTH: f64 = 2.5;
/// Radius of a published point and of a point alone, and the width of a ring.
const RING: f64 = 3.5;
const DOT: f64 = 2.5;
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
    /// that is negative, not finite or beyond simulated time is left out.
    pub points: Vec<(u32, f64)>,
}

/// One labelled point: a chosen split, a published optimum.
#[derive(Clone, Debug, PartialEq)]
pub struct Mark {
    /// What stands beside it.
    pub label: String,
    /// Output channels.
    pub channels: u32,
    /// Latency in microseconds; a mark whose latency is negative, not finite or
    /// beyond simulated time is left out.
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

/// The figure with its axes settled; latencies are in `unit`.
struct Layout<'a> {
    curve: &'a ChannelCurve,
    unit: TimeUnit,
    /// Ends of the axes.
    channels: (u32, u32),
    latency: (f64, f64),
}

type Chart<'a, DB> = ChartContext<'a, DB, Cartesian2d<WithKeyPoints<RangedCoordu32>, RangedCoordf64>>;

/// Draws `curve` as the bytes of a file in `format`.
///
/// The latency axis starts at zero unless all points lie close together.
///
/// # Errors
///
/// [`PlotError::NoPoints`] for a curve without a point; [`PlotError::Draw`] and
/// [`PlotError::Encode`] where a library refuses.
pub fn channel_curve(curve: &ChannelCurve, format: Format) -> Result<Vec<u8>, PlotError> {
    render(&lay_out(curve)?, format)
}

fn draws(us: f64) -> bool {
    (0.0..=Picos(u64::MAX).as_micros()).contains(&us)
}

fn lay_out(curve: &ChannelCurve) -> Result<Layout<'_>, PlotError> {
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
    let unit = TimeUnit::for_micros(slowest);
    let (first_channels, last_channels) = range(f64::from(fewest), f64::from(most), CHANNEL_HEADROOM);
    Ok(Layout {
        curve,
        unit,
        channels: (first_channels.floor() as u32, last_channels.ceil() as u32),
        latency: range(fastest / unit.micros, slowest / unit.micros, LATENCY_HEADROOM),
    })
}

/// The range of an axis that shows values from `least` to `greatest`, both 0 or
/// more: from 0 unless they lie close together, with `headroom` of the range
/// beyond the values.
fn range(least: f64, greatest: f64, headroom: f64) -> (f64, f64) {
    if greatest <= 0.0 {
        return (0.0, 1.0);
    }
    if least < START_AT_ZERO_BELOW * greatest {
        return (0.0, greatest * (1.0 + headroom));
    }
    let room = if greatest > least { (greatest - least) * headroom } else { greatest / 2.0 };
    let room = room.max(LEAST_ROOM * greatest);
    (least - room, greatest + room)
}

/// Multiples of a power of two, as channel counts are read: the finest such
/// step that makes at most [`MOST_CHANNEL_INTERVALS`].
fn channel_ticks((low, high): (u32, u32)) -> Vec<u32> {
    let step = (high - low).div_ceil(MOST_CHANNEL_INTERVALS).next_power_of_two();
    (low.div_ceil(step)..=high / step).map(|multiple| multiple * step).collect()
}

/// The colour of the series at `index`: its kind's, paler for each series of
/// that kind before it.
fn colour(series: &[Series], index: usize) -> RGBColor {
    let kind = series[index].kind;
    let before = series[..index].iter().filter(|other| other.kind == kind).count();
    let base = match kind {
        SeriesKind::Gpu => GREEN,
        SeriesKind::Cpu => BLUE,
        SeriesKind::CoExecution => VERMILION,
        SeriesKind::Published => INK,
    };
    tint(base, (before as f64 * VARIANT_TINT).min(MOST_TINT))
}

fn legend_name(series: &Series) -> String {
    font::fit(&series.name, TEXT_SIZE, WIDEST_NAME).unwrap_or_default()
}

/// Width and height of the legend, as plotters draws it.
fn legend_size(series: &[Series]) -> (f64, f64) {
    let names = series.iter().map(|one| font::width(&legend_name(one), TEXT_SIZE));
    let line = TEXT_SIZE * font::LINE_HEIGHT * LEGEND_SPACING;
    let width = SAMPLE + SAMPLE_GAP + names.fold(0.0, f64::max);
    (width + 2.0 * LEGEND_MARGIN, series.len() as f64 * line + 2.0 * LEGEND_MARGIN)
}

impl Figure for Layout<'_> {
    /// A legend too tall for the plot makes the plot taller.
    fn size(&self) -> (u32, u32) {
        let (_, legend) = legend_size(&self.curve.series);
        (WIDTH, HEIGHT.max((self.plot_top() + legend + LOWER_LABELS + MARGIN).ceil() as u32))
    }

    fn draw<DB: DrawingBackend>(&self, root: &DrawingArea<DB, Shift>) -> Drawn<DB> {
        let (sheet, curve) = (sheet(root), self.curve);
        let room = f64::from(WIDTH) - 2.0 * MARGIN;
        let title = font::fit(&curve.title, TITLE_SIZE, room).unwrap_or_default();
        sheet.draw(&text(&title, (MARGIN, MARGIN + TITLE_SIZE / 2.0), TITLE_SIZE, INK, HPos::Left))?;
        let subtitle = font::fit(&curve.subtitle, SUBTITLE_SIZE, room).unwrap_or_default();
        let place = (MARGIN, MARGIN + TITLE_HEIGHT + SUBTITLE_SIZE / 2.0);
        sheet.draw(&text(&subtitle, place, SUBTITLE_SIZE, MUTED, HPos::Left))?;

        let mut chart = ChartBuilder::on(root)
            .margin(steps(MARGIN))
            .margin_top(steps(self.plot_top()))
            .margin_right(steps(RIGHT))
            .x_label_area_size(steps(LOWER_LABELS))
            .y_label_area_size(steps(LEFT_LABELS))
            .build_cartesian_2d(
                (self.channels.0..self.channels.1).with_key_points(channel_ticks(self.channels)),
                self.latency.0..self.latency.1,
            )?;
        self.draw_mesh(&mut chart)?;
        for (index, series) in curve.series.iter().enumerate() {
            draw_series(&mut chart, series, colour(&curve.series, index), self.unit)?;
        }
        let place = |channels: u32, us: f64| {
            let point = (channels, us / self.unit.micros);
            let (x, y) = chart.plotting_area().map_coordinate(&point);
            (f64::from(x) / f64::from(SCALE), f64::from(y) / f64::from(SCALE))
        };
        let placed = |series: &Series| sorted(series).map(|(channels, us)| place(channels, us)).collect();
        let lines: Vec<Vec<Place>> = curve.series.iter().map(placed).collect();
        let marks = curve.marks.iter().filter(|mark| draws(mark.us));
        let marks: Vec<(Place, &str)> =
            marks.map(|mark| (place(mark.channels, mark.us), mark.label.as_str())).collect();

        let plot = self.plot();
        let legend = labels::clearest(legend_size(&curve.series), &lines, &marks, plot);
        draw_legend(&mut chart, (legend.left - plot.left, legend.top - plot.top))?;
        labels::draw(&sheet, &marks, &lines, legend, plot)
    }
}

impl Layout<'_> {
    fn plot_top(&self) -> f64 {
        let subtitle = if self.curve.subtitle.is_empty() { 0.0 } else { SUBTITLE_HEIGHT };
        MARGIN + TITLE_HEIGHT + subtitle + PLOT_GAP
    }

    fn plot(&self) -> Area {
        let (width, height) = self.size();
        Area {
            left: MARGIN + LEFT_LABELS,
            top: self.plot_top(),
            right: f64::from(width) - RIGHT,
            bottom: f64::from(height) - MARGIN - LOWER_LABELS,
        }
    }

    fn draw_mesh<DB: DrawingBackend>(&self, chart: &mut Chart<'_, DB>) -> Drawn<DB> {
        let room = self.plot().right - self.plot().left;
        chart
            .configure_mesh()
            .y_labels(MOST_LATENCY_TICKS)
            .y_label_formatter(&tick_labels(self.latency, MOST_LATENCY_TICKS))
            .max_light_lines(0)
            .bold_line_style(GRID.stroke_width(steps(1.0)))
            .axis_style(INK.stroke_width(steps(1.0)))
            .set_all_tick_mark_size(steps(TICK_LENGTH))
            .label_style(font::style(TEXT_SIZE, INK, HPos::Center))
            .x_desc(font::fit(&self.curve.channels_label, TEXT_SIZE, room).unwrap_or_default())
            .y_desc(format!("latency ({})", self.unit.symbol))
            .axis_desc_style(font::style(TEXT_SIZE, INK, HPos::Center))
            .draw()
    }
}

/// The points of a series that are drawn, by channels.
fn sorted(series: &Series) -> impl Iterator<Item = (u32, f64)> {
    let mut points: Vec<(u32, f64)> = series.points.iter().copied().filter(|&(_, us)| draws(us)).collect();
    points.sort_by_key(|&(channels, _)| channels);
    points.into_iter()
}

fn draw_series<DB: DrawingBackend>(
    chart: &mut Chart<'_, DB>,
    series: &Series,
    colour: RGBColor,
    unit: TimeUnit,
) -> Drawn<DB> {
    let points: Vec<(u32, f64)> = sorted(series).map(|(channels, us)| (channels, us / unit.micros)).collect();
    let width = if series.kind == SeriesKind::CoExecution { STRONG_WIDTH } else { LINE_WIDTH };
    let sample = steps(SAMPLE).cast_signed();
    if series.kind == SeriesKind::Published {
        let style = colour.stroke_width(steps(width));
        let ring = |point| {
            EmptyElement::at(point)
                + Circle::new((0, 0), steps(RING), WHITE.filled())
                + Circle::new((0, 0), steps(RING), style)
        };
        chart
            .draw_series(points.into_iter().map(ring))?
            .label(legend_name(series))
            .legend(move |(x, y)| Circle::new((x + sample / 2, y), steps(RING), style));
    } else {
        let style = colour.filled().stroke_width(steps(width));
        let dot = if points.len() == 1 { steps(DOT) } else { 0 };
        let parts = one_way(points).into_iter();
        chart
            .draw_series(parts.flat_map(|part| LineSeries::new(part, style).point_size(dot)))?
            .label(legend_name(series))
            .legend(move |(x, y)| PathElement::new([(x, y), (x + sample, y)], style));
    }
    Ok(())
}

/// Draws the legend with its corner `right` and `down` from that of the plot.
fn draw_legend<'a, DB: DrawingBackend + 'a>(
    chart: &mut Chart<'a, DB>,
    (right, down): (f64, f64),
) -> Drawn<DB> {
    let corner = (steps(right).cast_signed(), steps(down).cast_signed());
    // plotters places the lines of a legend by their tops.
    let style = font::style(TEXT_SIZE, INK, HPos::Left).pos(Pos::new(HPos::Left, VPos::Top));
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::Coordinate(corner.0, corner.1))
        .background_style(WHITE.mix(LEGEND_COVER))
        .margin(steps(LEGEND_MARGIN))
        .legend_area_size(steps(SAMPLE + SAMPLE_GAP))
        .label_font(style)
        .draw()
}

#[cfg(test)]
mod tests;

//! Residual figures: the signed error of predictions against what may explain
//! it, and how the errors are spread.
//!
//! Invariant: an error beyond the axis is drawn at its edge and counted in the
//! legend, never left out.

use coexec_sim::validate::point::Point;
use plotters::coord::Shift;
use plotters::prelude::*;

use crate::area::Area;
use crate::comparison::{
    CLOSE, Comparison, PointGroup, drawing_order, error_percent, filled, group, group_rows, percent,
    seen_keys,
};
use crate::legend::{Legend, Row, Sample};
use crate::marker::{Look, Pen};
use crate::page::Page;
use crate::palette::{CLOSE_BAND, GRID, HATCH, INK};
use crate::panel::{Panel, left_room};
use crate::scale::{Axis, Quantity};
use crate::sheet::{Drawn, Figure, Plane, render, sheet, steps};
use crate::{Format, PlotError, line};

/// Width and height of the plot with the histogram, in figure pixels.
const PLOT: (f64, f64) = (640.0, 360.0);
/// Width of the histogram, and between it and the plot.
const HISTOGRAM: (f64, f64) = (84.0, 8.0);
/// Bars of the histogram; an even number, so that none holds both signs.
const BARS: usize = 40;
/// Ends of the error axis, in percent, of which the first is taken that holds
/// [`HELD`] of the errors.
const LIMITS: [f64; 5] = [20.0, 40.0, 60.0, 100.0, 200.0];
const HELD: f64 = 0.98;
const MOST_ERROR_TICKS: usize = 9;
/// Fewest points that have a running median, and fewest in its window.
const FEWEST_FOR_MEDIAN: usize = 30;
const FEWEST_IN_WINDOW: usize = 15;
/// Points in the window of the running median, as a part of all.
const WINDOW: f64 = 0.05;
const MEDIAN_WIDTH: f64 = 2.0;
const LINE_WIDTH: f64 = 1.0;

/// The quantity of the horizontal axis.
struct Against {
    title: &'static str,
    quantity: Quantity,
    of: fn(&Point) -> Option<f64>,
}

struct Layout<'a> {
    page: Page,
    panel: Panel,
    groups: Vec<PointGroup<'a>>,
    /// What errors are drawn against.
    of: fn(&Point) -> Option<f64>,
    /// Errors in percent at which the error axis ends.
    limit: f64,
}

/// Draws signed errors against the waves a compute unit gets, as the bytes of a
/// file in `format`; points without waves are left out.
///
/// # Errors
///
/// [`PlotError::NoPoints`] without a point that has waves;
/// [`PlotError::BadPoint`] for one whose times are not finite and above 0;
/// [`PlotError::Draw`] and [`PlotError::Encode`] where a library refuses.
pub fn residual_waves(comparison: &Comparison<'_>, format: Format) -> Result<Vec<u8>, PlotError> {
    let against = Against {
        title: "waves per compute unit",
        quantity: Quantity::Number,
        of: |point| point.waves_per_unit.filter(|&waves| waves > 0.0),
    };
    render(&lay_out(comparison, &against)?, format)
}

/// Draws signed errors against the bytes of inputs, outputs and weights, as the
/// bytes of a file in `format`; points without bytes are left out.
///
/// # Errors
///
/// As [`residual_waves`], for bytes.
pub fn residual_bytes(comparison: &Comparison<'_>, format: Format) -> Result<Vec<u8>, PlotError> {
    let against = Against {
        title: "inputs, outputs and weights",
        quantity: Quantity::Bytes,
        of: |point| point.bytes.filter(|&bytes| bytes > 0).map(|bytes| bytes as f64),
    };
    render(&lay_out(comparison, &against)?, format)
}

fn lay_out<'a>(comparison: &Comparison<'a>, against: &Against) -> Result<Layout<'a>, PlotError> {
    comparison.check()?;
    let shown = || comparison.points.iter().filter(|point| (against.of)(point).is_some());
    if shown().next().is_none() {
        return Err(PlotError::NoPoints { title: comparison.title.to_owned() });
    }
    let groups = group(shown());
    let errors: Vec<f64> = shown().map(error).collect();
    let limit = limit(&errors);
    let y = Axis::linear("error (predicted over measured, less 1)", (-limit, limit), MOST_ERROR_TICKS, " %");
    let page = Page {
        title: comparison.title.to_owned(),
        subtitle: comparison.subtitle.to_owned(),
        legend: legend(&groups, &errors, limit),
        left_room: left_room(&y),
        plot_size: PLOT,
    };
    let whole = page.plot();
    let area = Area { right: whole.right - HISTOGRAM.0 - HISTOGRAM.1, ..whole };
    let x = Axis::logarithmic(against.title, shown().filter_map(against.of), against.quantity);
    Ok(Layout { panel: Panel { area, x, y }, page, groups, of: against.of, limit })
}

fn error(point: &Point) -> f64 {
    error_percent(point.predicted_us, point.measured_us)
}

/// The end of the error axis.
fn limit(errors: &[f64]) -> f64 {
    let held = |limit: f64| errors.iter().filter(|error| error.abs() <= limit).count();
    let needed = HELD * errors.len() as f64;
    let last = LIMITS[LIMITS.len() - 1];
    LIMITS.into_iter().find(|&limit| held(limit) as f64 >= needed).unwrap_or(last)
}

fn legend(groups: &[PointGroup<'_>], errors: &[f64], limit: f64) -> Legend {
    let mut keys = seen_keys(groups);
    if errors.len() >= FEWEST_FOR_MEDIAN {
        keys.push(Row::key(Sample::Line(INK, MEDIAN_WIDTH), "running median"));
    }
    keys.push(Row::key(Sample::Band(CLOSE_BAND), "within 10 %"));
    let beyond = errors.iter().filter(|error| error.abs() > limit).count();
    if beyond > 0 {
        keys.push(Row::key(Sample::None, &format!("{beyond} beyond the axis, at its edge")));
    }
    let rows = group_rows(groups, |figures| {
        vec![figures.n.to_string(), percent(figures.bias_percent), percent(figures.mape_percent)]
    });
    Legend { head: "group".to_owned(), columns: vec!["n", "mean error", "MAPE"], rows, keys }
}

/// Median of the values in a window that moves along the keys, from the middle
/// of one window to that of the next.
fn running_median(mut points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    if points.len() < FEWEST_FOR_MEDIAN {
        return Vec::new();
    }
    points.sort_by(|one, other| one.0.total_cmp(&other.0));
    let window = FEWEST_IN_WINDOW.max((points.len() as f64 * WINDOW) as usize);
    let middle = |mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    // Windows overlap by half; the last one ends with the last point.
    let starts = (0..points.len() - window).step_by(window / 2).chain([points.len() - window]);
    let mut medians: Vec<(f64, f64)> = Vec::new();
    for start in starts {
        let inside = &points[start..start + window];
        let key = middle(inside.iter().map(|point| point.0).collect());
        // Many points of one key fill whole windows: one place for all of them.
        let same: Vec<f64> =
            points.iter().filter(|point| point.0.to_bits() == key.to_bits()).map(|point| point.1).collect();
        let values = if same.len() >= window { same } else { inside.iter().map(|point| point.1).collect() };
        if medians.last().is_none_or(|last| key > last.0) {
            medians.push((key, middle(values)));
        }
    }
    medians
}

impl Figure for Layout<'_> {
    fn size(&self) -> (u32, u32) {
        self.page.size()
    }

    fn draw<DB: DrawingBackend>(&self, root: &DrawingArea<DB, Shift>) -> Drawn<DB> {
        let sheet = sheet(root);
        self.page.draw(&sheet)?;
        let area = self.panel.area;
        let row = |error: f64| area.bottom - self.panel.y.part(error) * area.height();
        let close = [(area.left, row(100.0 * CLOSE)), (self.page.plot().right, row(-100.0 * CLOSE))];
        sheet.draw(&Rectangle::new(close, CLOSE_BAND.filled()))?;
        self.panel.draw_grid(&sheet)?;
        let zero = [(area.left, row(0.0)), (self.page.plot().right, row(0.0))];
        let points = drawing_order(&self.groups);
        self.draw_histogram(&sheet, &points)?;
        line::draw(&sheet, zero, INK, LINE_WIDTH)?;
        let (pen, filled) = (Pen::for_points(points.len()), filled(&self.groups));
        let mut placed = Vec::with_capacity(points.len());
        for (look, point) in points {
            let Some(value) = (self.of)(point) else { continue };
            pen.draw(&sheet, self.panel.place_within(value, error(point)), look, filled(point))?;
            placed.push((value, error(point)));
        }
        let medians = running_median(placed).into_iter();
        let medians = medians.map(|(value, error)| self.panel.place_within(value, error));
        line::draw(&sheet, medians, INK, MEDIAN_WIDTH)?;
        self.panel.draw_axes(&sheet)
    }
}

impl Layout<'_> {
    /// How many errors there are of each size, right of the plot.
    fn draw_histogram<DB: DrawingBackend>(&self, sheet: &Plane<DB>, points: &[(Look, &Point)]) -> Drawn<DB> {
        let mut counts = [0_u32; BARS];
        for (_, point) in points {
            let part = f64::midpoint(error(point) / self.limit, 1.0);
            counts[((part * BARS as f64) as usize).min(BARS - 1)] += 1;
        }
        let most = f64::from(counts.iter().copied().max().unwrap_or(1));
        let area = self.panel.area;
        let (left, height) = (area.right + HISTOGRAM.1, area.height() / BARS as f64);
        for (index, &count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let (bottom, length) = (area.bottom - index as f64 * height, f64::from(count) / most);
            let bar = [(left, bottom - height), (left + length * HISTOGRAM.0, bottom)];
            sheet.draw(&Rectangle::new(bar, HATCH.filled()))?;
        }
        let base = [(left, area.top), (left, area.bottom)];
        sheet.draw(&PathElement::new(base, GRID.stroke_width(steps(LINE_WIDTH))))
    }
}

#[cfg(test)]
mod tests;

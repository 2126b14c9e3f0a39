//! The scatter figure: predicted against measured time, both logarithmic.
//!
//! Invariant: both axes are the same, so that a prediction stands as far from
//! the line of equal times as its ratio to the measured time says, wherever it
//! is.

use coexec_sim::validate::point::Point;
use plotters::coord::Shift;
use plotters::prelude::*;

use crate::comparison::{
    CLOSE, Comparison, PointGroup, drawing_order, filled, group_rows, percent, seen_keys,
};
use crate::legend::{Legend, Row, Sample};
use crate::marker::{Look, Pen};
use crate::page::Page;
use crate::palette::{CLOSE_BAND, INK, tint};
use crate::panel::{Panel, left_room};
use crate::scale::{Axis, Quantity};
use crate::sheet::{Drawn, Figure, Plane, render, sheet};
use crate::{Format, PlotError, line};

/// Side of the plot, in figure pixels.
const SIDE: f64 = 460.0;
const LINE_WIDTH: f64 = 1.0;
/// Most points that show their intervals.
const MOST_INTERVALS: usize = 60;
/// White in the colour of an interval.
const INTERVAL_TINT: f64 = 0.35;

struct Layout<'a> {
    page: Page,
    panel: Panel,
    groups: Vec<PointGroup<'a>>,
    shows_intervals: bool,
}

/// Draws predicted against measured time as the bytes of a file in `format`.
///
/// Each group has a colour and a marker, and its error figures in the legend.
/// Markers are hollow for what the fit had seen; where it had seen everything or
/// nothing, all are filled. Few points show their 90 % intervals.
///
/// # Errors
///
/// [`PlotError::NoPoints`] without a point; [`PlotError::BadPoint`] for one whose
/// times are not finite and above 0; [`PlotError::Draw`] and
/// [`PlotError::Encode`] where a library refuses.
pub fn scatter(comparison: &Comparison<'_>, format: Format) -> Result<Vec<u8>, PlotError> {
    render(&lay_out(comparison)?, format)
}

fn lay_out<'a>(comparison: &Comparison<'a>) -> Result<Layout<'a>, PlotError> {
    comparison.check()?;
    let groups = comparison.groups();
    let shows_intervals = comparison.points.len() <= MOST_INTERVALS
        && comparison.points.iter().any(|point| interval(point).is_some());
    let ends = |point: &Point| {
        interval(point).filter(|_| shows_intervals).map_or([None; 2], |(low, high)| [Some(low), Some(high)])
    };
    let times = || {
        let points = comparison.points.iter();
        points.flat_map(|point| {
            [point.measured_us, point.predicted_us].into_iter().chain(ends(point).into_iter().flatten())
        })
    };
    let axis = |title: &str| Axis::logarithmic(title, times(), Quantity::Micros);
    let y = axis("predicted time");
    let page = Page {
        title: comparison.title.to_owned(),
        subtitle: comparison.subtitle.to_owned(),
        legend: legend(&groups, shows_intervals),
        left_room: left_room(&y),
        plot_size: (SIDE, SIDE),
    };
    let panel = Panel { area: page.plot(), x: axis("measured time"), y };
    Ok(Layout { page, panel, groups, shows_intervals })
}

/// The ends of a point's interval, where it has one above 0.
fn interval(point: &Point) -> Option<(f64, f64)> {
    let (low, high) = (point.low_us?, point.high_us?);
    (0.0 < low && low <= high).then_some((low, high))
}

fn legend(groups: &[PointGroup<'_>], shows_intervals: bool) -> Legend {
    let mut keys = seen_keys(groups);
    if shows_intervals {
        keys.push(Row::key(Sample::Bar(tint(INK, INTERVAL_TINT)), "90 % interval"));
    }
    keys.push(Row::key(Sample::LineOnBand(INK, LINE_WIDTH, CLOSE_BAND), "equal, and within 10 %"));
    let rows = group_rows(groups, |figures| {
        vec![figures.n.to_string(), percent(figures.mape_percent), percent(figures.within_10_percent)]
    });
    Legend { head: "group".to_owned(), columns: vec!["n", "MAPE", "within 10 %"], rows, keys }
}

impl Figure for Layout<'_> {
    fn size(&self) -> (u32, u32) {
        self.page.size()
    }

    fn draw<DB: DrawingBackend>(&self, root: &DrawingArea<DB, Shift>) -> Drawn<DB> {
        let sheet = sheet(root);
        self.page.draw(&sheet)?;
        self.draw_band(&sheet)?;
        let points = drawing_order(&self.groups);
        if self.shows_intervals {
            for &(look, point) in &points {
                self.draw_interval(&sheet, look, point)?;
            }
        }
        let (pen, filled) = (Pen::for_points(points.len()), filled(&self.groups));
        for (look, point) in points {
            let place = self.panel.place(point.measured_us, point.predicted_us);
            pen.draw(&sheet, place, look, filled(point))?;
        }
        self.panel.draw_axes(&sheet)
    }
}

impl Layout<'_> {
    /// Draws the ground of close predictions, the grid over it, and the line of
    /// equal times.
    fn draw_band<DB: DrawingBackend>(&self, sheet: &Plane<DB>) -> Drawn<DB> {
        let (low, high) = self.panel.x.ends();
        let (below, above) = (1.0 - CLOSE, 1.0 + CLOSE);
        let band = [(low, low * below), (low, low * above), (high, high * above), (high, high * below)];
        let corners = self.panel.area.clip(&band.map(|(x, y)| self.panel.place(x, y)));
        sheet.draw(&Polygon::new(corners, CLOSE_BAND.filled()))?;
        self.panel.draw_grid(sheet)?;
        let ends = [self.panel.place(low, low), self.panel.place(high, high)];
        line::draw(sheet, ends, INK, LINE_WIDTH)
    }

    fn draw_interval<DB: DrawingBackend>(&self, sheet: &Plane<DB>, look: Look, point: &Point) -> Drawn<DB> {
        let Some((low, high)) = interval(point) else { return Ok(()) };
        let ends = [low, high].map(|us| self.panel.place(point.measured_us, us));
        line::draw(sheet, ends, tint(look.colour, INTERVAL_TINT), LINE_WIDTH)
    }
}

#[cfg(test)]
mod tests;

//! The learning curve figure: error against the number of measured runs a fit
//! had.

use std::collections::BTreeMap;

use coexec_sim::calibrate::learning::LearningPoint;
use plotters::coord::Shift;
use plotters::prelude::*;

use crate::comparison::percent;
use crate::legend::{Legend, Row, Sample};
use crate::marker::{Look, Pen};
use crate::page::Page;
use crate::palette::tint;
use crate::panel::{Panel, left_room};
use crate::scale::{Axis, Quantity, Tick};
use crate::sheet::{Drawn, Figure, Plane, render, sheet};
use crate::{Format, PlotError, line};

/// Width and height of the plot, in figure pixels.
const PLOT: (f64, f64) = (520.0, 360.0);
/// Most series, which is how many can be told apart.
const MOST_SERIES: usize = 30;
/// Errors below this are drawn as this, in percent: an axis of decades has no 0.
const LEAST_ERROR: f64 = 0.01;
/// Errors above this are refused, in percent.
const LARGEST_ERROR: f64 = 1e9;
/// Where no rows stand on the axis, as a part of the fewest.
const NO_ROWS: f64 = 0.3;
const LINE_WIDTH: f64 = 2.0;
/// White in the band between the draws.
const BAND_TINT: f64 = 0.8;

/// The errors of one series with the same number of rows.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Step {
    rows: usize,
    least: f64,
    mean: f64,
    most: f64,
}

/// One line.
struct Series<'a> {
    name: &'a str,
    look: Look,
    /// By rows, ascending.
    steps: Vec<Step>,
}

struct Layout<'a> {
    page: Page,
    panel: Panel,
    series: Vec<Series<'a>>,
    /// Where a fit without rows stands.
    no_rows: f64,
}

/// Draws errors against measured runs as the bytes of a file in `format`: for
/// each series a line through the means of the draws, over a band from the least
/// to the largest.
///
/// # Errors
///
/// [`PlotError::NoPoints`] without a point; [`PlotError::BadPoint`] for an error
/// that is not finite or below 0; [`PlotError::TooMany`] for more series than can
/// be told apart; [`PlotError::Draw`] and [`PlotError::Encode`] where a library
/// refuses.
pub fn learning_curve(
    title: &str,
    subtitle: &str,
    points: &[LearningPoint],
    format: Format,
) -> Result<Vec<u8>, PlotError> {
    render(&lay_out(title, subtitle, points)?, format)
}

fn lay_out<'a>(title: &str, subtitle: &str, points: &'a [LearningPoint]) -> Result<Layout<'a>, PlotError> {
    if points.is_empty() {
        return Err(PlotError::NoPoints { title: title.to_owned() });
    }
    points.iter().try_for_each(check)?;
    let series = series(points);
    if series.len() > MOST_SERIES {
        return Err(PlotError::TooMany { what: "series", count: series.len(), limit: MOST_SERIES });
    }
    let rows = series.iter().map(|one| Row {
        sample: Sample::Curve(one.look, LINE_WIDTH, tint(one.look.colour, BAND_TINT)),
        name: one.name.to_owned(),
        cells: vec![
            one.steps[one.steps.len() - 1].rows.to_string(),
            percent(one.steps[one.steps.len() - 1].mean),
        ],
    });
    let legend = Legend {
        head: "mean and range of draws".to_owned(),
        columns: vec!["most runs", "MAPE"],
        rows: rows.collect(),
        keys: Vec::new(),
    };
    let (x, no_rows) = rows_axis(points);
    let errors = series.iter().flat_map(|one| &one.steps).flat_map(|step| [step.least, step.most]);
    let y = Axis::logarithmic("MAPE (%)", errors, Quantity::Number);
    let page = Page {
        title: title.to_owned(),
        subtitle: subtitle.to_owned(),
        legend,
        left_room: left_room(&y),
        plot_size: PLOT,
    };
    Ok(Layout { panel: Panel { area: page.plot(), x, y }, page, series, no_rows })
}

fn check(point: &LearningPoint) -> Result<(), PlotError> {
    if (0.0..=LARGEST_ERROR).contains(&point.mape_percent) {
        return Ok(());
    }
    Err(PlotError::BadPoint {
        what: format!("{} with {} rows", point.series, point.rows),
        found: format!("mape_percent is {}", point.mape_percent),
        expected: format!("a number from 0 to {LARGEST_ERROR}"),
    })
}

/// The points by series in the order in which they first occur, and by rows.
fn series(points: &[LearningPoint]) -> Vec<Series<'_>> {
    let mut names: Vec<&str> = Vec::new();
    let mut errors: BTreeMap<(&str, usize), Vec<f64>> = BTreeMap::new();
    for point in points {
        if !names.contains(&point.series.as_str()) {
            names.push(&point.series);
        }
        errors.entry((&point.series, point.rows)).or_default().push(point.mape_percent.max(LEAST_ERROR));
    }
    let steps = |name: &str| {
        let of_series = errors.iter().filter(|((series, _), _)| *series == name);
        of_series.map(|((_, rows), errors)| step(*rows, errors)).collect()
    };
    let named = names.iter().enumerate();
    named.map(|(index, name)| Series { name, look: Look::at(index), steps: steps(name) }).collect()
}

fn step(rows: usize, errors: &[f64]) -> Step {
    let least = errors.iter().copied().fold(f64::INFINITY, f64::min);
    let most = errors.iter().copied().fold(0.0, f64::max);
    // Rounding must not move the mean of equal errors off them.
    let mean = (errors.iter().sum::<f64>() / errors.len() as f64).clamp(least, most);
    Step { rows, least, mean, most }
}

/// The axis of rows, and where a fit without rows stands on it: a place of its
/// own, left of the fewest rows, as an axis of decades has no 0.
fn rows_axis(points: &[LearningPoint]) -> (Axis, f64) {
    let rows = || points.iter().map(|point| point.rows);
    let fewest = rows().filter(|&rows| rows > 0).min().unwrap_or(1) as f64;
    let no_rows = fewest * NO_ROWS;
    let has_none = rows().any(|rows| rows == 0);
    let values = rows().map(|rows| if rows == 0 { no_rows } else { rows as f64 });
    let mut axis = Axis::logarithmic("measured runs in the fit", values, Quantity::Number);
    let first = axis.part(fewest) - f64::EPSILON;
    axis.ticks.retain(|tick| !has_none || tick.part >= first);
    if has_none {
        axis.ticks.push(Tick { part: axis.part(no_rows), label: "0".to_owned() });
    }
    (axis, no_rows)
}

impl Figure for Layout<'_> {
    fn size(&self) -> (u32, u32) {
        self.page.size()
    }

    fn draw<DB: DrawingBackend>(&self, root: &DrawingArea<DB, Shift>) -> Drawn<DB> {
        let sheet = sheet(root);
        self.page.draw(&sheet)?;
        for one in &self.series {
            self.draw_band(&sheet, one)?;
        }
        self.panel.draw_grid(&sheet)?;
        for one in &self.series {
            let means: Vec<_> =
                one.steps.iter().map(|step| self.panel.place(self.column(step), step.mean)).collect();
            line::draw(&sheet, means.iter().copied(), one.look.colour, LINE_WIDTH)?;
            for mean in means {
                Pen::LEGEND.draw(&sheet, mean, one.look, true)?;
            }
        }
        self.panel.draw_axes(&sheet)
    }
}

impl Layout<'_> {
    /// The rows of a step as the axis has them.
    fn column(&self, step: &Step) -> f64 {
        if step.rows == 0 { self.no_rows } else { step.rows as f64 }
    }

    fn draw_band<DB: DrawingBackend>(&self, sheet: &Plane<DB>, series: &Series<'_>) -> Drawn<DB> {
        let edge = |error: fn(&Step) -> f64| {
            series.steps.iter().map(move |step| self.panel.place(self.column(step), error(step)))
        };
        let corners: Vec<_> = edge(|step| step.least).chain(edge(|step| step.most).rev()).collect();
        sheet.draw(&Polygon::new(corners, tint(series.look.colour, BAND_TINT).mix(0.6).filled()))
    }
}

#[cfg(test)]
mod tests;

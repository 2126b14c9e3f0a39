//! The XY figure: series of points over two axes, with the legend beside.

use crate::axis::{Axis, LARGEST};
use crate::frame::{Frame, Item, render};
use crate::legend::{Legend, Row};
use crate::mark::Mark;
use crate::palette::Colour;
use crate::{Format, PlotError};

/// Most rows of a legend.
const MOST_ROWS: usize = 60;

/// Series of points over two axes.
#[derive(Clone, Debug, PartialEq)]
pub struct XyFigure {
    /// First line above the plot.
    pub title: String,
    /// Second line, with less weight; may be empty.
    pub subtitle: String,
    /// Width and height of the plot, in figure pixels.
    pub plot_size: (f64, f64),
    /// The axis from left to right.
    pub x: Axis,
    /// The axis from bottom to top.
    pub y: Axis,
    /// Heads of the legend's columns, the first over the names; may be empty.
    pub heads: Vec<String>,
    /// The series, the later over the earlier.
    pub series: Vec<Series>,
}

/// One series.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Cells of its row in the legend, its name first; none where it has no row.
    pub legend: Vec<String>,
    /// How its points are drawn; a series without is a row of the legend and nothing else.
    pub mark: Option<Mark>,
    /// Its colour.
    pub colour: Colour,
    /// Its points.
    pub points: Vec<(f64, f64)>,
}

impl Series {
    /// A series with a name; one without a row in the legend where it is empty.
    pub fn new(name: &str, mark: Mark, colour: Colour, points: Vec<(f64, f64)>) -> Self {
        let legend = if name.is_empty() { Vec::new() } else { vec![name.to_owned()] };
        Self { legend, mark: Some(mark), colour, points }
    }
}

impl XyFigure {
    /// Draws it as the bytes of a file in `format`.
    ///
    /// # Errors
    ///
    /// [`PlotError::NoPoints`] without a point; [`PlotError::BadPoint`] for one that the axes
    /// cannot show; [`PlotError::TooMany`] for more rows in the legend than can be told
    /// apart; [`PlotError::Draw`] and [`PlotError::Encode`] where a library refuses.
    pub fn draw(&self, format: Format) -> Result<Vec<u8>, PlotError> {
        if self.series.iter().all(|series| series.points.is_empty()) {
            return Err(PlotError::NoPoints { title: self.title.clone() });
        }
        for series in &self.series {
            for &(x, y) in &series.points {
                check(series, &self.x, x)?;
                check(series, &self.y, y)?;
            }
        }
        let named = self.series.iter().filter(|series| !series.legend.is_empty());
        let row = |series: &Series| Row {
            sample: series.mark.map(|mark| (mark, series.colour)),
            cells: series.legend.clone(),
        };
        let rows: Vec<Row> = named.map(row).collect();
        if rows.len() > MOST_ROWS {
            return Err(PlotError::TooMany { what: "series", count: rows.len(), limit: MOST_ROWS });
        }
        let shown = self.series.iter().filter(|series| !series.points.is_empty());
        let shown = shown.filter_map(|Series { mark, colour, points, .. }| {
            mark.map(|mark| Item::Series(mark, *colour, points.clone()))
        });
        let frame = Frame {
            title: self.title.clone(),
            subtitle: self.subtitle.clone(),
            legend: Legend { heads: self.heads.clone(), rows },
            plot_size: self.plot_size,
            x: self.x.clone(),
            y: self.y.clone(),
            has_rows: true,
            items: shown.collect(),
        };
        render(&frame, format)
    }
}

fn check(series: &Series, axis: &Axis, value: f64) -> Result<(), PlotError> {
    let least = if axis.is_logarithmic { 1.0 / LARGEST } else { -LARGEST };
    if (least..=LARGEST).contains(&value) {
        return Ok(());
    }
    Err(PlotError::BadPoint {
        what: series.legend.first().cloned().unwrap_or_default(),
        found: format!("{} is {value}", axis.title),
        expected: format!("a number from {least:e} to {LARGEST:e}"),
    })
}

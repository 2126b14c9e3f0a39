//! Legends beside a plot: samples, names and columns of figures.
//!
//! Invariant: a legend stands beside the plot, never on it.

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use crate::area::Place;
use crate::marker::{Look, Pen};
use crate::palette::{INK, MUTED};
use crate::sheet::{Drawn, Plane, text};
use crate::{font, line};

// Lengths are in figure pixels, text sizes in pixels an em.

const TEXT_SIZE: f64 = 12.0;
pub(crate) const ROW_HEIGHT: f64 = 18.0;
/// Between blocks of rows.
const BLOCK_GAP: f64 = 12.0;
/// Length of a line's sample, height of a band's, and from there to the name.
const SAMPLE: (f64, f64) = (24.0, 10.0);
const SAMPLE_GAP: f64 = 7.0;
/// How far the middle of a small letter lies above that of its line.
const SAMPLE_RISE: f64 = 0.5;
const COLUMN_GAP: f64 = 14.0;
const WIDEST_NAME: f64 = 240.0;

/// What stands before a name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Sample {
    /// Nothing.
    None,
    /// A marker.
    Marker {
        /// Its colour and shape.
        look: Look,
        /// Whether it is filled.
        filled: bool,
    },
    /// A line of a width.
    Line(RGBColor, f64),
    /// A dashed line of a width.
    Dashes(RGBColor, f64),
    /// A band.
    Band(RGBColor),
    /// A line of a width over a band.
    LineOnBand(RGBColor, f64, RGBColor),
    /// A marker on a line of a width, over a band.
    Curve(Look, f64, RGBColor),
    /// An upright bar through a marker.
    Bar(RGBColor),
}

/// A row.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    pub(crate) sample: Sample,
    pub(crate) name: String,
    /// One for each column.
    pub(crate) cells: Vec<String>,
}

impl Row {
    /// A row without figures.
    pub(crate) fn key(sample: Sample, name: &str) -> Self {
        Self { sample, name: name.to_owned(), cells: Vec::new() }
    }
}

/// Rows under the heads of their columns, and rows without figures below.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Legend {
    /// What the rows are, over their names.
    pub(crate) head: String,
    pub(crate) columns: Vec<&'static str>,
    pub(crate) rows: Vec<Row>,
    pub(crate) keys: Vec<Row>,
}

impl Legend {
    /// Width and height.
    pub(crate) fn size(&self) -> (f64, f64) {
        let columns: f64 = self.column_widths().iter().map(|width| COLUMN_GAP + width).sum();
        let keys = self.keys.iter().map(|row| font::width(&name(row), TEXT_SIZE)).fold(0.0, f64::max);
        let width = SAMPLE.0 + SAMPLE_GAP + (self.names_width() + columns).max(keys);
        let head = if self.columns.is_empty() { 0.0 } else { ROW_HEIGHT };
        let gap = if self.keys.is_empty() || self.rows.is_empty() { 0.0 } else { BLOCK_GAP };
        (width, head + (self.rows.len() + self.keys.len()) as f64 * ROW_HEIGHT + gap)
    }

    fn names_width(&self) -> f64 {
        let names = self.rows.iter().map(|row| font::width(&name(row), TEXT_SIZE));
        names.fold(font::width(&font::drawable(&self.head), TEXT_SIZE), f64::max)
    }

    fn column_widths(&self) -> Vec<f64> {
        let cells = |index: usize| self.rows.iter().filter_map(move |row| row.cells.get(index));
        let width = |text: &str| font::width(&font::drawable(text), TEXT_SIZE);
        let columns = self.columns.iter().enumerate();
        columns
            .map(|(index, head)| cells(index).map(|cell| width(cell)).fold(width(head), f64::max))
            .collect()
    }

    /// Draws it with its upper left corner at a place.
    pub(crate) fn draw<DB: DrawingBackend>(&self, sheet: &Plane<DB>, (left, top): Place) -> Drawn<DB> {
        let names = left + SAMPLE.0 + SAMPLE_GAP;
        let mut right = names + self.names_width();
        let rights: Vec<f64> = self
            .column_widths()
            .iter()
            .map(|width| {
                right += COLUMN_GAP + width;
                right
            })
            .collect();
        let mut middle = top + ROW_HEIGHT / 2.0;
        if !self.columns.is_empty() {
            sheet.draw(&text(&self.head, (names, middle), TEXT_SIZE, MUTED, HPos::Left))?;
            for (column, &right) in self.columns.iter().zip(&rights) {
                sheet.draw(&text(column, (right, middle), TEXT_SIZE, MUTED, HPos::Right))?;
            }
            middle += ROW_HEIGHT;
        }
        for (index, row) in self.rows.iter().chain(&self.keys).enumerate() {
            if index == self.rows.len() && index > 0 {
                middle += BLOCK_GAP;
            }
            draw_sample(sheet, row.sample, (left, middle - SAMPLE_RISE))?;
            sheet.draw(&text(&name(row), (names, middle), TEXT_SIZE, INK, HPos::Left))?;
            for (cell, &right) in row.cells.iter().zip(&rights) {
                sheet.draw(&text(cell, (right, middle), TEXT_SIZE, INK, HPos::Right))?;
            }
            middle += ROW_HEIGHT;
        }
        Ok(())
    }
}

/// The name of a row as it is shown.
fn name(row: &Row) -> String {
    font::fit(&row.name, TEXT_SIZE, WIDEST_NAME).unwrap_or_default()
}

/// Draws a sample whose left end is at a place.
fn draw_sample<DB: DrawingBackend>(sheet: &Plane<DB>, sample: Sample, (left, middle): Place) -> Drawn<DB> {
    let ends = [(left, middle), (left + SAMPLE.0, middle)];
    let centre = (left + SAMPLE.0 / 2.0, middle);
    let (top, bottom) = (middle - SAMPLE.1 / 2.0, middle + SAMPLE.1 / 2.0);
    let band = |colour: RGBColor| Rectangle::new([(left, top), (left + SAMPLE.0, bottom)], colour.filled());
    match sample {
        Sample::None => Ok(()),
        Sample::Marker { look, filled } => Pen::LEGEND.draw(sheet, centre, look, filled),
        Sample::Line(colour, width) => line::draw(sheet, ends, colour, width),
        Sample::Dashes(colour, width) => line::dashes(sheet, (ends[0], ends[1]), colour, width),
        Sample::Band(colour) => sheet.draw(&band(colour)),
        Sample::LineOnBand(colour, width, ground) => {
            sheet.draw(&band(ground))?;
            line::draw(sheet, ends, colour, width)
        }
        Sample::Curve(look, width, ground) => {
            sheet.draw(&band(ground))?;
            line::draw(sheet, ends, look.colour, width)?;
            Pen::LEGEND.draw(sheet, centre, look, true)
        }
        Sample::Bar(colour) => line::draw(sheet, [(centre.0, top), (centre.0, bottom)], colour, 1.0),
    }
}

//! The legend: samples, names and columns of figures.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use crate::{Colour, Drawn, INK, MUTED, Mark, TEXT_SIZE, at, font};

// Lengths are in figure pixels.

pub(crate) const ROW_HEIGHT: f64 = 18.0;
/// Width and height of a sample, and its distance to the name.
const SAMPLE: (f64, f64) = (24.0, 10.0);
const SAMPLE_GAP: f64 = 7.0;
const COLUMN_GAP: f64 = 14.0;
const MAX_NAME_WIDTH: f64 = 240.0;

/// A row: an optional sample, and cells of which the first is the name.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    pub(crate) sample: Option<(Mark, Colour)>,
    pub(crate) cells: Vec<String>,
}

impl Row {
    /// A row with a sample.
    pub(crate) fn of(mark: Mark, colour: Colour, cells: &[&str]) -> Self {
        Self { sample: Some((mark, colour)), cells: cells.iter().map(|&cell| cell.to_owned()).collect() }
    }
}

/// Rows below the headers of their columns, if there are any.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Legend {
    pub(crate) heads: Vec<String>,
    pub(crate) rows: Vec<Row>,
}

impl Legend {
    /// A legend of coloured bands, each with its name.
    pub(crate) fn bands<'a>(bands: impl Iterator<Item = (Colour, &'a str)>) -> Self {
        let row = |(colour, name)| Row::of(Mark::Area(1.0), colour, &[name]);
        Self { heads: Vec::new(), rows: bands.map(row).collect() }
    }

    /// Every line of text: the headers, if there are any, and the rows.
    fn lines(&self) -> impl Iterator<Item = &Vec<String>> {
        let heads = Some(&self.heads).filter(|heads| !heads.is_empty());
        heads.into_iter().chain(self.rows.iter().map(|row| &row.cells))
    }

    /// Width of each column, including the gap before it.
    fn columns(&self) -> Vec<f64> {
        let count = self.lines().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.lines().filter_map(|cells| cells.get(column));
            let widest = cells.map(|cell| font::width(&font::drawable(cell), TEXT_SIZE)).fold(0.0, f64::max);
            if column == 0 { widest.min(MAX_NAME_WIDTH) } else { widest + COLUMN_GAP }
        };
        (0..count).map(width).collect()
    }

    /// Width and height.
    pub(crate) fn size(&self) -> (f64, f64) {
        if self.rows.is_empty() {
            return (0.0, 0.0);
        }
        let width = SAMPLE.0 + SAMPLE_GAP + self.columns().iter().sum::<f64>();
        (width, self.lines().count() as f64 * ROW_HEIGHT)
    }

    /// Draws the legend with its upper left corner at the given place.
    pub(crate) fn draw<DB: DrawingBackend>(
        &self,
        root: &DrawingArea<DB, Shift>,
        (left, top): (f64, f64),
    ) -> Drawn<DB> {
        let columns = self.columns();
        let first = self.lines().count() - self.rows.len();
        for (line, cells) in self.lines().enumerate() {
            let middle = top + (line as f64 + 0.5) * ROW_HEIGHT;
            let row = line.checked_sub(first).and_then(|row| self.rows.get(row));
            if let Some((mark, colour)) = row.and_then(|row| row.sample) {
                let (upper, lower) = (middle - SAMPLE.1 / 2.0, middle + SAMPLE.1 / 2.0);
                mark.draw_sample(root, [(left, upper), (left + SAMPLE.0, lower)], colour)?;
            }
            let ink = if row.is_some() { INK } else { MUTED };
            let mut right = left + SAMPLE.0 + SAMPLE_GAP;
            for (column, (cell, width)) in cells.iter().zip(&columns).enumerate() {
                right += width;
                let (place, align) =
                    if column == 0 { (right - width, HPos::Left) } else { (right, HPos::Right) };
                let text = font::fit(cell, TEXT_SIZE, MAX_NAME_WIDTH).unwrap_or_default();
                root.draw(&Text::new(text, at((place, middle)), font::style(TEXT_SIZE, ink, align)))?;
            }
        }
        Ok(())
    }
}

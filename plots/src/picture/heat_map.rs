//! Shaded cells over two kinds of category, the value written in each.

use coexec_sim::published::{HeatMap, Picture};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::check;
use crate::PlotError;
use crate::area::Area;
use crate::font;
use crate::legend::Legend;
use crate::marker::Look;
use crate::page::Page;
use crate::palette::{INK, tint};
use crate::panel::TEXT_SIZE;
use crate::sheet::{Drawn, Figure, sheet, text};

// Lengths are in figure pixels.

const CELL_HEIGHT: f64 = 30.0;
const LEAST_CELL_WIDTH: f64 = 52.0;
/// Between cells and their names.
const NAME_GAP: f64 = 10.0;
/// From the lowest cells to the middle of the columns' names, downwards.
const COLUMN_GAP: f64 = 15.0;
/// From the columns' names to the middle of what they and the cells are, downwards.
const AXIS_GAP: f64 = 20.0;
/// White in the shade of the highest value, so that numbers can be read on it.
const LEAST_TINT: f64 = 0.25;
/// Most cells of a figure.
const MOST_CELLS: usize = 10_000;

pub(super) struct Layout<'a> {
    page: Page,
    shown: &'a HeatMap,
    pub(super) cells: Vec<Cell>,
}

/// One cell.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Cell {
    pub(super) area: Area,
    pub(super) shade: RGBColor,
    pub(super) label: String,
}

pub(super) fn lay_out<'a>(picture: &Picture, shown: &'a HeatMap) -> Result<Layout<'a>, PlotError> {
    let count = shown.rows.len().saturating_mul(shown.columns.len());
    if count > MOST_CELLS {
        return Err(PlotError::TooMany { what: "cells", count, limit: MOST_CELLS });
    }
    let values = || shown.values.iter().flatten().flatten().copied();
    for value in values() {
        check(&shown.value, value)?;
    }
    if values().next().is_none() {
        return Err(PlotError::NoPoints { title: picture.title.clone() });
    }
    let width_of = |name: &String| font::width(&font::drawable(name), TEXT_SIZE);
    let left_room = shown.rows.iter().map(width_of).fold(0.0, f64::max) + 2.0 * NAME_GAP;
    let width = shown.columns.iter().map(width_of).fold(LEAST_CELL_WIDTH, f64::max);
    let plot_size = (width * shown.columns.len() as f64, CELL_HEIGHT * shown.rows.len() as f64);
    let page = Page {
        title: picture.title.clone(),
        subtitle: picture.subtitle.clone(),
        legend: Legend::default(),
        left_room,
        plot_size,
    };
    let highest = values().fold(f64::MIN_POSITIVE, f64::max);
    let plot = page.plot();
    let mut cells = Vec::new();
    for (row, values) in shown.values.iter().take(shown.rows.len()).enumerate() {
        for (column, value) in values.iter().take(shown.columns.len()).enumerate() {
            let Some(value) = value else { continue };
            let (left, top) = (plot.left + column as f64 * width, plot.top + row as f64 * CELL_HEIGHT);
            let area = Area { left, top, right: left + width, bottom: top + CELL_HEIGHT };
            let white = 1.0 - (1.0 - LEAST_TINT) * value / highest;
            let shade = tint(Look::at(0).colour, white);
            cells.push(Cell { area, shade, label: format!("{value:.0}") });
        }
    }
    Ok(Layout { page, shown, cells })
}

impl Figure for Layout<'_> {
    fn size(&self) -> (u32, u32) {
        self.page.size()
    }

    fn draw<DB: DrawingBackend>(&self, root: &DrawingArea<DB, Shift>) -> Drawn<DB> {
        let sheet = sheet(root);
        self.page.draw(&sheet)?;
        for Cell { area, shade, label } in &self.cells {
            sheet.draw(&Rectangle::new(area.corners(), shade.filled()))?;
            sheet.draw(&text(label, area.middle(), TEXT_SIZE, INK, HPos::Center))?;
        }
        let plot = self.page.plot();
        let width = plot.width() / self.shown.columns.len() as f64;
        for (column, name) in self.shown.columns.iter().enumerate() {
            let middle = (plot.left + (column as f64 + 0.5) * width, plot.bottom + COLUMN_GAP);
            sheet.draw(&text(name, middle, TEXT_SIZE, INK, HPos::Center))?;
        }
        let below = (f64::midpoint(plot.left, plot.right), plot.bottom + COLUMN_GAP + AXIS_GAP);
        let explained = format!("{}; cells: {}", self.shown.x, self.shown.value);
        sheet.draw(&text(&explained, below, TEXT_SIZE, INK, HPos::Center))?;
        for (row, name) in self.shown.rows.iter().enumerate() {
            let middle = (plot.left - NAME_GAP, plot.top + (row as f64 + 0.5) * CELL_HEIGHT);
            sheet.draw(&text(name, middle, TEXT_SIZE, INK, HPos::Right))?;
        }
        Ok(())
    }
}

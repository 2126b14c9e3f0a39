//! The heat map: shaded cells over two kinds of category, the value written in each.

use crate::PlotError;
use crate::axis::Axis;
use crate::font;
use crate::frame::{Figure, Item, TEXT_SIZE};
use crate::legend::Legend;
use crate::palette::{BLUE, Colour, tint};
use crate::picture::{HeatMap, check};

// Lengths are in figure pixels.

const CELL_HEIGHT: f64 = 30.0;
const LEAST_CELL_WIDTH: f64 = 44.0;
/// Between the names of two columns.
const NAME_GAP: f64 = 10.0;
/// Most cells of a figure.
const MOST_CELLS: usize = 10_000;
/// Shades that the legend shows.
const SHADES: u32 = 4;

/// The shade of a value, as a part of the highest.
fn shade(part: f64) -> Colour {
    tint(BLUE, 1.0 - part)
}

/// A heat map.
pub(crate) fn figure(shown: &HeatMap) -> Result<Figure, PlotError> {
    let count = shown.rows.len().saturating_mul(shown.columns.len());
    if count > MOST_CELLS {
        return Err(PlotError::TooMany { what: "cells", count, limit: MOST_CELLS });
    }
    let values = || shown.values.iter().flatten().flatten().copied();
    values().try_for_each(|value| check(&shown.value, value))?;
    let highest = values().fold(f64::MIN_POSITIVE, f64::max);
    let width = |name: &String| font::width(&font::drawable(name), TEXT_SIZE) + NAME_GAP;
    let cell_width = shown.columns.iter().map(width).fold(LEAST_CELL_WIDTH, f64::max);
    let centred = |names: &[String]| -> Vec<(f64, String)> {
        names.iter().enumerate().map(|(index, name)| (index as f64 + 0.5, font::drawable(name))).collect()
    };
    let (columns, rows) = (shown.columns.len() as f64, shown.rows.len() as f64);
    let shades: Vec<(f64, String)> = (0..=SHADES)
        .map(|step| f64::from(step) / f64::from(SHADES))
        .map(|part| (part, format!("{:.0}", part * highest)))
        .collect();
    let legend = Legend::bands(shades.iter().map(|(part, value)| (shade(*part), value.as_str())));
    let mut items = Vec::new();
    for (row, values) in shown.values.iter().enumerate() {
        for (column, value) in values.iter().enumerate() {
            let Some(value) = value else { continue };
            let (left, top) = (column as f64, row as f64);
            let ground = shade(value / highest);
            items.push(Item::Filled([(left, top), (left + 1.0, top + 1.0)], ground));
            items.push(Item::Label(format!("{value:.0}"), TEXT_SIZE, (left + 0.5, top + 0.5), ground));
        }
    }
    let plot_size = (cell_width * columns, CELL_HEIGHT * rows);
    let x = Axis::named(&shown.x, (0.0, columns), centred(&shown.columns));
    let y = Axis::named(&shown.y, (rows, 0.0), centred(&shown.rows));
    let legend = Legend { heads: vec![shown.value.clone()], ..legend };
    Ok(Figure { legend, items, ..Figure::new(plot_size, x, y) })
}

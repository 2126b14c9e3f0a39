//! Figures of published numbers and ours: grouped bars over categories, and heat maps over two kinds of
//! category with the value written in each cell.
//!
//! Responsible for: drawing a [`Picture`], and refusing values that cannot be drawn. Not for: the
//! numbers. Invariants: a published series and ours of the same quantity have the same colour, the
//! published one paler; bars start at 0.

use crate::figure::{Bars, Drawing, HeatMap, Picture};
use crate::{
    Axis, BLUE, Colour, Figure, Format, Item, Legend, PlotError, TEXT_SIZE, at_most, font, look, tint,
};

/// Most series that can be distinguished.
const MAX_SERIES: usize = 14;
/// Values above this are refused.
const MAX_VALUE: f64 = 1e12;
/// Fraction of white in the colour of a published series.
const PUBLISHED_TINT: f64 = 0.55;

/// Draws a picture as the bytes of a file in `format`.
///
/// # Errors
///
/// [`PlotError::NoPoints`] without a bar or cell; [`PlotError::BadPoint`] for a value that
/// is not finite or below 0; [`PlotError::TooMany`] for more series than can be distinguished;
/// [`PlotError::Draw`] and [`PlotError::Encode`] if a library fails.
pub fn picture(picture: &Picture, format: Format) -> Result<Vec<u8>, PlotError> {
    let figure = match &picture.drawing {
        Drawing::GroupedBars(shown) => bars(shown)?,
        Drawing::HeatMap(shown) => heat_map(shown)?,
    };
    figure.titled(&picture.title, &picture.subtitle).draw(format)
}

/// The colours of series: a published one has the colour of our series that follows it, paler.
fn colours(are_published: impl Iterator<Item = bool>) -> Vec<Colour> {
    let mut ours = 0;
    let colour = |is_published: bool| {
        let colour = look(ours).0;
        ours += usize::from(!is_published);
        if is_published { tint(colour, PUBLISHED_TINT) } else { colour }
    };
    are_published.map(colour).collect()
}

/// Refuses a height that cannot be drawn.
pub(crate) fn check(what: &str, value: f64) -> Result<(), PlotError> {
    if (0.0..=MAX_VALUE).contains(&value) {
        return Ok(());
    }
    Err(PlotError::BadPoint {
        what: what.to_owned(),
        found: format!("the value is {value}"),
        expected: format!("a number from 0 to {MAX_VALUE}"),
    })
}

// Lengths are in figure pixels.

const WIDTH: f64 = 520.0;
const THICKNESS: f64 = 11.0;
/// Distance between the bars of two categories.
const GAP: f64 = 12.0;

/// Bars side by side.
fn bars(shown: &Bars) -> Result<Figure, PlotError> {
    let count = shown.series.len();
    at_most(MAX_SERIES, "series", count)?;
    for series in &shown.series {
        series.values.iter().flatten().try_for_each(|&value| check(&series.name, value))?;
    }
    let colours = colours(shown.series.iter().map(|series| series.is_published));
    let step = count as f64 * THICKNESS + GAP;
    let (mut bars, mut ends) = (Vec::new(), Vec::new());
    for category in 0..shown.categories.len() {
        let mut top = category as f64 * step + GAP / 2.0;
        for (series, &colour) in shown.series.iter().zip(&colours) {
            if let Some(value) = series.values.get(category).copied().flatten() {
                bars.push(Item::Filled([(0.0, top), (value, top + THICKNESS)], colour));
                ends.push(value);
            }
            top += THICKNESS;
        }
    }
    let named = shown.categories.iter().enumerate();
    let names = named.map(|(index, name)| ((index as f64 + 0.5) * step, font::drawable(name))).collect();
    let height = shown.categories.len() as f64 * step;
    let series = shown.series.iter().zip(&colours);
    let x = Axis::from_zero(&shown.y, ends.into_iter());
    Ok(Figure {
        legend: Legend::bands(series.map(|(series, &colour)| (colour, series.name.as_str()))),
        items: bars,
        ..Figure::new((WIDTH, height), x, Axis::named("", (height, 0.0), names))
    })
}

// Lengths are in figure pixels.

const CELL_HEIGHT: f64 = 30.0;
const MIN_CELL_WIDTH: f64 = 44.0;
/// Distance between the names of two columns.
const NAME_GAP: f64 = 10.0;
/// Most cells of a figure.
const MAX_CELLS: usize = 10_000;
/// Shades that the legend shows.
const SHADES: u32 = 4;

/// The shade of a value, given as a fraction of the highest.
fn shade(part: f64) -> Colour {
    tint(BLUE, 1.0 - part)
}

/// A heat map.
fn heat_map(shown: &HeatMap) -> Result<Figure, PlotError> {
    at_most(MAX_CELLS, "cells", shown.rows.len().saturating_mul(shown.columns.len()))?;
    let values = || shown.values.iter().flatten().flatten().copied();
    values().try_for_each(|value| check(&shown.value, value))?;
    let highest = values().fold(f64::MIN_POSITIVE, f64::max);
    let width = |name: &String| font::width(&font::drawable(name), TEXT_SIZE) + NAME_GAP;
    let cell_width = shown.columns.iter().map(width).fold(MIN_CELL_WIDTH, f64::max);
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

#[cfg(test)]
mod tests;

//! The bar chart: bars over categories, side by side.

use crate::PlotError;
use crate::axis::Axis;
use crate::font;
use crate::frame::{Figure, Item};
use crate::legend::Legend;
use crate::picture::{Bars, MOST_SERIES, check, colours};

// Lengths are in figure pixels.

const WIDTH: f64 = 520.0;
const THICKNESS: f64 = 11.0;
/// Between the bars of two categories.
const GAP: f64 = 12.0;

/// Bars side by side.
pub(crate) fn figure(shown: &Bars) -> Result<Figure, PlotError> {
    let count = shown.series.len();
    if count > MOST_SERIES {
        return Err(PlotError::TooMany { what: "series", count, limit: MOST_SERIES });
    }
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

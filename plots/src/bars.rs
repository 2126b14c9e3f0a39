//! The bar chart: bars over categories, side by side or behind each other.

use crate::PlotError;
use crate::axis::Axis;
use crate::font;
use crate::frame::{Figure, Item};
use crate::legend::Legend;
use crate::picture::{Bars, check, check_series, colours};

// Lengths are in figure pixels.

const WIDTH: f64 = 520.0;
const THICKNESS: f64 = 11.0;
/// Between the bars of two categories.
const GAP: f64 = 12.0;

/// Bars side by side, or each behind the one before.
pub(crate) fn figure(shown: &Bars, is_stacked: bool) -> Result<Figure, PlotError> {
    check_series(shown.series.len())?;
    for series in &shown.series {
        series.values.iter().flatten().try_for_each(|&value| check(&series.name, value))?;
    }
    let colours = colours(shown.series.iter().map(|series| series.is_published));
    let rows = if is_stacked { 1.0 } else { shown.series.len() as f64 };
    let step = rows * THICKNESS + GAP;
    let (mut bars, mut ends) = (Vec::new(), Vec::new());
    for category in 0..shown.categories.len() {
        let mut top = category as f64 * step + GAP / 2.0;
        let mut left = 0.0;
        for (series, &colour) in shown.series.iter().zip(&colours) {
            if let Some(value) = series.values.get(category).copied().flatten() {
                bars.push(Item::Filled([(left, top), (left + value, top + THICKNESS)], colour));
                ends.push(left + value);
                left += if is_stacked { value } else { 0.0 };
            }
            top += if is_stacked { 0.0 } else { THICKNESS };
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

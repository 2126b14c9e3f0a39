//! The bar chart: bars over categories, side by side or behind each other.

use crate::axis::Axis;
use crate::font;
use crate::frame::{Frame, Item, render};
use crate::legend::Legend;
use crate::picture::{Bars, check, check_series, colours};
use crate::{Format, PlotError};

// Lengths are in figure pixels.

const WIDTH: f64 = 520.0;
const THICKNESS: f64 = 11.0;
/// Between the bars of two categories.
const GAP: f64 = 12.0;

/// Draws bars side by side, or each behind the one before, as the bytes of a file.
pub(crate) fn draw(
    (title, subtitle): (&str, &str),
    shown: &Bars,
    is_stacked: bool,
    format: Format,
) -> Result<Vec<u8>, PlotError> {
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
    if bars.is_empty() {
        return Err(PlotError::NoPoints { title: title.to_owned() });
    }
    let named = shown.categories.iter().enumerate();
    let names = named.map(|(index, name)| ((index as f64 + 0.5) * step, font::drawable(name))).collect();
    let height = shown.categories.len() as f64 * step;
    let series = shown.series.iter().zip(&colours);
    let frame = Frame {
        title: title.to_owned(),
        subtitle: subtitle.to_owned(),
        legend: Legend::bands(series.map(|(series, &colour)| (colour, series.name.as_str()))),
        plot_size: (WIDTH, height),
        x: Axis::from_zero(&shown.y, ends.into_iter()),
        y: Axis::named("", (height, 0.0), names),
        has_rows: false,
        items: bars,
    };
    render(&frame, format)
}

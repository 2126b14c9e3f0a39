//! Figures of published numbers beside ours, as plain data: bars and shaded cells.
//!
//! Responsible for: which figure a picture asks for, and what is refused. Not for: the
//! numbers.
//! Invariants: what is published and what is ours of the same thing have one colour, the
//! published paler; heights start at 0.

pub(crate) use crate::figure::{Bars, HeatMap};
use crate::figure::{Drawing, Picture};

use crate::palette::{Colour, look, tint};
use crate::{Format, PlotError, bars, heat_map};

/// Most series, which is how many can be told apart.
pub(crate) const MOST_SERIES: usize = 14;
/// Values above this are refused.
const LARGEST: f64 = 1e12;
/// White in the colour of what is published.
const PUBLISHED_TINT: f64 = 0.55;

/// Draws a picture as the bytes of a file in `format`.
///
/// # Errors
///
/// [`PlotError::NoPoints`] without a bar or cell; [`PlotError::BadPoint`] for a value that
/// is not finite or below 0; [`PlotError::TooMany`] for more series than can be told apart;
/// [`PlotError::Draw`] and [`PlotError::Encode`] where a library refuses.
pub fn picture(picture: &Picture, format: Format) -> Result<Vec<u8>, PlotError> {
    let figure = match &picture.drawing {
        Drawing::GroupedBars(shown) => bars::figure(shown)?,
        Drawing::HeatMap(shown) => heat_map::figure(shown)?,
    };
    figure.titled(&picture.title, &picture.subtitle).draw(format)
}

/// The colours of series: what is published has that of ours behind it, paler.
pub(crate) fn colours(are_published: impl Iterator<Item = bool>) -> Vec<Colour> {
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
    if (0.0..=LARGEST).contains(&value) {
        return Ok(());
    }
    Err(PlotError::BadPoint {
        what: what.to_owned(),
        found: format!("the value is {value}"),
        expected: format!("a number from 0 to {LARGEST}"),
    })
}

#[cfg(test)]
mod tests;

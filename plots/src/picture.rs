//! Figures of published numbers beside ours, as plain data: bars, lines and shaded cells.
//!
//! Responsible for: which figure a picture asks for, and what is refused. Not for: the
//! numbers.
//! Invariants: what is published and what is ours of the same thing have one colour, the
//! published paler; heights start at 0.

pub(crate) use crate::figure::{Bars, HeatMap};
use crate::figure::{Curves, Drawing, Line, Picture};

use crate::axis::{Axis, Unit};
use crate::frame::Figure;
use crate::mark::Mark;
use crate::palette::{Colour, look, tint};
use crate::{Format, PlotError, bars, heat_map};

/// Most series, which is how many can be told apart.
const MOST_SERIES: usize = 14;
/// Values above this are refused.
const LARGEST: f64 = 1e12;
/// White in the colour of what is published.
const PUBLISHED_TINT: f64 = 0.55;
/// Width and height of the plot of curves, in figure pixels, and width of a line.
const PLOT: (f64, f64) = (560.0, 340.0);
const LINE_WIDTH: f64 = 1.5;

/// Draws a picture as the bytes of a file in `format`.
///
/// # Errors
///
/// [`PlotError::NoPoints`] without a bar or point; [`PlotError::BadPoint`] for a value that
/// is not finite or below 0; [`PlotError::TooMany`] for more series than can be told apart;
/// [`PlotError::Draw`] and [`PlotError::Encode`] where a library refuses.
pub fn picture(picture: &Picture, format: Format) -> Result<Vec<u8>, PlotError> {
    let figure = match &picture.drawing {
        Drawing::GroupedBars(shown) => bars::figure(shown, false)?,
        Drawing::StackedBars(shown) => bars::figure(shown, true)?,
        Drawing::Curves(shown) => curves(shown)?,
        Drawing::HeatMap(shown) => heat_map::figure(shown)?,
    };
    figure.titled(&picture.title, &picture.subtitle).draw(format)
}

/// Lines over numbers; published points are hollow markers beside them.
fn curves(shown: &Curves) -> Result<Figure, PlotError> {
    check_series(shown.lines.len())?;
    let points = || shown.lines.iter().flat_map(|line| line.points.iter().map(move |&point| (line, point)));
    for (line, (x, y)) in points() {
        check(&line.name, x)?;
        check(&line.name, y)?;
    }
    let least = points().map(|(_, (x, _))| x).fold(f64::INFINITY, f64::min);
    let most = points().map(|(_, (x, _))| x).fold(0.0, f64::max);
    // One place alone stands in the middle.
    let ends = if least < most { (least, most) } else { (most - 1.0, most + 1.0) };
    let looks = looks(shown.lines.iter().map(|line| line.is_published));
    let mut lines: Vec<(&Line, usize)> = shown.lines.iter().zip(looks).collect();
    // Points lie over lines.
    lines.sort_by_key(|(line, _)| line.is_published);
    let x = Axis::linear(&shown.x, ends, Unit::Number);
    let y = Axis::from_zero(&shown.y, points().map(|(_, (_, y))| y));
    let mut figure = Figure::new(PLOT, x, y);
    for (line, index) in lines {
        let (colour, shape) = look(index);
        let published = Mark::Markers { shape, is_filled: false };
        let mark = if line.is_published { published } else { Mark::Line { width: LINE_WIDTH } };
        figure.add(&line.name, mark, colour, line.points.clone());
    }
    Ok(figure)
}

/// The looks of series, of which some are published: the same for what is published and
/// for ours behind it.
fn looks(are_published: impl Iterator<Item = bool>) -> Vec<usize> {
    let mut ours = 0;
    let look = |is_published: bool| {
        let look = ours;
        ours += usize::from(!is_published);
        look
    };
    are_published.map(look).collect()
}

/// The colours of series, of which some are published.
pub(crate) fn colours(are_published: impl Iterator<Item = bool> + Clone) -> Vec<Colour> {
    let looks = looks(are_published.clone());
    let colour = |(index, is_published): (usize, bool)| {
        let colour = look(index).0;
        if is_published { tint(colour, PUBLISHED_TINT) } else { colour }
    };
    looks.into_iter().zip(are_published).map(colour).collect()
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

/// Refuses more series than can be told apart.
pub(crate) fn check_series(count: usize) -> Result<(), PlotError> {
    if count > MOST_SERIES {
        return Err(PlotError::TooMany { what: "series", count, limit: MOST_SERIES });
    }
    Ok(())
}

#[cfg(test)]
mod tests;

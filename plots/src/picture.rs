//! Figures of published numbers beside ours: bars, lines and shaded cells.
//!
//! Responsible for: which drawing a picture asks for, and what is refused. Not for: the
//! numbers.
//! Invariants: what is published and what is ours of the same thing have one colour, the
//! published paler; heights start at 0.

mod bars;
mod choices;
mod curves;
mod heat_map;
mod shares;

use coexec_sim::published::{Drawing, Picture};
use plotters::style::RGBColor;

use crate::marker::Look;
use crate::palette::tint;
use crate::scale::Axis;
use crate::sheet::render;
use crate::{Format, PlotError};

/// Most series, which is how many can be told apart.
const MOST_SERIES: usize = 14;
/// Values above this are refused.
const LARGEST: f64 = 1e12;
/// White in the colour of what is published.
const PUBLISHED_TINT: f64 = 0.55;
/// Empty part of the heights above the highest.
const HEADROOM: f64 = 1.05;
/// Most ticks of an axis with numbers.
const MOST_TICKS: usize = 8;

/// Draws a picture as the bytes of a file in `format`.
///
/// # Errors
///
/// [`PlotError::NoPoints`] without a bar or point; [`PlotError::BadPoint`] for a value that
/// is not finite or below 0; [`PlotError::TooMany`] for more series than can be told apart;
/// [`PlotError::Draw`] and [`PlotError::Encode`] where a library refuses.
pub fn picture(picture: &Picture, format: Format) -> Result<Vec<u8>, PlotError> {
    match &picture.drawing {
        Drawing::GroupedBars(bars) => render(&bars::lay_out(picture, bars, bars::Kind::Grouped)?, format),
        Drawing::StackedBars(bars) => render(&bars::lay_out(picture, bars, bars::Kind::Stacked)?, format),
        Drawing::Curves(curves) => render(&curves::lay_out(picture, curves)?, format),
        Drawing::Choices(choices) => render(&choices::lay_out(picture, choices)?, format),
        Drawing::HeatMap(map) => render(&heat_map::lay_out(picture, map)?, format),
        Drawing::Shares(map) => render(&shares::lay_out(picture, map)?, format),
    }
}

/// The looks of series, of which some are published: the same for what is published and
/// for ours behind it.
fn looks(are_published: impl Iterator<Item = bool>) -> Vec<Look> {
    let mut ours = 0;
    let look = |is_published: bool| {
        let look = Look::at(ours);
        ours += usize::from(!is_published);
        look
    };
    are_published.map(look).collect()
}

/// The colour of a series.
fn colour(look: Look, is_published: bool) -> RGBColor {
    if is_published { tint(look.colour, PUBLISHED_TINT) } else { look.colour }
}

/// The axis of heights, or of widths, from 0 on.
fn heights(title: &str, highest: f64) -> Axis {
    let high = if highest > 0.0 { highest * HEADROOM } else { 1.0 };
    Axis::linear(title, (0.0, high), MOST_TICKS, "")
}

fn check(what: &str, value: f64) -> Result<(), PlotError> {
    if (0.0..=LARGEST).contains(&value) {
        return Ok(());
    }
    Err(PlotError::BadPoint {
        what: what.to_owned(),
        found: format!("the value is {value}"),
        expected: format!("a number from 0 to {LARGEST}"),
    })
}

fn check_series(count: usize) -> Result<(), PlotError> {
    if count > MOST_SERIES {
        return Err(PlotError::TooMany { what: "series", count, limit: MOST_SERIES });
    }
    Ok(())
}

#[cfg(test)]
mod tests;

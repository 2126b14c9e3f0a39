//! The part of a figure that has axes: ground, grid, ticks and titles.
//!
//! Responsible for: placing values and drawing what stands on and beside the
//! axes. Not for: the ranges and ticks ([`crate::scale`]) or what is shown.

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use crate::area::{Area, Place};
use crate::font;
use crate::palette::{GRID, INK, MINOR_GRID};
use crate::scale::{Axis, Tick};
use crate::sheet::{Drawn, Plane, steps, text};

// Lengths are in figure pixels, text sizes in pixels an em.

pub(crate) const TEXT_SIZE: f64 = 12.0;
/// Below the plot: tick labels and axis title.
pub(crate) const LOWER_LABELS: f64 = 44.0;
const TICK_LENGTH: f64 = 5.0;
const MINOR_TICK_LENGTH: f64 = 3.0;
/// From the axis to the middle of its tick labels, downwards, and to their end,
/// leftwards.
const TICK_LABEL_GAP: f64 = 15.0;
const TICK_LABEL_SIDE_GAP: f64 = 8.0;
/// From the axis to the middle of its title, downwards.
const TITLE_GAP: f64 = 35.0;
/// From the tick labels leftwards to the middle of the title, and from there to
/// the edge.
const SIDE_TITLE: (f64, f64) = (16.0, 8.0);

/// Room that the tick labels and the title of a vertical axis take, left of it.
pub(crate) fn left_room(axis: &Axis) -> f64 {
    title_distance(axis) + SIDE_TITLE.1
}

/// From a vertical axis leftwards to the middle of its title.
fn title_distance(axis: &Axis) -> f64 {
    let widest = axis.ticks.iter().map(|tick| font::width(&font::drawable(&tick.label), TEXT_SIZE));
    TICK_LABEL_SIDE_GAP + widest.fold(0.0, f64::max) + SIDE_TITLE.0
}

/// A plot with its axes.
pub(crate) struct Panel {
    pub(crate) area: Area,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
}

impl Panel {
    /// The place of a pair of values, which may lie outside of the plot.
    pub(crate) fn place(&self, x: f64, y: f64) -> Place {
        (self.column(self.x.part(x)), self.row(self.y.part(y)))
    }

    /// The place of a pair of values, moved to the edge if it lies outside.
    pub(crate) fn place_within(&self, x: f64, y: f64) -> Place {
        (self.column(self.x.part(x).clamp(0.0, 1.0)), self.row(self.y.part(y).clamp(0.0, 1.0)))
    }

    fn column(&self, part: f64) -> f64 {
        self.area.left + part * self.area.width()
    }

    fn row(&self, part: f64) -> f64 {
        self.area.bottom - part * self.area.height()
    }

    /// Draws the lines that guide the eye, under what is shown.
    pub(crate) fn draw_grid<DB: DrawingBackend>(&self, sheet: &Plane<DB>) -> Drawn<DB> {
        let [(left, top), (right, bottom)] = self.area.corners();
        // Lines of less weight lie under all the others.
        for (major, colour) in [(false, MINOR_GRID), (true, GRID)] {
            let of_weight = |tick: &&Tick| tick.label.is_empty() != major;
            for tick in self.x.ticks.iter().filter(of_weight) {
                let x = self.column(tick.part);
                sheet.draw(&PathElement::new([(x, top), (x, bottom)], colour.stroke_width(steps(1.0))))?;
            }
            for tick in self.y.ticks.iter().filter(of_weight) {
                let y = self.row(tick.part);
                sheet.draw(&PathElement::new([(left, y), (right, y)], colour.stroke_width(steps(1.0))))?;
            }
        }
        Ok(())
    }

    /// Draws axes, ticks and titles, over what is shown.
    pub(crate) fn draw_axes<DB: DrawingBackend>(&self, sheet: &Plane<DB>) -> Drawn<DB> {
        let [(left, top), (right, bottom)] = self.area.corners();
        let line = |from, to| PathElement::new([from, to], INK.stroke_width(steps(1.0)));
        sheet.draw(&line((left, bottom), (right, bottom)))?;
        sheet.draw(&line((left, bottom), (left, top)))?;
        let length = |tick: &Tick| if tick.label.is_empty() { MINOR_TICK_LENGTH } else { TICK_LENGTH };
        for tick in &self.x.ticks {
            let x = self.column(tick.part);
            sheet.draw(&line((x, bottom), (x, bottom + length(tick))))?;
            sheet.draw(&text(&tick.label, (x, bottom + TICK_LABEL_GAP), TEXT_SIZE, INK, HPos::Center))?;
        }
        for tick in &self.y.ticks {
            let y = self.row(tick.part);
            sheet.draw(&line((left - length(tick), y), (left, y)))?;
            sheet.draw(&text(&tick.label, (left - TICK_LABEL_SIDE_GAP, y), TEXT_SIZE, INK, HPos::Right))?;
        }
        let middle = self.area.middle();
        let title = font::fit(&self.x.title, TEXT_SIZE, self.area.width()).unwrap_or_default();
        sheet.draw(&text(&title, (middle.0, bottom + TITLE_GAP), TEXT_SIZE, INK, HPos::Center))?;
        let title = font::fit(&self.y.title, TEXT_SIZE, self.area.height()).unwrap_or_default();
        let style = font::style(TEXT_SIZE, INK, HPos::Center).transform(FontTransform::Rotate270);
        sheet.draw(&Text::new(title, (left - title_distance(&self.y), middle.1), style))
    }
}

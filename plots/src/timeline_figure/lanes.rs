//! Inside a lane: slices, their nesting and their labels.

use coexec_sim::timeline::Activity;
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::{Lane, TICK_SIZE, TimeAxis};
use crate::font;
use crate::nesting::Nested;
use crate::palette::{HATCH, Meaning, ink_on, tint};
use crate::sheet::{Drawn, Plane, steps, text};

/// Upper left and lower right corner: time or figure pixels, and figure pixels.
type Corners = [(f64, f64); 2];

/// Height of a slice that holds no other and is held by none.
const BASE_HEIGHT: f64 = 24.0;
/// What a slice that holds others shows of itself above them, and below.
const HEADER: f64 = 16.0;
const FOOTER: f64 = 3.0;
/// Between a label and the edge of its slice.
const LABEL_PADDING: f64 = 4.0;
/// Least width of a slice, one pixel of a PNG, so that none vanishes.
const THINNEST: f64 = 0.5;
/// Taken from the right of a slice to part it from the next.
const PARTING: f64 = 1.0;
/// Width from which slices are parted.
const PARTED_FROM: f64 = 3.0;
const HATCH_SPACING: f64 = 6.0;
/// White in the colour of a slice that holds others, at the outermost level;
/// each level down has this much less.
const HOLDER_TINT: f64 = 0.65;
const HOLDER_TINT_STEP: f64 = 0.2;
const LEAST_HOLDER_TINT: f64 = 0.25;

/// Height of a lane whose deepest slices are held by `levels` others.
pub(super) fn height(levels: usize) -> f64 {
    BASE_HEIGHT + levels as f64 * (HEADER + FOOTER)
}

/// Draws the slices of a lane on a plane of time and figure pixels.
pub(super) fn draw<DB: DrawingBackend>(plane: &Plane<DB>, lane: &Lane<'_>, time: TimeAxis) -> Drawn<DB> {
    lane.slices.iter().try_for_each(|slice| draw_slice(plane, lane, slice, time))
}

fn draw_slice<DB: DrawingBackend>(
    plane: &Plane<DB>,
    lane: &Lane<'_>,
    nested: &Nested<'_>,
    time: TimeAxis,
) -> Drawn<DB> {
    let meaning = Meaning::of(lane.track.kind, nested.slice.activity);
    let corners = place(lane, nested, time);
    let [(left, top), (right, bottom)] = corners;
    let white = if nested.holds {
        (HOLDER_TINT - HOLDER_TINT_STEP * nested.level as f64).max(LEAST_HOLDER_TINT)
    } else {
        0.0
    };
    let ground = tint(meaning.colour(), white);
    fill(plane, corners, time.pixel, meaning, ground)?;

    let room = (right - left) / time.pixel - 2.0 * LABEL_PADDING;
    let Some(label) = font::fit(&nested.slice.name, TICK_SIZE, room) else { return Ok(()) };
    let row = if nested.holds { top + HEADER / 2.0 } else { f64::midpoint(top, bottom) };
    let middle = f64::midpoint(left, right);
    if nested.slice.activity == Activity::Wait {
        // A quiet patch in the hatching keeps the label legible.
        let half_width = f64::midpoint(font::width(&label, TICK_SIZE), LABEL_PADDING) * time.pixel;
        let half_height = (TICK_SIZE * 0.7).min((bottom - top) / 2.0);
        let patch = [(middle - half_width, row - half_height), (middle + half_width, row + half_height)];
        plane.draw(&Rectangle::new(patch, ground.filled()))?;
    }
    plane.draw(&text(&label, (middle, row), TICK_SIZE, ink_on(ground), HPos::Center))
}

/// Where a slice stands in its lane.
fn place(lane: &Lane<'_>, nested: &Nested<'_>, time: TimeAxis) -> Corners {
    let thinnest = THINNEST * time.pixel;
    let left = time.value(nested.start).min(time.end - thinnest);
    let mut right = time.value(nested.end);
    if right - left > PARTED_FROM * time.pixel {
        right -= PARTING * time.pixel;
    }
    let level = nested.level as f64;
    [(left, lane.top + level * HEADER), (right.max(left + thinnest), lane.bottom - level * FOOTER)]
}

/// Fills an area with the colour of a meaning, or a tint of it. `pixel` is the
/// width of a figure pixel on the plane.
pub(super) fn fill<DB: DrawingBackend>(
    plane: &Plane<DB>,
    corners: Corners,
    pixel: f64,
    meaning: Meaning,
    colour: RGBColor,
) -> Drawn<DB> {
    plane.draw(&Rectangle::new(corners, colour.filled()))?;
    if meaning == Meaning::Wait {
        for line in hatch(corners, pixel) {
            plane.draw(&PathElement::new(line, HATCH.stroke_width(steps(1.0))))?;
        }
    }
    Ok(())
}

/// Lines that rise to the right, clipped by hand to the area: those that stand
/// [`HATCH_SPACING`] apart along its edge.
fn hatch([(left, top), (right, bottom)]: Corners, pixel: f64) -> Vec<Corners> {
    let (left, right) = (left / pixel, right / pixel);
    // A line holds the points of equal x + y. Anchored at the origin, the
    // hatching of neighbours is one pattern.
    let mut sum = ((left + top) / HATCH_SPACING).ceil() * HATCH_SPACING;
    let mut lines = Vec::new();
    while sum < right + bottom {
        let (from, to) = ((sum - bottom).max(left), (sum - top).min(right));
        lines.push([(from * pixel, sum - from), (to * pixel, sum - to)]);
        sum += HATCH_SPACING;
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hatching_stays_inside_its_area() {
        for (width, height) in [(100.0, 20.0), (3.0, 20.0), (0.4, 7.0)] {
            let (left, top, right, bottom) = (17.3, 9.1, 17.3 + width, 9.1 + height);
            for (x, y) in hatch([(left, top), (right, bottom)], 0.25).into_iter().flatten() {
                assert!(
                    (left - 1e-9..=right + 1e-9).contains(&x) && (top - 1e-9..=bottom + 1e-9).contains(&y)
                );
            }
        }
    }
}

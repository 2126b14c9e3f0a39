//! Inside a lane: slices, their nesting and their labels.

use coexec_sim::timeline::Activity;

use super::{Lane, NAME_GAP, NAME_SIZE, TICK_SIZE, TimeAxis, WIDEST_NAMES};
use crate::canvas::{Align, Area, Drawing, at};
use crate::font;
use crate::nesting::Nested;
use crate::palette::{HATCH, INK, Meaning};

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
const PARTING: f64 = 0.5;
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

/// Draws the slices of a lane, and its name.
pub(super) fn draw(drawing: &mut Drawing, lane: &Lane<'_>, time: TimeAxis) {
    let name = font::fit(&lane.track.name, NAME_SIZE, WIDEST_NAMES).unwrap_or_default();
    let name_at = at(lane.area.left - NAME_GAP, lane.area.middle().y);
    drawing.text(&name, name_at, NAME_SIZE, INK, Align::Right);
    for slice in &lane.slices {
        draw_slice(drawing, lane, slice, time);
    }
}

fn draw_slice(drawing: &mut Drawing, lane: &Lane<'_>, nested: &Nested<'_>, time: TimeAxis) {
    let meaning = Meaning::of(lane.track.kind, nested.slice.activity);
    let area = place(lane, nested, time);
    let tint = if nested.holds {
        (HOLDER_TINT - HOLDER_TINT_STEP * nested.level as f64).max(LEAST_HOLDER_TINT)
    } else {
        0.0
    };
    fill(drawing, area, meaning, tint);

    let room = area.width() - 2.0 * LABEL_PADDING;
    let Some(label) = font::fit(&nested.slice.name, TICK_SIZE, room) else { return };
    let middle = if nested.holds { at(area.middle().x, area.top + HEADER / 2.0) } else { area.middle() };
    let ground = meaning.colour().tint(tint);
    if nested.slice.activity == Activity::Wait {
        // A quiet patch in the hatching keeps the label legible.
        let half = font::width(&label, TICK_SIZE) / 2.0 + LABEL_PADDING / 2.0;
        let patch = Area {
            left: middle.x - half,
            top: (middle.y - TICK_SIZE * 0.7).max(area.top),
            right: middle.x + half,
            bottom: (middle.y + TICK_SIZE * 0.7).min(area.bottom),
        };
        drawing.rectangle(patch, ground);
    }
    drawing.text(&label, middle, TICK_SIZE, ground.ink(), Align::Center);
}

/// Where a slice stands in its lane.
fn place(lane: &Lane<'_>, nested: &Nested<'_>, time: TimeAxis) -> Area {
    let snap = |x: f64| (x * 2.0).round() / 2.0;
    let left = snap(time.x(nested.start)).min(time.right - THINNEST);
    let mut right = snap(time.x(nested.end));
    if right - left > PARTED_FROM {
        right -= PARTING;
    }
    let level = nested.level as f64;
    Area {
        left,
        top: lane.area.top + level * HEADER,
        right: right.max(left + THINNEST),
        bottom: lane.area.bottom - level * FOOTER,
    }
}

/// Fills an area with the colour of a meaning, `tint` of it white.
pub(super) fn fill(drawing: &mut Drawing, area: Area, meaning: Meaning, tint: f64) {
    drawing.rectangle(area, meaning.colour().tint(tint));
    if meaning == Meaning::Wait {
        drawing.hatch(area, HATCH_SPACING, HATCH, 1.0);
    }
}

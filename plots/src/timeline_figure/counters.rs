//! A counter below the lanes: a step area over the same time axis.

use coexec_sim::timeline::Counter;
use coexec_sim::units::Picos;

use super::{NAME_GAP, NAME_SIZE, TICK_SIZE, TimeAxis, WIDEST_NAMES};
use crate::axis::Ticks;
use crate::canvas::{Align, Area, Drawing, Point, at};
use crate::font;
use crate::palette::{BLUE, GRID, INK, MUTED};

/// Most intervals between the values that carry a line.
const MOST_INTERVALS: u32 = 4;
/// White in the fill under the steps.
const FILL_TINT: f64 = 0.75;
const STEP_WIDTH: f64 = 1.5;

/// Draws `counter` into `panel`.
pub(super) fn draw(drawing: &mut Drawing, counter: &Counter, panel: Area, time: TimeAxis) {
    let samples: Vec<(Picos, f64)> =
        counter.samples.iter().copied().filter(|(at, value)| *at <= time.end && value.is_finite()).collect();
    let greatest = samples.iter().map(|&(_, value)| value).fold(0.0, f64::max);
    let ticks = Ticks::covering(greatest, MOST_INTERVALS);
    let top_value = ticks.values.last().copied().unwrap_or(1.0);
    let y = |value: f64| panel.bottom - (value.max(0.0) / top_value) * panel.height();

    for &value in &ticks.values {
        drawing.line(vec![at(panel.left, y(value)), at(panel.right, y(value))], GRID, 0.5);
    }
    if let Some(run) = steps(&samples, panel, time, y) {
        let mut corners = vec![at(run[0].x, panel.bottom)];
        corners.extend(run.iter().copied());
        corners.push(at(run[run.len() - 1].x, panel.bottom));
        drawing.polygon(corners, BLUE.tint(FILL_TINT));
        drawing.line(run, BLUE, STEP_WIDTH);
    }
    drawing.line(vec![at(panel.left, panel.bottom), at(panel.right, panel.bottom)], MUTED, 0.5);

    let names_right = panel.left - NAME_GAP;
    for value in [0.0, top_value] {
        drawing.text(&ticks.label(value), at(panel.left - 4.0, y(value)), TICK_SIZE, MUTED, Align::Right);
    }
    let name = font::fit(&counter.name, NAME_SIZE, WIDEST_NAMES).unwrap_or_default();
    let middle = panel.middle().y;
    drawing.text(&name, at(names_right, middle - NAME_SIZE * 0.6), NAME_SIZE, INK, Align::Right);
    drawing.text(counter.unit, at(names_right, middle + NAME_SIZE * 0.6), TICK_SIZE, MUTED, Align::Right);
}

/// The outline of the steps from the first sample to the end of the run; no
/// outline without a sample.
fn steps(
    samples: &[(Picos, f64)],
    panel: Area,
    time: TimeAxis,
    y: impl Fn(f64) -> f64,
) -> Option<Vec<Point>> {
    let &(_, first) = samples.first()?;
    let mut outline: Vec<Point> = Vec::with_capacity(2 * samples.len() + 1);
    let mut level = y(first);
    for &(when, value) in samples {
        let x = time.x(when).max(outline.last().map_or(panel.left, |point| point.x));
        if !outline.is_empty() {
            outline.push(at(x, level));
        }
        level = y(value);
        outline.push(at(x, level));
    }
    outline.push(at(panel.right, level));
    Some(outline)
}

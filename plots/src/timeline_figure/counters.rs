//! A counter below the lanes: a step area over the same time axis.

use coexec_sim::timeline::Counter;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::{COUNTER_HEIGHT, Layout, NAME_GAP, NAME_SIZE, Panel, RIGHT, TICK_SIZE, WIDEST_NAMES};
use crate::axis::tick_labels;
use crate::font;
use crate::palette::{BLUE, GRID, INK, MUTED, tint};
use crate::sheet::{Drawn, Figure, sheet, steps, text};

const MOST_TICKS: usize = 4;
const TICK_LENGTH: f64 = 3.0;
/// Empty part of the value axis beyond the greatest value.
const HEADROOM: f64 = 0.1;
/// Values beyond, which no counter means, are left out: looking for the ticks of
/// an endless axis, plotters would not come back.
const MOST_VALUE: f64 = 1e15;
/// White in the fill under the steps.
const FILL_TINT: f64 = 0.75;
const STEP_WIDTH: f64 = 1.5;

/// Draws a counter as a chart of its own, with its values on the right.
pub(super) fn draw<DB: DrawingBackend>(
    root: &DrawingArea<DB, Shift>,
    panel: &Panel<'_>,
    layout: &Layout<'_>,
) -> Drawn<DB> {
    let (_, height) = layout.size();
    let run = outline(panel.counter, layout);
    let greatest = run.iter().map(|&(_, value)| value).fold(0.0, f64::max);
    let top_value = if greatest > 0.0 { greatest * (1.0 + HEADROOM) } else { 1.0 };
    let mut chart = ChartBuilder::on(root)
        .margin_left(steps(layout.left))
        .margin_top(steps(panel.top))
        .margin_bottom(steps(f64::from(height) - panel.top - COUNTER_HEIGHT))
        .right_y_label_area_size(steps(RIGHT))
        .build_cartesian_2d(0.0..layout.time.end, 0.0..top_value)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_labels(0)
        .y_labels(MOST_TICKS)
        .y_label_formatter(&tick_labels((0.0, top_value), MOST_TICKS))
        .y_max_light_lines(0)
        .bold_line_style(GRID.stroke_width(steps(0.5)))
        .axis_style(MUTED.stroke_width(steps(0.5)))
        .set_all_tick_mark_size(steps(TICK_LENGTH))
        .label_style(font::style(TICK_SIZE, MUTED, HPos::Left))
        .draw()?;
    let area = AreaSeries::new(run, 0.0, tint(BLUE, FILL_TINT).filled());
    chart.draw_series(area.border_style(BLUE.stroke_width(steps(STEP_WIDTH))))?;

    let sheet = sheet(root);
    let (right, middle) = (layout.left - NAME_GAP, panel.top + COUNTER_HEIGHT / 2.0);
    let name = font::fit(&panel.counter.name, NAME_SIZE, WIDEST_NAMES).unwrap_or_default();
    sheet.draw(&text(&name, (right, middle - NAME_SIZE * 0.6), NAME_SIZE, INK, HPos::Right))?;
    sheet.draw(&text(panel.counter.unit, (right, middle + NAME_SIZE * 0.6), TICK_SIZE, MUTED, HPos::Right))
}

/// The steps from the first sample to the end of the run; nothing without a
/// sample.
fn outline(counter: &Counter, layout: &Layout<'_>) -> Vec<(f64, f64)> {
    let time = layout.time;
    let mut outline: Vec<(f64, f64)> = Vec::with_capacity(2 * counter.samples.len() + 1);
    for &(when, value) in &counter.samples {
        if when > layout.run.end || !(f64::MIN..=MOST_VALUE).contains(&value) {
            continue;
        }
        let before = outline.last().copied();
        let when = time.value(when).max(before.map_or(0.0, |(when, _)| when));
        outline.extend(before.map(|(_, level)| (when, level)));
        outline.push((when, value.max(0.0)));
    }
    outline.extend(outline.last().map(|&(_, level)| (time.end, level)));
    outline
}

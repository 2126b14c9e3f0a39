//! Lines over numbers, with published points beside them.

use coexec_sim::published::{Curves, Line, Picture};
use plotters::coord::Shift;
use plotters::prelude::*;

use super::{MOST_TICKS, check, check_series, heights, looks};
use crate::legend::{Legend, Row, Sample};
use crate::marker::{Look, Pen};
use crate::page::Page;
use crate::panel::{Panel, left_room};
use crate::scale::Axis;
use crate::sheet::{Drawn, Figure, sheet};
use crate::{PlotError, line};

/// Width and height of the plot, in figure pixels.
const PLOT: (f64, f64) = (560.0, 340.0);
const LINE_WIDTH: f64 = 1.5;

pub(super) struct Layout<'a> {
    page: Page,
    pub(super) panel: Panel,
    lines: Vec<(&'a Line, Look)>,
}

pub(super) fn lay_out<'a>(picture: &Picture, shown: &'a Curves) -> Result<Layout<'a>, PlotError> {
    check_series(shown.lines.len())?;
    let points = || shown.lines.iter().flat_map(|line| line.points.iter().map(move |&point| (line, point)));
    for (line, (x, y)) in points() {
        check(&line.name, x)?;
        check(&line.name, y)?;
    }
    let least = points().map(|(_, (x, _))| x).fold(f64::INFINITY, f64::min);
    let most = points().map(|(_, (x, _))| x).fold(0.0, f64::max);
    if points().next().is_none() {
        return Err(PlotError::NoPoints { title: picture.title.clone() });
    }
    // One place alone stands in the middle.
    let (least, most) = if least < most { (least, most) } else { (least - 1.0, most + 1.0) };
    let highest = points().map(|(_, (_, y))| y).fold(0.0, f64::max);
    let looks = looks(shown.lines.iter().map(|line| line.is_published));
    let lines: Vec<(&Line, Look)> = shown.lines.iter().zip(looks).collect();
    let key = |(line, look): &(&Line, Look)| {
        let sample = if line.is_published {
            Sample::Marker { look: *look, filled: false }
        } else {
            Sample::Line(look.colour, LINE_WIDTH)
        };
        Row::key(sample, &line.name)
    };
    let y = heights(&shown.y, highest);
    let page = Page {
        title: picture.title.clone(),
        subtitle: picture.subtitle.clone(),
        legend: Legend { keys: lines.iter().map(key).collect(), ..Legend::default() },
        left_room: left_room(&y),
        plot_size: PLOT,
    };
    let x = Axis::linear(&shown.x, (least, most), MOST_TICKS, "");
    Ok(Layout { panel: Panel { area: page.plot(), x, y }, page, lines })
}

impl Figure for Layout<'_> {
    fn size(&self) -> (u32, u32) {
        self.page.size()
    }

    fn draw<DB: DrawingBackend>(&self, root: &DrawingArea<DB, Shift>) -> Drawn<DB> {
        let sheet = sheet(root);
        self.page.draw(&sheet)?;
        self.panel.draw_grid(&sheet)?;
        self.panel.draw_axes(&sheet)?;
        for (shown, look) in &self.lines {
            let places = shown.points.iter().map(|&(x, y)| self.panel.place(x, y));
            if shown.is_published {
                for place in places {
                    Pen::LEGEND.draw(&sheet, place, *look, false)?;
                }
            } else {
                line::draw(&sheet, places, look.colour, LINE_WIDTH)?;
            }
        }
        Ok(())
    }
}

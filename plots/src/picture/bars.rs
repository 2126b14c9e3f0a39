//! Bars over categories, side by side or on top of each other.

use coexec_sim::published::{Bars, Picture};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::{check, check_series, colour, heights, looks};
use crate::PlotError;
use crate::area::Area;
use crate::font;
use crate::legend::{Legend, Row, Sample};
use crate::page::Page;
use crate::palette::INK;
use crate::panel::{Panel, TEXT_SIZE, left_room};
use crate::scale::Axis;
use crate::sheet::{Drawn, Figure, sheet, text};

// Lengths are in figure pixels.

const HEIGHT: f64 = 320.0;
const LEAST_WIDTH: f64 = 360.0;
const BAR_WIDTH: f64 = 14.0;
/// Between the bars of two categories, and between their names.
const CATEGORY_GAP: f64 = 14.0;
/// From the axis to the middle of the names of categories, downwards.
const NAME_GAP: f64 = 15.0;

/// How the bars of a category stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Side by side.
    Grouped,
    /// On top of each other.
    Stacked,
}

/// One upright rectangle: its category, and where in it and how high it stands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Bar {
    colour: RGBColor,
    /// From the left end of the category to the bar's, in categories.
    from: f64,
    to: f64,
    low: f64,
    high: f64,
}

pub(super) struct Layout<'a> {
    page: Page,
    pub(super) panel: Panel,
    categories: &'a [String],
    pub(super) bars: Vec<Bar>,
}

impl Bar {
    /// Where it stands.
    pub(super) fn area(&self, panel: &Panel) -> Area {
        let ((left, bottom), (right, top)) =
            (panel.place(self.from, self.low), panel.place(self.to, self.high));
        Area { left, top, right, bottom }
    }
}

pub(super) fn lay_out<'a>(picture: &Picture, shown: &'a Bars, kind: Kind) -> Result<Layout<'a>, PlotError> {
    check_series(shown.series.len())?;
    let values = shown
        .series
        .iter()
        .flat_map(|series| series.values.iter().flatten().map(move |value| (series, *value)));
    for (series, value) in values.clone() {
        check(&series.name, value)?;
    }
    if values.clone().next().is_none() || shown.categories.is_empty() {
        return Err(PlotError::NoPoints { title: picture.title.clone() });
    }
    let looks = looks(shown.series.iter().map(|series| series.is_published));
    let colours: Vec<RGBColor> =
        shown.series.iter().zip(looks).map(|(series, look)| colour(look, series.is_published)).collect();
    let width = category_width(shown, kind);
    let bars = bars(shown, kind, &colours, width);
    let highest = bars.iter().map(|bar| bar.high).fold(0.0, f64::max);
    let rows = shown.series.iter().zip(&colours);
    let legend = Legend {
        keys: rows.map(|(series, &colour)| Row::key(Sample::Band(colour), &series.name)).collect(),
        ..Legend::default()
    };
    let count = shown.categories.len() as f64;
    let y = heights(&shown.y, highest);
    let mut x = Axis::linear("", (0.0, count), 1, "");
    x.ticks.clear();
    let page = Page {
        title: picture.title.clone(),
        subtitle: picture.subtitle.clone(),
        legend,
        left_room: left_room(&y),
        plot_size: ((width * count).max(LEAST_WIDTH), HEIGHT),
    };
    Ok(Layout { panel: Panel { area: page.plot(), x, y }, page, categories: &shown.categories, bars })
}

/// Width of a category: its bars and its name fit.
fn category_width(shown: &Bars, kind: Kind) -> f64 {
    let bars = if kind == Kind::Grouped { shown.series.len() as f64 } else { 1.0 };
    let names = shown.categories.iter().map(|name| font::width(&font::drawable(name), TEXT_SIZE));
    names.fold(bars * BAR_WIDTH, f64::max) + CATEGORY_GAP
}

/// The bars of all categories.
fn bars(shown: &Bars, kind: Kind, colours: &[RGBColor], width: f64) -> Vec<Bar> {
    let thickness = BAR_WIDTH / width;
    let count = if kind == Kind::Grouped { shown.series.len() as f64 } else { 1.0 };
    let margin = (1.0 - count * thickness) / 2.0;
    let mut bars = Vec::new();
    for category in 0..shown.categories.len() {
        let mut low = 0.0;
        for (index, (series, &colour)) in shown.series.iter().zip(colours).enumerate() {
            let Some(value) = series.values.get(category).copied().flatten() else { continue };
            let place = if kind == Kind::Grouped { index as f64 } else { 0.0 };
            let from = category as f64 + margin + place * thickness;
            bars.push(Bar { colour, from, to: from + thickness, low, high: low + value });
            low += if kind == Kind::Stacked { value } else { 0.0 };
        }
    }
    bars
}

impl Figure for Layout<'_> {
    fn size(&self) -> (u32, u32) {
        self.page.size()
    }

    fn draw<DB: DrawingBackend>(&self, root: &DrawingArea<DB, Shift>) -> Drawn<DB> {
        let sheet = sheet(root);
        self.page.draw(&sheet)?;
        self.panel.draw_grid(&sheet)?;
        for bar in &self.bars {
            sheet.draw(&Rectangle::new(bar.area(&self.panel).corners(), bar.colour.filled()))?;
        }
        self.panel.draw_axes(&sheet)?;
        for (index, name) in self.categories.iter().enumerate() {
            let (middle, bottom) = self.panel.place(index as f64 + 0.5, 0.0);
            sheet.draw(&text(name, (middle, bottom + NAME_GAP), TEXT_SIZE, INK, HPos::Center))?;
        }
        Ok(())
    }
}

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
/// From the axis to the middle of the names of categories, downwards, and between lines.
const NAME_GAP: f64 = 15.0;
const LINE_HEIGHT: f64 = 14.0;
/// Width of a plot from which names of categories are broken in lines.
const WIDE: f64 = 700.0;
/// Between the two parts of a name whose second one several neighbours share.
const PART: &str = ", ";

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

pub(super) struct Layout {
    page: Page,
    pub(super) panel: Panel,
    names: Vec<Name>,
    pub(super) bars: Vec<Bar>,
}

/// Text below the axis.
#[derive(Clone, Debug, PartialEq)]
struct Name {
    text: String,
    /// Its middle, in categories.
    middle: f64,
    /// Line below the axis, from 0.
    line: usize,
    /// Categories it is of.
    spanned: usize,
}

impl Bar {
    /// Where it stands.
    pub(super) fn area(&self, panel: &Panel) -> Area {
        let ((left, bottom), (right, top)) =
            (panel.place(self.from, self.low), panel.place(self.to, self.high));
        Area { left, top, right, bottom }
    }
}

pub(super) fn lay_out(picture: &Picture, shown: &Bars, kind: Kind) -> Result<Layout, PlotError> {
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
    let count = shown.categories.len() as f64;
    let mut names: Vec<Name> = whole_names(&shown.categories);
    let mut width = category_width(shown, kind, &names);
    if width * count > WIDE {
        names = broken_names(&shown.categories);
        width = category_width(shown, kind, &names);
    }
    let bars = bars(shown, kind, &colours, width);
    let highest = bars.iter().map(|bar| bar.high).fold(0.0, f64::max);
    let rows = shown.series.iter().zip(&colours);
    let legend = Legend {
        keys: rows.map(|(series, &colour)| Row::key(Sample::Band(colour), &series.name)).collect(),
        ..Legend::default()
    };
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
    Ok(Layout { panel: Panel { area: page.plot(), x, y }, page, names, bars })
}

/// The names of categories, each in a line.
fn whole_names(categories: &[String]) -> Vec<Name> {
    let name = |(index, text): (usize, &String)| Name {
        text: text.clone(),
        middle: index as f64 + 0.5,
        line: 0,
        spanned: 1,
    };
    categories.iter().enumerate().map(name).collect()
}

/// The names of categories in two lines and, below, what several neighbours have in common.
fn broken_names(categories: &[String]) -> Vec<Name> {
    let parts: Vec<(&str, &str)> =
        categories.iter().map(|name| name.rsplit_once(PART).unwrap_or((name, ""))).collect();
    let mut names = Vec::new();
    for (index, (own, _)) in parts.iter().enumerate() {
        for (line, text) in two_lines(own).into_iter().enumerate() {
            names.push(Name { text, middle: index as f64 + 0.5, line, spanned: 1 });
        }
    }
    let mut first = 0;
    for group in parts.chunk_by(|(_, one), (_, other)| one == other) {
        let (spanned, text) = (group.len(), group[0].1.to_owned());
        let middle = first as f64 + spanned as f64 / 2.0;
        if !text.is_empty() {
            names.push(Name { text, middle, line: 2, spanned });
        }
        first += spanned;
    }
    names
}

/// A name broken at the space that makes the longer half the shortest.
fn two_lines(name: &str) -> Vec<String> {
    let halves = name.match_indices(' ').map(|(space, _)| (&name[..space], &name[space + 1..]));
    let best = halves.min_by_key(|(upper, lower)| upper.chars().count().max(lower.chars().count()));
    best.map_or_else(|| vec![name.to_owned()], |(upper, lower)| vec![upper.to_owned(), lower.to_owned()])
}

/// Width of a category: its bars and its name fit.
fn category_width(shown: &Bars, kind: Kind, names: &[Name]) -> f64 {
    let bars = if kind == Kind::Grouped { shown.series.len() as f64 } else { 1.0 };
    let widths =
        names.iter().map(|name| font::width(&font::drawable(&name.text), TEXT_SIZE) / name.spanned as f64);
    widths.fold(bars * BAR_WIDTH, f64::max) + CATEGORY_GAP
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

impl Figure for Layout {
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
        for name in &self.names {
            let (middle, bottom) = self.panel.place(name.middle, 0.0);
            let place = (middle, bottom + NAME_GAP + LINE_HEIGHT * name.line as f64);
            sheet.draw(&text(&name.text, place, TEXT_SIZE, INK, HPos::Center))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_broken_and_what_neighbours_share_is_said_once() {
        let categories = ["VGG-16, phone 1", "Fast Style Transfer, phone 1", "VGG-16, phone 2"];
        let names = broken_names(&categories.map(str::to_owned));
        let texts: Vec<(&str, f64, usize)> =
            names.iter().map(|name| (name.text.as_str(), name.middle, name.line)).collect();
        assert_eq!(
            texts,
            [
                ("VGG-16", 0.5, 0),
                ("Fast Style", 1.5, 0),
                ("Transfer", 1.5, 1),
                ("VGG-16", 2.5, 0),
                ("phone 1", 1.0, 2),
                ("phone 2", 2.5, 2),
            ]
        );
    }
}

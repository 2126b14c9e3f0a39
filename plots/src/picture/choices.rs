//! Choices by two costs: a marker each, and the front of those that no other beats in both.

use coexec_sim::published::{Choices, Picture};
use plotters::coord::Shift;
use plotters::prelude::*;

use super::{check, check_series, heights};
use crate::legend::{Legend, Row, Sample};
use crate::marker::{Look, Pen};
use crate::page::Page;
use crate::palette::MUTED;
use crate::panel::{Panel, left_room};
use crate::sheet::{Drawn, Figure, sheet};
use crate::{PlotError, line};

/// Width and height of the plot, in figure pixels.
const PLOT: (f64, f64) = (560.0, 340.0);
const FRONT_WIDTH: f64 = 1.5;

pub(super) struct Layout<'a> {
    page: Page,
    panel: Panel,
    shown: &'a Choices,
}

pub(super) fn lay_out<'a>(picture: &Picture, shown: &'a Choices) -> Result<Layout<'a>, PlotError> {
    check_series(shown.points.len())?;
    for point in &shown.points {
        check(&point.name, point.x)?;
        check(&point.name, point.y)?;
    }
    if shown.points.is_empty() {
        return Err(PlotError::NoPoints { title: picture.title.clone() });
    }
    let widest = shown.points.iter().map(|point| point.x).fold(0.0, f64::max);
    let highest = shown.points.iter().map(|point| point.y).fold(0.0, f64::max);
    let (x, y) = (heights(&shown.x, widest), heights(&shown.y, highest));
    let points =
        shown.points.iter().enumerate().map(|(index, point)| {
            Row::key(Sample::Marker { look: Look::at(index), filled: true }, &point.name)
        });
    let front = Row::key(Sample::Dashes(MUTED, FRONT_WIDTH), "Pareto front");
    let page = Page {
        title: picture.title.clone(),
        subtitle: picture.subtitle.clone(),
        legend: Legend { keys: points.chain([front]).collect(), ..Legend::default() },
        left_room: left_room(&y),
        plot_size: PLOT,
    };
    Ok(Layout { panel: Panel { area: page.plot(), x, y }, page, shown })
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
        let mut front: Vec<(f64, f64)> = self
            .shown
            .points
            .iter()
            .filter(|point| point.is_on_front)
            .map(|point| self.panel.place(point.x, point.y))
            .collect();
        front.sort_by(|a, b| a.0.total_cmp(&b.0));
        for ends in front.windows(2) {
            line::dashes(&sheet, (ends[0], ends[1]), MUTED, FRONT_WIDTH)?;
        }
        for (index, point) in self.shown.points.iter().enumerate() {
            Pen::LEGEND.draw(&sheet, self.panel.place(point.x, point.y), Look::at(index), true)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use coexec_sim::published::{Choice, Drawing};

    use super::*;
    use crate::Format;
    use crate::picture::picture;
    use crate::test_figures::words;

    fn drawn(points: Vec<Choice>) -> Result<Vec<u8>, PlotError> {
        let choices = Choices { x: "latency, ms".to_owned(), y: "energy, mJ".to_owned(), points };
        let shown = Picture {
            name: "choices".to_owned(),
            title: "choices".to_owned(),
            subtitle: String::new(),
            drawing: Drawing::Choices(choices),
        };
        picture(&shown, Format::Svg)
    }

    fn choice(name: &str, x: f64, y: f64) -> Choice {
        Choice { name: name.to_owned(), x, y, is_on_front: true }
    }

    #[test]
    fn every_choice_and_both_costs_are_named() {
        let words = words(&drawn(vec![choice("one", 10.0, 3.0), choice("two", 5.0, 8.0)]).unwrap());
        for word in ["one", "two", "Pareto front", "latency, ms", "energy, mJ"] {
            assert!(words.iter().any(|shown| shown == word), "{word}: {words:?}");
        }
    }

    #[test]
    fn a_cost_that_is_no_number_is_refused() {
        assert!(matches!(drawn(vec![choice("one", f64::NAN, 1.0)]), Err(PlotError::BadPoint { .. })));
        assert!(matches!(drawn(Vec::new()), Err(PlotError::NoPoints { .. })));
    }
}

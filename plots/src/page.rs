//! The page of a figure with one plot: title, plot and, right of it, the legend.
//!
//! Responsible for: where these stand and the size of the figure. Not for: what
//! the plot shows.
//! Invariant: the page is large enough for all of them; nothing is cut.

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use crate::area::Area;
use crate::font;
use crate::legend::Legend;
use crate::palette::{INK, MUTED};
use crate::panel::LOWER_LABELS;
use crate::sheet::{Drawn, Plane, text};

// Lengths are in figure pixels, text sizes in pixels an em.

const MARGIN: f64 = 16.0;
const TITLE_SIZE: f64 = 16.0;
const TITLE_HEIGHT: f64 = 24.0;
const SUBTITLE_SIZE: f64 = 12.0;
const SUBTITLE_HEIGHT: f64 = 20.0;
/// Between the titles and the plot.
const PLOT_GAP: f64 = 10.0;
/// Between the plot, with half a tick label beyond its end, and the legend.
const LEGEND_GAP: f64 = 32.0;

/// What stands around the plot of a figure.
pub(crate) struct Page {
    pub(crate) title: String,
    pub(crate) subtitle: String,
    pub(crate) legend: Legend,
    /// Room of the labels left of the plot.
    pub(crate) left_room: f64,
    /// Width and height of the plot.
    pub(crate) plot_size: (f64, f64),
}

impl Page {
    /// Width and height of the figure.
    pub(crate) fn size(&self) -> (u32, u32) {
        let (plot, legend) = (self.plot(), self.legend.size());
        let bottom = (plot.bottom + LOWER_LABELS).max(plot.top + legend.1);
        let right = plot.right + LEGEND_GAP + legend.0;
        ((right + MARGIN).ceil() as u32, (bottom + MARGIN).ceil() as u32)
    }

    /// Where the plot stands.
    pub(crate) fn plot(&self) -> Area {
        let subtitle = if self.subtitle.is_empty() { 0.0 } else { SUBTITLE_HEIGHT };
        let (left, top) = (MARGIN + self.left_room, MARGIN + TITLE_HEIGHT + subtitle + PLOT_GAP);
        Area { left, top, right: left + self.plot_size.0, bottom: top + self.plot_size.1 }
    }

    /// Draws the titles and the legend.
    pub(crate) fn draw<DB: DrawingBackend>(&self, sheet: &Plane<DB>) -> Drawn<DB> {
        let room = f64::from(self.size().0) - 2.0 * MARGIN;
        let title = font::fit(&self.title, TITLE_SIZE, room).unwrap_or_default();
        sheet.draw(&text(&title, (MARGIN, MARGIN + TITLE_SIZE / 2.0), TITLE_SIZE, INK, HPos::Left))?;
        let subtitle = font::fit(&self.subtitle, SUBTITLE_SIZE, room).unwrap_or_default();
        let place = (MARGIN, MARGIN + TITLE_HEIGHT + SUBTITLE_SIZE / 2.0);
        sheet.draw(&text(&subtitle, place, SUBTITLE_SIZE, MUTED, HPos::Left))?;
        let plot = self.plot();
        self.legend.draw(sheet, (plot.right + LEGEND_GAP, plot.top))
    }
}

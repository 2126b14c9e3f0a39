//! The timeline figure: stacked, named lanes with labelled boxes along one axis.
//!
//! Responsible for: the layout of lanes, and drawing their boxes. Not for: the meaning of
//! boxes ([`crate::timeline`], [`crate::shares`]).
//! Invariants: nothing is drawn beyond the ends of the axis, no box vanishes, and no label
//! exceeds its box.

use plotters::style::colors::WHITE;

use crate::{Axis, Colour, Figure, Item, Legend, font};

// Lengths are in figure pixels, text sizes in pixels per em.

const LABEL_SIZE: f64 = 11.0;
/// Distance between a label and the edges of its box.
const LABEL_PADDING: f64 = 4.0;
/// Distance above the first lane, between lanes, and below the last.
const LANE_GAP: f64 = 6.0;
/// Least width of a box, one pixel of a PNG, so that none vanishes.
pub(crate) const MIN_WIDTH: f64 = 0.5;
/// Gap to the next box, taken from the right of a box, and the least width of a box that has one.
const SEPARATION: f64 = 1.0;
const SEPARATED_FROM: f64 = 3.0;

/// How a box is drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Fill {
    /// Filled, with a gap before the next box.
    Separated(Colour),
    /// Filled up to the next box.
    Joined(Colour),
    /// An outline around other boxes.
    Outline,
}

/// A box of a lane.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Slab {
    /// Start and end along the axis.
    pub(crate) span: (f64, f64),
    /// Upper and lower edge, measured downwards from the lane's upper edge.
    pub(crate) edges: (f64, f64),
    pub(crate) fill: Fill,
    /// Label, and its vertical centre measured downwards from the lane's upper edge.
    pub(crate) label: Option<(String, f64)>,
}

/// A row of boxes.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Lane {
    pub(crate) height: f64,
    /// Names to the left of the lane, with their distance from its upper edge.
    pub(crate) names: Vec<(f64, String)>,
    /// Boxes; later ones are drawn over earlier ones.
    pub(crate) slabs: Vec<Slab>,
}

/// A figure of stacked lanes, with a plot of that width.
pub(crate) fn figure(lanes: &[Lane], width: f64, x: Axis, legend: Legend) -> Figure {
    let (low, high) = x.ends();
    let pixel = (high - low) / width;
    let (mut items, mut names) = (Vec::new(), Vec::new());
    let mut bottom = LANE_GAP;
    for lane in lanes {
        let top = bottom;
        bottom += lane.height + LANE_GAP;
        names.extend(lane.names.iter().map(|(down, name)| (top + down, font::drawable(name))));
        lane.slabs.iter().for_each(|slab| slab.draw(&mut items, top, (high, pixel)));
    }
    Figure { legend, items, ..Figure::new((width, bottom), x, Axis::named("", (bottom, 0.0), names)) }
}

impl Slab {
    /// A box without a label.
    pub(crate) fn bare(span: (f64, f64), edges: (f64, f64), fill: Fill) -> Self {
        Self { span, edges, fill, label: None }
    }

    /// Adds the box and its label to `items`, in a lane with its upper edge at `top`. The axis ends at
    /// `high`, and `pixel` is the axis length of one figure pixel.
    fn draw(&self, items: &mut Vec<Item>, top: f64, (high, pixel): (f64, f64)) {
        let left = self.span.0.min(high - MIN_WIDTH * pixel);
        let mut right = self.span.1.min(high);
        if matches!(self.fill, Fill::Separated(_)) && right - left > SEPARATED_FROM * pixel {
            right -= SEPARATION * pixel;
        }
        let corners = [(left, top + self.edges.0), (right.max(left + MIN_WIDTH * pixel), top + self.edges.1)];
        let ground = match self.fill {
            Fill::Separated(colour) | Fill::Joined(colour) => {
                items.push(Item::Filled(corners, colour));
                colour
            }
            Fill::Outline => {
                items.push(Item::Outline(corners));
                WHITE
            }
        };
        let Some((label, middle)) = &self.label else { return };
        let room = (right - left) / pixel - 2.0 * LABEL_PADDING;
        if let Some(label) = font::fit(label, LABEL_SIZE, room) {
            items.push(Item::Label(label, LABEL_SIZE, (f64::midpoint(left, right), top + middle), ground));
        }
    }
}

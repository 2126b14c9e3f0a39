//! How the points of a series are drawn: as lines, areas and markers.

use plotters::coord::{CoordTranslate, Shift};
use plotters::element::DashedPathElement;
use plotters::prelude::*;

use crate::{Colour, Drawn, SCALE, Shape, at, steps};

/// A dash and the gap after it, in figure pixels.
const DASH: (f64, f64) = (6.0, 4.0);
/// Width of the line of a hollow marker, in figure pixels.
const OUTLINE: f64 = 1.0;

/// How the points of a series are drawn. Widths are in figure pixels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mark {
    /// A line of this width through the points.
    Line(f64),
    /// A dashed line of this width through the points.
    Dashes(f64),
    /// A line of this width from the first point to the second, from the third to the fourth, and so on.
    Segments(f64),
    /// The polygon whose corners are the points, with this opacity, from 0 to 1.
    Area(f64),
    /// A marker at each point.
    Markers {
        /// Shape of the markers.
        shape: Shape,
        /// Whether the markers are filled.
        is_filled: bool,
    },
}

/// Radius in figure pixels, and opacity, of the markers of a plot with `count` of them: smaller and
/// fainter where many overlap.
fn pen(count: usize) -> (f64, f64) {
    match count {
        0..=60 => (4.0, 1.0),
        61..=400 => (3.25, 0.7),
        401..=1500 => (2.5, 0.55),
        _ => (2.0, 0.45),
    }
}

impl Mark {
    /// Draws the points of a series, in a plot with `markers` markers in all.
    pub(crate) fn draw<DB: DrawingBackend, CT: CoordTranslate<From: Copy>>(
        self,
        area: &DrawingArea<DB, CT>,
        points: &[CT::From],
        colour: Colour,
        markers: usize,
    ) -> Drawn<DB> {
        match self {
            Self::Line(width) => line(area, points, colour.stroke_width(steps(width))),
            Self::Segments(width) => {
                points.chunks(2).try_for_each(|ends| line(area, ends, colour.stroke_width(steps(width))))
            }
            Self::Dashes(width) => points.windows(2).try_for_each(|ends| {
                let (dash, gap) = (steps(DASH.0), steps(DASH.1));
                let style = colour.stroke_width(steps(width));
                area.draw(&DashedPathElement::new([ends[0], ends[1]], dash, gap, style))
            }),
            Self::Area(opacity) => area.draw(&Polygon::new(points.to_vec(), colour.mix(opacity).filled())),
            Self::Markers { shape, is_filled } => {
                let pen = pen(markers);
                points.iter().try_for_each(|&point| marker(area, point, (colour, shape), is_filled, pen))
            }
        }
    }

    /// Draws the legend's sample between two corners.
    pub(crate) fn draw_sample<DB: DrawingBackend>(
        self,
        root: &DrawingArea<DB, Shift>,
        [from, to]: [(f64, f64); 2],
        colour: Colour,
    ) -> Drawn<DB> {
        let middle = (f64::midpoint(from.0, to.0), f64::midpoint(from.1, to.1));
        let points = match self {
            Self::Line(_) | Self::Dashes(_) => vec![(from.0, middle.1), (to.0, middle.1)],
            Self::Segments(_) => vec![(middle.0, from.1), (middle.0, to.1)],
            Self::Area(_) => vec![from, (to.0, from.1), to, (from.0, to.1)],
            Self::Markers { .. } => vec![middle],
        };
        let points: Vec<(i32, i32)> = points.into_iter().map(at).collect();
        self.draw(root, &points, colour, 0)
    }
}

/// Draws the line through `points` in monotonic parts: in a bitmap, plotters would extend the spikes of
/// a single line far beyond their tips.
fn line<DB: DrawingBackend, CT: CoordTranslate<From: Copy>>(
    area: &DrawingArea<DB, CT>,
    points: &[CT::From],
    style: ShapeStyle,
) -> Drawn<DB> {
    let row = |point: &CT::From| area.map_coordinate(point).1;
    let mut first = 0;
    let mut direction = 0;
    for index in 1..points.len() {
        let turn = (row(&points[index]) - row(&points[index - 1])).signum();
        if direction * turn < 0 {
            area.draw(&PathElement::new(points[first..index].to_vec(), style))?;
            (first, direction) = (index - 1, 0);
        }
        direction = if turn == 0 { direction } else { turn };
    }
    area.draw(&PathElement::new(points[first..].to_vec(), style))
}

/// Draws a marker, filled or hollow; the outline of a hollow one stays inside the filled shape.
fn marker<DB: DrawingBackend, CT: CoordTranslate<From: Copy>>(
    area: &DrawingArea<DB, CT>,
    place: CT::From,
    (colour, shape): (Colour, Shape),
    is_filled: bool,
    (radius, opacity): (f64, f64),
) -> Drawn<DB> {
    let colour = colour.mix(opacity);
    let quarter = std::f64::consts::FRAC_PI_2;
    // Angle of the first corner (in radians, clockwise from the right), number of corners, and their
    // distance from the centre in radii, chosen so that all shapes look about as large as a circle.
    let (first, count, reach) = match shape {
        Shape::Circle => {
            let radius = if is_filled { radius } else { radius - OUTLINE / 2.0 };
            let style = if is_filled { colour.filled() } else { colour.stroke_width(steps(OUTLINE)) };
            return area.draw(&Circle::new(place, steps(radius), style));
        }
        Shape::Square => (quarter / 2.0, 4, 1.25),
        Shape::Triangle => (-quarter, 3, 1.45),
        Shape::Diamond => (0.0, 4, 1.3),
        Shape::InvertedTriangle => (quarter, 3, 1.45),
    };
    let corner = |distance: f64, index: u32| {
        let angle = first + std::f64::consts::TAU * f64::from(index) / f64::from(count);
        let steps = |length: f64| (length * f64::from(SCALE)).round() as i32;
        (steps(distance * angle.cos()), steps(distance * angle.sin()))
    };
    let outer = radius * reach;
    let mut corners: Vec<_> = (0..count).map(|index| corner(outer, index)).collect();
    if !is_filled {
        // The outline is a filled polygon, around the outside and back along the inside: in a bitmap,
        // plotters drops sides of closed lines.
        let inner = outer - OUTLINE / (std::f64::consts::PI / f64::from(count)).cos();
        corners.push(corner(outer, 0));
        corners.extend((0..=count).rev().map(|index| corner(inner, index)));
    }
    area.draw(&(EmptyElement::at(place) + Polygon::new(corners, colour.filled())))
}

//! The sheet that figures are drawn on: shapes in figure pixels.
//!
//! Responsible for: collecting the shapes of a figure, and (in [`render`]) both
//! formats. Not for: what a figure shows.
//! Invariant: both formats show the same shapes at the same places; only
//! [`render`] knows the format.

pub(crate) mod render;

pub(crate) use plotters_backend::text_anchor::HPos as Align;

use crate::font;
use crate::palette::Colour;

/// A place on the sheet, from its upper left corner.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Point {
    pub(crate) x: f64,
    pub(crate) y: f64,
}

/// The point at `x`, `y`.
pub(crate) fn at(x: f64, y: f64) -> Point {
    Point { x, y }
}

/// An upright rectangle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Area {
    pub(crate) left: f64,
    pub(crate) top: f64,
    pub(crate) right: f64,
    pub(crate) bottom: f64,
}

impl Area {
    pub(crate) fn width(self) -> f64 {
        self.right - self.left
    }

    pub(crate) fn height(self) -> f64 {
        self.bottom - self.top
    }

    pub(crate) fn middle(self) -> Point {
        at(f64::midpoint(self.left, self.right), f64::midpoint(self.top, self.bottom))
    }

    pub(crate) fn holds(self, point: Point) -> bool {
        (self.left..=self.right).contains(&point.x) && (self.top..=self.bottom).contains(&point.y)
    }

    /// Whether the two have more than an edge in common.
    pub(crate) fn overlaps(self, other: Self) -> bool {
        self.left < other.right
            && other.left < self.right
            && self.top < other.bottom
            && other.top < self.bottom
    }

    /// This area with `margin` more on each side.
    pub(crate) fn grown(self, margin: f64) -> Self {
        Self {
            left: self.left - margin,
            top: self.top - margin,
            right: self.right + margin,
            bottom: self.bottom + margin,
        }
    }
}

/// A line of text.
#[derive(Clone)]
pub(crate) struct Text {
    /// What it says, drawable.
    pub(crate) words: String,
    /// Middle of its height, at the side that `align` names.
    pub(crate) at: Point,
    /// Pixels an em.
    pub(crate) size: f64,
    pub(crate) colour: Colour,
    pub(crate) align: Align,
    /// Whether it reads upwards.
    pub(crate) turned: bool,
}

/// Something drawn.
#[derive(Clone)]
pub(crate) enum Shape {
    Rectangle { area: Area, fill: Colour },
    Polygon { corners: Vec<Point>, fill: Colour },
    Line { points: Vec<Point>, colour: Colour, width: f64 },
    Disc { centre: Point, radius: f64, fill: Colour },
    Text(Text),
}

/// A figure: shapes, the later over the earlier.
#[derive(Clone)]
pub(crate) struct Drawing {
    pub(crate) width: u32,
    pub(crate) height: u32,
    pub(crate) shapes: Vec<Shape>,
}

impl Drawing {
    /// An empty sheet.
    pub(crate) fn new(width: u32, height: u32) -> Self {
        Self { width, height, shapes: Vec::new() }
    }

    pub(crate) fn rectangle(&mut self, area: Area, fill: Colour) {
        self.shapes.push(Shape::Rectangle { area, fill });
    }

    pub(crate) fn polygon(&mut self, corners: Vec<Point>, fill: Colour) {
        self.shapes.push(Shape::Polygon { corners, fill });
    }

    pub(crate) fn line(&mut self, points: Vec<Point>, colour: Colour, width: f64) {
        self.shapes.push(Shape::Line { points, colour, width });
    }

    pub(crate) fn disc(&mut self, centre: Point, radius: f64, fill: Colour) {
        self.shapes.push(Shape::Disc { centre, radius, fill });
    }

    /// One line of text; nothing for an empty one.
    pub(crate) fn text(&mut self, words: &str, at: Point, size: f64, colour: Colour, align: Align) {
        self.lettering(words, at, size, colour, align, false);
    }

    /// One line of text that reads upwards, centred on `at`.
    pub(crate) fn upright_text(&mut self, words: &str, at: Point, size: f64, colour: Colour) {
        self.lettering(words, at, size, colour, Align::Center, true);
    }

    fn lettering(&mut self, words: &str, at: Point, size: f64, colour: Colour, align: Align, turned: bool) {
        let words = font::drawable(words);
        if !words.trim().is_empty() {
            self.shapes.push(Shape::Text(Text { words, at, size, colour, align, turned }));
        }
    }

    /// Diagonal hatching, clipped by hand to `area`: lines that rise to the
    /// right, `spacing` apart along the edge.
    pub(crate) fn hatch(&mut self, area: Area, spacing: f64, colour: Colour, width: f64) {
        // A line holds the points of equal x + y. Anchored at the sheet's
        // corner, the hatching of neighbours is one pattern.
        let last = area.right + area.bottom;
        let mut sum = ((area.left + area.top) / spacing).ceil() * spacing;
        while sum < last {
            let from_x = (sum - area.bottom).max(area.left);
            let to_x = (sum - area.top).min(area.right);
            self.line(vec![at(from_x, sum - from_x), at(to_x, sum - to_x)], colour, width);
            sum += spacing;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::palette::INK;

    #[test]
    fn hatching_stays_inside_its_area() {
        for (width, height) in [(100.0, 20.0), (3.0, 20.0), (0.4, 7.0)] {
            let area = Area { left: 17.3, top: 9.1, right: 17.3 + width, bottom: 9.1 + height };
            let mut drawing = Drawing::new(200, 100);
            drawing.hatch(area, 6.0, INK, 1.0);
            for shape in &drawing.shapes {
                let Shape::Line { points, .. } = shape else { panic!("hatching is lines") };
                assert!(points.iter().all(|&point| area.grown(1e-9).holds(point)));
            }
        }
    }
}

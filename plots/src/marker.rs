//! Markers of points: a colour and a shape for each group.
//!
//! Invariant: a family of operators looks the same in every figure, and in one
//! figure no two groups look the same, up to [`LOOKS`] of them.

use plotters::prelude::*;

use crate::area::Place;
use crate::palette::{BLUE, GREEN, HATCH, INK, ORANGE, PURPLE, SKY_BLUE, VERMILION};
use crate::sheet::{Drawn, Plane, SCALE, steps};

/// Colours of groups, the most distinct first.
const COLOURS: [RGBColor; 7] = [BLUE, VERMILION, GREEN, PURPLE, ORANGE, INK, SKY_BLUE];
/// Groups that can be told apart.
const LOOKS: usize = COLOURS.len() * SHAPES.len();
/// Families of operators and the number of the look they have. There are more families than
/// colours: whole networks have the colour of means, of which there are few.
const FAMILIES: [(&str, usize); 8] = [
    ("conv2d", 0),
    ("depthwise_conv2d", 1),
    ("fully_connected", 2),
    ("concat", 3),
    ("grouped_conv2d", 4),
    ("mean", 5),
    ("pool", 6),
    ("end_to_end", 12),
];
/// Width of the line of a hollow marker, in figure pixels.
const OUTLINE: f64 = 1.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Circle,
    Square,
    Triangle,
    Diamond,
    InvertedTriangle,
}

/// As many as have no divisor in common with one more than the colours: the
/// looks of one colour then all have different shapes.
const SHAPES: [Shape; 5] =
    [Shape::Circle, Shape::Square, Shape::Triangle, Shape::Diamond, Shape::InvertedTriangle];

impl Shape {
    /// The angle of the first corner, in radians clockwise from the right, how
    /// many corners there are and how far from the middle, in radii: all shapes
    /// look about as large as a circle.
    fn corners(self) -> Option<(f64, u32, f64)> {
        let quarter = std::f64::consts::FRAC_PI_2;
        match self {
            Self::Circle => None,
            Self::Square => Some((quarter / 2.0, 4, 1.25)),
            Self::Triangle => Some((-quarter, 3, 1.45)),
            Self::Diamond => Some((0.0, 4, 1.3)),
            Self::InvertedTriangle => Some((quarter, 3, 1.45)),
        }
    }
}

/// How the points of a group look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Look {
    pub(crate) colour: RGBColor,
    shape: Shape,
}

impl Look {
    /// The most distinct one.
    pub(crate) const FIRST: Self = Self { colour: COLOURS[0], shape: SHAPES[0] };
    /// Of no group in particular.
    pub(crate) const NEUTRAL: Self = Self { colour: HATCH, shape: Shape::Circle };

    /// The look at `index`, from the most distinct on.
    pub(crate) fn at(index: usize) -> Self {
        let index = index % LOOKS;
        // Each further round of colours starts at another shape.
        let shape = (index + index / COLOURS.len()) % SHAPES.len();
        Self { colour: COLOURS[index % COLOURS.len()], shape: SHAPES[shape] }
    }

    /// The looks of groups: of families of operators always the same, of other
    /// groups in their order.
    pub(crate) fn of_groups(groups: &[&str]) -> Vec<Self> {
        let family = |group: &str| {
            let name = group.strip_prefix("gpu/").unwrap_or(group);
            let family = name.split('/').next();
            FAMILIES.iter().find(|(known, _)| family == Some(*known)).map(|&(_, index)| index)
        };
        let families: Vec<usize> = groups.iter().filter_map(|group| family(group)).collect();
        let mut free = (0..FAMILIES.len() + groups.len()).filter(|index| !families.contains(index));
        let mut used = Vec::new();
        let mut index_of = |group: &str| {
            // A second group of one family looks like none of the others.
            let index = family(group).filter(|index| !used.contains(index)).or_else(|| free.next());
            used.extend(index);
            index.unwrap_or_default()
        };
        groups.iter().map(|group| Self::at(index_of(group))).collect()
    }
}

/// How markers are drawn: all of one figure the same.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Pen {
    /// Radius in figure pixels.
    pub(crate) radius: f64,
    /// 1 where nothing shines through.
    pub(crate) opacity: f64,
}

impl Pen {
    /// Of a marker in the legend.
    pub(crate) const LEGEND: Self = Self { radius: 4.0, opacity: 1.0 };

    /// For this many points in one plot: smaller and fainter where many overlap.
    pub(crate) fn for_points(count: usize) -> Self {
        match count {
            0..=60 => Self { radius: 4.0, opacity: 0.9 },
            61..=400 => Self { radius: 3.25, opacity: 0.7 },
            401..=1500 => Self { radius: 2.5, opacity: 0.55 },
            _ => Self { radius: 2.0, opacity: 0.45 },
        }
    }

    /// Draws a marker, filled or hollow.
    pub(crate) fn draw<DB: DrawingBackend>(
        self,
        sheet: &Plane<DB>,
        at: Place,
        look: Look,
        filled: bool,
    ) -> Drawn<DB> {
        let colour = look.colour.mix(self.opacity);
        // The outline of a hollow marker keeps within the size of a filled one.
        let Some((first, count, reach)) = look.shape.corners() else {
            let (radius, style) = if filled {
                (self.radius, colour.filled())
            } else {
                (self.radius - OUTLINE / 2.0, colour.stroke_width(steps(OUTLINE)))
            };
            return sheet.draw(&Circle::new(at, steps(radius), style));
        };
        let corner = |distance: f64, index: u32| {
            let angle = first + std::f64::consts::TAU * f64::from(index) / f64::from(count);
            let steps = |length: f64| (length * f64::from(SCALE)).round() as i32;
            (steps(distance * angle.cos()), steps(distance * angle.sin()))
        };
        let outer = self.radius * reach;
        let mut corners: Vec<_> = (0..count).map(|index| corner(outer, index)).collect();
        if !filled {
            // The outline is a polygon, around and back inside: in a bitmap,
            // plotters loses sides of closed lines.
            let inner = outer - OUTLINE / (std::f64::consts::PI / f64::from(count)).cos();
            corners.push(corner(outer, 0));
            corners.extend((0..=count).rev().map(|index| corner(inner, index)));
        }
        sheet.draw(&(EmptyElement::at(at) + Polygon::new(corners, colour.filled())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_looks_the_same_in_every_figure() {
        let few = Look::of_groups(&["gpu/mean", "gpu/pool"]);
        let more = Look::of_groups(&["gpu/concat", "gpu/conv2d", "gpu/mean", "gpu/pool"]);
        assert_eq!(few, more[2..]);
    }

    #[test]
    fn groups_of_one_figure_look_different() {
        let names: Vec<String> = (0..LOOKS - 2).map(|index| format!("cpu/{index}/float")).collect();
        let mut groups: Vec<&str> = names.iter().map(String::as_str).collect();
        groups.extend(["gpu/conv2d", "gpu/conv2d/unseen"]);
        let looks = Look::of_groups(&groups);
        for (index, look) in looks.iter().enumerate() {
            assert!(!looks[..index].contains(look), "{index}");
        }
    }
}

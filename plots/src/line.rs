//! Lines: in parts that a bitmap draws well, and dashed.

use plotters::element::DashedPathElement;
use plotters::prelude::*;

use crate::area::Place;
use crate::sheet::{Drawn, Plane, steps};

/// A dash and the gap after it, in figure pixels.
const DASH: (f64, f64) = (6.0, 4.0);

/// The line through `points` in parts along which the second value only rises
/// or only falls. In a bitmap, plotters draws spikes of one line far beyond
/// their tips.
pub(crate) fn one_way<X: Copy>(points: impl IntoIterator<Item = (X, f64)>) -> Vec<Vec<(X, f64)>> {
    let mut parts: Vec<Vec<(X, f64)>> = Vec::new();
    let (mut rises, mut falls) = (false, false);
    for point in points {
        let Some(part) = parts.last_mut() else {
            parts.push(vec![point]);
            continue;
        };
        let before = part[part.len() - 1];
        let (up, down) = (point.1 > before.1, point.1 < before.1);
        if (rises && down) || (falls && up) {
            parts.push(vec![before, point]);
            (rises, falls) = (up, down);
        } else {
            part.push(point);
            (rises, falls) = (rises || up, falls || down);
        }
    }
    parts
}

/// Draws the line through `places`.
pub(crate) fn draw<DB: DrawingBackend>(
    sheet: &Plane<DB>,
    places: impl IntoIterator<Item = Place>,
    colour: RGBColor,
    width: f64,
) -> Drawn<DB> {
    for part in one_way(places) {
        sheet.draw(&PathElement::new(part, colour.stroke_width(steps(width))))?;
    }
    Ok(())
}

/// Draws a dashed line from one place to another.
pub(crate) fn dashes<DB: DrawingBackend>(
    sheet: &Plane<DB>,
    (from, to): (Place, Place),
    colour: RGBColor,
    width: f64,
) -> Drawn<DB> {
    let (dash, gap) = (steps(DASH.0), steps(DASH.1));
    sheet.draw(&DashedPathElement::new([from, to], dash, gap, colour.stroke_width(steps(width))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_cut_where_it_turns_and_its_parts_meet_there() {
        let parts = one_way([(0, 0.0), (1, 2.0), (2, 2.0), (3, 1.0), (4, 3.0)]);
        assert_eq!(
            parts,
            [vec![(0, 0.0), (1, 2.0), (2, 2.0)], vec![(2, 2.0), (3, 1.0)], vec![(3, 1.0), (4, 3.0)]]
        );
    }
}

//! Marks on a curve, their labels and the legend: each where it hides least.

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use crate::area::{Area, Place};
use crate::font;
use crate::palette::{INK, MUTED};
use crate::sheet::{Drawn, Plane, steps, text};

// Lengths are in figure pixels, text sizes in pixels an em.

const LABEL_SIZE: f64 = 12.0;
const LABEL_HEIGHT: f64 = 15.0;
/// Widest label; a longer one is shortened.
const WIDEST_LABEL: f64 = 320.0;
/// Half the diagonal of a mark, and of the white under it.
const DIAMOND: (f64, f64) = (6.0, 8.0);
/// Between a mark and its label, tried from the nearest on.
const DISTANCES: [f64; 6] = [12.0, 24.0, 40.0, 64.0, 96.0, 140.0];
/// From which distance on a line leads from the label to its mark.
const LEADER_FROM: f64 = 20.0;
/// Clear space around a label.
const CLEARANCE: f64 = 3.0;
/// Directions from the mark, right and down.
const DIRECTIONS: [(f64, f64); 8] =
    [(1.0, -1.0), (-1.0, -1.0), (1.0, 1.0), (-1.0, 1.0), (0.0, -1.0), (0.0, 1.0), (1.0, 0.0), (-1.0, 0.0)];
/// Cost of a label's covering a pixel's length of a line, against a pixel of
/// distance from the mark.
const COVER_COST: f64 = 1.5;
/// Cost of a label's covering a mark or another label.
const COLLISION_COST: f64 = 1e4;
/// Cost of a label's leaving the plot.
const OUTSIDE_COST: f64 = 1e5;

/// The area of `size`, at an edge of the plot or in its middle, that covers
/// least of the lines and marks.
pub(super) fn clearest(size: (f64, f64), lines: &[Vec<Place>], marks: &[(Place, &str)], plot: Area) -> Area {
    let mut dots = dots(lines);
    dots.extend(marks.iter().map(|&(mark, _)| mark));
    let inner = plot.grown(-CLEARANCE);
    let columns = [inner.right - size.0 / 2.0, inner.middle().0, inner.left + size.0 / 2.0];
    let rows = [inner.top + size.1 / 2.0, inner.middle().1, inner.bottom - size.1 / 2.0];
    let places = rows.iter().flat_map(|&y| columns.iter().map(move |&x| Area::around((x, y), size)));
    let covered = |area: &Area| dots.iter().filter(|&&dot| area.holds(dot)).count();
    places.min_by_key(covered).unwrap_or(plot)
}

/// Draws marks with their labels over the `lines` and the `legend` of a plot.
pub(super) fn draw<DB: DrawingBackend>(
    sheet: &Plane<DB>,
    marks: &[(Place, &str)],
    lines: &[Vec<Place>],
    legend: Area,
    plot: Area,
) -> Drawn<DB> {
    let dots = dots(lines);
    let square = (2.0 * DIAMOND.1, 2.0 * DIAMOND.1);
    let mut taken: Vec<Area> = marks.iter().map(|&(mark, _)| Area::around(mark, square)).collect();
    taken.push(legend);
    let mut placed = Vec::new();
    for &(mark, label) in marks {
        let Some(label) = font::fit(label, LABEL_SIZE, WIDEST_LABEL) else { continue };
        let (area, distance) = best_place(mark, font::width(&label, LABEL_SIZE), &dots, &taken, plot);
        taken.push(area);
        placed.push((mark, label, area, distance));
    }
    // Leaders lie under every label, labels under every mark.
    for (mark, _, area, _) in placed.iter().filter(|(.., distance)| *distance >= LEADER_FROM) {
        sheet.draw(&PathElement::new([*mark, nearest(*area, *mark)], MUTED.stroke_width(steps(1.0))))?;
    }
    for (_, label, area, _) in &placed {
        sheet.draw(&Rectangle::new(area.corners(), WHITE.filled()))?;
        sheet.draw(&text(label, area.middle(), LABEL_SIZE, INK, HPos::Center))?;
    }
    for &((x, y), _) in marks {
        for (half, colour) in [(DIAMOND.1, WHITE), (DIAMOND.0, INK)] {
            sheet
                .draw(&Polygon::new([(x, y - half), (x + half, y), (x, y + half), (x - half, y)], colour))?;
        }
    }
    Ok(())
}

/// Points a pixel or so apart along all lines.
fn dots(lines: &[Vec<Place>]) -> Vec<Place> {
    let mut dots = Vec::new();
    for line in lines {
        dots.extend(line.first());
        for pair in line.windows(2) {
            let (dx, dy) = (pair[1].0 - pair[0].0, pair[1].1 - pair[0].1);
            let count = dx.hypot(dy).ceil().max(1.0) as u32;
            dots.extend((1..=count).map(|index| {
                let part = f64::from(index) / f64::from(count);
                (pair[0].0 + part * dx, pair[0].1 + part * dy)
            }));
        }
    }
    dots
}

/// The cheapest place for a label of this width, and its distance.
fn best_place(mark: Place, width: f64, dots: &[Place], taken: &[Area], plot: Area) -> (Area, f64) {
    let mut best = (Area::around(mark, (0.0, 0.0)), 0.0);
    let mut least_cost = f64::INFINITY;
    for distance in DISTANCES {
        for direction in DIRECTIONS {
            let area = beside(mark, direction, distance, width);
            let clear = area.grown(CLEARANCE);
            let covered = dots.iter().filter(|&&dot| clear.holds(dot)).count();
            let collisions = taken.iter().filter(|&&other| clear.overlaps(other)).count();
            let outside = clear.corners().iter().filter(|&&corner| !plot.holds(corner)).count();
            let cost = distance
                + covered as f64 * COVER_COST
                + collisions as f64 * COLLISION_COST
                + outside as f64 * OUTSIDE_COST;
            if cost < least_cost {
                (best, least_cost) = ((area, distance), cost);
            }
        }
    }
    best
}

/// The area of a label that lies in a direction from a mark.
fn beside(mark: Place, (right, down): (f64, f64), distance: f64, width: f64) -> Area {
    // Diagonal labels start over the mark rather than beside it, which is nearer.
    let diagonal = right != 0.0 && down != 0.0;
    let shift = if diagonal { distance / 2.0 } else { distance };
    let middle = (mark.0 + right * (shift + width / 2.0), mark.1 + down * (distance + LABEL_HEIGHT / 2.0));
    Area::around(middle, (width, LABEL_HEIGHT))
}

/// The point of an area nearest to `point`.
fn nearest(area: Area, point: Place) -> Place {
    (point.0.clamp(area.left, area.right), point.1.clamp(area.top, area.bottom))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLOT: Area = Area { left: 0.0, top: 0.0, right: 800.0, bottom: 400.0 };

    #[test]
    fn a_label_keeps_clear_of_the_line_it_marks() {
        let line: Vec<Place> = (0..800).map(|x| (f64::from(x), 200.0)).collect();
        let (area, _) = best_place((400.0, 200.0), 120.0, &dots(std::slice::from_ref(&line)), &[], PLOT);
        assert!(line.iter().all(|&point| !area.holds(point)));
    }

    #[test]
    fn labels_of_near_marks_do_not_overlap_and_stay_in_the_plot() {
        let mut taken = Vec::new();
        for x in [780.0, 784.0, 788.0, 792.0] {
            let (area, _) = best_place((x, 10.0), 150.0, &[], &taken, PLOT);
            assert!(taken.iter().all(|&other: &Area| !other.overlaps(area)));
            assert!(area.corners().iter().all(|&corner| PLOT.holds(corner)));
            taken.push(area);
        }
    }
}

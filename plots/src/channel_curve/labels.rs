//! Marks on a curve and their labels: each label where it hides least.

use crate::canvas::{Align, Area, Drawing, Point, at};
use crate::font;
use crate::palette::{INK, MUTED, WHITE};

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

/// Draws marks with their labels over the `lines` of a plot.
pub(super) fn draw(drawing: &mut Drawing, marks: &[(Point, &str)], lines: &[Vec<Point>], plot: Area) {
    let dots = dots(lines);
    let mut taken: Vec<Area> = marks.iter().map(|&(mark, _)| around(mark, DIAMOND.1)).collect();
    let mut placed = Vec::new();
    for &(mark, label) in marks {
        let Some(label) = font::fit(label, LABEL_SIZE, WIDEST_LABEL) else { continue };
        let (area, distance) = best_place(mark, font::width(&label, LABEL_SIZE), &dots, &taken, plot);
        taken.push(area);
        placed.push((mark, label, area, distance));
    }
    // Leaders lie under every label, labels under every mark.
    for (mark, _, area, distance) in &placed {
        if *distance >= LEADER_FROM {
            drawing.line(vec![*mark, nearest(*area, *mark)], MUTED, 1.0);
        }
    }
    for (_, label, area, _) in &placed {
        drawing.rectangle(*area, WHITE);
        drawing.text(label, area.middle(), LABEL_SIZE, INK, Align::Center);
    }
    for &(mark, _) in marks {
        drawing.polygon(diamond(mark, DIAMOND.1), WHITE);
        drawing.polygon(diamond(mark, DIAMOND.0), INK);
    }
}

/// Points a pixel or so apart along all lines.
fn dots(lines: &[Vec<Point>]) -> Vec<Point> {
    let mut dots = Vec::new();
    for line in lines {
        dots.extend(line.first());
        for pair in line.windows(2) {
            let (dx, dy) = (pair[1].x - pair[0].x, pair[1].y - pair[0].y);
            let count = dx.hypot(dy).ceil().max(1.0) as u32;
            dots.extend((1..=count).map(|index| {
                let part = f64::from(index) / f64::from(count);
                at(pair[0].x + part * dx, pair[0].y + part * dy)
            }));
        }
    }
    dots
}

/// The cheapest place for a label of this width, and its distance.
fn best_place(mark: Point, width: f64, dots: &[Point], taken: &[Area], plot: Area) -> (Area, f64) {
    let mut best = (around(mark, 0.0), 0.0);
    let mut least_cost = f64::INFINITY;
    for distance in DISTANCES {
        for direction in DIRECTIONS {
            let area = beside(mark, direction, distance, width);
            let clear = area.grown(CLEARANCE);
            let covered = dots.iter().filter(|&&dot| clear.holds(dot)).count();
            let collisions = taken.iter().filter(|&&other| clear.overlaps(other)).count();
            let corners = [at(clear.left, clear.top), at(clear.right, clear.bottom)];
            let outside = corners.iter().filter(|&&corner| !plot.holds(corner)).count();
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
fn beside(mark: Point, (right, down): (f64, f64), distance: f64, width: f64) -> Area {
    // Diagonal labels start over the mark rather than beside it, which is nearer.
    let diagonal = right != 0.0 && down != 0.0;
    let shift = if diagonal { distance / 2.0 } else { distance };
    let middle = at(mark.x + right * (shift + width / 2.0), mark.y + down * (distance + LABEL_HEIGHT / 2.0));
    Area {
        left: middle.x - width / 2.0,
        top: middle.y - LABEL_HEIGHT / 2.0,
        right: middle.x + width / 2.0,
        bottom: middle.y + LABEL_HEIGHT / 2.0,
    }
}

fn around(middle: Point, half: f64) -> Area {
    Area { left: middle.x, top: middle.y, right: middle.x, bottom: middle.y }.grown(half)
}

/// The point of an area nearest to `point`.
fn nearest(area: Area, point: Point) -> Point {
    at(point.x.clamp(area.left, area.right), point.y.clamp(area.top, area.bottom))
}

fn diamond(middle: Point, half: f64) -> Vec<Point> {
    vec![
        at(middle.x, middle.y - half),
        at(middle.x + half, middle.y),
        at(middle.x, middle.y + half),
        at(middle.x - half, middle.y),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLOT: Area = Area { left: 0.0, top: 0.0, right: 800.0, bottom: 400.0 };

    #[test]
    fn a_label_keeps_clear_of_the_line_it_marks() {
        let line: Vec<Point> = (0..800).map(|x| at(f64::from(x), 200.0)).collect();
        let (area, _) = best_place(at(400.0, 200.0), 120.0, &dots(std::slice::from_ref(&line)), &[], PLOT);
        assert!(line.iter().all(|&point| !area.holds(point)));
    }

    #[test]
    fn labels_of_near_marks_do_not_overlap_and_stay_in_the_plot() {
        let mut taken = Vec::new();
        for x in [780.0, 784.0, 788.0, 792.0] {
            let (area, _) = best_place(at(x, 10.0), 150.0, &[], &taken, PLOT);
            assert!(taken.iter().all(|&other: &Area| !other.overlaps(area)));
            assert!(PLOT.holds(at(area.left, area.top)) && PLOT.holds(at(area.right, area.bottom)));
            taken.push(area);
        }
    }
}

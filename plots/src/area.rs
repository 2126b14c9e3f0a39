//! Places and upright rectangles of the sheet, in figure pixels.

/// A place on the sheet, right and down from its upper left corner.
pub(crate) type Place = (f64, f64);

/// An upright rectangle of the sheet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Area {
    pub(crate) left: f64,
    pub(crate) top: f64,
    pub(crate) right: f64,
    pub(crate) bottom: f64,
}

impl Area {
    /// The area of this size around `middle`.
    pub(crate) fn around(middle: Place, (width, height): (f64, f64)) -> Self {
        let (left, top) = (middle.0 - width / 2.0, middle.1 - height / 2.0);
        Self { left, top, right: left + width, bottom: top + height }
    }

    pub(crate) fn width(self) -> f64 {
        self.right - self.left
    }

    pub(crate) fn height(self) -> f64 {
        self.bottom - self.top
    }

    /// Its upper left and its lower right corner.
    pub(crate) fn corners(self) -> [Place; 2] {
        [(self.left, self.top), (self.right, self.bottom)]
    }

    pub(crate) fn middle(self) -> Place {
        (f64::midpoint(self.left, self.right), f64::midpoint(self.top, self.bottom))
    }

    pub(crate) fn holds(self, (x, y): Place) -> bool {
        (self.left..=self.right).contains(&x) && (self.top..=self.bottom).contains(&y)
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
        Self::around(self.middle(), (self.width() + 2.0 * margin, self.height() + 2.0 * margin))
    }

    /// The part inside of this area of the convex polygon with these corners:
    /// its corners, none where nothing is inside.
    pub(crate) fn clip(self, polygon: &[Place]) -> Vec<Place> {
        // Sutherland and Hodgman (1974): cut along one edge after the other. How
        // far a place lies inside of an edge is linear along a side.
        let edges: [&dyn Fn(Place) -> f64; 4] =
            [&|(x, _)| x - self.left, &|(x, _)| self.right - x, &|(_, y)| y - self.top, &|(_, y)| {
                self.bottom - y
            }];
        let mut corners = polygon.to_vec();
        for inside in edges {
            let mut kept = Vec::with_capacity(corners.len() + 1);
            for (index, &corner) in corners.iter().enumerate() {
                let before = corners[(index + corners.len() - 1) % corners.len()];
                let (from, to) = (inside(before), inside(corner));
                if (from < 0.0) != (to < 0.0) {
                    let part = from / (from - to);
                    kept.push((
                        before.0 + part * (corner.0 - before.0),
                        before.1 + part * (corner.1 - before.1),
                    ));
                }
                if to >= 0.0 {
                    kept.push(corner);
                }
            }
            corners = kept;
        }
        corners
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SQUARE: Area = Area { left: 0.0, top: 0.0, right: 10.0, bottom: 10.0 };

    #[test]
    fn a_polygon_inside_keeps_its_corners_and_one_outside_loses_them() {
        let triangle = [(1.0, 1.0), (9.0, 1.0), (5.0, 8.0)];
        assert_eq!(SQUARE.clip(&triangle), triangle);
        assert!(SQUARE.clip(&triangle.map(|(x, y)| (x + 20.0, y))).is_empty());
        assert!(SQUARE.clip(&[]).is_empty());
    }

    #[test]
    fn a_band_across_a_corner_is_cut_along_both_edges() {
        let band = [(-5.0, 4.0), (4.0, -5.0), (5.0, -4.0), (-4.0, 5.0)];
        let corners = SQUARE.clip(&band);
        for expected in [(0.0, 0.0), (1.0, 0.0), (0.0, 1.0)] {
            assert!(corners.iter().any(|at| (at.0 - expected.0).hypot(at.1 - expected.1) < 1e-9));
        }
        assert!(corners.iter().all(|&corner| SQUARE.holds(corner)));
    }
}

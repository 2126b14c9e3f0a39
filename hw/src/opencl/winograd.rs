//! The transforms of the Winograd convolution F(4x4, 3x3).
//!
//! Built from its points by the rule of Toom and Cook (Lavin and Gray, "Fast Algorithms
//! for Convolutional Neural Networks", CVPR'16, appendix): a result is
//! `A^T [(G g G^T) * (B^T d B)] A`. The points 0, +-1/sqrt(2), +-sqrt(2) and infinity
//! round less than the textbook's 0, +-1, +-2 and infinity: the entries stay smaller.

use std::f64::consts::{FRAC_1_SQRT_2, SQRT_2};
use std::fmt::Write;

/// Points besides infinity.
const POINTS: [f64; 5] = [0.0, FRAC_1_SQRT_2, -FRAC_1_SQRT_2, SQRT_2, -SQRT_2];
/// Points along a side of a tile.
pub(super) const SIDE: usize = POINTS.len() + 1;
/// Pixels along a side of an output tile.
const OUTPUTS: usize = 4;
/// Pixels along a side of the window.
const WINDOW: usize = 3;

/// `B^T`: row `j` holds the polynomial that vanishes at all points but `j`; the last,
/// for infinity, the one that vanishes at all.
fn input_transform() -> [[f64; SIDE]; SIDE] {
    let mut rows = [[0.0; SIDE]; SIDE];
    for (skipped, row) in rows.iter_mut().enumerate() {
        row[0] = 1.0;
        for (_, &point) in POINTS.iter().enumerate().filter(|&(index, _)| index != skipped) {
            // Times (x - point), from the highest power down.
            for power in (1..SIDE).rev() {
                row[power] = row[power - 1] - point * row[power];
            }
            row[0] *= -point;
        }
    }
    rows
}

/// `G`: the window's polynomial at each point, over that point's distances to the
/// others.
fn weight_transform() -> [[f64; WINDOW]; SIDE] {
    let mut rows = [[0.0; WINDOW]; SIDE];
    rows[SIDE - 1][WINDOW - 1] = 1.0;
    for (index, row) in rows.iter_mut().take(POINTS.len()).enumerate() {
        let others = POINTS.iter().enumerate().filter(|&(other, _)| other != index);
        let distance: f64 = others.map(|(_, other)| POINTS[index] - other).product();
        for (power, entry) in row.iter_mut().enumerate() {
            *entry = POINTS[index].powi(power as i32) / distance;
        }
    }
    rows
}

/// `A^T`: powers of the points.
fn output_transform() -> [[f64; SIDE]; OUTPUTS] {
    let mut rows = [[0.0; SIDE]; OUTPUTS];
    for (power, row) in rows.iter_mut().enumerate() {
        for (entry, point) in row.iter_mut().zip(POINTS) {
            *entry = point.powi(power as i32);
        }
    }
    rows[OUTPUTS - 1][SIDE - 1] = 1.0;
    rows
}

/// The points of a 3x3 `window`, row by row.
pub(super) fn weight_points(window: [[f64; WINDOW]; WINDOW]) -> [[f64; SIDE]; SIDE] {
    let transform = weight_transform();
    let mut points = [[0.0; SIDE]; SIDE];
    for (row, left) in points.iter_mut().zip(&transform) {
        for (point, right) in row.iter_mut().zip(&transform) {
            for (line, factor) in window.iter().zip(left) {
                let across: f64 = line.iter().zip(right).map(|(weight, factor)| weight * factor).sum();
                *point += factor * across;
            }
        }
    }
    points
}

/// The transforms as the kernels take them: names and values.
pub(super) fn definitions() -> [(&'static str, String); 2] {
    [
        ("INPUT_TRANSFORM", braced(input_transform().as_flattened())),
        ("OUTPUT_TRANSFORM", braced(output_transform().as_flattened())),
    ]
}

fn braced(entries: &[f64]) -> String {
    let mut text = String::from("{");
    for &entry in entries {
        // Writing to a string cannot fail.
        let _ = write!(text, "{entry:.9e}f, ");
    }
    text.push('}');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_transforms_convolve() {
        let pixels: [f64; SIDE] = [0.3, -1.2, 0.7, 2.5, -0.4, 1.1];
        let window: [f64; WINDOW] = [0.6, -0.9, 1.4];
        let dot = |row: &[f64], values: &[f64]| -> f64 { row.iter().zip(values).map(|(a, b)| a * b).sum() };
        let input = input_transform().map(|row| dot(&row, &pixels));
        let weights = weight_transform().map(|row| dot(&row, &window));
        let products: Vec<f64> = input.iter().zip(weights).map(|(a, b)| a * b).collect();
        for (at, row) in output_transform().iter().enumerate() {
            let direct = dot(&window, &pixels[at..at + WINDOW]);
            assert!((dot(row, &products) - direct).abs() < 1e-12, "pixel {at}");
        }
    }

    #[test]
    fn a_window_s_points_are_transformed_along_both_axes() {
        let corner = weight_points([[1.0, 0.0, 0.0], [0.0; 3], [0.0; 3]]);
        let transform = weight_transform();
        assert!((corner[1][2] - transform[1][0] * transform[2][0]).abs() < 1e-12);
    }
}

//! The transforms of the Winograd convolution F(4x4, 3x3).
//!
//! From its points by the rule of Toom and Cook (Lavin and Gray, "Fast Algorithms
//! for Convolutional Neural Networks", CVPR'16, appendix): a result is
//! `A^T [(G g G^T) * (B^T d B)] A`. The points 0, +-1/sqrt(2), +-sqrt(2) and infinity
//! round less than the textbook's 0, +-1, +-2 and infinity: the entries stay smaller.

use std::f64::consts::{FRAC_1_SQRT_2, SQRT_2};
use std::fmt::Write;

use coexec_sim::kernel::gpu::{WINOGRAD_SIDE, WINOGRAD_TILE};

/// Points along a side of a tile.
const SIDE: usize = WINOGRAD_SIDE as usize;
/// Pixels along a side of an output tile.
const OUTPUTS: usize = WINOGRAD_TILE as usize;
/// Pixels along a side of the window.
const WINDOW: usize = 3;

/// `B^T`: the row of a point holds the polynomial that vanishes at all others; the last, for
/// infinity, the one that vanishes at all.
const INPUT_TRANSFORM: [[f64; SIDE]; SIDE] = [
    [1.0, 0.0, -2.5, 0.0, 1.0, 0.0],
    [0.0, -SQRT_2, -2.0, FRAC_1_SQRT_2, 1.0, 0.0],
    [0.0, SQRT_2, -2.0, -FRAC_1_SQRT_2, 1.0, 0.0],
    [0.0, -FRAC_1_SQRT_2, -0.5, SQRT_2, 1.0, 0.0],
    [0.0, FRAC_1_SQRT_2, -0.5, -SQRT_2, 1.0, 0.0],
    [0.0, 1.0, 0.0, -2.5, 0.0, 1.0],
];

/// `G`: the powers of each point, over the product of its distances to the others.
const WEIGHT_TRANSFORM: [[f64; WINDOW]; SIDE] = [
    [1.0, 0.0, 0.0],
    [-2.0 / 3.0, -SQRT_2 / 3.0, -1.0 / 3.0],
    [-2.0 / 3.0, SQRT_2 / 3.0, -1.0 / 3.0],
    [1.0 / 6.0, SQRT_2 / 6.0, 1.0 / 3.0],
    [1.0 / 6.0, -SQRT_2 / 6.0, 1.0 / 3.0],
    [0.0, 0.0, 1.0],
];

/// `A^T`: powers of the points.
const OUTPUT_TRANSFORM: [[f64; SIDE]; OUTPUTS] = [
    [1.0, 1.0, 1.0, 1.0, 1.0, 0.0],
    [0.0, FRAC_1_SQRT_2, -FRAC_1_SQRT_2, SQRT_2, -SQRT_2, 0.0],
    [0.0, 0.5, 0.5, 2.0, 2.0, 0.0],
    [0.0, FRAC_1_SQRT_2 / 2.0, -FRAC_1_SQRT_2 / 2.0, 2.0 * SQRT_2, -2.0 * SQRT_2, 1.0],
];

/// The points of a 3x3 `window`, row by row.
pub(super) fn weight_points(window: [[f64; WINDOW]; WINDOW]) -> [[f64; SIDE]; SIDE] {
    let mut points = [[0.0; SIDE]; SIDE];
    for (row, left) in points.iter_mut().zip(&WEIGHT_TRANSFORM) {
        for (point, right) in row.iter_mut().zip(&WEIGHT_TRANSFORM) {
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
        ("INPUT_TRANSFORM", braced(INPUT_TRANSFORM.as_flattened())),
        ("OUTPUT_TRANSFORM", braced(OUTPUT_TRANSFORM.as_flattened())),
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
        let input = INPUT_TRANSFORM.map(|row| dot(&row, &pixels));
        let weights = WEIGHT_TRANSFORM.map(|row| dot(&row, &window));
        let products: Vec<f64> = input.iter().zip(weights).map(|(a, b)| a * b).collect();
        for (at, row) in OUTPUT_TRANSFORM.iter().enumerate() {
            let direct = dot(&window, &pixels[at..at + WINDOW]);
            assert!((dot(row, &products) - direct).abs() < 1e-12, "pixel {at}");
        }
    }

    #[test]
    fn a_window_s_points_are_transformed_along_both_axes() {
        let corner = weight_points([[1.0, 0.0, 0.0], [0.0; 3], [0.0; 3]]);
        let transform = WEIGHT_TRANSFORM;
        assert!((corner[1][2] - transform[1][0] * transform[2][0]).abs() < 1e-12);
    }
}

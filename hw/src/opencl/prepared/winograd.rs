//! Steps of a Winograd convolution, F(4x4, 3x3): input transform, products, output transform.
//!
//! The transforms follow from interpolation points by the Toom-Cook rule (Lavin and Gray, "Fast
//! Algorithms for Convolutional Neural Networks", CVPR'16, appendix): a result is `A^T [(G g G^T) *
//! (B^T d B)] A`. The points 0, +-1/sqrt(2), +-sqrt(2) and infinity have smaller rounding errors
//! than the textbook's 0, +-1, +-2 and infinity, because the entries of the matrices are smaller.

use std::f64::consts::{FRAC_1_SQRT_2, SQRT_2};
use std::sync::Arc;

use coexec_sim::kernel::gpu::{WINOGRAD_POINTS, WINOGRAD_SIDE, WINOGRAD_TILE};
use coexec_sim::workload::{Conv2d, Elementwise, Shape, Window};

use super::{Argument, Builder, ComputedPart, LaunchGrid, Operand};
use crate::cpu::Element;
use crate::opencl::{Result, Source};

/// Work-groups of the input transform, of which the first that fits is used (LiteRT sources).
const TO_POINTS_GROUPS: [[u32; 3]; 5] = [[8, 6, 4], [8, 6, 2], [4, 6, 2], [4, 6, 1], [1, 6, 1]];
/// Work-groups of the output transform, of which the first that fits is used (LiteRT sources).
const TO_PIXELS_GROUPS: [[u32; 3]; 5] = [[32, 4, 2], [16, 4, 2], [16, 4, 1], [8, 4, 1], [1, 4, 1]];

/// Points along a side of a transformed tile.
const SIDE: usize = WINOGRAD_SIDE as usize;
/// Pixels along a side of an output tile.
const OUTPUTS: usize = WINOGRAD_TILE as usize;
/// Pixels along a side of the window.
const WINDOW: usize = 3;

/// `B^T`: the row of a point holds the polynomial with roots at all other finite points; the last
/// row, for infinity, the one with roots at all finite points.
const INPUT_TRANSFORM: [[f64; SIDE]; SIDE] = [
    [1.0, 0.0, -2.5, 0.0, 1.0, 0.0],
    [0.0, -SQRT_2, -2.0, FRAC_1_SQRT_2, 1.0, 0.0],
    [0.0, SQRT_2, -2.0, -FRAC_1_SQRT_2, 1.0, 0.0],
    [0.0, -FRAC_1_SQRT_2, -0.5, SQRT_2, 1.0, 0.0],
    [0.0, FRAC_1_SQRT_2, -0.5, -SQRT_2, 1.0, 0.0],
    [0.0, 1.0, 0.0, -2.5, 0.0, 1.0],
];

/// `G`: powers of each point, divided by the product of its distances to the others.
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

impl<T: Element> Builder<'_, T> {
    pub(super) fn winograd(&mut self, conv: &Conv2d) -> Result<()> {
        if self.dispatch.tile[1] != 1 {
            // Each row of points has weights of its own, so a tile must not span rows.
            let [x, y, slices] = self.dispatch.tile;
            self.dispatch.tile = [x * y, 1, slices];
        }
        let (region, images) = (self.region(), conv.input.batch);
        // Columns, rows, images.
        let tiles = [
            (region.size[0] / images).div_ceil(WINOGRAD_TILE),
            region.size[1].div_ceil(WINOGRAD_TILE),
            images,
        ];
        let count = tiles.iter().product();
        let points = |channels| Shape { batch: 1, height: WINOGRAD_POINTS, width: count, channels };
        let computed = self.slices() as u32 * 4;
        let [input, output] = self.input_to_output();
        let [transformed, products] =
            [self.inner(points(conv.input.channels))?, self.inner(points(computed))?];
        let grid = LaunchGrid {
            threads: [count, WINOGRAD_SIDE, conv.input.channels.div_ceil(4)],
            work_group: self.fitting(TO_POINTS_GROUPS),
        };
        let kernel = (&self.winograd_source(&[]), "to_points");
        let more = vec![Argument::window(&conv.window), Argument::numbers(tiles)];
        self.push_between([&input, &transformed], region, kernel, grid, [Vec::new(), more])?;

        self.push_products(conv, count, [&transformed, &products])?;

        let grid = LaunchGrid {
            threads: [count, WINOGRAD_TILE, self.slices() as u32],
            work_group: self.fitting(TO_PIXELS_GROUPS),
        };
        let kernel = (&self.winograd_source(&self.linked()), "to_pixels");
        let bias = vec![self.per_channel(self.weights.bias)?];
        self.push_between([&products, &output], region, kernel, grid, [bias, vec![Argument::numbers(tiles)]])
    }

    fn push_products(&mut self, conv: &Conv2d, count: u32, points: [&Operand<T>; 2]) -> Result<()> {
        let blocks = self.dense_blocks([conv.input.channels, conv.output_channels]);
        let packed = blocks.pack(WINOGRAD_POINTS as usize, {
            let transformed = transformed_weights(conv, self.weights.kernel);
            let inputs = conv.input.channels as usize;
            move |point, to, _, from| transformed[(to * inputs + from) * WINOGRAD_POINTS as usize + point]
        });
        let weights = Arc::new(self.runtime.buffer_of::<T>(&packed)?);
        let mut source =
            Source::of_tensors("conv", include_str!("../kernels/conv.cl"), T::DATA_TYPE, self.layout);
        source.link(&[], false);
        source.option("ROW_WEIGHTS");
        source.option("NO_BIAS");
        let size = [count, WINOGRAD_POINTS, self.slices() as u32];
        let region = ComputedPart { first: [0; 3], size, images: 1 };
        self.push_product(source, (blocks, weights), Window::valid(1), region, points)
    }

    /// The source of both transforms.
    fn winograd_source(&self, functions: &[Elementwise]) -> Source {
        let mut source = self.source_linking("winograd", include_str!("../kernels/winograd.cl"), functions);
        source.define("INPUT_TRANSFORM", &braced(INPUT_TRANSFORM.as_flattened()));
        source.define("OUTPUT_TRANSFORM", &braced(OUTPUT_TRANSFORM.as_flattened()));
        source
    }

    /// The first of `groups` that the device supports.
    fn fitting<const N: usize>(&self, groups: [[u32; 3]; N]) -> [u32; 3] {
        let device = self.runtime.device();
        let fits = |group: &[u32; 3]| device.allows(*group, device.max_work_group_size);
        groups.into_iter().find(fits).unwrap_or(groups[N - 1])
    }
}

/// The 36 transformed weights between each output and input channel.
fn transformed_weights(conv: &Conv2d, kernel: &[f32]) -> Vec<f32> {
    let inputs = conv.input.channels as usize;
    let mut transformed =
        Vec::with_capacity(conv.output_channels as usize * inputs * WINOGRAD_POINTS as usize);
    for to in 0..conv.output_channels as usize {
        for from in 0..inputs {
            let tap =
                |row: usize, column: usize| f64::from(kernel[(to * 9 + row * 3 + column) * inputs + from]);
            let window = [0, 1, 2].map(|row| [0, 1, 2].map(|column| tap(row, column)));
            transformed.extend(weight_points(window).as_flattened().iter().map(|&point| point as f32));
        }
    }
    transformed
}

/// The transformed weights of a 3x3 `window`, row-major.
fn weight_points(window: [[f64; WINDOW]; WINDOW]) -> [[f64; SIDE]; SIDE] {
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

/// The entries of a matrix as an initialiser in `OpenCL` C.
fn braced(entries: &[f64]) -> String {
    let entries: Vec<String> = entries.iter().map(|entry| format!("{entry:.9e}f")).collect();
    format!("{{{}}}", entries.join(", "))
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

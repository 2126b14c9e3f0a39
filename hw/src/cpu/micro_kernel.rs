//! The micro-kernels: each computes one tile of a matrix product.
//!
//! A tile is a number of pixels by a number of output channels, with channels along the vector
//! lanes. Inputs are read in place through one pointer per pixel and segment (a window position; a
//! plain product has one segment), so a convolution needs no im2col. The loops are written once
//! over [`Register`]s and compiled for each instruction set. Invariant: a micro-kernel computes
//! whole tiles; the caller trims the edges.

#![expect(
    clippy::needless_range_loop,
    reason = "iterator adapters may not be inlined into functions with target features"
)]

use std::array;

use super::{Element, Register};

/// Largest tile of any micro-kernel, in pixels.
pub(super) const MAX_TILE_PIXELS: usize = 14;
/// Largest tile of any micro-kernel, in output channels.
pub(super) const MAX_TILE_CHANNELS: usize = 32;

/// Operands of one micro-kernel call.
///
/// For `n` segments of depth `d` and a tile of `p` pixels and `c` channels:
/// `output[i][j] = clamp(start[i][j] + sum_s sum_k rows[s * p + i][k] * weights[(s * d + k) * c + j])`.
pub(super) struct TileCall<T> {
    /// Pointers to each pixel's inputs: all pixels of a segment, then the next segment.
    pub(super) rows: *const *const T,
    /// Number of segments.
    pub(super) segments: usize,
    /// Consecutive inputs of a segment.
    pub(super) depth: usize,
    /// Packed weights.
    pub(super) weights: *const T,
    /// Initial values of the accumulators: the bias, or the partial sums so far.
    pub(super) start: *const T,
    /// Elements from one pixel's initial values to the next's; 0 for a bias.
    pub(super) start_stride: usize,
    /// First output element.
    pub(super) output: *mut T,
    /// Elements from one pixel's output to the next.
    pub(super) output_stride: usize,
    /// Bounds of the results: a fused activation.
    pub(super) clamp: [T; 2],
}

/// A micro-kernel.
///
/// Safety condition: every pointer of the call is valid for what the formula reads and writes, and
/// the processor has the kernel's instructions.
pub(super) type Tile<T> = unsafe fn(&TileCall<T>);

/// The micro-kernels of one instruction set.
#[derive(Clone, Copy, Debug)]
pub struct MicroKernel<T> {
    /// Pixels of a tile.
    pub(super) pixels: usize,
    /// Output channels of a tile.
    pub(super) channels: usize,
    /// Computes a whole tile.
    pub(super) tile: Tile<T>,
    /// Computes a tile of one pixel (matrix-vector product).
    pub(super) vector: Tile<T>,
}

/// Computes a tile of `P` pixels and `N` registers of channels.
///
/// # Safety
/// As for [`Tile`]; must be inlined into a function that enables the instructions of `V`.
#[inline(always)]
pub(super) unsafe fn tile<T: Element, V: Register<T>, const P: usize, const N: usize>(call: &TileCall<T>) {
    // SAFETY: every pointer is valid for what the call's formula reads and writes,
    // and the offsets below are those of the formula.
    unsafe {
        let mut sums = [V::load_all::<N>(call.start); P];
        for pixel in 1..P {
            sums[pixel] = V::load_all(call.start.add(pixel * call.start_stride));
        }
        let mut weights = call.weights;
        for segment in 0..call.segments {
            let rows: &[*const T; P] = &*call.rows.add(segment * P).cast();
            let whole = call.depth / V::STEPS * V::STEPS;
            let mut k = 0;
            while k < whole {
                V::add_steps(&mut sums, rows, k, weights);
                weights = weights.add(V::STEPS * N * V::LANES);
                k += V::STEPS;
            }
            for k in whole..call.depth {
                V::add_step(&mut sums, rows, k, weights);
                weights = weights.add(N * V::LANES);
            }
        }
        for pixel in 0..P {
            store(sums[pixel], call.clamp, call.output.add(pixel * call.output_stride));
        }
    }
}

/// Computes a tile of one pixel. `S` steps of the depth have accumulators of their own, so that
/// their additions overlap.
///
/// # Safety
/// As for [`tile`].
#[inline(always)]
pub(super) unsafe fn vector<T: Element, V: Register<T>, const N: usize, const S: usize>(call: &TileCall<T>) {
    // SAFETY: every pointer is valid for what the call's formula reads and writes,
    // and the offsets below are those of the formula.
    unsafe {
        let mut sums = [[V::broadcast(T::default()); N]; S];
        sums[0] = V::load_all(call.start);
        let mut weights = call.weights;
        for segment in 0..call.segments {
            let rows = [*call.rows.add(segment)];
            let whole = call.depth / S * S;
            let mut k = 0;
            while k < whole {
                for step in 0..S {
                    let column = weights.add(step * N * V::LANES);
                    V::add_step(array::from_mut(&mut sums[step]), &rows, k + step, column);
                }
                weights = weights.add(S * N * V::LANES);
                k += S;
            }
            for k in whole..call.depth {
                V::add_step(array::from_mut(&mut sums[0]), &rows, k, weights);
                weights = weights.add(N * V::LANES);
            }
        }
        for step in 1..S {
            for vector in 0..N {
                sums[0][vector] = sums[0][vector].add(sums[step][vector]);
            }
        }
        store(sums[0], call.clamp, call.output);
    }
}

/// Stores the clamped sums of one pixel.
///
/// # Safety
/// `to` is valid for as many writes as a tile has channels; the processor has the instructions of
/// `V`.
#[inline(always)]
unsafe fn store<T: Element, V: Register<T>, const N: usize>(sums: [V; N], [low, high]: [T; 2], to: *mut T) {
    // SAFETY: the caller vouches for the instructions and all registers.
    unsafe {
        for vector in 0..N {
            let sum = sums[vector].maximum(V::broadcast(low)).minimum(V::broadcast(high));
            sum.store(to.add(vector * V::LANES));
        }
    }
}

/// Instantiates the micro-kernels of one register type, compiled with the target features
/// `$features`: a tile of `$pixels` pixels by `$vectors` registers of channels, and `$steps` depth
/// steps in flight in the matrix-vector product.
macro_rules! micro_kernel {
    ($($features:literal,)? $element:ty, $register:ty, $pixels:expr, $vectors:expr, $steps:expr) => {{
        $(#[target_feature(enable = $features)])?
        unsafe fn tile(call: &TileCall<$element>) {
            // SAFETY: the caller vouches for the call and the instructions.
            unsafe { micro_kernel::tile::<$element, $register, { $pixels }, { $vectors }>(call) }
        }
        $(#[target_feature(enable = $features)])?
        unsafe fn vector(call: &TileCall<$element>) {
            // SAFETY: the caller vouches for the call and the instructions.
            unsafe { micro_kernel::vector::<$element, $register, { $vectors }, { $steps }>(call) }
        }
        const LANES: usize = <$register as Register<$element>>::LANES;
        MicroKernel { pixels: $pixels, channels: $vectors * LANES, tile, vector }
    }};
}
pub(super) use micro_kernel;

//! The interface of the micro-kernels: one tile of a matrix product.
//!
//! A tile is some pixels by some output channels, channels along the vectors.
//! The pixels' inputs are read where they lie, through one pointer a pixel and
//! segment (a window position; a plain product has one segment), so a
//! convolution needs no im2col. Invariant: a kernel computes whole tiles; who
//! calls it trims the edges.

/// Most pixels of any micro-kernel's tile.
pub(super) const MAX_TILE_PIXELS: usize = 14;
/// Most output channels of any micro-kernel's tile.
pub(super) const MAX_TILE_CHANNELS: usize = 32;

/// Operands of one micro-kernel call.
///
/// For `n` segments of depth `d` and a tile of `p` pixels and `c` channels:
/// `output[i][j] = clamp(start[i][j] + sum_s sum_k rows[s * p + i][k] * weights[(s * d + k) * c + j])`.
pub(super) struct TileCall<T> {
    /// Where each pixel's inputs start, all pixels of a segment together.
    pub(super) rows: *const *const T,
    /// Number of segments.
    pub(super) segments: usize,
    /// Consecutive inputs in a segment.
    pub(super) depth: usize,
    /// Packed weights.
    pub(super) weights: *const T,
    /// What the accumulators start from: the bias, or what the output holds.
    pub(super) start: *const T,
    /// Elements from one pixel's start to the next; 0 for a bias.
    pub(super) start_stride: usize,
    /// First element written.
    pub(super) output: *mut T,
    /// Elements from one pixel's output to the next.
    pub(super) output_stride: usize,
    /// Bounds of the results: an activation linked to the product.
    pub(super) clamp: [T; 2],
}

/// A micro-kernel.
///
/// Its safety condition: all pointers of the call are valid for what the
/// formula reads and writes, and the processor has the kernel's instructions.
pub(super) type Tile<T> = unsafe fn(&TileCall<T>);

/// The micro-kernels of one instruction set.
#[derive(Clone, Copy, Debug)]
pub struct MicroKernel<T> {
    /// Pixels of a tile.
    pub(super) pixels: usize,
    /// Output channels of a tile.
    pub(super) channels: usize,
    /// Computes a tile.
    pub(super) tile: Tile<T>,
    /// Computes the tile of a single pixel (matrix times vector).
    pub(super) vector: Tile<T>,
}

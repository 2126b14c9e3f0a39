//! The tile of a thread of a generic convolution, and the inputs of the tile rules.

/// Bytes of one texel, a slice of one pixel: four 16-bit channels. The delegate runs 32-bit models in
/// 16 bits, too.
pub(crate) const SLICE_BYTES: u64 = 8;

/// A tensor in the delegate's layout: the batch folded into the width, channels in slices of four.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Images.
    pub batch: u32,
    /// Columns of an image.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// Slices of four channels.
    pub slices: u32,
}

impl Extent {
    /// Columns of all images.
    pub(crate) fn columns(self) -> u32 {
        self.batch.saturating_mul(self.width)
    }

    /// Pixels of all images.
    pub(crate) fn pixels(self) -> u64 {
        u64::from(self.columns()) * u64::from(self.height)
    }

    /// Texels of the tensor.
    pub(crate) fn texels(self) -> u64 {
        self.pixels() * u64::from(self.slices)
    }

    /// Size in memory.
    pub(crate) fn bytes(self) -> u64 {
        self.texels() * SLICE_BYTES
    }
}

/// Output block of one thread: columns x rows of pixels, and output slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tile {
    /// Columns.
    pub x: u32,
    /// Rows.
    pub y: u32,
    /// Output slices.
    pub slices: u32,
}

impl Tile {
    /// A tile of `x` columns, `y` rows and `slices` output slices.
    pub const fn new(x: u32, y: u32, slices: u32) -> Self {
        Self { x, y, slices }
    }

    /// Pixels of the tile.
    pub fn pixels(self) -> u32 {
        self.x * self.y
    }

    /// Texels of the tile.
    pub fn texels(self) -> u32 {
        self.pixels() * self.slices
    }

    /// The tile folded into a row, (bx*by, 1, bs), for matrix products and Winograd's middle kernel,
    /// whose rows have different weights.
    #[must_use]
    pub fn folded(self) -> Self {
        Self { x: self.pixels(), y: 1, slices: self.slices }
    }
}

/// Inputs of the tile rules. Each family's rule trades reuse (large tiles) against occupancy (small
/// tiles).
#[derive(Clone, Copy, Debug)]
pub struct TileTask {
    /// Output extent; for Winograd's middle kernel, the extent of the convolution's input.
    pub shape: Extent,
    /// Input slices.
    pub source_slices: u32,
    /// Output slices.
    pub output_slices: u32,
    /// 1x1, stride 1, undilated, unpadded.
    pub trivial: bool,
    /// Compute units of the GPU.
    pub compute_units: u32,
}

impl TileTask {
    /// Output texels per compute unit.
    pub(super) fn per_unit(&self) -> f64 {
        self.shape.pixels() as f64 * f64::from(self.output_slices) / f64::from(self.compute_units)
    }

    /// The first unroll of `offered` that divides the source slices; 1 if none does.
    pub(super) fn unroll(&self, offered: &[u32]) -> u32 {
        offered.iter().copied().find(|&unroll| self.source_slices.is_multiple_of(unroll)).unwrap_or(1)
    }

    /// Output slices per thread: four or two if they divide the count or waste little of it, else all
    /// (one or three).
    pub(super) fn slices_up_to_four(&self) -> u32 {
        match self.output_slices {
            slices if slices.is_multiple_of(4) || slices >= 8 => 4,
            slices if slices.is_multiple_of(2) || slices >= 4 => 2,
            slices => slices,
        }
    }

    /// Source unroll by the texels of a thread's tile: small tiles unroll more.
    pub(super) fn unroll_by_texels(&self, texels: u32) -> u32 {
        match texels {
            1 => self.unroll(&[4, 2]),
            2 => self.unroll(&[2]),
            _ => 1,
        }
    }

    /// Source unroll by the output slices of a thread's tile.
    pub(super) fn unroll_by_slices(&self, slices: u32) -> u32 {
        if slices <= 2 { self.unroll(&[4, 2]) } else { self.unroll(&[2]) }
    }
}

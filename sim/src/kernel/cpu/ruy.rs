//! ruy's division of a matrix product: thread count and block map.
//!
//! Re-implements the rules of ruy's `trmul` and `block_map` (google/ruy at 2af8886) in
//! integer arithmetic; no times. The left operand is the weight matrix, whose rows are
//! the output channels; the columns of the right operand are the pixels.

/// Minimum multiply-accumulates per thread (ruy, `trmul`).
const MACS_PER_THREAD: u64 = 32_768;
/// Local (first-level) cache size that ruy assumes for a core unknown to it, in bytes.
const LOCAL_CACHE_BYTES: u64 = 32_768;
/// Candidate block sizes: the tile size and up to this many doublings.
const MAX_DOUBLINGS: u32 = 6;
/// Base-2 logarithm of the minimum tiles that a part keeps when the longer side is cut.
const SQUARE_DOUBLINGS: u32 = 3;
/// Kernel amortisation score per doubling of the tiles in a block: larger blocks amortise
/// the start of the kernel.
const AMORTISATION_PER_DOUBLING: i32 = 8;
/// Maximum of the kernel amortisation score.
const MAX_AMORTISATION: i32 = 64;
/// Score of a block size with fewer blocks than threads, or far too large for the cache.
const WORST_SCORE: i32 = -64;

/// A matrix product: `channels x depth` weights times `depth x pixels`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Product {
    /// Rows of the left operand: output channels.
    pub channels: u64,
    /// Columns of the right operand: output pixels, or tokens.
    pub pixels: u64,
    /// Columns of the left operand: window taps times input channels.
    pub depth: u64,
}

/// Tile of a micro-kernel: the block of the result it computes, and its step along the
/// depth. Powers of two in ruy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tile {
    /// Output channels of a tile.
    pub channels: u64,
    /// Pixels of a tile.
    pub pixels: u64,
    /// Multiple to which the depth is padded.
    pub depth: u64,
}

/// A grid of blocks over the result; block sizes differ by at most one tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlockMap {
    /// Blocks along the output channels, a power of two.
    pub channel_blocks: u64,
    /// Blocks along the pixels, a power of two.
    pub pixel_blocks: u64,
    /// Threads that get a block.
    pub threads: u32,
    /// Output channels of a small block.
    pub small_block_channels: u64,
    /// Blocks along the output channels that are one tile larger.
    pub large_channel_blocks: u64,
    /// Pixels of a small block.
    pub small_block_pixels: u64,
    /// Blocks along the pixels that are one tile larger.
    pub large_pixel_blocks: u64,
}

impl BlockMap {
    /// Number of blocks.
    pub fn blocks(&self) -> u64 {
        self.channel_blocks * self.pixel_blocks
    }
}

impl Product {
    /// The product padded to whole tiles, as it is computed.
    #[must_use]
    pub fn padded(&self, tile: Tile) -> Self {
        Self {
            channels: self.channels.next_multiple_of(tile.channels),
            pixels: self.pixels.next_multiple_of(tile.pixels),
            depth: self.depth.next_multiple_of(tile.depth),
        }
    }
}

/// Threads that ruy uses for `product`, with `most` as the maximum.
pub fn thread_count(product: Product, most: u32) -> u32 {
    let macs = product.channels.saturating_mul(product.pixels).saturating_mul(product.depth);
    (macs / MACS_PER_THREAD).clamp(1, u64::from(most.max(1))) as u32
}

/// ruy's block map of `product` for `threads` threads, with elements of `element_bytes` in
/// both operands.
///
/// The longer side is halved until the parts are about square; the squares are then divided
/// into blocks of the best-scoring size.
pub fn block_map(product: Product, tile: Tile, element_bytes: u64, threads: u32) -> BlockMap {
    let Product { channels: rows, pixels: columns, .. } = product.padded(tile);
    let (row_kernel, column_kernel) = (tile.channels.ilog2(), tile.pixels.ilog2());
    let row_halvings = rectangularity(rows, row_kernel, columns, column_kernel);
    let column_halvings = rectangularity(columns, column_kernel, rows, row_kernel);

    let kernel = row_kernel.max(column_kernel);
    let square = kernel.max(rows.min(columns).ilog2());
    let score = |&block: &u32| {
        multithreading_score(rows, columns, block, threads)
            + locality_score(rows, columns, block, product.depth * element_bytes, tile)
            + amortisation_score(rows, columns, block, row_kernel + column_kernel)
    };
    // On a tie, the largest.
    let best = (kernel..=square.min(kernel + MAX_DOUBLINGS)).max_by_key(score).unwrap_or(kernel);
    let halvings = square - best;
    let (row_log2, column_log2) = (halvings + row_halvings, halvings + column_halvings);
    let small_rows = (rows >> row_log2) / tile.channels * tile.channels;
    let small_columns = (columns >> column_log2) / tile.pixels * tile.pixels;
    BlockMap {
        channel_blocks: 1 << row_log2,
        pixel_blocks: 1 << column_log2,
        threads: u64::from(threads).min(1 << (row_log2 + column_log2)) as u32,
        small_block_channels: small_rows,
        large_channel_blocks: (rows - (small_rows << row_log2)).div_ceil(tile.channels),
        small_block_pixels: small_columns,
        large_pixel_blocks: (columns - (small_columns << column_log2)).div_ceil(tile.pixels),
    }
}

/// Halvings of the `long` side that bring it near the `short` one, as long as the parts stay
/// a few tiles long; 0 if it is not the longer side.
fn rectangularity(long: u64, long_kernel: u32, short: u64, short_kernel: u32) -> u32 {
    if long <= short {
        return 0;
    }
    let short_tiles = ceil_log2(short) - short_kernel;
    let keep = SQUARE_DOUBLINGS.saturating_sub(short_tiles);
    floor_log2_of_quotient(long, short).min(long.ilog2().saturating_sub(long_kernel + keep))
}

/// Rewards many blocks per thread, which balances the load.
fn multithreading_score(rows: u64, columns: u64, block: u32, threads: u32) -> i32 {
    if threads <= 1 {
        return 0;
    }
    let blocks = ((rows >> block) * (columns >> block)).max(1).ilog2();
    match log2_difference(blocks, ceil_log2(u64::from(threads))) {
        ..0 => WORST_SCORE,
        0 => -16,
        1 => -8,
        2 => 0,
        3 => 8,
        _ => 16,
    }
}

/// Rewards blocks whose two panels fit the first-level cache.
fn locality_score(rows: u64, columns: u64, block: u32, panel_bytes: u64, tile: Tile) -> i32 {
    if rows <= tile.channels || columns <= tile.pixels {
        return 0;
    }
    let lines = rows.min(1 << block) + columns.min(1 << block);
    let bytes = lines.saturating_mul(panel_bytes);
    match log2_difference(ceil_log2(bytes), LOCAL_CACHE_BYTES.ilog2()) {
        ..-1 => 64,
        -1 => 56,
        0 => 48,
        1 => 32,
        2 => 16,
        3 => 0,
        _ => WORST_SCORE,
    }
}

/// Rewards blocks of many tiles.
fn amortisation_score(rows: u64, columns: u64, block: u32, kernel_log2: u32) -> i32 {
    let elements = rows.min(1 << block) * columns.min(1 << block);
    let tiles = log2_difference(elements.ilog2(), kernel_log2);
    (AMORTISATION_PER_DOUBLING * tiles).min(MAX_AMORTISATION)
}

/// `log2 - other`, signed; logarithms of 64-bit values cannot overflow.
fn log2_difference(log2: u32, other: u32) -> i32 {
    log2.cast_signed() - other.cast_signed()
}

/// Base-2 logarithm, rounded up; 0 for 0.
fn ceil_log2(value: u64) -> u32 {
    if value <= 1 { 0 } else { (value - 1).ilog2() + 1 }
}

/// Base-2 logarithm of `numerator / denominator`, rounded down; 0 below 1.
fn floor_log2_of_quotient(numerator: u64, denominator: u64) -> u32 {
    if numerator <= denominator {
        return 0;
    }
    let low = numerator.ilog2().saturating_sub(ceil_log2(denominator));
    if denominator << (low + 1) <= numerator { low + 1 } else { low }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const F32: Tile = Tile { channels: 8, pixels: 8, depth: 1 };

    #[test]
    fn a_long_map_is_cut_along_its_pixels_only() {
        let product = Product { channels: 64, pixels: 3136, depth: 64 };
        let map = block_map(product, F32, 4, 4);
        assert_eq!((map.channel_blocks, map.pixel_blocks), (1, 32));
        assert_eq!((map.small_block_pixels, map.large_pixel_blocks), (96, 8));
    }

    #[test]
    fn small_products_stay_on_one_thread() {
        let product = |pixels| Product { channels: 64, pixels, depth: 64 };
        assert_eq!(thread_count(product(8), 4), 1);
        assert_eq!(thread_count(product(16), 4), 2);
        assert_eq!(thread_count(product(100), 4), 4);
    }

    #[test]
    fn dot_product_tiles_pad_the_depth() {
        let product = Product { channels: 10, pixels: 9, depth: 27 };
        let tile = Tile { channels: 8, pixels: 8, depth: 4 };
        assert_eq!(product.padded(tile), Product { channels: 16, pixels: 16, depth: 28 });
    }

    proptest! {
        #[test]
        fn blocks_cover_the_padded_product(
            channels in 1_u64..20_000,
            pixels in 1_u64..200_000,
            depth in 1_u64..50_000,
            threads in 1_u32..=8,
        ) {
            let product = Product { channels, pixels, depth };
            let map = block_map(product, F32, 4, threads);
            let padded = product.padded(F32);
            let rows = map.channel_blocks * map.small_block_channels + 8 * map.large_channel_blocks;
            let columns = map.pixel_blocks * map.small_block_pixels + 8 * map.large_pixel_blocks;
            prop_assert_eq!((rows, columns), (padded.channels, padded.pixels));
            prop_assert!(map.channel_blocks >= map.large_channel_blocks);
            prop_assert!((1..=threads).contains(&map.threads));
        }
    }
}

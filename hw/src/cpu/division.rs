//! How a product is divided into blocks that threads take one by one.
//!
//! The rules are the simulator's: ruy's block map, counted in tiles of the
//! micro-kernel at hand (on 64-bit Arm these are ruy's own 8x8, so that what
//! runs is what is modelled), or XNNPACK's tiles. Neither depends on time.

use std::ops::Range;

use coexec_sim::kernel::cpu::Library;
use coexec_sim::kernel::cpu::ruy::{self, BlockMap, Product, Tile};

/// Side of ruy's f32 tile on 64-bit Arm, in which its rules think.
const RUY_TILE: u64 = 8;
/// Tiles a thread XNNPACK aims at when it chooses how wide a tile is.
const TILES_PER_THREAD: usize = 5;

/// A product in units of a micro-kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Output pixels.
    pub pixels: usize,
    /// Output channels.
    pub channels: usize,
    /// Multiply-accumulates for one result.
    pub depth: usize,
    /// Independent products of these extents (groups, heads, images).
    pub products: usize,
    /// Pixels of a tile.
    pub tile_pixels: usize,
    /// Output channels of a tile.
    pub tile_channels: usize,
    /// Bytes of a number.
    pub element_bytes: usize,
}

/// One side cut into parts that differ by at most a tile, the larger first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Side {
    tiles: usize,
    small: usize,
    large_parts: usize,
}

/// A grid of blocks over each of the products.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Division {
    /// Threads that get a block.
    pub threads: usize,
    /// Blocks along the pixels.
    pub pixel_blocks: usize,
    /// Blocks along the output channels.
    pub channel_blocks: usize,
    products: usize,
    pixels: Side,
    channels: Side,
}

/// A block: of which product, and its tiles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) product: usize,
    pub(super) pixel_tiles: Range<usize>,
    pub(super) channel_tiles: Range<usize>,
}

impl Extent {
    fn tiles(&self) -> [usize; 2] {
        [self.pixels.div_ceil(self.tile_pixels), self.channels.div_ceil(self.tile_channels)]
    }
}

impl Side {
    fn even(tiles: usize, parts: usize) -> Self {
        Self { tiles, small: tiles / parts, large_parts: tiles % parts }
    }

    fn part(&self, index: usize) -> Range<usize> {
        let start = |index: usize| (index * self.small + index.min(self.large_parts)).min(self.tiles);
        start(index)..start(index + 1)
    }
}

impl Division {
    /// Divides a product for up to `threads` threads as `library` does.
    pub fn new(extent: &Extent, library: Library, threads: usize) -> Self {
        match library {
            Library::Ruy => Self::ruy(extent, threads),
            Library::Xnnpack => Self::xnnpack(extent, threads),
        }
    }

    /// A block map of ruy's, in tiles of 8x8, laid over the tiles of `extent`.
    ///
    /// `None` where the map does not cover the product's tiles exactly.
    pub fn of_block_map(extent: &Extent, map: &BlockMap) -> Option<Self> {
        let [pixel_tiles, channel_tiles] = extent.tiles();
        let division = Self {
            threads: map.threads as usize,
            pixel_blocks: map.pixel_blocks as usize,
            channel_blocks: map.channel_blocks as usize,
            products: extent.products,
            pixels: Side {
                tiles: pixel_tiles,
                small: (map.small_block_pixels / RUY_TILE) as usize,
                large_parts: map.large_pixel_blocks as usize,
            },
            channels: Side {
                tiles: channel_tiles,
                small: (map.small_block_channels / RUY_TILE) as usize,
                large_parts: map.large_channel_blocks as usize,
            },
        };
        let covers =
            |side: &Side, parts: usize| parts > 0 && parts * side.small + side.large_parts == side.tiles;
        (division.threads > 0
            && covers(&division.pixels, division.pixel_blocks)
            && covers(&division.channels, division.channel_blocks))
        .then_some(division)
    }

    /// ruy runs one product after the other; here the blocks of all products are
    /// taken in one go, which is the same for one product.
    fn ruy(extent: &Extent, threads: usize) -> Self {
        let Extent { pixels, channels, depth, .. } = *extent;
        let product = Product { channels: channels as u64, pixels: pixels as u64, depth: depth as u64 };
        let most = u32::try_from(threads).unwrap_or(u32::MAX);
        let threads = ruy::thread_count(product, most);
        if threads == 1 {
            return Self::even(extent, 1, [1, 1]);
        }
        // The product as it would be if each tile were ruy's: as many tiles, and panels
        // of as many bytes.
        let [pixel_tiles, channel_tiles] = extent.tiles().map(|tiles| tiles as u64);
        let lines = (extent.tile_pixels + extent.tile_channels) as u64;
        let in_ruy_tiles = Product {
            channels: channel_tiles * RUY_TILE,
            pixels: pixel_tiles * RUY_TILE,
            depth: product.depth * lines / (2 * RUY_TILE),
        };
        let tile = Tile { channels: RUY_TILE, pixels: RUY_TILE, depth: 1 };
        let map = ruy::block_map(in_ruy_tiles, tile, extent.element_bytes as u64, threads);
        Self::of_block_map(extent, &map).expect("the map was made for these tiles")
    }

    /// As the simulator's model of XNNPACK counts tiles: one tile high, and as
    /// wide as leaves several a thread.
    fn xnnpack(extent: &Extent, threads: usize) -> Self {
        let [rows, columns] = extent.tiles();
        if threads == 1 {
            return Self::even(extent, 1, [1, 1]);
        }
        let tiles = rows * extent.products * columns;
        let width = tiles.div_ceil(TILES_PER_THREAD * threads).clamp(1, columns.max(1));
        Self::even(extent, threads, [rows, columns.div_ceil(width)])
    }

    fn even(extent: &Extent, threads: usize, [pixel_blocks, channel_blocks]: [usize; 2]) -> Self {
        let [pixel_tiles, channel_tiles] = extent.tiles();
        let [pixel_blocks, channel_blocks] = [pixel_blocks.max(1), channel_blocks.max(1)];
        Self {
            threads: threads.min(extent.products * pixel_blocks * channel_blocks),
            pixel_blocks,
            channel_blocks,
            products: extent.products,
            pixels: Side::even(pixel_tiles, pixel_blocks),
            channels: Side::even(channel_tiles, channel_blocks),
        }
    }

    /// Number of blocks, of all products.
    pub fn blocks(&self) -> usize {
        self.products * self.pixel_blocks * self.channel_blocks
    }

    /// Block number `index`; blocks that share weights follow one another.
    pub(super) fn block(&self, index: usize) -> Block {
        let (rest, pixel_block) = (index / self.pixel_blocks, index % self.pixel_blocks);
        Block {
            product: rest / self.channel_blocks,
            pixel_tiles: self.pixels.part(pixel_block),
            channel_tiles: self.channels.part(rest % self.channel_blocks),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn extent(pixels: usize, channels: usize, depth: usize, tile: [usize; 2]) -> Extent {
        let [tile_pixels, tile_channels] = tile;
        Extent { pixels, channels, depth, products: 1, tile_pixels, tile_channels, element_bytes: 4 }
    }

    #[test]
    fn on_ruys_tile_the_division_is_the_simulators_block_map() {
        let product = Product { channels: 64, pixels: 3136, depth: 64 };
        let tile = Tile { channels: 8, pixels: 8, depth: 1 };
        let map = ruy::block_map(product, tile, 4, 4);
        let division = Division::new(&extent(3136, 64, 64, [8, 8]), Library::Ruy, 4);
        assert_eq!(division.pixel_blocks as u64, map.pixel_blocks);
        assert_eq!(division.channel_blocks as u64, map.channel_blocks);
        // 32 blocks; the first 8 have one tile more than the others' 12.
        assert_eq!(division.block(0).pixel_tiles, 0..13);
        assert_eq!(division.block(31).pixel_tiles, 380..392);
    }

    #[test]
    fn a_map_of_another_product_is_refused() {
        let tile = Tile { channels: 8, pixels: 8, depth: 1 };
        let map = ruy::block_map(Product { channels: 64, pixels: 64, depth: 64 }, tile, 4, 2);
        assert!(Division::of_block_map(&extent(65, 64, 64, [8, 8]), &map).is_none());
        assert!(Division::of_block_map(&extent(64, 64, 64, [8, 8]), &map).is_some());
    }

    proptest! {
        #[test]
        fn blocks_cover_every_tile_once(
            pixels in 1_usize..500,
            channels in 1_usize..300,
            depth in 1_usize..2000,
            products in 1_usize..4,
            threads in 1_usize..9,
            tile in prop::sample::select(vec![[8, 8], [14, 32], [6, 16], [4, 8]]),
            library in prop::sample::select(vec![Library::Ruy, Library::Xnnpack]),
        ) {
            let extent = Extent { products, ..extent(pixels, channels, depth, tile) };
            let division = Division::new(&extent, library, threads);
            let [rows, columns] = extent.tiles();
            let mut times = vec![0; products * rows * columns];
            for block in (0..division.blocks()).map(|index| division.block(index)) {
                for row in block.pixel_tiles {
                    for column in block.channel_tiles.clone() {
                        times[(block.product * rows + row) * columns + column] += 1;
                    }
                }
            }
            prop_assert!(times.iter().all(|&times| times == 1));
            prop_assert!((1..=threads).contains(&division.threads));
        }
    }
}

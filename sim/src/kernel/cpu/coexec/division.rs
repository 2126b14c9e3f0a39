//! Division of a product of coexec's own kernels into blocks, which threads take one by one.
//!
//! The kernels and their time model share this rule: ruy's block map, counted in tiles of
//! the micro-kernel in use (on 64-bit Arm, ruy's own 8x8). It does not depend on rates.

use std::ops::Range;

use crate::kernel::cpu::ruy::{self, Product, Tile};

/// Side of ruy's f32 tile on 64-bit Arm, for which its rules are tuned.
const RUY_TILE: u64 = 8;

/// Extents of a product and of its micro-kernel's tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Output pixels.
    pub pixels: usize,
    /// Output channels.
    pub channels: usize,
    /// Multiply-accumulates per result.
    pub depth: usize,
    /// Independent products of these extents (groups, heads, images).
    pub products: usize,
    /// Pixels of a tile.
    pub tile_pixels: usize,
    /// Output channels of a tile.
    pub tile_channels: usize,
    /// Bytes of an element.
    pub element_bytes: usize,
}

/// One side divided into parts that differ by at most one tile, the larger ones first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Side {
    tiles: usize,
    small: usize,
    large_parts: usize,
}

/// A grid of blocks over each product.
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

/// A block: its product, and its ranges of tiles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Index of the product.
    pub product: usize,
    /// Tiles along the pixels.
    pub pixel_tiles: Range<usize>,
    /// Tiles along the output channels.
    pub channel_tiles: Range<usize>,
}

impl Extent {
    /// Tiles along the pixels and along the output channels.
    pub fn tiles(&self) -> [usize; 2] {
        [self.pixels.div_ceil(self.tile_pixels), self.channels.div_ceil(self.tile_channels)]
    }
}

impl Side {
    fn part(&self, index: usize) -> Range<usize> {
        let start = |index: usize| (index * self.small + index.min(self.large_parts)).min(self.tiles);
        start(index)..start(index + 1)
    }
}

impl Division {
    /// Divides a product for up to `threads` threads. Unlike ruy, which runs one product after
    /// the other, this puts the blocks of all products into one parallel region.
    pub fn new(extent: &Extent, threads: usize) -> Self {
        let Extent { pixels, channels, depth, .. } = *extent;
        let product = Product { channels: channels as u64, pixels: pixels as u64, depth: depth as u64 };
        let most = u32::try_from(threads).unwrap_or(u32::MAX);
        let threads = ruy::thread_count(product, most);
        let [pixel_tiles, channel_tiles] = extent.tiles();
        if threads == 1 {
            return Self {
                threads: 1,
                pixel_blocks: 1,
                channel_blocks: 1,
                products: extent.products,
                pixels: Side { tiles: pixel_tiles, small: pixel_tiles, large_parts: 0 },
                channels: Side { tiles: channel_tiles, small: channel_tiles, large_parts: 0 },
            };
        }
        // An equivalent product in ruy's tiles: the same number of tiles, and panels of the same
        // bytes.
        let lines = (extent.tile_pixels + extent.tile_channels) as u64;
        let in_ruy_tiles = Product {
            channels: channel_tiles as u64 * RUY_TILE,
            pixels: pixel_tiles as u64 * RUY_TILE,
            depth: product.depth * lines / (2 * RUY_TILE),
        };
        let tile = Tile { channels: RUY_TILE, pixels: RUY_TILE, depth: 1 };
        let map = ruy::block_map(in_ruy_tiles, tile, extent.element_bytes as u64, threads);
        let side = |tiles, small: u64, large: u64| {
            let (small, large_parts) = ((small / RUY_TILE) as usize, large as usize);
            Side { tiles, small, large_parts }
        };
        Self {
            threads: map.threads as usize,
            pixel_blocks: map.pixel_blocks as usize,
            channel_blocks: map.channel_blocks as usize,
            products: extent.products,
            pixels: side(pixel_tiles, map.small_block_pixels, map.large_pixel_blocks),
            channels: side(channel_tiles, map.small_block_channels, map.large_channel_blocks),
        }
    }

    /// Tiles of all products.
    pub(super) fn tiles(&self) -> usize {
        self.products * self.pixels.tiles * self.channels.tiles
    }

    /// Sweeps over the depth per row of tiles, with up to `panels` panels of a block per sweep.
    pub(super) fn sweeps(&self, panels: usize) -> usize {
        let of_small = self.channels.small.div_ceil(panels);
        let of_large = (self.channels.small + 1).div_ceil(panels);
        let large = self.channels.large_parts.min(self.channel_blocks);
        large * of_large + (self.channel_blocks - large) * of_small
    }

    /// Whether all blocks are equal.
    pub(super) fn is_even(&self) -> bool {
        self.pixels.large_parts == 0 && self.channels.large_parts == 0
    }

    /// Number of blocks over all products.
    pub fn blocks(&self) -> usize {
        self.products * self.pixel_blocks * self.channel_blocks
    }

    /// The block at `index`; blocks that share weights are consecutive.
    pub fn block(&self, index: usize) -> Block {
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
    fn on_ruys_tile_the_division_is_its_block_map() {
        let product = Product { channels: 64, pixels: 3136, depth: 64 };
        let tile = Tile { channels: 8, pixels: 8, depth: 1 };
        let map = ruy::block_map(product, tile, 4, 4);
        let division = Division::new(&extent(3136, 64, 64, [8, 8]), 4);
        assert_eq!(division.pixel_blocks as u64, map.pixel_blocks);
        assert_eq!(division.channel_blocks as u64, map.channel_blocks);
        // 32 blocks; the first 8 have one tile more than the others' 12.
        assert_eq!(division.block(0).pixel_tiles, 0..13);
        assert_eq!(division.block(31).pixel_tiles, 380..392);
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
        ) {
            let extent = Extent { products, ..extent(pixels, channels, depth, tile) };
            let division = Division::new(&extent, threads);
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

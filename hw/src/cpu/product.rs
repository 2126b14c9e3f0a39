//! Products of matrices, and convolutions as products, in blocks of tiles.
//!
//! Responsible for: the order in which a block's tiles are computed so that
//! their operands stay in cache, reading the inputs through pointers instead of
//! im2col, and the edges that fill no whole tile. Not for: who computes which
//! block (`division`). Invariant: a block writes its own results and nothing
//! else, so blocks run on any threads in any order; the result does not depend
//! on the division.

use std::mem::MaybeUninit;
use std::ops::Range;

use coexec_sim::kernel::cpu::coexec::{
    Block, DEPTH_BLOCK_BYTES, DepthBlock, DepthBlocks, Division, Extent, MAX_SEGMENTS,
};

use super::{
    Aligned, Element, MAX_TILE_CHANNELS, MAX_TILE_PIXELS, MicroKernel, Panels, Position, SlidingWindow,
    TileCall,
};
use crate::operands::Stretches;

/// Bytes between copied pixels beyond a block's own, so that they do not conflict.
const SPREAD_BYTES: usize = 64;
/// Most elements of a tile's copied inputs (of the smallest element, two bytes).
const MAX_COPIED: usize = MAX_TILE_PIXELS * (DEPTH_BLOCK_BYTES + SPREAD_BYTES) / 2;

/// A convolution or a product, or as many as there are groups (or heads).
pub(super) struct Product<T> {
    kernel: MicroKernel<T>,
    /// How large it is, and how its operands lie.
    pub(super) dimensions: Dimensions,
    /// Packed weights of each group.
    pub(super) panels: Vec<Panels<T>>,
    /// What windows read in the padding.
    zeros: Aligned<T>,
    clamp: [T; 2],
}

/// What a product is made of; the weights follow.
#[derive(Clone, Copy)]
pub(super) struct Dimensions {
    /// How inputs are read.
    pub(super) window: SlidingWindow,
    /// Groups or heads.
    pub(super) groups: usize,
    /// Output channels of a group.
    pub(super) group_channels: usize,
    /// Inputs of a window position of one group.
    pub(super) group_inputs: usize,
    /// Elements from one group's inputs, and results, to the next's.
    pub(super) input_step: usize,
    pub(super) output_step: usize,
    /// Elements from one output pixel to the next.
    pub(super) output_stride: usize,
}

/// Which part of a product is computed, and from and to where.
pub(super) struct Part<T> {
    pub(super) input: *const T,
    pub(super) output: *mut T,
    /// Groups computed.
    pub(super) groups: Range<usize>,
    /// Output channels of each of those groups.
    pub(super) channels: Range<usize>,
    /// Output pixels computed.
    pub(super) stretches: Stretches,
}

// SAFETY: blocks write disjoint results (this module's invariant) and whoever makes
// a part vouches for its pointers.
unsafe impl<T: Element> Sync for Part<T> {}

/// The results of one tile.
type TileScratch<T> = [MaybeUninit<T>; MAX_TILE_PIXELS * MAX_TILE_CHANNELS];

/// Scratch of one block, on the stack: nothing is allocated.
struct Scratch<T> {
    pointers: [*const T; MAX_SEGMENTS * MAX_TILE_PIXELS],
    copies: [MaybeUninit<T>; MAX_COPIED],
    tile: TileScratch<T>,
}

/// A tile: its first output pixel and how many of its pixels exist.
#[derive(Clone, Copy)]
struct TilePixels {
    first: usize,
    count: usize,
    /// Pixels the micro-kernel computes.
    computed: usize,
}

impl Dimensions {
    /// Steps along the depth of one result.
    fn depth(&self) -> usize {
        self.window.taps() * self.group_inputs
    }
}

impl<T: Element> Product<T> {
    /// A product with weights of zero.
    pub(super) fn new(dimensions: Dimensions, kernel: MicroKernel<T>, clamp: [T; 2]) -> Self {
        let Dimensions { groups, group_channels, group_inputs, .. } = dimensions;
        let depth = dimensions.depth();
        let panels = (0..groups).map(|_| Panels::zeros(kernel.channels, group_channels, depth)).collect();
        Self { kernel, dimensions, panels, zeros: Aligned::zeros(group_inputs), clamp }
    }

    /// The part's extent in tiles.
    pub(super) fn extent(&self, part: &Part<T>) -> Extent {
        let lanes = self.kernel.channels;
        // A first channel inside a panel costs the whole panel.
        let channels = part.channels.end - part.channels.start / lanes * lanes;
        Extent {
            pixels: part.stretches.length,
            channels,
            depth: self.dimensions.depth(),
            products: part.groups.len() * part.stretches.count,
            tile_pixels: if part.stretches.length == 1 { 1 } else { self.kernel.pixels },
            tile_channels: lanes,
            element_bytes: size_of::<T>(),
        }
    }

    /// Computes block number `index` of `part` as `division` cuts it.
    ///
    /// # Safety
    /// The part's input is valid for reads of all the operator's inputs, its output
    /// for writes of the part's results; nobody else accesses those results
    /// meanwhile. The processor has the micro-kernel's instructions.
    pub(super) unsafe fn block(&self, part: &Part<T>, division: &Division, index: usize) {
        let Block { product, pixel_tiles, channel_tiles } = division.block(index);
        let group = part.groups.start + product / part.stretches.count;
        let first = part.stretches.first + product % part.stretches.count * part.stretches.step;
        let computed = if part.stretches.length == 1 { 1 } else { self.kernel.pixels };
        let panels = &self.panels[group];
        let first_panel = part.channels.start / panels.width;
        let block_panels = first_panel + channel_tiles.start..first_panel + channel_tiles.end;
        let mut scratch = Scratch {
            pointers: [std::ptr::null(); MAX_SEGMENTS * MAX_TILE_PIXELS],
            copies: [const { MaybeUninit::uninit() }; MAX_COPIED],
            tile: [const { MaybeUninit::uninit() }; MAX_TILE_PIXELS * MAX_TILE_CHANNELS],
        };
        let depth_blocks =
            DepthBlocks::new(self.dimensions.window.taps(), self.dimensions.group_inputs, size_of::<T>());
        let sweep = depth_blocks.panels_a_sweep(panels.width);
        for first_of_sweep in block_panels.clone().step_by(sweep) {
            let sweep_panels = first_of_sweep..block_panels.end.min(first_of_sweep + sweep);
            for depth in depth_blocks.iter() {
                for tile in pixel_tiles.clone() {
                    let start = tile * computed;
                    let count = computed.min(part.stretches.length - start);
                    let pixels = TilePixels { first: first + start, count, computed };
                    // SAFETY: the caller vouches for the part.
                    unsafe { self.row_of_tiles(part, group, pixels, depth, &sweep_panels, &mut scratch) };
                }
            }
        }
    }

    /// Adds a block of the depth to the tiles of some pixels and several panels.
    ///
    /// # Safety
    /// As [`Self::block`] says.
    unsafe fn row_of_tiles(
        &self,
        part: &Part<T>,
        group: usize,
        pixels: TilePixels,
        depth: DepthBlock,
        panels: &Range<usize>,
        scratch: &mut Scratch<T>,
    ) {
        let weights = &self.panels[group];
        let lanes = weights.width;
        // SAFETY: the caller vouches for the input, whose groups lie this far apart.
        let input = unsafe { part.input.add(group * self.dimensions.input_step) };
        self.point_at_inputs(input, pixels, depth, &mut scratch.pointers);
        // Copies do not push each other out of the cache while several panels read them.
        if panels.len() > 1 && depth.conflicts(self.dimensions.window.pixel_stride() * size_of::<T>()) {
            // SAFETY: the pointers were just made for inputs of this depth.
            unsafe { copy_side_by_side(pixels.computed, depth.inputs, scratch) };
        }
        let k = depth.first_tap * self.dimensions.group_inputs + depth.first_input;
        // The operator's bounds hold behind the last block of the depth.
        let is_last = k + depth.taps * depth.inputs == weights.depth;
        let unbounded = [f32::NEG_INFINITY, f32::INFINITY].map(|bound| T::from_f32(bound));
        let clamp = if is_last { self.clamp } else { unbounded };
        let kernel = if pixels.computed == 1 { self.kernel.vector } else { self.kernel.tile };
        let first_result = group * self.dimensions.output_step + pixels.first * self.dimensions.output_stride;
        for panel in panels.clone() {
            let channels = part.channels.start.max(panel * lanes)..part.channels.end.min((panel + 1) * lanes);
            // SAFETY: the caller vouches for the output; this result is the part's.
            let output = unsafe { part.output.add(first_result + channels.start) };
            let mut call = TileCall {
                rows: scratch.pointers.as_ptr(),
                segments: depth.taps,
                depth: depth.inputs,
                weights: weights.weights(panel, k).as_ptr(),
                start: weights.bias(panel).as_ptr(),
                start_stride: 0,
                output,
                output_stride: self.dimensions.output_stride,
                clamp,
            };
            let whole = channels.len() == lanes && pixels.count == pixels.computed;
            // SAFETY: pointers, segments, depth and weights belong together; a whole tile
            // is written where it belongs, another to scratch, of which the results that
            // exist are copied.
            unsafe {
                if whole {
                    if k > 0 {
                        (call.start, call.start_stride) = (output, self.dimensions.output_stride);
                    }
                    kernel(&call);
                } else {
                    let lane = channels.start - panel * lanes;
                    let present = lane..lane + channels.len();
                    self.partial_tile(&mut call, kernel, pixels, present, k > 0, &mut scratch.tile);
                }
            }
        }
    }

    /// Computes a tile of which only some pixels and `lanes` exist.
    ///
    /// # Safety
    /// As [`Self::block`] says; the call's output is the first result that exists.
    unsafe fn partial_tile(
        &self,
        call: &mut TileCall<T>,
        kernel: super::micro_kernel::Tile<T>,
        pixels: TilePixels,
        lanes: Range<usize>,
        accumulate: bool,
        tile: &mut TileScratch<T>,
    ) {
        let width = self.kernel.channels;
        let output = call.output;
        let tile: *mut T = tile.as_mut_ptr().cast();
        (call.output, call.output_stride) = (tile, width);
        // SAFETY: the tile holds all pixels and lanes; the caller vouches for the results
        // that exist, of which there are `count` pixels with `lanes` each.
        unsafe {
            if accumulate {
                tile.write_bytes(0, pixels.computed * width);
                for pixel in 0..pixels.count {
                    let from = output.add(pixel * self.dimensions.output_stride);
                    from.copy_to_nonoverlapping(tile.add(pixel * width + lanes.start), lanes.len());
                }
                (call.start, call.start_stride) = (tile, width);
            }
            kernel(call);
            for pixel in 0..pixels.count {
                let to = output.add(pixel * self.dimensions.output_stride);
                tile.add(pixel * width + lanes.start).copy_to_nonoverlapping(to, lanes.len());
            }
        }
    }

    /// Writes where the inputs of each segment and pixel start; pixels that do not
    /// exist repeat the last one.
    fn point_at_inputs(
        &self,
        input: *const T,
        pixels: TilePixels,
        depth: DepthBlock,
        pointers: &mut [*const T; MAX_SEGMENTS * MAX_TILE_PIXELS],
    ) {
        if self.dimensions.window.is_pointwise() {
            for (index, pointer) in pointers[..pixels.computed].iter_mut().enumerate() {
                let pixel = pixels.first + index.min(pixels.count - 1);
                *pointer =
                    input.wrapping_add(pixel * self.dimensions.window.pixel_stride() + depth.first_input);
            }
            return;
        }
        let mut positions = [Position::default(); MAX_TILE_PIXELS];
        let mut position = self.dimensions.window.position(pixels.first);
        for (index, slot) in positions[..pixels.computed].iter_mut().enumerate() {
            *slot = position;
            if index + 1 < pixels.count {
                position = self.dimensions.window.next(position);
            }
        }
        let zeros = self.zeros.as_slice().as_ptr();
        for (segment, row) in pointers.chunks_exact_mut(pixels.computed).take(depth.taps).enumerate() {
            for (pointer, &position) in row.iter_mut().zip(&positions) {
                let start = match self.dimensions.window.input_offset(position, depth.first_tap + segment) {
                    Some(offset) => input.wrapping_add(offset),
                    None => zeros,
                };
                *pointer = start.wrapping_add(depth.first_input);
            }
        }
    }
}

/// Copies the inputs of one segment side by side and points at the copies.
///
/// # Safety
/// The first `pixels` pointers are valid for reads of `inputs` elements, which are
/// no more than a block of the depth has.
unsafe fn copy_side_by_side<T: Element>(pixels: usize, inputs: usize, scratch: &mut Scratch<T>) {
    let stride = inputs + SPREAD_BYTES / size_of::<T>();
    let copies: *mut T = scratch.copies.as_mut_ptr().cast();
    for (pixel, pointer) in scratch.pointers[..pixels].iter_mut().enumerate() {
        // SAFETY: the caller vouches for the inputs; the scratch holds a tile's pixels of
        // a block of the depth and what spreads them.
        unsafe {
            let copy = copies.add(pixel * stride);
            pointer.copy_to_nonoverlapping(copy, inputs);
            *pointer = copy;
        }
    }
}

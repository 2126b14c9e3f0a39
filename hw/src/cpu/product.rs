//! Matrix products, and convolutions as products, in blocks of tiles.
//!
//! Responsible for: the order of a block's tiles, which keeps their operands in cache; reading
//! inputs through pointers instead of im2col; partial tiles at the edges. Not for: which thread
//! computes which block (`Division`). Invariant: a block writes its own results and nothing else,
//! so blocks run on any thread in any order, and the result does not depend on the division.

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

/// Gap between copied pixels, in bytes, so that they map to different cache sets.
const COPY_GAP_BYTES: usize = 64;
/// Capacity of a tile's copied inputs, in elements of the smallest format (two bytes).
const MAX_COPIED: usize = MAX_TILE_PIXELS * (DEPTH_BLOCK_BYTES + COPY_GAP_BYTES) / 2;

/// A product or convolution, with one matrix per group or head.
pub(super) struct Product<T> {
    kernel: MicroKernel<T>,
    /// Sizes, and the layout of the operands.
    pub(super) dimensions: Dimensions,
    /// Packed weights of each group.
    pub(super) panels: Vec<Panels<T>>,
    /// Inputs that windows read in the padding.
    zeros: Aligned<T>,
}

/// Sizes of a product and the layout of its operands.
#[derive(Clone, Copy)]
pub(super) struct Dimensions {
    /// The window through which inputs are read.
    pub(super) window: SlidingWindow,
    /// Groups or heads.
    pub(super) groups: usize,
    /// Output channels of a group.
    pub(super) group_channels: usize,
    /// Input channels of a group.
    pub(super) group_inputs: usize,
    /// Elements from one group's inputs to the next's, and likewise for results.
    pub(super) input_step: usize,
    pub(super) output_step: usize,
    /// Elements from one output pixel to the next.
    pub(super) output_stride: usize,
}

/// The part of a product to compute, with its operands.
pub(super) struct Part<T> {
    pub(super) input: *const T,
    pub(super) output: *mut T,
    /// Groups computed.
    pub(super) groups: Range<usize>,
    /// Output channels of each of those groups.
    pub(super) channels: Range<usize>,
    /// Output pixels computed.
    pub(super) stretches: Stretches,
    /// Bounds of the results.
    pub(super) clamp: Option<[T; 2]>,
}

// SAFETY: blocks write disjoint results (this module's invariant), and the creator of a part
// vouches for its pointers.
unsafe impl<T: Element> Sync for Part<T> {}

/// Results of one partial tile.
type TileScratch<T> = [MaybeUninit<T>; MAX_TILE_PIXELS * MAX_TILE_CHANNELS];

/// Scratch memory of one block, on the stack.
struct Scratch<T> {
    pointers: [*const T; MAX_SEGMENTS * MAX_TILE_PIXELS],
    copies: [MaybeUninit<T>; MAX_COPIED],
    tile: TileScratch<T>,
}

/// The pixels of a tile: the first, and how many of them exist.
#[derive(Clone, Copy)]
struct TilePixels {
    first: usize,
    count: usize,
    /// Pixels that the micro-kernel computes, the missing ones included.
    computed: usize,
}

impl Dimensions {
    /// Length of each dot product.
    fn depth(&self) -> usize {
        self.window.taps() * self.group_inputs
    }
}

impl<T: Element> Product<T> {
    /// A product with zero weights.
    pub(super) fn new(dimensions: Dimensions, kernel: MicroKernel<T>) -> Self {
        let Dimensions { groups, group_channels, group_inputs, .. } = dimensions;
        let depth = dimensions.depth();
        let panels = (0..groups).map(|_| Panels::zeros(kernel.channels, group_channels, depth)).collect();
        Self { kernel, dimensions, panels, zeros: Aligned::zeros(group_inputs) }
    }

    /// The part's size in the terms of the simulator's model.
    pub(super) fn extent(&self, part: &Part<T>) -> Extent {
        let lanes = self.kernel.channels;
        // A range that starts inside a panel still computes the whole panel.
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

    /// Computes block `index` of `part` under `division`.
    ///
    /// # Safety
    /// The part's input is valid for reads of the operator's whole input, its output for writes of
    /// the part's results, and nothing else accesses those results meanwhile. The processor has the
    /// micro-kernel's instructions.
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

    /// Accumulates one depth block into a row of tiles: the same pixels, several panels.
    ///
    /// # Safety
    /// As for [`Self::block`].
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
        // SAFETY: the caller vouches for the input, whose groups are this far apart.
        let input = unsafe { part.input.add(group * self.dimensions.input_step) };
        self.point_at_inputs(input, pixels, depth, &mut scratch.pointers);
        // Rows that conflict in cache are copied apart, if several panels will read the copies.
        if panels.len() > 1 && depth.conflicts(self.dimensions.window.pixel_stride() * size_of::<T>()) {
            // SAFETY: the pointers were just computed for inputs of this depth block.
            unsafe { copy_inputs(pixels.computed, depth.inputs, scratch) };
        }
        let k = depth.first_tap * self.dimensions.group_inputs + depth.first_input;
        // The activation's bounds apply after the last depth block only.
        let is_last = k + depth.taps * depth.inputs == weights.depth;
        let unbounded = [f32::NEG_INFINITY, f32::INFINITY].map(|bound| T::from_f32(bound));
        let clamp = part.clamp.filter(|_| is_last).unwrap_or(unbounded);
        let kernel = if pixels.computed == 1 { self.kernel.vector } else { self.kernel.tile };
        let first_result = group * self.dimensions.output_step + pixels.first * self.dimensions.output_stride;
        for panel in panels.clone() {
            let channels = part.channels.start.max(panel * lanes)..part.channels.end.min((panel + 1) * lanes);
            // SAFETY: the caller vouches for the output; these results belong to the part.
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
            // SAFETY: pointers, segments, depth and weights match. A whole tile is written in
            // place; a partial tile goes to scratch, from which the existing results are copied.
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

    /// Computes a tile of which only `lanes` and the first pixels exist.
    ///
    /// # Safety
    /// As for [`Self::block`]; the call's output is the first existing result.
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
        // SAFETY: the scratch tile holds all pixels and lanes; the caller vouches for the existing
        // results, `count` pixels with `lanes` each.
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

    /// Computes the pointer to the inputs of each segment and pixel. Pixels beyond the end repeat
    /// the last one.
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

/// Copies the inputs of one segment into scratch, and points at the copies.
///
/// # Safety
/// The first `pixels` pointers are valid for reads of `inputs` elements, at most those of one depth
/// block.
unsafe fn copy_inputs<T: Element>(pixels: usize, inputs: usize, scratch: &mut Scratch<T>) {
    let stride = inputs + COPY_GAP_BYTES / size_of::<T>();
    let copies: *mut T = scratch.copies.as_mut_ptr().cast();
    for (pixel, pointer) in scratch.pointers[..pixels].iter_mut().enumerate() {
        // SAFETY: the caller vouches for the inputs; the scratch holds a tile's pixels of one depth
        // block and the gaps.
        unsafe {
            let copy = copies.add(pixel * stride);
            pointer.copy_to_nonoverlapping(copy, inputs);
            *pointer = copy;
        }
    }
}

//! Blocking of a product's depth, so that operands stay in cache.
//!
//! The kernels and their time model share these rules.

/// Bytes of one pixel's inputs per micro-kernel call (BLIS's `kc`): the inputs of a tile's
/// pixels then stay in half of a 32 KiB first-level cache while panel after panel streams
/// through.
pub const DEPTH_BLOCK_BYTES: usize = 1024;
/// Bytes of weights per sweep, after which the next block of the depth follows: half of a
/// 512 KiB second-level cache, where they stay while tile after tile reads them. The other
/// half is for inputs and results.
const SWEEP_BYTES: usize = 256 * 1024;
/// Inputs of consecutive pixels at a multiple of this distance map to the same sets of a
/// first-level cache (most have 4 KiB per way) and evict one another; the kernel then
/// copies them to contiguous memory.
const CONFLICT_BYTES: usize = 4096;
/// Maximum segments of a call, whose pointers are on the stack.
pub const MAX_SEGMENTS: usize = 64;

/// A block of the depth: a range of window positions (taps), and a range of each tap's inputs.
#[derive(Clone, Copy)]
pub struct DepthBlock {
    /// First tap.
    pub first_tap: usize,
    /// Number of taps.
    pub taps: usize,
    /// First input of each tap.
    pub first_input: usize,
    /// Number of inputs of each tap.
    pub inputs: usize,
}

impl DepthBlock {
    /// Whether the inputs of a tile's pixels, `pixel_bytes` apart, evict one another from the
    /// cache.
    #[inline]
    pub fn conflicts(&self, pixel_bytes: usize) -> bool {
        self.taps == 1 && pixel_bytes.is_multiple_of(CONFLICT_BYTES)
    }
}

/// The depth in blocks of about [`DEPTH_BLOCK_BYTES`] per pixel: whole taps, or equal parts of
/// a longer tap.
pub struct DepthBlocks {
    taps: usize,
    inputs: usize,
    taps_a_block: usize,
    parts_a_tap: usize,
    element_bytes: usize,
}

impl DepthBlocks {
    /// Blocks for a window of `taps` taps with `inputs` inputs each.
    pub fn new(taps: usize, inputs: usize, element_bytes: usize) -> Self {
        let block = DEPTH_BLOCK_BYTES / element_bytes;
        let most_taps = (block / inputs).clamp(1, MAX_SEGMENTS);
        let taps_a_block = taps.div_ceil(taps.div_ceil(most_taps));
        Self { taps, inputs, taps_a_block, parts_a_tap: inputs.div_ceil(block), element_bytes }
    }

    /// Depth of the largest block.
    pub fn largest(&self) -> usize {
        self.taps_a_block * self.inputs.div_ceil(self.parts_a_tap)
    }

    /// Number of blocks.
    pub fn count(&self) -> usize {
        self.taps.div_ceil(self.taps_a_block) * self.parts_a_tap
    }

    /// Panels of `width` channels per sweep of a block of the depth, at least one.
    pub fn panels_a_sweep(&self, width: usize) -> usize {
        (SWEEP_BYTES / (self.largest() * width * self.element_bytes)).max(1)
    }

    /// The blocks in order.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = DepthBlock> {
        let Self { taps, inputs, taps_a_block, parts_a_tap, .. } = *self;
        (0..taps).step_by(taps_a_block).flat_map(move |first_tap| {
            (0..parts_a_tap).map(move |part| {
                let first_input = inputs * part / parts_a_tap;
                DepthBlock {
                    first_tap,
                    taps: taps_a_block.min(taps - first_tap),
                    first_input,
                    inputs: inputs * (part + 1) / parts_a_tap - first_input,
                }
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn blocks_of_the_depth_cover_it_in_order(taps in 1_usize..60, inputs in 1_usize..3000) {
            let blocks = DepthBlocks::new(taps, inputs, 4);
            prop_assert_eq!(blocks.iter().count(), blocks.count());
            let mut next = 0;
            for block in blocks.iter() {
                prop_assert_eq!(block.first_tap * inputs + block.first_input, next);
                prop_assert!(block.taps <= MAX_SEGMENTS && block.taps * block.inputs <= 256.max(inputs));
                prop_assert!(block.taps == 1 || block.inputs == inputs);
                next += block.taps * block.inputs;
            }
            prop_assert_eq!(next, taps * inputs);
        }
    }
}

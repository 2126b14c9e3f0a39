//! The depth of a product in blocks whose operands stay in cache.
//!
//! The kernels and the model of their time share these rules.

/// Bytes of one pixel's inputs that a micro-kernel call takes: those of a tile's
/// pixels then stay in half of a first-level cache of 32 KiB while panel after
/// panel passes (BLIS's `kc`).
pub const DEPTH_BLOCK_BYTES: usize = 1024;
/// Bytes of weights that are passed over before the next block of the depth: they stay
/// in a second-level cache of 512 KiB while tile after tile reads them (half of it, for
/// the other half is inputs and results).
const SWEEP_BYTES: usize = 256 * 1024;
/// Inputs of consecutive pixels this far apart, or a multiple, fall into the same lines
/// of a first-level cache (4 KiB a way, as most have) and evict one another; they are
/// then copied side by side.
const CONFLICT_BYTES: usize = 4096;
/// Most segments of a call, so that their pointers fit the stack.
pub const MAX_SEGMENTS: usize = 64;

/// A block of the depth: some window positions, and some inputs of each.
#[derive(Clone, Copy)]
pub struct DepthBlock {
    /// First window position.
    pub first_tap: usize,
    /// Window positions.
    pub taps: usize,
    /// First input of each.
    pub first_input: usize,
    /// Inputs of each.
    pub inputs: usize,
}

impl DepthBlock {
    /// Whether the inputs of a tile's pixels, so many bytes apart, evict one another from
    /// the cache.
    #[inline]
    pub fn conflicts(&self, pixel_bytes: usize) -> bool {
        self.taps == 1 && pixel_bytes.is_multiple_of(CONFLICT_BYTES)
    }
}

/// The depth in blocks of about [`DEPTH_BLOCK_BYTES`] a pixel: whole window
/// positions, or where one is longer, even parts of it.
pub struct DepthBlocks {
    taps: usize,
    inputs: usize,
    taps_a_block: usize,
    parts_a_tap: usize,
    element_bytes: usize,
}

impl DepthBlocks {
    /// Of a window of `taps` positions with `inputs` each.
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

    /// Panels of `width` channels that a block of the depth is swept over before the next.
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

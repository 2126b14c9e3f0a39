//! The depth of a product in blocks whose operands stay in cache.

/// Bytes of one pixel's inputs that a micro-kernel call takes: those of a tile's
/// pixels then stay in half of a first-level cache of 32 KiB while panel after
/// panel passes (BLIS's `kc`).
pub(super) const DEPTH_BLOCK_BYTES: usize = 1024;
/// Most segments of a call, so that their pointers fit the stack.
pub(super) const MAX_SEGMENTS: usize = 64;

/// A block of the depth: some window positions, and some inputs of each.
#[derive(Clone, Copy)]
pub(super) struct DepthBlock {
    pub(super) first_tap: usize,
    pub(super) taps: usize,
    pub(super) first_input: usize,
    pub(super) inputs: usize,
}

/// The depth in blocks of about [`DEPTH_BLOCK_BYTES`] a pixel: whole window
/// positions, or where one is longer, even parts of it.
pub(super) struct DepthBlocks {
    taps: usize,
    inputs: usize,
    taps_a_block: usize,
    parts_a_tap: usize,
}

impl DepthBlocks {
    pub(super) fn new(taps: usize, inputs: usize, element_bytes: usize) -> Self {
        let block = DEPTH_BLOCK_BYTES / element_bytes;
        let most_taps = (block / inputs).clamp(1, MAX_SEGMENTS);
        let taps_a_block = taps.div_ceil(taps.div_ceil(most_taps));
        Self { taps, inputs, taps_a_block, parts_a_tap: inputs.div_ceil(block) }
    }

    /// Depth of the largest block.
    pub(super) fn largest(&self) -> usize {
        self.taps_a_block * self.inputs.div_ceil(self.parts_a_tap)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = DepthBlock> {
        let Self { taps, inputs, taps_a_block, parts_a_tap } = *self;
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
            let mut next = 0;
            for block in DepthBlocks::new(taps, inputs, 4).iter() {
                prop_assert_eq!(block.first_tap * inputs + block.first_input, next);
                prop_assert!(block.taps <= MAX_SEGMENTS && block.taps * block.inputs <= 256.max(inputs));
                prop_assert!(block.taps == 1 || block.inputs == inputs);
                next += block.taps * block.inputs;
            }
            prop_assert_eq!(next, taps * inputs);
        }
    }
}

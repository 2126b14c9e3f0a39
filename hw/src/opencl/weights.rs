//! Weights in the order in which the kernels read them, as described in the kernel files.

use crate::cpu::Element;

/// Channels per slice.
pub(super) const CHANNELS: usize = 4;

/// A convolution's weights, cut into blocks of output slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Blocks {
    /// First output channel computed.
    pub(super) first_channel: usize,
    /// Output slices computed.
    pub(super) slices: usize,
    /// Output slices per block.
    pub(super) block_slices: usize,
    /// Window positions.
    pub(super) taps: usize,
    /// Output channels of the whole layer.
    pub(super) output_channels: usize,
    /// Input channels of the whole layer.
    pub(super) input_channels: usize,
    /// Channel groups.
    pub(super) groups: usize,
}

impl Blocks {
    /// Number of blocks.
    pub(super) fn count(&self) -> usize {
        self.slices.div_ceil(self.block_slices)
    }

    fn group_outputs(&self) -> usize {
        self.output_channels / self.groups
    }

    fn group_inputs(&self) -> usize {
        self.input_channels / self.groups
    }

    /// The source slices that hold the channel groups of a block.
    fn source_range(&self, block: usize) -> [usize; 2] {
        let first = self.first_channel + block * self.block_slices * CHANNELS;
        let last = (first + self.block_slices * CHANNELS - 1).min(self.output_channels - 1);
        let [first_group, last_group] = [first, last].map(|channel| channel / self.group_outputs());
        let inputs = self.group_inputs();
        [first_group * inputs / CHANNELS, ((last_group + 1) * inputs).div_ceil(CHANNELS)]
    }

    /// Source slices that each block reads: the maximum over the blocks.
    pub(super) fn depth(&self) -> usize {
        let needed = |block| {
            let [first, end] = self.source_range(block);
            end - first
        };
        (0..self.count()).map(needed).max().unwrap_or(0)
    }

    /// Packs the weights, one set per row where output rows have weights of their own. `weight`
    /// maps a row, an output channel, a tap and an input channel of the output channel's group to a
    /// weight.
    pub(super) fn pack<T: Element>(
        &self,
        rows: usize,
        weight: impl Fn(usize, usize, usize, usize) -> f32,
    ) -> Vec<T> {
        let depth = self.depth();
        let size = rows * self.count() * self.taps * depth * self.block_slices * CHANNELS * CHANNELS;
        let mut packed = Vec::with_capacity(size);
        for row in 0..rows {
            for block in 0..self.count() {
                for tap in 0..self.taps {
                    self.pack_tap(block, depth, |to, from| weight(row, to, tap, from), &mut packed);
                }
            }
        }
        packed
    }

    /// Appends a block's weights of one tap.
    fn pack_tap<T: Element>(
        &self,
        block: usize,
        depth: usize,
        weight: impl Fn(usize, usize) -> f32,
        packed: &mut Vec<T>,
    ) {
        let end = (self.first_channel + self.slices * CHANNELS).min(self.output_channels);
        let first_slice = self.source_range(block)[0].min(self.input_channels.div_ceil(CHANNELS) - depth);
        for input in first_slice..first_slice + depth {
            for slice in 0..self.block_slices {
                let first = self.first_channel + (block * self.block_slices + slice) * CHANNELS;
                for from in input * CHANNELS..(input + 1) * CHANNELS {
                    packed.extend(padded::<T>(first, 1, end, |to| {
                        self.within_group(to, from).map_or(0.0, |from| weight(to, from))
                    }));
                }
            }
        }
    }

    /// Index of input channel `from` within the group of output channel `to`; `None` outside of it.
    fn within_group(&self, to: usize, from: usize) -> Option<usize> {
        let inputs = self.group_inputs();
        from.checked_sub(to / self.group_outputs() * inputs).filter(|&from| from < inputs)
    }
}

/// A convolution's weights for constant memory; the input channels are not padded.
pub(super) fn constants<T: Element>(
    weights: &[f32],
    [inputs, outputs, taps]: [usize; 3],
    first_channel: usize,
    slices: usize,
) -> Vec<T> {
    let terms = (0..taps).flat_map(|tap| (0..inputs).map(move |from| (tap, from)));
    let weight = |tap, from| move |to: usize| weights[(to * taps + tap) * inputs + from];
    terms.flat_map(|(tap, from)| padded(first_channel, slices, outputs, weight(tap, from))).collect()
}

/// A depthwise convolution's weights: output slice, then window position.
pub(super) fn depthwise<T: Element>(
    weights: &[f32],
    [channels, taps]: [usize; 2],
    first_channel: usize,
    slices: usize,
) -> Vec<T> {
    let terms = (0..slices).flat_map(|slice| (0..taps).map(move |tap| (slice, tap)));
    let weight = |tap| move |channel: usize| weights[tap * channels + channel];
    terms
        .flat_map(|(slice, tap)| padded(first_channel + slice * CHANNELS, 1, channels, weight(tap)))
        .collect()
}

/// One value per channel, zero-padded to whole slices.
pub(super) fn per_channel<T: Element>(values: &[f32], first_channel: usize, slices: usize) -> Vec<T> {
    padded(first_channel, slices, values.len(), |channel| values[channel]).collect()
}

/// The values of the channels of `slices` slices, zero from channel `end` on.
fn padded<T: Element>(
    first_channel: usize,
    slices: usize,
    end: usize,
    value: impl Fn(usize) -> f32,
) -> impl Iterator<Item = T> {
    let channels = first_channel..first_channel + slices * CHANNELS;
    channels.map(move |channel| T::from_f32(if channel < end { value(channel) } else { 0.0 }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DENSE: Blocks = Blocks {
        first_channel: 0,
        slices: 3,
        block_slices: 2,
        taps: 1,
        output_channels: 10,
        input_channels: 5,
        groups: 1,
    };

    #[test]
    fn a_slice_s_four_channels_lie_together_for_each_input() {
        let packed: Vec<f32> = DENSE.pack(1, |_, to, _, from| (10 * to + from) as f32);
        // Two blocks of two slices, two source slices, four inputs, four outputs.
        assert_eq!(packed.len(), 2 * 2 * 2 * 4 * 4);
        assert_eq!(packed[..8], [0.0, 10.0, 20.0, 30.0, 1.0, 11.0, 21.0, 31.0]);
        // Output channels 10 and 11, and input channels from 5, do not exist.
        assert_eq!(packed[64..68], [80.0, 90.0, 0.0, 0.0]);
        assert_eq!(packed[32 + 4..32 + 8], [0.0; 4]);
    }

    #[test]
    fn a_block_of_a_grouped_convolution_reads_the_slices_of_its_groups_only() {
        let grouped = Blocks {
            slices: 4,
            block_slices: 1,
            output_channels: 16,
            input_channels: 32,
            groups: 4,
            ..DENSE
        };
        assert_eq!(grouped.depth(), 2);
        assert_eq!(grouped.source_range(3), [6, 8]);
        // Groups of three channels straddle slices.
        let ragged = Blocks { output_channels: 12, input_channels: 12, slices: 3, ..grouped };
        assert_eq!((ragged.source_range(1), ragged.depth()), ([0, 3], 3));
    }
}

//! Steps of the operators that multiply matrices: generic convolution, linear layers, products of
//! activations, matrix-vector products, convolution with constant weights.

use std::sync::Arc;

use coexec_sim::workload::{self, Conv2d, Window};
use opencl3::memory::Buffer;

use super::{Argument, Builder, ComputedPart, LaunchGrid, Operand};
use crate::cpu::Element;
use crate::opencl::{Blocks, CHANNELS, Result, Source, weights};

/// Largest tile of a thread, in texels of accumulators; a larger one is a mistake in a parameter
/// sweep.
const MAX_TEXELS: u32 = 64;
/// Work-group that packs the right operand of a matrix product.
const ARRANGING_GROUP: [u32; 3] = [8, 4, 1];

impl<T: Element> Builder<'_, T> {
    pub(super) fn conv2d(&mut self, conv: &Conv2d) -> Result<()> {
        let blocks = Blocks {
            taps: conv.window.taps() as usize,
            groups: conv.groups as usize,
            ..self.dense_blocks([conv.input.channels, conv.output_channels])
        };
        self.packed_product(blocks, conv.window)
    }

    /// Appends the generic convolution kernel with the layer's weights.
    pub(super) fn packed_product(&mut self, blocks: Blocks, window: Window) -> Result<()> {
        let (taps, inputs) = (blocks.taps, blocks.input_channels / blocks.groups);
        let kernel = self.weights.kernel;
        let packed = blocks.pack(1, |_, to, tap, from| kernel[(to * taps + tap) * inputs + from]);
        let weights = Arc::new(self.runtime.buffer_of::<T>(&packed)?);
        let mut source = self.source("conv", include_str!("../kernels/conv.cl"));
        if blocks.groups > 1 {
            source.option("GROUPED");
        }
        let [input, output] = self.input_to_output();
        self.push_product(source, (blocks, weights), window, self.region(), [&input, &output])
    }

    pub(super) fn mat_mul(&mut self, product: workload::Product) -> Result<()> {
        let blocks = self.dense_blocks([product.inner, product.outputs]);
        let [depth, count] = [blocks.depth(), blocks.count()];
        let size = product.batch as usize * count * depth * blocks.block_slices * CHANNELS * CHANNELS;
        let weights = Arc::new(self.runtime.buffer::<T>(size)?);
        let mut source = self.source_linking("conv", include_str!("../kernels/conv.cl"), &[]);
        self.tile_options(&mut source);
        let threads = [count * blocks.block_slices, depth, product.batch as usize].map(|n| n as u32);
        let ([left, output], right) = (self.input_to_output(), &self.inputs[1]);
        let mut arguments = vec![right.memory(), Argument::Buffer(Arc::clone(&weights)), right.extent()];
        let first_slice = self.first_channel() / CHANNELS;
        arguments.extend([depth, count, first_slice].map(|count| Argument::numbers([count as u32])));
        let grid = LaunchGrid { threads, work_group: ARRANGING_GROUP };
        self.append(&source, "arrange_weights", grid, arguments)?;

        let mut source = self.source("conv", include_str!("../kernels/conv.cl"));
        source.option("ROW_WEIGHTS");
        source.option("NO_BIAS");
        self.push_product(source, (blocks, weights), Window::valid(1), self.region(), [&left, &output])
    }

    /// The blocks of the part's output channels under the dispatch, for one tap and one group.
    pub(super) fn dense_blocks(&self, channels: [u32; 2]) -> Blocks {
        let [input_channels, output_channels] = channels.map(|count| count as usize);
        Blocks {
            first_channel: self.first_channel(),
            slices: self.slices(),
            block_slices: self.dispatch.tile[2].max(1) as usize,
            taps: 1,
            output_channels,
            input_channels,
            groups: 1,
        }
    }

    /// Appends the generic convolution kernel from the first of two tensors to the second.
    pub(super) fn push_product(
        &mut self,
        mut source: Source,
        (packed, weights): (Blocks, Arc<Buffer<T>>),
        window: Window,
        region: ComputedPart,
        tensors: [&Operand<T>; 2],
    ) -> Result<()> {
        let [x, y, slices] = self.dispatch.tile;
        let texels = u64::from(x) * u64::from(y) * u64::from(slices);
        if texels == 0 || texels > u64::from(MAX_TEXELS) {
            return Err(self.unsupported(format!("a thread cannot compute a tile of {x}x{y}x{slices}")));
        }
        self.tile_options(&mut source);
        if window.is_pointwise() {
            source.option("POINTWISE");
        }
        // Source slices that a block reads, then input and output channels of a group.
        let groups =
            [packed.depth(), packed.input_channels / packed.groups, packed.output_channels / packed.groups];
        let more = vec![Argument::window(&window), Argument::numbers(groups.map(|count| count as u32))];
        let weights = vec![Argument::Buffer(weights), self.per_channel(self.weights.bias)?];
        let grid = LaunchGrid {
            threads: self.dispatch.linearisation.grid(region.blocks(self.dispatch.tile)),
            work_group: self.dispatch.work_group,
        };
        self.push_between(tensors, region, (&source, "conv"), grid, [weights, more])
    }

    /// Defines the dispatch's tile and linearisation in a source.
    pub(super) fn tile_options(&self, source: &mut Source) {
        for (name, size) in ["TILE_X", "TILE_Y", "TILE_SLICES"].into_iter().zip(self.dispatch.tile) {
            source.number(name, size);
        }
        source.number("LINEARISED", self.dispatch.linearisation as u32);
    }

    pub(super) fn fully_connected(&mut self, [inputs, outputs]: [u32; 2]) -> Result<()> {
        let [group, sharers, deep] = self.dispatch.work_group;
        if deep != 1 {
            return Err(self.unsupported("a matrix-vector product's work-group is flat".to_owned()));
        }
        let [depth, count] = [inputs as usize, self.slices()];
        // One block: for each input, the weights of all output slices are adjacent.
        let blocks = Blocks { block_slices: count, ..self.dense_blocks([inputs, outputs]) };
        let packed = blocks.pack(1, |_, to, _, from| self.weights.kernel[to * depth + from]);
        let constants = vec![self.constants(&packed)?, self.per_channel(self.weights.bias)?];
        let mut source = self.source("fully_connected", include_str!("../kernels/fully_connected.cl"));
        source.number("GROUP", group);
        source.number("SHARERS", sharers);
        self.push(&source, "fully_connected", [count as u32, sharers, 1], constants, Vec::new())
    }

    pub(super) fn conv_constants(&mut self, conv: &Conv2d) -> Result<()> {
        let taps = conv.window.taps() as usize;
        let dimensions = [conv.input.channels as usize, conv.output_channels as usize, taps];
        let [first, count] = [self.first_channel(), self.slices()];
        let packed = weights::constants::<T>(self.weights.kernel, dimensions, first, count);
        let bytes = size_of_val(packed.as_slice()) + count * CHANNELS * size_of::<T>();
        let most = self.runtime.device().constant_memory_bytes;
        if bytes as u64 > most {
            return Err(
                self.unsupported(format!("found {bytes} bytes of constants, expected at most {most}"))
            );
        }
        let mut source = self.source("conv_constants", include_str!("../kernels/conv_constants.cl"));
        source.number("SLICES", count as u32);
        source.number("INPUTS", conv.input.channels);
        source.number("KERNEL_Y", conv.window.kernel[0]);
        source.number("KERNEL_X", conv.window.kernel[1]);
        let constants = vec![self.constants(&packed)?, self.per_channel(self.weights.bias)?];
        let [width, height, _] = self.region().size;
        let window = vec![Argument::window(&conv.window)];
        self.push(&source, "conv_constants", [width, height, 1], constants, window)
    }
}

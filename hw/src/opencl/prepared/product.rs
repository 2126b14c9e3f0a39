//! Steps of everything that multiplies matrices: the generic convolution, linear
//! layers, products of activations, matrix-vector products, constant weights.

use std::sync::Arc;

use coexec_sim::workload::{self, Conv2d};
use opencl3::memory::Buffer;

use super::super::dispatch::blocks;
use super::super::error::OpenClError;
use super::super::source::Source;
use super::super::weights::{self, Blocks, CHANNELS};
use super::builder::Builder;
use super::step::{Argument, Groups, LaunchGrid, RegionArgument, TensorName, WindowArgument};
use crate::cpu::Element;

/// Most registers of sums a thread may want: a larger tile is a slip of a sweep.
const MAX_TEXELS: u32 = 64;
/// Work-group that rearranges the right operand of a matrix product.
const ARRANGING_GROUP: [u32; 3] = [8, 4, 1];

/// A convolution as the generic kernel runs it.
pub(super) struct Product<T> {
    pub(super) blocks: Blocks,
    pub(super) weights: Arc<Buffer<T>>,
    pub(super) window: WindowArgument,
    pub(super) region: RegionArgument,
    /// One pixel of stride 1, without padding.
    pub(super) pointwise: bool,
}

/// The window of one pixel.
pub(super) const PIXEL: WindowArgument =
    WindowArgument { kernel: [1; 2], stride: [1; 2], dilation: [1; 2], before: [0; 2] };

impl<T: Element> Builder<'_, T> {
    pub(super) fn linear(&mut self, product: workload::Product) -> Result<(), OpenClError> {
        let blocks = Blocks {
            output_channels: product.outputs as usize,
            input_channels: product.inner as usize,
            ..self.dense_blocks()
        };
        self.packed_product(blocks, PIXEL, true)
    }

    pub(super) fn conv2d(&mut self, conv: &Conv2d) -> Result<(), OpenClError> {
        let blocks = Blocks {
            taps: (conv.window.kernel[0] * conv.window.kernel[1]) as usize,
            output_channels: conv.output_channels as usize,
            input_channels: conv.input.channels as usize,
            groups: conv.groups as usize,
            ..self.dense_blocks()
        };
        let window = WindowArgument::from(&conv.window);
        self.packed_product(blocks, window, conv.window.is_pointwise())
    }

    /// Appends the generic kernel with the layer's weights.
    fn packed_product(
        &mut self,
        blocks: Blocks,
        window: WindowArgument,
        pointwise: bool,
    ) -> Result<(), OpenClError> {
        let (taps, inputs) = (blocks.taps, blocks.input_channels / blocks.groups);
        let kernel = self.weights.kernel;
        let packed = blocks.pack(1, |_, to, tap, from| kernel[(to * taps + tap) * inputs + from]);
        let weights = Arc::new(self.runtime.buffer_of::<T>(&packed)?);
        let mut source = self.source("conv", include_str!("../kernels/conv.cl"));
        if blocks.groups > 1 {
            source.option("GROUPED");
        }
        let product = Product { blocks, weights, window, region: self.region(), pointwise };
        self.push_product(source, product, [TensorName::Input(0), TensorName::Output], self.linked_operands())
    }

    pub(super) fn mat_mul(&mut self, product: workload::Product) -> Result<(), OpenClError> {
        let blocks = Blocks {
            output_channels: product.outputs as usize,
            input_channels: product.inner as usize,
            ..self.dense_blocks()
        };
        let [depth, count] = [blocks.depth(), blocks.count()];
        let size = product.batch as usize * count * depth * blocks.block_slices * CHANNELS * CHANNELS;
        let weights = Arc::new(self.runtime.buffer::<T>(size)?);
        let mut source = self.source_linking("conv", include_str!("../kernels/conv.cl"), &[]);
        self.tile_options(&mut source);
        let arranged = [count * blocks.block_slices, depth, product.batch as usize].map(|n| n as u32);
        let arguments = vec![
            Argument::Tensor(TensorName::Input(1)),
            Argument::Weights(Arc::clone(&weights)),
            Argument::Extent(TensorName::Input(1)),
            Argument::Count(depth as i32),
            Argument::Count(count as i32),
            Argument::Count((self.first_channel() / CHANNELS) as i32),
        ];
        let grid = LaunchGrid { threads: arranged, work_group: ARRANGING_GROUP };
        self.append(&source, "arrange_weights", grid, arguments)?;

        let mut source = self.source("conv", include_str!("../kernels/conv.cl"));
        source.option("ROW_WEIGHTS");
        source.option("NO_BIAS");
        let region = self.region();
        let product = Product { blocks, weights, window: PIXEL, region, pointwise: true };
        self.push_product(source, product, [TensorName::Input(0), TensorName::Output], self.linked_operands())
    }

    /// The blocks that the dispatch cuts the part's output channels into; dimensions
    /// are the operator's to fill in.
    pub(super) fn dense_blocks(&self) -> Blocks {
        Blocks {
            first_channel: self.first_channel(),
            slices: self.slices(),
            block_slices: self.dispatch.tile[2].max(1) as usize,
            taps: 1,
            output_channels: 0,
            input_channels: 0,
            groups: 1,
        }
    }

    /// Appends the generic kernel from the first of two tensors to the second.
    pub(super) fn push_product(
        &mut self,
        mut source: Source,
        product: Product<T>,
        [from, to]: [TensorName; 2],
        operands: Vec<Argument<T>>,
    ) -> Result<(), OpenClError> {
        let Product { blocks: packed, weights, window, region, pointwise } = product;
        let [x, y, slices] = self.dispatch.tile;
        let texels = u64::from(x) * u64::from(y) * u64::from(slices);
        if texels == 0 || texels > u64::from(MAX_TEXELS) {
            return Err(self.unsupported(format!("a thread cannot compute a tile of {x}x{y}x{slices}")));
        }
        self.tile_options(&mut source);
        if pointwise {
            source.option("POINTWISE");
        }
        let groups = Groups {
            depth: packed.depth() as i32,
            inputs: (packed.input_channels / packed.groups) as i32,
            outputs: (packed.output_channels / packed.groups) as i32,
        };
        let bias = self.per_channel(self.weights.bias)?;
        let mut arguments = vec![
            Argument::Tensor(from),
            Argument::Weights(weights),
            bias,
            Argument::Tensor(to),
            Argument::Extent(from),
            Argument::Extent(to),
        ];
        arguments.extend([Argument::Region(region), Argument::Window(window), Argument::Groups(groups)]);
        arguments.extend(operands);
        let threads = blocks(region.size(), self.dispatch.tile);
        let grid = LaunchGrid {
            threads: self.dispatch.linearisation.grid(threads),
            work_group: self.dispatch.work_group,
        };
        self.append(&source, "conv", grid, arguments)
    }

    /// Fits a source to the dispatch.
    pub(super) fn tile_options(&self, source: &mut Source) {
        for (name, size) in ["TILE_X", "TILE_Y", "TILE_SLICES"].into_iter().zip(self.dispatch.tile) {
            source.number(name, size);
        }
        source.number("LINEARISED", self.dispatch.linearisation as u32);
    }

    pub(super) fn fully_connected(&mut self, [inputs, outputs]: [u32; 2]) -> Result<(), OpenClError> {
        let [group, sharers, deep] = self.dispatch.work_group;
        if deep != 1 {
            return Err(self.unsupported("a matrix-vector product's work-group is flat".to_owned()));
        }
        let [depth, count] = [inputs as usize, self.slices()];
        // A single block: for each input the slices of all outputs lie together.
        let blocks = Blocks {
            block_slices: count,
            output_channels: outputs as usize,
            input_channels: depth,
            ..self.dense_blocks()
        };
        let packed = blocks.pack(1, |_, to, _, from| self.weights.kernel[to * depth + from]);
        let constants = vec![self.constants(&packed)?, self.per_channel(self.weights.bias)?];
        let mut source = self.source("fully_connected", include_str!("../kernels/fully_connected.cl"));
        source.number("GROUP", group);
        source.number("SHARERS", sharers);
        self.push(&source, "fully_connected", [count as u32, sharers, 1], constants, Vec::new())
    }

    pub(super) fn conv_constants(&mut self, conv: &Conv2d) -> Result<(), OpenClError> {
        let taps = (conv.window.kernel[0] * conv.window.kernel[1]) as usize;
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
        let window = WindowArgument::from(&conv.window);
        let [width, height, _] = self.region().size();
        let threads = [width, height, 1];
        self.push(&source, "conv_constants", threads, constants, vec![Argument::Window(window)])
    }
}

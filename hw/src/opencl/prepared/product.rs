//! Steps of everything that multiplies matrices: the generic convolution, linear
//! layers, products of activations, matrix-vector products, constant weights.

use std::sync::Arc;

use coexec_sim::workload::{Conv2d, Linear, MatMul, Padding};
use opencl3::memory::Buffer;

use super::super::dispatch::blocks;
use super::super::error::OpenClError;
use super::super::source::Source;
use super::super::weights::{self, Blocks, CHANNELS};
use super::builder::Builder;
use super::step::{Argument, Grid, Groups, Region, Step, Window};
use crate::cpu::Element;

/// Most registers of sums a thread may want: a larger tile is a slip of a sweep.
const MOST_TEXELS: u32 = 64;
/// Work-group that rearranges the right operand of a matrix product.
const ARRANGING_GROUP: [u32; 3] = [8, 4, 1];

/// A convolution as the generic kernel runs it.
pub(super) struct Product<T> {
    pub(super) blocks: Blocks,
    pub(super) weights: Arc<Buffer<T>>,
    pub(super) window: Window,
    pub(super) region: Region,
    /// One pixel of stride 1, without padding.
    pub(super) pointwise: bool,
}

/// The window of one pixel.
pub(super) const PIXEL: Window = Window { kernel: [1; 2], stride: [1; 2], dilation: [1; 2], before: [0; 2] };

pub(super) fn window_of(kernel: [u32; 2], stride: [u32; 2], dilation: [u32; 2], padding: Padding) -> Window {
    let columns_first = |[vertical, horizontal]: [u32; 2]| [horizontal as i32, vertical as i32];
    Window {
        kernel: columns_first(kernel),
        stride: columns_first(stride),
        dilation: columns_first(dilation),
        before: [padding.left as i32, padding.top as i32],
    }
}

impl<T: Element> Builder<'_, T> {
    pub(super) fn linear(&mut self, linear: Linear) -> Result<(), OpenClError> {
        let blocks = Blocks {
            taps: 1,
            output_channels: linear.output_features as usize,
            input_channels: linear.input_features as usize,
            groups: 1,
            ..self.dense_blocks()
        };
        let depth = blocks.input_channels;
        let packed = blocks.pack(1, |_, to, _, from| self.weights.kernel[to * depth + from]);
        let weights = Arc::new(self.runtime.buffer_of::<T>(&packed)?);
        let region = self.region();
        let step = self.conv_step(Product { blocks, weights, window: PIXEL, region, pointwise: true })?;
        self.steps.push(step);
        Ok(())
    }

    pub(super) fn conv2d(&mut self, conv: &Conv2d) -> Result<(), OpenClError> {
        let taps = (conv.kernel[0] * conv.kernel[1]) as usize;
        let blocks = Blocks {
            taps,
            output_channels: conv.output_channels as usize,
            input_channels: conv.input.channels as usize,
            groups: conv.groups as usize,
            ..self.dense_blocks()
        };
        let inputs = blocks.input_channels / blocks.groups;
        let kernel = self.weights.kernel;
        let packed = blocks.pack(1, |_, to, tap, from| kernel[(to * taps + tap) * inputs + from]);
        let weights = Arc::new(self.runtime.buffer_of::<T>(&packed)?);
        let window = window_of(conv.kernel, conv.stride, conv.dilation, conv.padding);
        let region = self.region();
        let pointwise = conv.is_pointwise();
        let step = self.conv_step(Product { blocks, weights, window, region, pointwise })?;
        self.steps.push(step);
        Ok(())
    }

    pub(super) fn mat_mul(&mut self, product: MatMul) -> Result<(), OpenClError> {
        let blocks = Blocks {
            taps: 1,
            output_channels: product.n as usize,
            input_channels: product.k as usize,
            groups: 1,
            ..self.dense_blocks()
        };
        let [depth, count] = [blocks.depth(), blocks.count()];
        let size = product.batch as usize * count * depth * blocks.block_slices * CHANNELS * CHANNELS;
        let weights = Arc::new(self.runtime.buffer::<T>(size)?);
        let mut source = self.source_linking("conv", include_str!("../kernels/conv.cl"), &[]);
        self.tile_options(&mut source);
        let arranged = [count * blocks.block_slices, depth, product.batch as usize].map(|n| n as u32);
        let arguments = vec![
            Argument::Input(1),
            Argument::Weights(Arc::clone(&weights)),
            Argument::InputExtent(1),
            Argument::Count(depth as i32),
            Argument::Count(count as i32),
            Argument::Count((self.first_channel() / CHANNELS) as i32),
        ];
        let grid = Grid { threads: arranged, work_group: ARRANGING_GROUP };
        let step = self.step(&source, "arrange_weights", grid, arguments)?;
        self.steps.push(step);

        let mut source = self.source("conv", include_str!("../kernels/conv.cl"));
        source.option("ROW_WEIGHTS");
        source.option("NO_BIAS");
        let region = self.region();
        let product = Product { blocks, weights, window: PIXEL, region, pointwise: true };
        let step = self.conv_step_of(
            source,
            product,
            [Argument::Input(0), Argument::Output],
            self.linked_operands(),
        )?;
        self.steps.push(step);
        Ok(())
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

    fn conv_step(&self, product: Product<T>) -> Result<Step<T>, OpenClError> {
        let mut source = self.source("conv", include_str!("../kernels/conv.cl"));
        if product.blocks.groups > 1 {
            source.option("GROUPED");
        }
        self.conv_step_of(source, product, [Argument::Input(0), Argument::Output], self.linked_operands())
    }

    /// The generic kernel from the first of `tensors` to the second.
    pub(super) fn conv_step_of(
        &self,
        mut source: Source,
        product: Product<T>,
        [from, to]: [Argument<T>; 2],
        operands: Vec<Argument<T>>,
    ) -> Result<Step<T>, OpenClError> {
        let Product { blocks: packed, weights, window, region, pointwise } = product;
        let [x, y, slices] = self.dispatch.tile;
        let texels = u64::from(x) * u64::from(y) * u64::from(slices);
        if texels == 0 || texels > u64::from(MOST_TEXELS) {
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
        let extents = [extent_of(&from), extent_of(&to)];
        let bias = weights::bias::<T>(self.weights, packed.first_channel, packed.slices);
        let bias = Argument::Weights(Arc::new(self.runtime.buffer_of(&bias)?));
        let mut arguments = vec![from, Argument::Weights(weights), bias, to];
        arguments.extend(extents);
        arguments.extend([Argument::Region(region), Argument::Window(window), Argument::Groups(groups)]);
        arguments.extend(operands);
        let threads = blocks(region.size(), self.dispatch.tile);
        let grid = Grid { threads: self.dispatch.grid(threads), work_group: self.dispatch.work_group };
        self.step(&source, "conv", grid, arguments)
    }

    /// Fits a source to the dispatch.
    pub(super) fn tile_options(&self, source: &mut Source) {
        for (name, size) in ["TILE_X", "TILE_Y", "TILE_SLICES"].into_iter().zip(self.dispatch.tile) {
            source.number(name, size);
        }
        source.number("LINEARISED", self.dispatch.linearisation as u32);
    }

    pub(super) fn fully_connected(&mut self, [inputs, outputs]: [u32; 2]) -> Result<(), OpenClError> {
        let dimensions = [inputs, outputs].map(|count| count as usize);
        let [first, count] = [self.first_channel(), self.slices()];
        let packed = weights::fully_connected::<T>(self.weights.kernel, dimensions, first, count);
        let bias = weights::bias::<T>(self.weights, first, count);
        let [group, sharers, deep] = self.dispatch.work_group;
        if deep != 1 {
            return Err(self.unsupported("a matrix-vector product's work-group is flat".to_owned()));
        }
        let mut source = self.source("fully_connected", include_str!("../kernels/fully_connected.cl"));
        source.number("GROUP", group);
        source.number("SHARERS", sharers);
        let mut arguments = vec![
            Argument::Input(0),
            Argument::Weights(Arc::new(self.runtime.buffer_of(&packed)?)),
            Argument::Weights(Arc::new(self.runtime.buffer_of(&bias)?)),
            Argument::Output,
            Argument::InputExtent(0),
            Argument::OutputExtent,
            Argument::Region(self.region()),
        ];
        arguments.extend(self.linked_operands());
        let grid = Grid { threads: [count as u32, sharers, 1], work_group: self.dispatch.work_group };
        let step = self.step(&source, "fully_connected", grid, arguments)?;
        self.steps.push(step);
        Ok(())
    }

    pub(super) fn conv_constants(&mut self, conv: &Conv2d) -> Result<(), OpenClError> {
        let taps = (conv.kernel[0] * conv.kernel[1]) as usize;
        let dimensions = [conv.input.channels as usize, conv.output_channels as usize, taps];
        let [first, count] = [self.first_channel(), self.slices()];
        let packed = weights::constants::<T>(self.weights.kernel, dimensions, first, count);
        let bias = weights::bias::<T>(self.weights, first, count);
        let bytes = size_of_val(packed.as_slice()) + size_of_val(bias.as_slice());
        let most = self.runtime.device().constant_memory_bytes;
        if bytes as u64 > most {
            return Err(
                self.unsupported(format!("found {bytes} bytes of constants, expected at most {most}"))
            );
        }
        let mut source = self.source("conv_constants", include_str!("../kernels/conv_constants.cl"));
        source.number("SLICES", count as u32);
        source.number("INPUTS", conv.input.channels);
        source.number("KERNEL_Y", conv.kernel[0]);
        source.number("KERNEL_X", conv.kernel[1]);
        let region = self.region();
        let mut arguments = vec![
            Argument::Input(0),
            Argument::Weights(Arc::new(self.runtime.buffer_of(&packed)?)),
            Argument::Weights(Arc::new(self.runtime.buffer_of(&bias)?)),
            Argument::Output,
            Argument::InputExtent(0),
            Argument::OutputExtent,
            Argument::Region(region),
            Argument::Window(window_of(conv.kernel, conv.stride, conv.dilation, conv.padding)),
        ];
        arguments.extend(self.linked_operands());
        let [width, height, _] = region.size();
        let grid = Grid { threads: [width, height, 1], work_group: self.dispatch.work_group };
        let step = self.step(&source, "conv_constants", grid, arguments)?;
        self.steps.push(step);
        Ok(())
    }
}

/// The extent that belongs to a tensor among the arguments.
fn extent_of<T>(tensor: &Argument<T>) -> Argument<T> {
    match tensor {
        Argument::Input(input) => Argument::InputExtent(*input),
        Argument::Inner(inner) => Argument::InnerExtent(*inner),
        _ => Argument::OutputExtent,
    }
}

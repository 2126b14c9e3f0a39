//! Steps of everything that slides a window over each channel: depthwise convolution
//! and pooling, and the mean over all pixels.

use std::sync::Arc;

use coexec_sim::kernel::gpu::Kernel;
use coexec_sim::workload::{DepthwiseConv2d, Padding, Pool, PoolKind, Shape};

use super::super::dispatch::blocks;
use super::super::error::OpenClError;
use super::super::weights;
use super::builder::Builder;
use super::product::window_of;
use super::step::{Argument, Grid};
use crate::cpu::Element;

impl<T: Element> Builder<'_, T> {
    pub(super) fn depthwise(&mut self, conv: &DepthwiseConv2d, kernel: Kernel) -> Result<(), OpenClError> {
        let taps = (conv.kernel[0] * conv.kernel[1]) as usize;
        let channels = conv.output().channels as usize;
        let [first, count] = [self.first_channel(), self.slices()];
        let packed = weights::depthwise::<T>(self.weights.kernel, [channels, taps], first, count);
        let bias = weights::bias::<T>(self.weights, first, count);
        let plain = conv.kernel == [3; 2]
            && conv.stride == [1; 2]
            && conv.dilation == [1; 2]
            && conv.padding == Padding::symmetric(1, 1)
            && conv.multiplier == 1;
        if kernel == Kernel::Depthwise3x3 && !plain {
            return Err(self.unsupported("its window is not a plain 3x3 one".to_owned()));
        }
        // The images of a batch lie side by side: neighbours there share no reads.
        let shares_reads = kernel == Kernel::Depthwise3x3 && conv.input.batch == 1;
        let entry = if shares_reads { "depthwise_3x3" } else { "depthwise" };
        let mut source = self.source("depthwise", include_str!("../kernels/depthwise.cl"));
        source.number("MULTIPLIER", conv.multiplier);
        self.tile_options(&mut source);
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
        if self.dispatch.tile[2] != 1 {
            return Err(self.unsupported("a thread computes one slice".to_owned()));
        }
        let grid =
            Grid { threads: blocks(region.size(), self.dispatch.tile), work_group: self.dispatch.work_group };
        let step = self.step(&source, entry, grid, arguments)?;
        self.steps.push(step);
        Ok(())
    }

    pub(super) fn pool(&mut self, pool: &Pool) -> Result<(), OpenClError> {
        let mut source = self.source("pool", include_str!("../kernels/pool.cl"));
        if pool.kind == PoolKind::Average {
            source.option("AVERAGE");
        }
        let region = self.region();
        let mut arguments = vec![
            Argument::Input(0),
            Argument::Output,
            Argument::InputExtent(0),
            Argument::OutputExtent,
            Argument::Region(region),
            Argument::Window(window_of(pool.kernel, pool.stride, [1; 2], pool.padding)),
        ];
        arguments.extend(self.linked_operands());
        let grid = Grid { threads: region.size(), work_group: self.dispatch.work_group };
        let step = self.step(&source, "pool", grid, arguments)?;
        self.steps.push(step);
        Ok(())
    }

    pub(super) fn mean(&mut self, input: Shape) -> Result<(), OpenClError> {
        let mut source = self.source("mean", include_str!("../kernels/mean.cl"));
        let group = self.dispatch.work_group;
        for (name, size) in ["GROUP_X", "GROUP_Y", "GROUP_SLICES"].into_iter().zip(group) {
            source.number(name, size);
        }
        let mut arguments = vec![
            Argument::Input(0),
            Argument::Output,
            Argument::InputExtent(0),
            Argument::OutputExtent,
            Argument::Region(self.region()),
        ];
        arguments.extend(self.linked_operands());
        // A group for each image and its slices.
        let threads = [input.batch * group[0], group[1], self.slices() as u32];
        let grid = Grid { threads, work_group: group };
        let step = self.step(&source, "mean", grid, arguments)?;
        self.steps.push(step);
        Ok(())
    }
}

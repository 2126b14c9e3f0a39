//! Steps of everything that slides a window over each channel: depthwise convolution
//! and pooling, and the mean over all pixels.

use coexec_sim::kernel::gpu::Kernel;
use coexec_sim::workload::{DepthwiseConv2d, Pool, PoolKind, Shape, Window};

use super::super::error::Result;
use super::super::weights;
use super::builder::Builder;
use super::step::Argument;
use crate::cpu::Element;

impl<T: Element> Builder<'_, T> {
    pub(super) fn depthwise(&mut self, conv: &DepthwiseConv2d, kernel: Kernel) -> Result<()> {
        let taps = conv.window.taps() as usize;
        let channels = conv.output().channels as usize;
        let [first, count] = [self.first_channel(), self.slices()];
        let packed = weights::depthwise::<T>(self.weights.kernel, [channels, taps], first, count);
        let plain = conv.window == Window::same(3) && conv.multiplier == 1;
        if kernel == Kernel::Depthwise3x3 && !plain {
            return Err(self.unsupported("its window is not a plain 3x3 one".to_owned()));
        }
        // The images of a batch lie side by side: neighbours there share no reads.
        let shares_reads = kernel == Kernel::Depthwise3x3 && conv.input.batch == 1;
        let entry = if shares_reads { "depthwise_3x3" } else { "depthwise" };
        let mut source = self.source("depthwise", include_str!("../kernels/depthwise.cl"));
        source.number("MULTIPLIER", conv.multiplier);
        self.tile_options(&mut source);
        if self.dispatch.tile[2] != 1 {
            return Err(self.unsupported("a thread computes one slice".to_owned()));
        }
        let constants = vec![self.constants(&packed)?, self.per_channel(self.weights.bias)?];
        let threads = self.region().blocks(self.dispatch.tile);
        self.push(&source, entry, threads, constants, vec![Argument::window(&conv.window)])
    }

    pub(super) fn pool(&mut self, pool: &Pool) -> Result<()> {
        let mut source = self.source("pool", include_str!("../kernels/pool.cl"));
        if pool.kind == PoolKind::Average {
            source.option("AVERAGE");
        }
        let window = vec![Argument::window(&pool.window)];
        self.push(&source, "pool", self.region().size, Vec::new(), window)
    }

    pub(super) fn mean(&mut self, input: Shape) -> Result<()> {
        let mut source = self.source("mean", include_str!("../kernels/mean.cl"));
        let group = self.dispatch.work_group;
        for (name, size) in ["GROUP_X", "GROUP_Y", "GROUP_SLICES"].into_iter().zip(group) {
            source.number(name, size);
        }
        // A group for each image and its slices.
        let threads = [input.batch * group[0], group[1], self.slices() as u32];
        self.push(&source, "mean", threads, Vec::new(), Vec::new())
    }
}

//! The work of products: linear layers, convolutions, and products of two tensors.

use super::{Caches, DepthBlocks, Division, Extent, Sharing, Work, beyond};
use crate::device::cpu::CoexecUnit;
use crate::kernel::cpu::Kernel;
use crate::workload::Conv2d;

/// One product per group.
pub(super) struct Product {
    pub(super) pixels: usize,
    pub(super) channels: usize,
    pub(super) taps: usize,
    pub(super) inputs: usize,
    pub(super) groups: usize,
    /// Elements between the inputs of consecutive pixels; `None` if a window is read through pointers.
    pub(super) pixel_stride: Option<usize>,
    pub(super) element_bytes: usize,
}

impl Product {
    pub(super) fn of_conv2d(conv: &Conv2d, element_bytes: usize) -> Self {
        let groups = conv.groups.max(1) as usize;
        Self {
            pixels: conv.output().pixels() as usize,
            channels: conv.output_channels as usize / groups,
            taps: conv.window.taps() as usize,
            inputs: conv.input.channels as usize / groups,
            groups,
            pixel_stride: conv.window.is_pointwise().then_some(conv.input.channels as usize),
            element_bytes,
        }
    }

    pub(super) fn work(&self, caches: &Caches, threads: usize) -> Work {
        let Self { pixels, channels, taps, inputs, groups, element_bytes, .. } = *self;
        let tile = caches.set.tile();
        let is_vector = pixels == 1;
        let tile_pixels = if is_vector { 1 } else { tile.pixels };
        let extent = Extent {
            pixels,
            channels,
            depth: taps * inputs,
            products: groups,
            tile_pixels,
            tile_channels: tile.channels,
            element_bytes,
        };
        let division = Division::new(&extent, threads);
        let depth = DepthBlocks::new(taps, inputs.max(1), element_bytes);
        let [rows, panels] = extent.tiles();
        let calls = (rows * panels * depth.count() * groups) as f64;
        let sweeps = division.sweeps(depth.panels_a_sweep(tile.channels));
        // Input pointers are computed per pixel, tap and sweep over the panels.
        let lookups = (rows * tile_pixels * taps * sweeps * groups) as f64;
        let weights = (panels * tile.channels * taps * inputs * groups) as f64;
        let threads = division.threads as f64;
        let mut work = Work::new(if is_vector {
            Kernel::Gemv
        } else if self.pixel_stride.is_some() {
            Kernel::Gemm
        } else {
            Kernel::IndirectGemm
        });
        work.tile = [tile_pixels as u32, tile.channels as u32];
        work.weight_bytes = weights * element_bytes as f64;
        work.add(CoexecUnit::TileCall, calls);
        work.add(CoexecUnit::ContinuedCall, calls * (depth.count() - 1) as f64 / depth.count() as f64);
        work.add(CoexecUnit::Block, division.blocks() as f64);
        work.add(CoexecUnit::EdgePixel, self.edge_pixels(&extent, depth.count()));
        if is_vector {
            work.add(CoexecUnit::VectorWeight, weights);
            let beyond_one = beyond(work.weight_bytes / threads, caches.l2_bytes);
            work.add(CoexecUnit::BeyondL2Byte, beyond_one * threads);
        } else {
            work.add(CoexecUnit::MultiplyAccumulate, weights * (rows * tile_pixels) as f64);
            work.add(CoexecUnit::ProductOutput, (pixels * channels * groups) as f64);
        }
        match self.pixel_stride {
            None => work.add(CoexecUnit::WindowPointer, lookups),
            Some(stride) => {
                let conflicts =
                    depth.iter().next().is_some_and(|block| block.conflicts(stride * element_bytes));
                if conflicts && panels > 1 && !is_vector {
                    work.add(CoexecUnit::CopiedInput, lookups * inputs as f64);
                }
            }
        }
        if division.blocks() > 1 || division.threads > 1 {
            work.sharing = Sharing::Blocks(division);
        }
        work
    }

    /// Result pixels of partial tiles, which are copied: once for the first block of the depth,
    /// twice for each further one.
    fn edge_pixels(&self, extent: &Extent, depth_blocks: usize) -> f64 {
        let [_, panels] = extent.tiles();
        let edge_panels = usize::from(!self.channels.is_multiple_of(extent.tile_channels));
        let edge_rows = self.pixels % extent.tile_pixels;
        let once = self.pixels * edge_panels + edge_rows * (panels - edge_panels);
        (once * (2 * depth_blocks - 1) * self.groups) as f64
    }
}

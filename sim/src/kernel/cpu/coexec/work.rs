//! The work of a layer in the loops of coexec's own kernels, in units of the rates.

use super::depth_blocks::DepthBlocks;
use super::division::{Division, Extent};
use crate::device::cpu::{Cluster, CoexecUnit, InstructionSet};
use crate::kernel::cpu::{Kernel, separate_passes};
use crate::workload::{
    Conv2d, DepthwiseConv2d, Elementwise, Function, Layer, MatMul, NormKind, Operator, Padding, Pool, Shape,
};

/// Depthwise multiply-accumulates that justify one more thread (TFLite, depthwise
/// convolution).
const DEPTHWISE_MACS_PER_THREAD: u64 = 8_192;
/// Vectors of channels that windows take at once.
const CHUNK_VECTORS: usize = 4;
/// Passes of a softmax besides its exponentials: maximum, sum, scaling.
const SOFTMAX_PLAIN_PASSES: f64 = 3.0;
/// Passes of a layer norm: mean, variance, normalisation, shift.
const LAYER_NORM_PASSES: f64 = 4.0;
/// Passes of a root-mean-square norm: mean square, normalisation.
const RMS_NORM_PASSES: f64 = 2.0;
/// Caches of a core that a profile does not tell of.
const ASSUMED_L1_BYTES: u32 = 32 * 1024;
const ASSUMED_L2_BYTES: u32 = 512 * 1024;
/// How many times as fast as the bytes beyond a cache's size the bytes grow that are not
/// found in it: passed over again and again, twice the size leaves nothing.
const EVICTION: f64 = 2.0;
/// Part of the first-level cache that weights may fill before inputs evict them.
const WEIGHTS_OF_L1: f64 = 0.5;

/// Threads, of `most`, that share a depthwise convolution of so many
/// multiply-accumulates.
pub fn depthwise_threads(macs: u64, most: usize) -> usize {
    (macs / DEPTHWISE_MACS_PER_THREAD).clamp(1, most as u64) as usize
}

/// What of a cluster decides how the kernels' loops run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caches {
    set: InstructionSet,
    l1_bytes: f64,
    l2_bytes: f64,
}

impl Caches {
    pub(crate) fn of(cluster: &Cluster) -> Self {
        Self {
            set: cluster.instruction_set.unwrap_or(InstructionSet::Neon),
            l1_bytes: f64::from(cluster.l1_cache_bytes.unwrap_or(ASSUMED_L1_BYTES)),
            l2_bytes: f64::from(cluster.l2_cache_bytes.unwrap_or(ASSUMED_L2_BYTES)),
        }
    }
}

/// How work is divided.
#[derive(Clone, Copy, Debug)]
pub(super) enum Sharing {
    /// The calling thread does it all.
    Alone,
    /// Each thread has its lines from the start.
    Lines { lines: usize, threads: usize },
    /// Each thread takes the next block when it is free.
    Blocks(Division),
}

/// One pass over a tensor: an operator, or a function linked behind it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    pub(super) kernel: Kernel,
    /// Pixels and output channels of the micro-kernel's tile.
    pub(super) tile: [u32; 2],
    pub(super) units: [f64; CoexecUnit::ALL.len()],
    /// Bytes of a product's weights.
    pub(super) weight_bytes: f64,
    pub(super) sharing: Sharing,
}

/// A product, or as many as there are groups.
struct Product {
    pixels: usize,
    channels: usize,
    taps: usize,
    inputs: usize,
    groups: usize,
    /// Elements from one pixel's inputs to the next's, where no window moves over them.
    pixel_stride: Option<usize>,
    element_bytes: usize,
}

impl Work {
    /// The work of the layer: of its operator, then of each linked function that runs as a
    /// pass of its own.
    pub(crate) fn of_layer(layer: &Layer, caches: &Caches, threads: usize) -> impl Iterator<Item = Self> {
        let bytes = layer.data_type.activation_bytes() as usize;
        let operator = Self::of_operator(&layer.operator, bytes, caches, threads);
        let output = layer.operator.output();
        let passes = separate_passes(layer).map(move |function| {
            let tensors = if function.is_binary() { 3 } else { 2 };
            Self::function(function, output, tensors, bytes, caches)
        });
        std::iter::once(operator).chain(passes)
    }

    fn new(kernel: Kernel) -> Self {
        Self {
            kernel,
            tile: [0, 0],
            units: [0.0; CoexecUnit::ALL.len()],
            weight_bytes: 0.0,
            sharing: Sharing::Alone,
        }
    }

    fn add(&mut self, unit: CoexecUnit, count: f64) {
        self.units[unit as usize] += count;
    }

    fn of_operator(operator: &Operator, bytes: usize, caches: &Caches, threads: usize) -> Self {
        let output = operator.output();
        match operator {
            Operator::Linear(linear) => Product {
                pixels: linear.rows as usize,
                channels: linear.output_features as usize,
                taps: 1,
                inputs: linear.input_features as usize,
                groups: 1,
                pixel_stride: Some(linear.input_features as usize),
                element_bytes: bytes,
            }
            .work(caches, threads),
            Operator::Conv2d(conv) => Product::of_conv2d(conv, bytes).work(caches, threads),
            Operator::MatMul(product) => Self::batched(product, bytes, caches, threads),
            Operator::DepthwiseConv2d(conv) => Self::depthwise(conv, bytes, caches, threads),
            Operator::Pool(pool) => Self::pool(pool, bytes, caches),
            Operator::Mean(mean) => Self::mean(mean.input, bytes, caches),
            Operator::Concat(_) | Operator::Slice(_) | Operator::Reshape(_) | Operator::Embedding(_) => {
                let mut work = Self::new(Kernel::Copy);
                work.add(CoexecUnit::Pixel, output.pixels() as f64);
                work.add(CoexecUnit::CopiedElement, output.elements() as f64);
                work.stream(2.0 * (output.elements() as usize * bytes) as f64, caches);
                work
            }
            Operator::Elementwise(Elementwise { function, input, other }) => {
                let tensors = if other.is_some_and(|other| other == *input) { 3 } else { 2 };
                Self::function(*function, *input, tensors, bytes, caches)
            }
            Operator::Softmax(softmax) => {
                let mut work = Self::function(Function::Sigmoid, softmax.input, 2, bytes, caches);
                let elements = softmax.input.elements() as f64;
                work.add(CoexecUnit::Element, elements * SOFTMAX_PLAIN_PASSES);
                work
            }
            Operator::Norm(norm) if norm.kind == NormKind::Batch => {
                Self::function(Function::Add, norm.input, 2, bytes, caches)
            }
            Operator::Norm(norm) => {
                let mut work = Self::function(Function::Add, norm.input, 2, bytes, caches);
                let passes = if norm.kind == NormKind::Rms { RMS_NORM_PASSES } else { LAYER_NORM_PASSES };
                work.add(CoexecUnit::Element, norm.input.elements() as f64 * (passes - 1.0));
                work
            }
        }
    }

    /// A function of `tensors` tensors of `shape`, the result among them.
    fn function(function: Function, shape: Shape, tensors: u32, bytes: usize, caches: &Caches) -> Self {
        let mut work = Self::new(Kernel::Elementwise);
        let elements = shape.elements() as f64;
        let unit = match function {
            Function::Add | Function::Multiply | Function::Relu | Function::Relu6 => CoexecUnit::Element,
            Function::HardSwish | Function::HardSigmoid => CoexecUnit::ActivationElement,
            Function::Sigmoid | Function::Silu | Function::Gelu | Function::Tanh => {
                CoexecUnit::ExponentialElement
            }
        };
        work.add(CoexecUnit::Pixel, shape.pixels() as f64);
        work.add(unit, elements);
        work.stream(f64::from(tensors) * elements * bytes as f64, caches);
        work
    }

    /// Bytes of tensors that are passed over once.
    fn stream(&mut self, bytes: f64, caches: &Caches) {
        self.add(CoexecUnit::StreamedByte, bytes);
        self.add(CoexecUnit::BeyondL2Byte, beyond(bytes, caches.l2_bytes));
    }

    /// Channels under windows at `positions` positions in all.
    fn windows(&mut self, channels: usize, positions: f64, units: [CoexecUnit; 3], caches: &Caches) {
        let lanes = caches.set.lanes();
        let chunk = CHUNK_VECTORS * lanes;
        let counts = [channels / chunk, channels % chunk / lanes, channels % lanes];
        for (unit, count) in units.into_iter().zip(counts) {
            self.add(unit, count as f64 * positions);
        }
    }

    fn depthwise(conv: &DepthwiseConv2d, bytes: usize, caches: &Caches, threads: usize) -> Self {
        let (input, output) = (conv.input, conv.output());
        let mut work = Self::new(Kernel::Depthwise);
        let positions =
            positions_inside(input, output, conv.kernel, conv.stride, conv.dilation, conv.padding);
        let channels = output.channels as usize;
        work.add(CoexecUnit::WindowPixel, output.pixels() as f64);
        let units = [CoexecUnit::DepthwiseChunk, CoexecUnit::DepthwiseVector, CoexecUnit::DepthwiseLane];
        if conv.multiplier > 1 {
            work.add(CoexecUnit::DepthwiseLane, channels as f64 * positions);
        } else {
            work.windows(channels, positions, units, caches);
        }
        let macs = output.elements() * u64::from(conv.kernel[0]) * u64::from(conv.kernel[1]);
        let lines = output.batch as usize * output.height as usize;
        let threads = depthwise_threads(macs, threads).min(lines);
        let size = |elements: u64| elements as f64 * bytes as f64;
        let window = u64::from(conv.kernel[0]) * u64::from(conv.kernel[1]);
        let weights = size(window * u64::from(output.channels));
        let rows = size(u64::from(conv.kernel[0]) * u64::from(input.width) * u64::from(input.channels));
        let tensors = size(input.elements() + output.elements());
        if weights + rows > caches.l1_bytes {
            // Rows under the window are gone when the next line reads them again.
            let again = f64::from(conv.kernel[0]) / f64::from(conv.stride[0]);
            work.add(
                CoexecUnit::DepthwiseBeyondL1Byte,
                size(input.elements()) * again.max(1.0) + size(output.elements()),
            );
            if weights > caches.l1_bytes * WEIGHTS_OF_L1 {
                work.add(CoexecUnit::DepthwiseBeyondL1Byte, positions * size(u64::from(output.channels)));
            }
        } else if tensors > caches.l1_bytes * threads as f64 {
            work.add(CoexecUnit::DepthwiseBeyondL1Byte, tensors);
        }
        work.add(CoexecUnit::BeyondL2Byte, beyond(tensors, caches.l2_bytes * threads as f64));
        if threads > 1 {
            work.sharing = Sharing::Lines { lines, threads };
        }
        work
    }

    fn pool(pool: &Pool, bytes: usize, caches: &Caches) -> Self {
        let output = Operator::Pool(*pool).output();
        let mut work = Self::new(Kernel::Pool);
        let positions = positions_inside(pool.input, output, pool.kernel, pool.stride, [1, 1], pool.padding);
        work.add(CoexecUnit::WindowPixel, output.pixels() as f64);
        let units = [CoexecUnit::PoolChunk, CoexecUnit::PoolVector, CoexecUnit::PoolLane];
        work.windows(output.channels as usize, positions, units, caches);
        let tensors = (pool.input.elements() + output.elements()) as f64 * bytes as f64;
        work.add(CoexecUnit::BeyondL2Byte, beyond(tensors, caches.l2_bytes));
        work
    }

    fn mean(input: Shape, bytes: usize, caches: &Caches) -> Self {
        let mut work = Self::new(Kernel::Elementwise);
        let units = [CoexecUnit::MeanChunk, CoexecUnit::MeanVector, CoexecUnit::MeanLane];
        work.windows(input.channels as usize, input.pixels() as f64, units, caches);
        work.stream(input.elements() as f64 * bytes as f64, caches);
        work
    }

    /// Products of two inputs: the right operands are packed on every run.
    fn batched(product: &MatMul, bytes: usize, caches: &Caches, threads: usize) -> Self {
        let one = Product {
            pixels: product.m as usize,
            channels: product.n as usize,
            taps: 1,
            inputs: product.k as usize,
            groups: product.batch as usize,
            pixel_stride: Some(product.k as usize),
            element_bytes: bytes,
        };
        let mut work = one.work(caches, threads);
        work.add(CoexecUnit::CopiedElement, (one.groups * one.inputs * one.channels) as f64);
        work
    }
}

impl Product {
    fn of_conv2d(conv: &Conv2d, element_bytes: usize) -> Self {
        let groups = conv.groups.max(1) as usize;
        let is_pointwise = conv.is_pointwise() && conv.stride == [1, 1] && conv.padding == Padding::NONE;
        Self {
            pixels: conv.output().pixels() as usize,
            channels: conv.output_channels as usize / groups,
            taps: conv.kernel[0] as usize * conv.kernel[1] as usize,
            inputs: conv.input.channels as usize / groups,
            groups,
            pixel_stride: is_pointwise.then_some(conv.input.channels as usize),
            element_bytes,
        }
    }

    fn work(&self, caches: &Caches, threads: usize) -> Work {
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
        // Inputs are looked up for each pixel, window position and sweep over the panels.
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

    /// Pixels of results that are copied because a part of their tile exists: once for the
    /// first block of the depth, twice for each further one.
    fn edge_pixels(&self, extent: &Extent, depth_blocks: usize) -> f64 {
        let [_, panels] = extent.tiles();
        let edge_panels = usize::from(!self.channels.is_multiple_of(extent.tile_channels));
        let edge_rows = self.pixels % extent.tile_pixels;
        let once = self.pixels * edge_panels + edge_rows * (panels - edge_panels);
        (once * (2 * depth_blocks - 1) * self.groups) as f64
    }
}

/// Of so many bytes that are passed over again and again, those not found in a cache.
fn beyond(bytes: f64, cache: f64) -> f64 {
    (EVICTION * (bytes - cache)).clamp(0.0, bytes)
}

/// Window positions that read pixels of the image and not the padding, over all output
/// pixels.
fn positions_inside(
    input: Shape,
    output: Shape,
    kernel: [u32; 2],
    stride: [u32; 2],
    dilation: [u32; 2],
    padding: Padding,
) -> f64 {
    let axis = |size: u32, outputs: u32, axis: usize, before: u32| -> f64 {
        let [kernel, stride, dilation] = [kernel[axis], stride[axis], dilation[axis].max(1)];
        let of = |at: u32| {
            let start = at * stride;
            let first = before.saturating_sub(start).div_ceil(dilation);
            let end = (before + size).saturating_sub(start).div_ceil(dilation).min(kernel);
            f64::from(end.saturating_sub(first))
        };
        (0..outputs).map(of).sum()
    };
    let vertical = axis(input.height, output.height, 0, padding.top);
    let horizontal = axis(input.width, output.width, 1, padding.left);
    f64::from(output.batch) * vertical * horizontal
}

//! The work of a layer in coexec's own kernels, counted in the rates' units.

use super::Division;
use super::product::Product;
use crate::device::cpu::CoexecUnit;
use crate::device::{Cluster, InstructionSet};
use crate::kernel::cpu::{Kernel, separate_passes};
use crate::workload::{
    self, Class, DepthwiseConv2d, Elementwise, Function, Layer, Movement, Operator, Pick, Pool, Reduction,
    Shape, Window,
};

/// Minimum depthwise multiply-accumulates per thread (TFLite, depthwise convolution).
const DEPTHWISE_MACS_PER_THREAD: u64 = 8_192;
/// Vectors of channels per chunk of a window kernel.
const CHUNK_VECTORS: usize = 4;
/// Passes of a softmax in addition to the exponentials: maximum, sum, scaling.
const SOFTMAX_PLAIN_PASSES: f64 = 3.0;
/// Cache sizes of a core if the profile has none.
const ASSUMED_L1_BYTES: u32 = 32 * 1024;
const ASSUMED_L2_BYTES: u32 = 512 * 1024;
/// Bytes that miss the cache per byte by which a working set exceeds it: with repeated
/// traversal, a working set of twice the cache's size misses completely.
const MISSES_PER_EXCESS_BYTE: f64 = 2.0;
/// Fraction of the first-level cache that weights may fill before inputs evict them.
const WEIGHT_FRACTION_OF_L1: f64 = 0.5;

/// Threads, at most `most`, that share a depthwise convolution of `macs`
/// multiply-accumulates.
pub fn depthwise_threads(macs: u64, most: usize) -> usize {
    (macs / DEPTHWISE_MACS_PER_THREAD).clamp(1, most as u64) as usize
}

/// Properties of a cluster that the work counts depend on.
#[derive(Clone, Copy, Debug)]
pub struct Caches {
    pub(super) set: InstructionSet,
    l1_bytes: f64,
    pub(super) l2_bytes: f64,
}

impl Caches {
    /// The cluster's caches and vector instructions, with typical values where the profile has none.
    pub fn of(cluster: &Cluster) -> Self {
        Self {
            set: cluster.instruction_set.unwrap_or(InstructionSet::Neon),
            l1_bytes: f64::from(cluster.l1_cache_bytes.unwrap_or(ASSUMED_L1_BYTES)),
            l2_bytes: f64::from(cluster.l2_cache_bytes.unwrap_or(ASSUMED_L2_BYTES)),
        }
    }
}

/// Division of work over threads.
#[derive(Clone, Copy, Debug)]
pub(super) enum Sharing {
    /// All on the calling thread.
    Alone,
    /// Static division of output rows.
    Lines { lines: usize, threads: usize },
    /// Dynamic self-scheduling of blocks.
    Blocks(Division),
}

/// Cost, in plain pixels, of one whose input position is computed by dividing its index
/// by the extents: 30 to 55 ns against 14 ns of a plain pixel on a Zen 4 core, in slices
/// and transposes of ViT-Tiny.
const PIXELS_PER_INDEXED_PIXEL: u64 = 3;

/// The work of one pass: an operator, or a linked function.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    pub(super) kernel: Kernel,
    /// Pixels and output channels of the micro-kernel's tile.
    pub(super) tile: [u32; 2],
    pub(super) units: [f64; CoexecUnit::ALL.len()],
    /// Bytes of a product's weights.
    pub(super) weight_bytes: f64,
    pub(super) sharing: Sharing,
}

impl Work {
    /// The work of a layer: its operator, then each linked function that runs as a separate
    /// pass.
    pub fn of_layer(layer: &Layer, caches: &Caches, threads: usize) -> impl Iterator<Item = Self> {
        let bytes = layer.data_type.activation_bytes() as usize;
        let operator = Self::of_operator(&layer.operator, bytes, caches, threads);
        let passes =
            separate_passes(layer).map(move |pass| Self::of_operator(&pass.into(), bytes, caches, threads));
        std::iter::once(operator).chain(passes)
    }

    pub(super) fn new(kernel: Kernel) -> Self {
        Self {
            kernel,
            tile: [0, 0],
            units: [0.0; CoexecUnit::ALL.len()],
            weight_bytes: 0.0,
            sharing: Sharing::Alone,
        }
    }

    pub(super) fn add(&mut self, unit: CoexecUnit, count: f64) {
        self.units[unit as usize] += count;
    }

    fn of_operator(operator: &Operator, bytes: usize, caches: &Caches, threads: usize) -> Self {
        let output = operator.output();
        match operator.class() {
            Class::Product(product) => Self::products(product, bytes, caches, threads),
            Class::Convolution(conv) => Product::of_conv2d(conv, bytes).work(caches, threads),
            Class::Depthwise(conv) => Self::depthwise(conv, bytes, caches, threads),
            Class::Pool(pool) => Self::pool(pool, bytes, caches),
            Class::Reduction(reduction) => Self::reduction(reduction, output, bytes, caches),
            Class::Movement(Movement::Transposed(transpose)) => {
                Self::from_pick(&transpose.pick(), output, bytes, caches)
            }
            Class::Movement(Movement::Range(slice)) => Self::from_pick(&slice.pick(), output, bytes, caches),
            Class::Movement(Movement::Padded(pad)) => Self::from_pick(&pad.pick(), output, bytes, caches),
            Class::Movement(Movement::Joined(_) | Movement::Resized(_) | Movement::Rearranged(_))
            | Class::Gather(_) => {
                Self::copied(output.pixels(), CoexecUnit::CopiedElement, output, bytes, caches)
            }
            Class::Recurrent(recurrent) => {
                let step = Operator::from(recurrent.product());
                let mut work = Self::of_operator(&step, bytes, caches, threads);
                let functions = recurrent.functions();
                let functions = Self::function(functions.function, functions.input, 2, bytes, caches);
                for (unit, more) in work.units.iter_mut().zip(functions.units) {
                    *unit = (*unit + more) * f64::from(recurrent.steps);
                }
                work
            }
            Class::Generic(generic) => {
                let (kernel, unit) = if generic.kind.moves() {
                    (Kernel::Copy, CoexecUnit::CopiedElement)
                } else {
                    (Kernel::Elementwise, CoexecUnit::Element)
                };
                let mut work = Self::new(kernel);
                work.add(CoexecUnit::Pixel, output.pixels() as f64);
                work.add(unit, generic.visited() as f64);
                work.stream(generic.moved() as f64 * bytes as f64, caches);
                work
            }
            Class::Elementwise(Elementwise { function, input, other }) => {
                let tensors = if other == Some(input) { 3 } else { 2 };
                Self::function(function, input, tensors, bytes, caches)
            }
        }
    }

    /// A permutation or selection: the input position is computed per pixel, and each element has a place
    /// of its own if channels do not stay adjacent.
    fn from_pick(pick: &Pick, output: Shape, bytes: usize, caches: &Caches) -> Self {
        let unit = if pick.keeps_channels_together() {
            CoexecUnit::CopiedElement
        } else {
            CoexecUnit::StridedElement
        };
        Self::copied(PIXELS_PER_INDEXED_PIXEL * output.pixels(), unit, output, bytes, caches)
    }

    /// A copy of the whole output, of so many pixels' time and that unit per element.
    fn copied(pixels: u64, unit: CoexecUnit, output: Shape, bytes: usize, caches: &Caches) -> Self {
        let mut work = Self::new(Kernel::Copy);
        work.add(CoexecUnit::Pixel, pixels as f64);
        work.add(unit, output.elements() as f64);
        work.stream(2.0 * (output.elements() as usize * bytes) as f64, caches);
        work
    }

    fn reduction(reduction: Reduction, output: Shape, bytes: usize, caches: &Caches) -> Self {
        let (function, more_passes) = match reduction {
            Reduction::Pixels { input } => return Self::mean(input, bytes, caches),
            Reduction::Exponentials => (Function::Sigmoid, SOFTMAX_PLAIN_PASSES),
            // Each statistic takes one pass to compute and one to apply.
            Reduction::Normalisation(statistic) => {
                (statistic.function(), 2.0 * f64::from(statistic.passes()) - 1.0)
            }
        };
        let mut work = Self::function(function, output, 2, bytes, caches);
        work.add(CoexecUnit::Element, output.elements() as f64 * more_passes);
        work
    }

    /// An element-wise function over `tensors` tensors of `shape`, including the result.
    fn function(function: Function, shape: Shape, tensors: u32, bytes: usize, caches: &Caches) -> Self {
        let mut work = Self::new(Kernel::Elementwise);
        let elements = shape.elements() as f64;
        let unit = if function.has_exponential() {
            CoexecUnit::ExponentialElement
        } else if function.is_hard() {
            CoexecUnit::ActivationElement
        } else {
            CoexecUnit::Element
        };
        work.add(CoexecUnit::Pixel, shape.pixels() as f64);
        work.add(unit, elements);
        work.stream(f64::from(tensors) * elements * bytes as f64, caches);
        work
    }

    /// Adds bytes of tensors that are streamed once.
    fn stream(&mut self, bytes: f64, caches: &Caches) {
        self.add(CoexecUnit::StreamedByte, bytes);
        self.add(CoexecUnit::BeyondL2Byte, beyond(bytes, caches.l2_bytes));
    }

    /// Adds the chunks, vectors and single lanes of `channels` at `positions` taps in total.
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
        let positions = positions_inside(input, output, &conv.window);
        let channels = output.channels as usize;
        work.add(CoexecUnit::WindowPixel, output.pixels() as f64);
        let units = [CoexecUnit::DepthwiseChunk, CoexecUnit::DepthwiseVector, CoexecUnit::DepthwiseLane];
        if conv.multiplier > 1 {
            work.add(CoexecUnit::DepthwiseLane, channels as f64 * positions);
        } else {
            work.windows(channels, positions, units, caches);
        }
        let macs = output.elements() * conv.window.taps();
        let lines = output.batch as usize * output.height as usize;
        let threads = depthwise_threads(macs, threads).min(lines);
        let size = |elements: u64| elements as f64 * bytes as f64;
        let window = conv.window.taps();
        let weights = size(window * u64::from(output.channels));
        let rows =
            size(u64::from(conv.window.kernel[0]) * u64::from(input.width) * u64::from(input.channels));
        let tensors = size(input.elements() + output.elements());
        if weights + rows > caches.l1_bytes {
            // The rows under the window are evicted before the next output row rereads them.
            let again = f64::from(conv.window.kernel[0]) / f64::from(conv.window.stride[0]);
            work.add(
                CoexecUnit::DepthwiseBeyondL1Byte,
                size(input.elements()) * again.max(1.0) + size(output.elements()),
            );
            if weights > caches.l1_bytes * WEIGHT_FRACTION_OF_L1 {
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
        let output = pool.output();
        let mut work = Self::new(Kernel::Pool);
        let positions = positions_inside(pool.input, output, &pool.window);
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

    /// Matrix products; right operands that are activations are packed on every run.
    fn products(product: workload::Product, bytes: usize, caches: &Caches, threads: usize) -> Self {
        let [groups, pixels, inputs, channels] =
            [product.batch, product.rows, product.inner, product.outputs].map(|extent| extent as usize);
        let pixel_stride = Some(inputs);
        let plain = Product { pixels, channels, taps: 1, inputs, groups, pixel_stride, element_bytes: bytes };
        let mut work = plain.work(caches, threads);
        if !product.trained {
            work.add(CoexecUnit::CopiedElement, (groups * inputs * channels) as f64);
        }
        work
    }
}

/// Bytes that miss a cache of `cache` bytes when a working set of `bytes` is traversed repeatedly.
pub(super) fn beyond(bytes: f64, cache: f64) -> f64 {
    (MISSES_PER_EXCESS_BYTE * (bytes - cache)).clamp(0.0, bytes)
}

/// Taps inside the image, not in the padding, summed over all output pixels.
fn positions_inside(input: Shape, output: Shape, window: &Window) -> f64 {
    let axis = |size: u32, outputs: u32, axis: usize, before: u32| -> f64 {
        let [kernel, stride, dilation] =
            [window.kernel[axis], window.stride[axis], window.dilation[axis].max(1)];
        let of = |at: u32| {
            let start = at * stride;
            let first = before.saturating_sub(start).div_ceil(dilation);
            let end = (before + size).saturating_sub(start).div_ceil(dilation).min(kernel);
            f64::from(end.saturating_sub(first))
        };
        (0..outputs).map(of).sum()
    };
    let vertical = axis(input.height, output.height, 0, window.padding.top);
    let horizontal = axis(input.width, output.width, 1, window.padding.left);
    f64::from(output.batch) * vertical * horizontal
}

//! TFLite's own CPU kernels, with ruy for the matrix products.
//!
//! Responsible for: which kernel an operator gets, its serial and parallel work
//! and how that work is divided. The equation is
//! `serial . rates + makespan(parallel . rates) + fork`; rates are the
//! profile's. What TFLite runs on the main thread alone (im2col, the reference
//! loop of grouped convolutions, everything but products and depthwise
//! convolutions) is serial here.

use super::makespan::{self, Makespan};
use super::ruy::{self, Product, Tile};
use super::tally::{Shares, Tally};
use super::team::{Team, contention};
use super::{CoreSet, Kernel, NANOS_PER_MICRO, separate_passes, unsupported};
use crate::device::cpu::{Cluster, Cpu, RuyRates};
use crate::device::quantity::Quantity;
use crate::kernel::Unsupported;
use crate::workload::{
    self, Class, Conv2d, DataType, DepthwiseConv2d, Function, Layer, Movement, Operator, Reduction,
};

/// Tensor bytes the caches keep from one operator to the next (CPU model fit:
/// the threshold that explains most, on all devices).
const CACHED_TENSOR_BYTES: u64 = 1_000_000;
/// Depthwise multiply-accumulates that justify one more thread (TFLite,
/// depthwise convolution).
const DEPTHWISE_MACS_PER_THREAD: u64 = 8_192;
/// Channels that the depthwise kernel for 8-bit 3x3 windows takes at a time
/// (TFLite, depthwise convolution, 3x3 filter).
const DEPTHWISE_3X3_CHANNELS: u32 = 8;
/// ruy's tile for 32-bit floating point on 64-bit Arm.
const F32_TILE: Tile = Tile { channels: 8, pixels: 8, depth: 1 };
/// ruy's tile for 8-bit integers with the dot product instruction.
const DOT_PRODUCT_TILE: Tile = Tile { channels: 8, pixels: 8, depth: 4 };
/// ruy's tile for 8-bit integers without it.
const I8_TILE: Tile = Tile { channels: 4, pixels: 4, depth: 16 };
/// Passes of a softmax over its input: maximum, exponentials and their sum,
/// division. Assumed; no measurement identifies them.
const SOFTMAX_PASSES: f64 = 3.0;

/// Work only the main thread does, in units of the rates of the same name.
#[derive(Default)]
struct SerialWork {
    im2col_rows: f64,
    im2col_elements: f64,
    reference_macs: f64,
    reference_taps: f64,
    element_wise: f64,
    broadcast: f64,
    activated: f64,
    averaged: f64,
    pool_taps: f64,
    copied: f64,
    concatenated: f64,
    beyond_cache: f64,
}

/// Work the threads share, in units of the rates of the same name.
#[derive(Default)]
struct ParallelWork {
    macs: f64,
    tiles: f64,
    packed_weights: f64,
    packed_pixels: f64,
    gemv_weights: f64,
    depthwise_taps: f64,
    depthwise_3x3_taps: f64,
    depthwise_outputs: f64,
    depthwise_pixels: f64,
}

/// How parallel work is divided.
#[derive(Clone, Copy)]
enum Division {
    /// One thread does it all.
    Undivided,
    /// Each thread takes the next block when it is free.
    Blocks { blocks: u64, threads: u32 },
    /// Each thread has its rows from the start.
    Rows { rows: u64, threads: u32 },
}

/// A rate, or the one it is a special case of.
fn or(special: Option<&Quantity>, general: &Quantity) -> f64 {
    special.unwrap_or(general).value
}

impl SerialWork {
    fn nanos(&self, rates: &RuyRates) -> f64 {
        rates.operator_ns.value
            + self.im2col_rows * rates.im2col_row_ns.value
            + self.im2col_elements * rates.im2col_element_ns.value
            + self.reference_macs * rates.reference_multiply_accumulate_ns.value
            + self.reference_taps * rates.reference_tap_ns.value
            + self.element_wise * rates.element_wise_ns.value
            + self.broadcast * or(rates.broadcast_element_ns.as_ref(), &rates.element_wise_ns)
            + self.activated * or(rates.activation_element_ns.as_ref(), &rates.element_wise_ns)
            + self.averaged * or(rates.mean_element_ns.as_ref(), &rates.element_wise_ns)
            + self.pool_taps * rates.pool_tap_ns.value
            + self.copied * rates.copy_element_ns.value
            + self.concatenated * or(rates.concat_element_ns.as_ref(), &rates.copy_element_ns)
            + self.beyond_cache * rates.beyond_cache_element_ns.value
    }
}

impl ParallelWork {
    fn shares(&self, rates: &RuyRates) -> Shares {
        Shares {
            compute: self.macs * rates.multiply_accumulate_ns.value
                + self.tiles * rates.tile_ns.value
                + self.depthwise_taps * rates.depthwise_tap_ns.value
                + self.depthwise_3x3_taps * or(rates.depthwise_3x3_tap_ns.as_ref(), &rates.depthwise_tap_ns)
                + self.depthwise_outputs * rates.depthwise_output_ns.value
                + self.depthwise_pixels * Quantity::or_zero(rates.depthwise_pixel_ns.as_ref()),
            packing: self.packed_weights * rates.pack_weight_ns.value
                + self.packed_pixels * rates.pack_pixel_ns.value,
            memory: self.gemv_weights * rates.gemv_weight_ns.value,
        }
    }
}

/// TFLite on a core set, for one data type.
struct Kernels<'a> {
    team: Team<'a, RuyRates>,
    tile: Tile,
    element_bytes: u64,
}

/// What `layer` costs on `cores`.
pub(super) fn execute(layer: &Layer, cpu: &Cpu, cores: &CoreSet) -> Result<Tally, Unsupported> {
    let kernels = Kernels::new(layer, cpu, cores)?;
    let mut tally =
        if layer.operator.folds() { Tally::new(Kernel::Nothing) } else { kernels.operator(&layer.operator) };
    let output = layer.operator.output().elements();
    for function in separate_passes(layer) {
        tally.serial += kernels.function(function, output, false).nanos(kernels.team.main().rates);
    }
    let main = kernels.team.main().rates;
    tally.scale(kernels.team.slowdown(main.whole_cluster_slowdown_factor.value));
    Ok(tally)
}

impl<'a> Kernels<'a> {
    fn new(layer: &Layer, cpu: &'a Cpu, cores: &CoreSet) -> Result<Self, Unsupported> {
        let f32_rates: fn(&Cluster) -> Option<&RuyRates> = |cluster| cluster.ruy_f32.as_ref();
        let i8_rates: fn(&Cluster) -> Option<&RuyRates> = |cluster| cluster.ruy_i8.as_ref();
        let (table, pick, mixed) = match layer.data_type {
            DataType::F32 => ("ruy_f32", f32_rates, &cpu.mixed_ruy_f32),
            DataType::I8 => ("ruy_i8", i8_rates, &cpu.mixed_ruy_i8),
            other @ (DataType::F16 | DataType::W4A16 | DataType::W8A16) => {
                let reason = format!("TFLite's own kernels compute in f32 or i8, not in {other}");
                return Err(unsupported(layer, reason));
            }
        };
        let team = Team::new(layer, cpu, cores, table, pick)?.with_mixed(mixed.as_ref());
        let tile = if layer.data_type == DataType::F32 {
            F32_TILE
        } else if team.main().cluster.dot_product {
            DOT_PRODUCT_TILE
        } else {
            I8_TILE
        };
        Ok(Self { team, tile, element_bytes: layer.data_type.activation_bytes() })
    }

    /// The operator, without linked functions. Softmax and norms are loops over
    /// elements, embedding, slice and reshape copies: assumptions in terms of
    /// the rates there are, not fits.
    fn operator(&self, operator: &Operator) -> Tally {
        let output = operator.output().elements();
        let (kernel, work) = match operator.class() {
            Class::Product(product) if product.trained => return self.linear(product),
            Class::Product(product) => return self.batched_product(product),
            Class::Convolution(conv) if conv.groups > 1 => (Kernel::ReferenceLoop, grouped_work(conv)),
            Class::Convolution(conv) => return self.convolution(conv),
            Class::Depthwise(conv) => return self.depthwise(conv),
            Class::Pool(pool) => {
                let taps = output as f64 * pool.window.taps() as f64;
                (Kernel::Pool, SerialWork { pool_taps: taps, ..SerialWork::default() })
            }
            Class::Reduction(reduction) => {
                let work = match reduction {
                    Reduction::Pixels { input } => {
                        SerialWork { averaged: input.elements() as f64, ..SerialWork::default() }
                    }
                    Reduction::Exponentials => self.element_wise(output, SOFTMAX_PASSES),
                    Reduction::Normalisation(statistic) => {
                        let passes = output as f64 * f64::from(statistic.passes());
                        let last = self.function(statistic.function(), output, false);
                        SerialWork { element_wise: last.element_wise + passes, ..last }
                    }
                };
                (Kernel::Elementwise, work)
            }
            Class::Movement(Movement::Joined(_)) => {
                let (concatenated, beyond_cache) = (output as f64, self.beyond_cache(output));
                (Kernel::Copy, SerialWork { concatenated, beyond_cache, ..SerialWork::default() })
            }
            Class::Movement(Movement::Range(_) | Movement::Rearranged { .. }) | Class::Gather { .. } => {
                let beyond_cache = self.beyond_cache(output);
                (Kernel::Copy, SerialWork { copied: output as f64, beyond_cache, ..SerialWork::default() })
            }
            Class::Elementwise(elementwise) => {
                (Kernel::Elementwise, self.function(elementwise.function, output, elementwise.is_broadcast()))
            }
        };
        let mut tally = Tally::new(kernel);
        tally.serial = work.nanos(self.team.main().rates);
        tally
    }

    fn element_wise(&self, elements: u64, passes: f64) -> SerialWork {
        SerialWork {
            element_wise: elements as f64 * passes,
            beyond_cache: self.beyond_cache(elements),
            ..SerialWork::default()
        }
    }

    /// One pass of a function over `elements`, its second operand `broadcast` or
    /// not.
    fn function(&self, function: Function, elements: u64, broadcast: bool) -> SerialWork {
        let passed = elements as f64;
        let work = SerialWork { beyond_cache: self.beyond_cache(elements), ..SerialWork::default() };
        match function {
            Function::Add | Function::Multiply if broadcast => SerialWork { broadcast: passed, ..work },
            Function::Add | Function::Multiply | Function::Relu | Function::Relu6 => {
                SerialWork { element_wise: passed, ..work }
            }
            Function::HardSwish
            | Function::HardSigmoid
            | Function::Sigmoid
            | Function::Silu
            | Function::Gelu
            | Function::Tanh => SerialWork { activated: passed, ..work },
        }
    }

    /// Elements of a tensor that the caches do not keep.
    fn beyond_cache(&self, elements: u64) -> f64 {
        elements.saturating_sub(CACHED_TENSOR_BYTES / self.element_bytes) as f64
    }

    fn product_beyond_cache(&self, product: Product) -> f64 {
        self.beyond_cache(product.pixels * product.depth)
            + self.beyond_cache(product.pixels * product.channels)
    }

    fn convolution(&self, conv: &Conv2d) -> Tally {
        let depth = conv.window.taps() * u64::from(conv.input.channels);
        let product =
            Product { channels: u64::from(conv.output_channels), pixels: conv.output().pixels(), depth };
        if product.pixels == 1 {
            return self.product(product, &SerialWork::default(), Kernel::Gemv);
        }
        let mut work =
            SerialWork { beyond_cache: self.product_beyond_cache(product), ..SerialWork::default() };
        if conv.window.kernel == [1, 1] && conv.window.stride == [1, 1] {
            return self.product(product, &work, Kernel::Gemm);
        }
        work.im2col_rows = product.pixels as f64 * f64::from(conv.window.kernel[0]);
        work.im2col_elements = product.pixels as f64 * depth as f64;
        self.product(product, &work, Kernel::Im2colGemm)
    }

    /// A product with the weights on the left; one column takes the GEMV path,
    /// which rounds nothing up and packs nothing.
    fn product(&self, product: Product, serial: &SerialWork, kernel: Kernel) -> Tally {
        let padded = product.padded(self.tile);
        let [channels, pixels, depth] = [padded.channels, padded.pixels, padded.depth].map(|n| n as f64);
        let vector = product.pixels == 1;
        let work = if vector {
            let weights = product.channels as f64 * product.depth as f64;
            ParallelWork { gemv_weights: weights, ..ParallelWork::default() }
        } else {
            ParallelWork {
                macs: channels * pixels * depth,
                tiles: channels * pixels / (self.tile.channels * self.tile.pixels) as f64,
                packed_weights: product.channels as f64 * depth,
                packed_pixels: product.pixels as f64 * depth,
                ..ParallelWork::default()
            }
        };
        let mut tally = Tally::new(if vector { Kernel::Gemv } else { kernel });
        tally.tile = [self.tile.channels as u32, self.tile.pixels as u32];
        tally.serial = serial.nanos(self.team.main().rates);
        let threads = ruy::thread_count(product, self.team.threads());
        let division = if threads == 1 {
            Division::Undivided
        } else {
            let map = ruy::block_map(product, self.tile, self.element_bytes, threads);
            Division::Blocks { blocks: map.blocks(), threads: map.threads }
        };
        self.share_out(&mut tally, &work, division);
        tally
    }

    /// A product with weights.
    fn linear(&self, product: workload::Product) -> Tally {
        let (channels, pixels, depth) =
            (u64::from(product.outputs), u64::from(product.rows), u64::from(product.inner));
        let product = Product { channels, pixels, depth };
        // The GEMV path has its own kernel and nothing to keep in cache.
        let beyond_cache = if pixels == 1 { 0.0 } else { self.product_beyond_cache(product) };
        self.product(product, &SerialWork { beyond_cache, ..SerialWork::default() }, Kernel::Gemm)
    }

    /// One product after the other: the right operand of each takes the place
    /// of the weights, and no packed operand serves twice.
    fn batched_product(&self, product: workload::Product) -> Tally {
        let one = Product {
            channels: u64::from(product.outputs),
            pixels: u64::from(product.rows),
            depth: u64::from(product.inner),
        };
        let mut tally = self.product(one, &SerialWork::default(), Kernel::Gemm);
        let operator = self.team.main().rates.operator_ns.value;
        // One dispatch serves the whole batch.
        tally.serial -= operator;
        tally.scale(f64::from(product.batch));
        tally.serial += operator;
        tally
    }

    fn depthwise(&self, conv: &DepthwiseConv2d) -> Tally {
        let output = conv.output();
        let elements = output.elements();
        let macs = elements * conv.window.taps();
        let (three_by_three, other) =
            if self.has_3x3_kernel(conv) { (macs as f64, 0.0) } else { (0.0, macs as f64) };
        let work = ParallelWork {
            depthwise_taps: other,
            depthwise_3x3_taps: three_by_three,
            depthwise_outputs: elements as f64,
            depthwise_pixels: if self.element_bytes == 1 { 0.0 } else { output.pixels() as f64 },
            ..ParallelWork::default()
        };
        let serial = SerialWork { beyond_cache: self.beyond_cache(elements), ..SerialWork::default() };
        let mut tally = Tally::new(Kernel::Depthwise);
        tally.serial = serial.nanos(self.team.main().rates);
        let most = u64::from(self.team.threads());
        let threads = (macs / DEPTHWISE_MACS_PER_THREAD).clamp(1, most) as u32;
        let division = if threads == 1 {
            Division::Undivided
        } else {
            Division::Rows { rows: u64::from(output.batch) * u64::from(output.height), threads }
        };
        self.share_out(&mut tally, &work, division);
        tally
    }

    /// Whether TFLite runs `conv` with its kernel for 8-bit 3x3 windows (depthwise
    /// convolution, 3x3 filter: 8 channels at a time, one output a channel, stride
    /// 1 or 2, no dilation).
    fn has_3x3_kernel(&self, conv: &DepthwiseConv2d) -> bool {
        self.element_bytes == 1
            && conv.window.kernel == [3, 3]
            && conv.multiplier == 1
            && conv.window.dilation == [1, 1]
            && matches!(conv.window.stride, [1, 1] | [2, 2])
            && conv.input.channels.is_multiple_of(DEPTHWISE_3X3_CHANNELS)
    }

    fn share_out(&self, tally: &mut Tally, work: &ParallelWork, division: Division) {
        let shares = work.shares(self.team.main().rates);
        let (pieces, threads) = match division {
            Division::Undivided => {
                tally.add_parallel(&Makespan::alone(shares.nanos()), &shares);
                return;
            }
            Division::Blocks { blocks, threads } => (blocks, threads),
            Division::Rows { rows, threads } => (rows, threads),
        };
        let per_piece = self.team.per_thread(|member| {
            let rates = member.rates;
            work.shares(rates).nanos() * contention(rates.contention_factor.value, member.threads)
                / pieces as f64
        });
        let per_piece = &per_piece[..threads as usize];
        let makespan = match division {
            Division::Rows { .. } => makespan::static_rows(pieces, per_piece),
            Division::Undivided | Division::Blocks { .. } => makespan::self_scheduled(pieces, per_piece),
        };
        tally.add_parallel(&makespan, &shares);
        tally.blocks = pieces;
        tally.threads = threads;
        if threads > 1 {
            tally.fork += self.team.fork_us(|member| member.rates.fork_us.value) * NANOS_PER_MICRO;
        }
    }
}

/// A grouped convolution: TFLite falls back to its reference loop nest.
fn grouped_work(conv: &Conv2d) -> SerialWork {
    let taps = conv.output().elements() as f64 * conv.window.taps() as f64;
    let depth = f64::from(conv.input.channels / conv.groups);
    SerialWork { reference_macs: taps * depth, reference_taps: taps, ..SerialWork::default() }
}

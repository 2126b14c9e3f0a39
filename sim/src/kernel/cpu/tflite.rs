//! TFLite's own CPU kernels, with ruy for the matrix products.
//!
//! Responsible for: kernel selection, the serial and parallel work of an operator, and
//! its division over threads. The equation is
//! `serial . rates + makespan(parallel . rates) + fork`, with the profile's rates. Serial
//! work is what TFLite runs on the main thread alone: im2col, the reference loop of
//! grouped convolutions, and everything but products and depthwise convolutions.

use super::coexec::depthwise_threads;
use super::ruy::{Product, Tile};
use super::tally::Shares;
use super::{
    CoreSet, Kernel, Library, Makespan, NANOS_PER_MICRO, QUANTISING_PASSES, Tally, Team, arithmetic,
    contention, makespan, ruy, separate_passes, unsupported,
};
use crate::device::{Cluster, Cpu, Quantity, RuyRates};
use crate::kernel::Result;
use crate::workload::{
    self, Class, Conv2d, DataType, DepthwiseConv2d, Function, Layer, Movement, Operator, Recurrent, Reduction,
};

/// Tensor bytes that the caches keep from one operator to the next (CPU model: the
/// best-fitting threshold on all devices).
const CACHED_TENSOR_BYTES: u64 = 1_000_000;
/// Channels that the 8-bit 3x3 depthwise kernel processes at a time (TFLite, depthwise
/// convolution, 3x3 filter).
const DEPTHWISE_3X3_CHANNELS: u32 = 8;
/// ruy's tile for 32-bit floating point on 64-bit Arm.
const F32_TILE: Tile = Tile { channels: 8, pixels: 8, depth: 1 };
/// ruy's tile for 8-bit integers with the dot product instruction.
const DOT_PRODUCT_TILE: Tile = Tile { channels: 8, pixels: 8, depth: 4 };
/// ruy's tile for 8-bit integers without the dot product instruction.
const I8_TILE: Tile = Tile { channels: 4, pixels: 4, depth: 16 };
/// Passes of a softmax over its input: maximum, exponentials and their sum,
/// division. Assumed; no measurement identifies them.
const SOFTMAX_PASSES: f64 = 3.0;

/// Division of parallel work over several threads.
#[derive(Clone, Copy)]
struct Division {
    pieces: u64,
    threads: u32,
    /// Schedules pieces on threads, given each thread's time per piece.
    schedule: fn(u64, &[f64]) -> Makespan,
}

/// The `special` rate if the profile has it, else the `general` one.
fn or(special: Option<&Quantity>, general: &Quantity) -> f64 {
    special.unwrap_or(general).value
}

/// TFLite on a core set, for one data type.
struct Kernels<'a> {
    team: Team<'a, RuyRates>,
    tile: Tile,
    element_bytes: u64,
}

/// Cost of `layer` on `cores`.
pub(super) fn execute(layer: &Layer, cpu: &Cpu, cores: &CoreSet) -> Result<Tally> {
    let (format, quantised) = arithmetic(layer);
    let kernels = Kernels::new(layer, format, cpu, cores)?;
    let mut tally =
        if layer.operator.folds() { Tally::new(Kernel::Nothing) } else { kernels.operator(&layer.operator) };
    // The passes around a dynamically quantised product are in 32-bit floating point.
    let around = quantised.map(|_| Kernels::new(layer, DataType::F32, cpu, cores)).transpose()?;
    let around = around.as_ref().unwrap_or(&kernels);
    if let Some(elements) = quantised {
        tally.serial += elements as f64 * QUANTISING_PASSES * around.team.rates().element_wise_ns.value;
    }
    let output = layer.operator.output().elements();
    for pass in separate_passes(layer) {
        tally.serial += around.function(pass.function, output, pass.is_broadcast());
    }
    tally.scale(kernels.team.slowdown(kernels.team.rates().whole_cluster_slowdown_factor.value));
    Ok(tally)
}

fn one_product(channels: u32, pixels: u32, depth: u32) -> Product {
    Product { channels: channels.into(), pixels: pixels.into(), depth: depth.into() }
}

impl<'a> Kernels<'a> {
    fn new(layer: &Layer, format: DataType, cpu: &'a Cpu, cores: &CoreSet) -> Result<Self> {
        if !matches!(format, DataType::F32 | DataType::I8) {
            let reason = format!("TFLite's own kernels compute in f32 or i8, not in {format}");
            return Err(unsupported(layer, reason));
        }
        let (pick, mixed): (fn(&Cluster) -> Option<&RuyRates>, _) = if format == DataType::F32 {
            (|cluster| cluster.ruy_f32.as_ref(), &cpu.mixed_ruy_f32)
        } else {
            (|cluster| cluster.ruy_i8.as_ref(), &cpu.mixed_ruy_i8)
        };
        let team = Team::new(layer, (cpu, mixed.as_ref()), cores, (Library::Ruy, format), pick)?;
        let tile = if format == DataType::F32 {
            F32_TILE
        } else if team.main().cluster.dot_product {
            DOT_PRODUCT_TILE
        } else {
            I8_TILE
        };
        Ok(Self { team, tile, element_bytes: format.activation_bytes() })
    }

    /// The operator, without linked functions. Softmax and norms are modelled as loops over
    /// elements, embedding, slice and reshape as copies; these are assumptions, not fits.
    fn operator(&self, operator: &Operator) -> Tally {
        let output = operator.output().elements();
        let elements = output as f64;
        let rates = self.team.rates();
        let copy = |elements: f64| {
            let nanos = elements * rates.copy_element_ns.value;
            (Kernel::Copy, self.serial(&[nanos, self.beyond_cache(output)]))
        };
        let (kernel, serial) = match operator.class() {
            Class::Product(product) if product.trained => return self.linear(product),
            Class::Product(product) => return self.batched_product(product),
            Class::Convolution(conv) if conv.groups > 1 => (Kernel::ReferenceLoop, self.grouped(conv)),
            Class::Convolution(conv) => return self.convolution(conv),
            Class::Depthwise(conv) => return self.depthwise(conv),
            Class::Pool(pool) => {
                let taps = elements * pool.window.taps() as f64;
                (Kernel::Pool, self.serial(&[taps * rates.pool_tap_ns.value]))
            }
            Class::Reduction(Reduction::Pixels { input }) => {
                let mean_ns = or(rates.mean_element_ns.as_ref(), &rates.element_wise_ns);
                (Kernel::Elementwise, self.serial(&[input.elements() as f64 * mean_ns]))
            }
            Class::Reduction(Reduction::Exponentials) => {
                let nanos = elements * SOFTMAX_PASSES * rates.element_wise_ns.value;
                (Kernel::Elementwise, self.serial(&[nanos, self.beyond_cache(output)]))
            }
            Class::Reduction(Reduction::Normalisation(statistic)) => {
                let nanos = elements * f64::from(statistic.passes()) * rates.element_wise_ns.value;
                (Kernel::Elementwise, nanos + self.function(statistic.function(), output, false))
            }
            Class::Movement(Movement::Joined(_)) => {
                let copy_ns = or(rates.concat_element_ns.as_ref(), &rates.copy_element_ns);
                (Kernel::Copy, self.serial(&[elements * copy_ns, self.beyond_cache(output)]))
            }
            Class::Movement(movement) => copy(elements * f64::from(movement.taps())),
            Class::Gather(_) => copy(elements),
            Class::Recurrent(recurrent) => return self.recurrent(recurrent),
            Class::Generic(generic) => {
                let (kernel, element_ns) = if generic.kind.moves() {
                    (Kernel::Copy, &rates.copy_element_ns)
                } else {
                    (Kernel::Elementwise, &rates.element_wise_ns)
                };
                let nanos = generic.visited() as f64 * element_ns.value;
                (kernel, self.serial(&[nanos, self.beyond_cache(output)]))
            }
            Class::Elementwise(elementwise) => {
                (Kernel::Elementwise, self.function(elementwise.function, output, elementwise.is_broadcast()))
            }
        };
        Tally { serial, ..Tally::new(kernel) }
    }

    /// Serial time: the operator's dispatch and the main thread's `parts`, in nanoseconds.
    fn serial(&self, parts: &[f64]) -> f64 {
        parts.iter().fold(self.team.rates().operator_ns.value, |sum, nanos| sum + nanos)
    }

    /// One pass of a function over `elements`, in nanoseconds; `broadcast` if its second operand is.
    fn function(&self, function: Function, elements: u64, broadcast: bool) -> f64 {
        let rates = self.team.rates();
        let general = &rates.element_wise_ns;
        let element_ns = if function.is_binary() && broadcast {
            or(rates.broadcast_element_ns.as_ref(), general)
        } else if function.has_exponential() || function.is_hard() {
            or(rates.activation_element_ns.as_ref(), general)
        } else {
            general.value
        };
        self.serial(&[elements as f64 * element_ns, self.beyond_cache(elements)])
    }

    /// A grouped convolution, for which TFLite falls back to its reference loop nest.
    fn grouped(&self, conv: &Conv2d) -> f64 {
        let rates = self.team.rates();
        let taps = conv.output().elements() as f64 * conv.window.taps() as f64;
        let macs = taps * f64::from(conv.group_channels());
        self.serial(&[
            macs * rates.reference_multiply_accumulate_ns.value,
            taps * rates.reference_tap_ns.value,
        ])
    }

    /// Time of the elements of a tensor beyond what the caches keep, in nanoseconds.
    fn beyond_cache(&self, elements: u64) -> f64 {
        self.elements_beyond_cache(elements) * self.team.rates().beyond_cache_element_ns.value
    }

    fn elements_beyond_cache(&self, elements: u64) -> f64 {
        elements.saturating_sub(CACHED_TENSOR_BYTES / self.element_bytes) as f64
    }

    fn product_beyond_cache(&self, product: Product) -> f64 {
        let far = self.elements_beyond_cache(product.pixels * product.depth)
            + self.elements_beyond_cache(product.pixels * product.channels);
        far * self.team.rates().beyond_cache_element_ns.value
    }

    fn convolution(&self, conv: &Conv2d) -> Tally {
        let depth = conv.window.taps() * u64::from(conv.input.channels);
        let pixels = conv.output().pixels();
        let product = Product { channels: u64::from(conv.output_channels), pixels, depth };
        if pixels == 1 {
            return self.product(product, &[], Kernel::Gemv);
        }
        let beyond_cache = self.product_beyond_cache(product);
        if conv.window.kernel == [1, 1] && conv.window.stride == [1, 1] {
            return self.product(product, &[beyond_cache], Kernel::Gemm);
        }
        let rates = self.team.rates();
        let rows = pixels as f64 * f64::from(conv.window.kernel[0]) * rates.im2col_row_ns.value;
        let elements = pixels as f64 * depth as f64 * rates.im2col_element_ns.value;
        self.product(product, &[rows, elements, beyond_cache], Kernel::Im2colGemm)
    }

    /// A product with the weights on the left; a single column takes the GEMV path, which
    /// neither pads nor packs.
    fn product(&self, product: Product, serial: &[f64], kernel: Kernel) -> Tally {
        let padded = product.padded(self.tile);
        let [channels, pixels, depth] = [padded.channels, padded.pixels, padded.depth].map(|n| n as f64);
        let is_vector = product.pixels == 1;
        let mut tally = Tally::new(if is_vector { Kernel::Gemv } else { kernel });
        tally.tile = [self.tile.channels as u32, self.tile.pixels as u32];
        tally.serial = self.serial(serial);
        let threads = ruy::thread_count(product, self.team.threads());
        let division = (threads > 1).then(|| {
            let map = ruy::block_map(product, self.tile, self.element_bytes, threads);
            let schedule = makespan::self_scheduled;
            Division { pieces: map.blocks(), threads: map.threads, schedule }
        });
        if is_vector {
            let weights = product.channels as f64 * product.depth as f64;
            self.divide_work(&mut tally, division, |rates| Shares {
                memory: weights * rates.gemv_weight_ns.value,
                ..Shares::default()
            });
        } else {
            let tiles = channels * pixels / (self.tile.channels * self.tile.pixels) as f64;
            self.divide_work(&mut tally, division, |rates| Shares {
                compute: channels * pixels * depth * rates.multiply_accumulate_ns.value
                    + tiles * rates.tile_ns.value,
                packing: product.channels as f64 * depth * rates.pack_weight_ns.value
                    + product.pixels as f64 * depth * rates.pack_pixel_ns.value,
                memory: 0.0,
            });
        }
        tally
    }

    /// A product with weights.
    fn linear(&self, product: workload::Product) -> Tally {
        let product = one_product(product.outputs, product.rows, product.inner);
        // The GEMV path has its own kernel; its vectors are not charged for cache misses.
        let beyond_cache = if product.pixels == 1 { 0.0 } else { self.product_beyond_cache(product) };
        self.product(product, &[beyond_cache], Kernel::Gemm)
    }

    /// The time steps of a recurrent layer, in sequence.
    fn recurrent(&self, recurrent: &Recurrent) -> Tally {
        let step = recurrent.product();
        let product = one_product(step.output_features, step.rows, step.input_features);
        let mut tally = self.product(product, &[], Kernel::Gemm);
        let functions = recurrent.functions();
        tally.serial += self.function(functions.function, functions.input.elements(), false);
        tally.scale(f64::from(recurrent.steps));
        tally
    }

    /// A batch of products in sequence: the right operand of each takes the place of the
    /// weights, and no packed operand is reused.
    fn batched_product(&self, product: workload::Product) -> Tally {
        let one = one_product(product.outputs, product.rows, product.inner);
        let mut tally = self.product(one, &[], Kernel::Gemm);
        let operator = self.team.rates().operator_ns.value;
        // The batch is dispatched once.
        tally.serial -= operator;
        tally.scale(f64::from(product.batch));
        tally.serial += operator;
        tally
    }

    fn depthwise(&self, conv: &DepthwiseConv2d) -> Tally {
        let output = conv.output();
        let elements = output.elements();
        let macs = elements * conv.window.taps();
        let threads = depthwise_threads(macs, self.team.threads() as usize) as u32;
        let pieces = u64::from(output.batch) * u64::from(output.height);
        let schedule = makespan::static_rows;
        let division = (threads > 1).then_some(Division { pieces, threads, schedule });
        let mut tally = Tally::new(Kernel::Depthwise);
        tally.serial = self.serial(&[self.beyond_cache(elements)]);
        let has_3x3_kernel = self.has_3x3_kernel(conv);
        let pixels = if self.element_bytes == 1 { 0.0 } else { output.pixels() as f64 };
        self.divide_work(&mut tally, division, |rates| {
            let special = rates.depthwise_3x3_tap_ns.as_ref().filter(|_| has_3x3_kernel);
            let compute = macs as f64 * or(special, &rates.depthwise_tap_ns)
                + elements as f64 * rates.depthwise_output_ns.value
                + pixels * Quantity::or_zero(rates.depthwise_pixel_ns.as_ref());
            Shares { compute, ..Shares::default() }
        });
        tally
    }

    /// Whether TFLite runs `conv` with its 8-bit 3x3 kernel (depthwise convolution, 3x3 filter:
    /// 8 channels at a time, multiplier 1, stride 1 or 2, no dilation).
    fn has_3x3_kernel(&self, conv: &DepthwiseConv2d) -> bool {
        self.element_bytes == 1
            && conv.window.kernel == [3, 3]
            && conv.multiplier == 1
            && conv.window.dilation == [1, 1]
            && matches!(conv.window.stride, [1, 1] | [2, 2])
            && conv.input.channels.is_multiple_of(DEPTHWISE_3X3_CHANNELS)
    }

    /// Adds parallel work; `shares` is its time on a single core with the given rates.
    fn divide_work(
        &self,
        tally: &mut Tally,
        division: Option<Division>,
        shares: impl Fn(&RuyRates) -> Shares,
    ) {
        let main = shares(self.team.rates());
        let Some(Division { pieces, threads, schedule }) = division else {
            tally.add_parallel(&Makespan::even(main.nanos(), 1), &main);
            return;
        };
        let per_piece = self.team.per_thread(|member| {
            let contention = contention(member.rates.contention_factor.value, member.threads);
            shares(member.rates).nanos() * contention / pieces as f64
        });
        tally.add_parallel(&schedule(pieces, &per_piece[..threads as usize]), &main);
        tally.blocks = pieces;
        tally.threads = threads;
        if threads > 1 {
            tally.fork += self.team.fork_us(|member| member.rates.fork_us.value) * NANOS_PER_MICRO;
        }
    }
}

//! XNNPACK's kernels and `pthreadpool`'s division of their work.
//!
//! Responsible for: the cost of each operator, and its division by work stealing;
//! products are in `product`. Weights are packed once, activations only as the right
//! operand of a product; windows are read through an indirection buffer, so there is no
//! im2col. Everything but dispatch and, on Arm, most copies is parallel.

mod calls;
mod micro_kernel;
mod product;

use super::ruy::Tile;
use super::tally::Shares;
use super::{
    CoreSet, Kernel, Library, MAX_THREADS, Makespan, Member, NANOS_PER_MICRO, QUANTISING_PASSES, Tally, Team,
    arithmetic, contention, separate_passes, unsupported,
};
use crate::device::{Cluster, Cpu, XnnpackRates};
use crate::kernel::Result;
use crate::workload::{
    Class, DataType, DepthwiseConv2d, Elementwise, Function, GenericKind, Layer, Movement, Operator,
    Recurrent, Reduction,
};
use calls::calls;
use micro_kernel::{depthwise_multiply_accumulates, is_x86, micro_kernel, passes_of, pool_taps};

/// Weight bytes up to which the first-level cache holds them (CPU model, `sL1`).
const FIRST_LEVEL_BYTES: f64 = 32_768.0;
/// Bytes of weights, inputs or outputs up to which the last-level cache holds them (CPU
/// model: the best-fitting threshold on all devices).
const LAST_LEVEL_BYTES: f64 = 1e6;
/// Weight bytes of a depthwise convolution up to which the first-level cache holds them along with the
/// pixels under the window (LiteRT 2.3.0 on Zen 4: with 5x5 windows, it does for 192 channels and not
/// for 240).
const FIRST_LEVEL_DEPTHWISE_BYTES: f64 = 0.75 * FIRST_LEVEL_BYTES;
/// Taps of the largest unrolled depthwise micro-kernel (of 3, 4, 9, 25).
const UNROLLED_DEPTHWISE_TAPS: u64 = 25;
/// Passes of a softmax in addition to the exponentials: maximum, scaling. Assumed.
const SOFTMAX_PLAIN_PASSES: f64 = 2.0;

/// XNNPACK on a core set, for one data type.
struct Kernels<'a> {
    team: Team<'a, XnnpackRates>,
    /// The device's first cluster, for which XNNPACK selects micro-kernels.
    first: &'a Cluster,
    format: DataType,
    /// Tile of matrix products.
    tile: Tile,
    element_bytes: u64,
    /// Size of a weight relative to a weight in the rates' format. Half-byte weights are assumed to be
    /// read in half the time.
    weight_size_ratio: f64,
    /// Bytes of an element that a product writes.
    result_bytes: u64,
    threads: u64,
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
        let visits = elements as f64 * QUANTISING_PASSES;
        let nanos = |rates: &XnnpackRates| visits * rates.element_wise_ns.value;
        around.add(&mut tally, &[], |member| evenly(member, nanos), around.threads);
    }
    let output = layer.operator.output().elements() as f64;
    for pass in separate_passes(layer) {
        let function = pass.function;
        let visits = output * passes_of(kernels.first, reads(&pass));
        let calls = if pass.is_broadcast() { pass.runs() as f64 } else { 0.0 };
        let nanos = |rates: &XnnpackRates| visits * function_ns(function, rates) + calls * call_ns(rates);
        around.add(&mut tally, &[], |member| evenly(member, nanos), around.threads);
    }
    tally.scale(kernels.team.slowdown(kernels.team.rates().whole_cluster_slowdown_factor.value));
    Ok(tally)
}

impl<'a> Kernels<'a> {
    fn new(layer: &Layer, format: DataType, cpu: &'a Cpu, cores: &CoreSet) -> Result<Self> {
        let pick: fn(&Cluster) -> Option<&XnnpackRates> = match format {
            DataType::F32 => |cluster| cluster.xnnpack_f32.as_ref(),
            DataType::F16 => |cluster| cluster.xnnpack_f16.as_ref(),
            DataType::I8 => |cluster| cluster.xnnpack_i8.as_ref(),
            DataType::I8Dynamic | DataType::I4Dynamic | DataType::W4A16 | DataType::W8A16 => {
                let reason = format!("the XNNPACK model covers f32, f16 and i8, not {format}");
                return Err(unsupported(layer, reason));
            }
        };
        let team = Team::new(layer, (cpu, None), cores, (Library::Xnnpack, format), pick)?;
        let without_f16 = team.members.iter().find(|member| !member.cluster.f16_arithmetic);
        if let Some(member) = without_f16.filter(|_| format == DataType::F16) {
            let reason = format!("cluster {} does not compute in f16", member.cluster.name.as_str());
            return Err(unsupported(layer, reason));
        }
        let first = cpu.clusters.first().unwrap_or(team.main().cluster);
        Ok(Self {
            first,
            format,
            tile: micro_kernel(first, format),
            element_bytes: format.activation_bytes(),
            weight_size_ratio: layer.data_type.weight_bits() as f64 / format.weight_bits() as f64,
            result_bytes: layer.data_type.activation_bytes(),
            threads: u64::from(team.threads()),
            team,
        })
    }

    /// The operator, without linked functions. Softmax and norms are modelled as loops over
    /// elements, embedding, slice and reshape as copies; these are assumptions, not fits.
    fn operator(&self, operator: &Operator) -> Tally {
        let output = operator.output().elements() as f64;
        match operator.class() {
            Class::Product(product) => {
                let [groups, rows, depth, channels] =
                    [product.batch, product.rows, product.inner, product.outputs].map(u64::from);
                // A right operand that is an activation is packed on every call.
                let packed = if product.trained { 0.0 } else { (groups * depth * channels) as f64 };
                let shape = self.plain_product(rows, channels, depth, groups);
                self.product(&shape, self.tile, Kernel::Gemm, &[], packed)
            }
            Class::Convolution(conv) => self.convolution(conv),
            Class::Depthwise(conv) => self.depthwise(conv, operator),
            Class::Pool(pool) => {
                let taps = output * pool_taps(self.first, pool.window.taps()) as f64;
                self.run_evenly(Kernel::Pool, operator, |rates| taps * rates.pool_tap_ns.value)
            }
            Class::Reduction(Reduction::Pixels { input }) => {
                // The output of a mean is negligible.
                let visits = input.elements() as f64 * passes_of(self.first, 0.0);
                self.run_evenly(Kernel::Elementwise, operator, |rates| visits * rates.element_wise_ns.value)
            }
            Class::Reduction(Reduction::Exponentials) => {
                self.passes(operator, output, SOFTMAX_PLAIN_PASSES, Function::Sigmoid)
            }
            Class::Reduction(Reduction::Normalisation(statistic)) => {
                self.passes(operator, output, f64::from(statistic.passes()), statistic.function())
            }
            Class::Movement(movement) => self.movement(movement, operator),
            Class::Gather(_) => self.copy(operator, output),
            Class::Recurrent(recurrent) => self.recurrent(recurrent),
            Class::Generic(generic) => {
                let visited = generic.visited() as f64;
                match generic.kind {
                    GenericKind::Elementwise | GenericKind::Reduction | GenericKind::Transform => {
                        self.passes(operator, visited, 0.0, Function::Relu)
                    }
                    GenericKind::Movement | GenericKind::Gather | GenericKind::Search => {
                        self.copy(operator, visited)
                    }
                }
            }
            Class::Elementwise(elementwise) => {
                let function = elementwise.function;
                let passes = passes_of(self.first, reads(&elementwise));
                self.passes(operator, output * passes, 0.0, function)
            }
        }
    }

    fn movement(&self, movement: Movement<'_>, operator: &Operator) -> Tally {
        let elements = operator.output().elements() as f64 * f64::from(movement.taps());
        // On Arm the rates are fitted with all other movements as single-threaded copies.
        if is_x86(self.first) || matches!(movement, Movement::Padded(_) | Movement::Resized(_)) {
            let nanos = |rates: &XnnpackRates| elements * rates.copy_element_ns.value;
            self.run_evenly(Kernel::Copy, operator, nanos)
        } else {
            self.copy(operator, elements)
        }
    }

    fn depthwise(&self, conv: &DepthwiseConv2d, operator: &Operator) -> Tally {
        let taps = conv.window.taps();
        let output = operator.output();
        let computed = depthwise_multiply_accumulates(self.first, u64::from(output.channels), taps);
        let macs = output.elements() as f64 * (computed as f64 / f64::from(output.channels));
        // Each channel's bias is packed with its weights.
        let weights = computed + u64::from(output.channels);
        let is_beyond_l1 = (weights * self.element_bytes) as f64 > FIRST_LEVEL_DEPTHWISE_BYTES;
        self.run_evenly(Kernel::Depthwise, operator, |rates| {
            let is_large = taps > UNROLLED_DEPTHWISE_TAPS;
            let read = rates.depthwise_beyond_l1_ns.as_ref().filter(|_| is_beyond_l1 && !is_large);
            let tap = if is_large { &rates.large_depthwise_tap_ns } else { &rates.depthwise_tap_ns };
            macs * (tap.value + read.map_or(0.0, |nanos| nanos.value))
        })
    }

    /// The time steps of a recurrent layer, in sequence.
    fn recurrent(&self, recurrent: &Recurrent) -> Tally {
        let step = recurrent.product();
        let [rows, channels, depth] = [step.rows, step.output_features, step.input_features].map(u64::from);
        let mut tally =
            self.product(&self.plain_product(rows, channels, depth, 1), self.tile, Kernel::Gemm, &[], 0.0);
        let functions = recurrent.functions();
        let elements = functions.input.elements() as f64;
        let nanos = |rates: &XnnpackRates| elements * function_ns(functions.function, rates);
        self.add(&mut tally, &[], |member| evenly(member, nanos), self.threads);
        tally.scale(f64::from(recurrent.steps));
        tally
    }

    /// Input bytes if they exceed the last-level cache, else 0; on Arm always 0, where the element
    /// rates include cache misses.
    fn input_bytes_beyond_cache(&self, operator: &Operator) -> f64 {
        let bytes = (operator.input_elements() * self.element_bytes) as f64;
        if is_x86(self.first) && bytes > LAST_LEVEL_BYTES { bytes } else { 0.0 }
    }

    /// Serial time: the operator's dispatch and the main thread's `parts`, in nanoseconds.
    fn serial(&self, parts: &[f64]) -> f64 {
        parts.iter().fold(self.team.rates().operator_ns.value, |sum, nanos| sum + nanos)
    }

    /// `elements` of an operator, copied by the main thread.
    fn copy(&self, operator: &Operator, elements: f64) -> Tally {
        let rates = self.team.rates();
        let calls = calls(operator) as f64 * call_ns(rates);
        let serial = self.serial(&[elements * rates.copy_element_ns.value, calls]);
        Tally { serial, ..Tally::new(Kernel::Copy) }
    }

    /// `plain` passes over `elements`, and one pass of `function`.
    fn passes(&self, operator: &Operator, elements: f64, plain: f64, function: Function) -> Tally {
        self.run_evenly(Kernel::Elementwise, operator, |rates| {
            elements * plain * rates.element_wise_ns.value + elements * function_ns(function, rates)
        })
    }

    /// An operator that divides evenly over the threads. `nanos` is its time on a single core with the
    /// given rates; micro-kernel calls and input misses are added.
    fn run_evenly(&self, kernel: Kernel, operator: &Operator, nanos: impl Fn(&XnnpackRates) -> f64) -> Tally {
        let calls = calls(operator) as f64;
        let read = self.input_bytes_beyond_cache(operator);
        let all =
            |rates: &XnnpackRates| nanos(rates) + calls * call_ns(rates) + read * rates.input_byte_ns.value;
        self.run(kernel, &[], |member| evenly(member, all), self.threads)
    }

    /// An operator with `serial` work of the main thread and parallel work in `pieces`; `shares` is the
    /// time of all parallel work on one core of the given cluster, under contention.
    fn run(
        &self,
        kernel: Kernel,
        serial: &[f64],
        shares: impl Fn(&Member<'_, XnnpackRates>) -> Shares,
        pieces: u64,
    ) -> Tally {
        let mut tally = Tally::new(kernel);
        if self.add(&mut tally, serial, shares, pieces) {
            tally.blocks = pieces;
            tally.threads = pieces.min(self.threads) as u32;
        }
        tally
    }

    /// Adds the work described at [`Self::run`] and returns whether any of it is parallel. Idle
    /// threads steal pieces one by one, so all threads that get one finish together, except for a partly
    /// filled last round of pieces.
    fn add(
        &self,
        tally: &mut Tally,
        serial: &[f64],
        shares_of: impl Fn(&Member<'_, XnnpackRates>) -> Shares,
        pieces: u64,
    ) -> bool {
        tally.serial += self.serial(serial);
        let shares = shares_of(self.team.main());
        if shares.nanos() <= 0.0 {
            return false;
        }
        let alone = self.team.per_thread(|member| shares_of(member).nanos());
        // A thread without a piece does not help.
        let threads = pieces.min(self.threads);
        let rate: f64 = alone[..threads as usize].iter().map(|nanos| nanos.recip()).sum();
        let rounds = pieces.div_ceil(threads);
        let nanos = (rounds * threads) as f64 / pieces as f64 / rate;
        let mut busy = [0.0; MAX_THREADS];
        for (thread, busy) in busy.iter_mut().enumerate().take(threads as usize) {
            let own = pieces / threads + u64::from((thread as u64) < pieces % threads);
            *busy = nanos * own as f64 / rounds as f64;
        }
        tally.add_parallel(&Makespan { nanos, busy }, &shares);
        if self.threads > 1 {
            tally.fork += self.team.fork_us(|member| member.rates.fork_us.value) * NANOS_PER_MICRO;
        }
        true
    }
}

/// Factor on a thread's time due to contention with the other threads of its cluster.
fn contended(member: &Member<'_, XnnpackRates>) -> f64 {
    contention(member.rates.contention_factor.value, member.threads)
}

/// Arithmetic that takes `nanos` on a single core with the given rates, slowed down by contention.
fn evenly(member: &Member<'_, XnnpackRates>, nanos: impl Fn(&XnnpackRates) -> f64) -> Shares {
    Shares { compute: nanos(member.rates) * contended(member), ..Shares::default() }
}

/// Time per element of a function; functions with an exponential have their own rate.
fn function_ns(function: Function, rates: &XnnpackRates) -> f64 {
    if function.has_exponential() { rates.sigmoid_ns.value } else { rates.element_wise_ns.value }
}

/// Tensors of the output's size that a function reads.
fn reads(elementwise: &Elementwise) -> f64 {
    1.0 + elementwise.operand_tensors()
}

/// Time per call of a row-wise micro-kernel; 0 if the profile has no such rate.
fn call_ns(rates: &XnnpackRates) -> f64 {
    rates.call_ns.as_ref().map_or(0.0, |nanos| nanos.value)
}

//! Time of an operator's work in its number format.

use super::Kernel;
use super::work::Work;
use crate::device::{CompiledGraphs, Quantity};
use crate::kernel::{Result, Unsupported};
use crate::units::{Bytes, NANOS_PER_MICRO};
use crate::workload::DataType;

/// Rate of softmax relative to other nonlinear functions: an exponential, a sum and a quotient per
/// element (fixed near its fitted value on `data/aihub`).
const SOFTMAX_RATE: f64 = 0.65;

/// Interpolation is slow if its result exceeds this fraction of the on-chip memory (6 of 8 MiB, same
/// data).
const LARGE_RESIZE_FRACTION: f64 = 0.75;

/// Attention streams its scores through DRAM if the operands of one head exceed this fraction of the
/// on-chip memory (4 of 8 MiB, same data).
const ATTENTION_SLAB_FRACTION: f64 = 0.5;

/// Bytes of tensors that an operator moves between chip and DRAM.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Spill {
    /// What does not fit on chip, of which tiling chains of operators avoids a part.
    pub(super) bytes: f64,
    /// Of these bytes, what enters the graph, which no tiling avoids.
    pub(super) entering: f64,
    /// What leaves the graph besides.
    pub(super) leaving: f64,
}

/// Time and traffic of an operator, by resource.
#[derive(Clone, Copy, Debug, Default, derive_more::AddAssign)]
pub(crate) struct Cost {
    /// Time on its unit.
    pub(super) compute_us: f64,
    /// Time of its memory traffic without contention.
    pub(crate) traffic_us: f64,
    /// Time of both, which overlap: the units compute while weights are prefetched and results spilled.
    pub(super) working_us: f64,
    /// Fixed costs, which compute does not overlap.
    pub(super) fixed_us: f64,
    pub(super) weight_bytes: f64,
    pub(super) spilled_bytes: f64,
    /// Traffic of later operators that the memory can have done by the end.
    pub(super) ahead_us: f64,
}

impl Cost {
    /// Total time, in microseconds.
    pub(crate) fn micros(&self) -> f64 {
        self.working_us + self.fixed_us
    }

    /// Bytes of weights and of spilled tensors.
    pub(super) fn bytes(&self) -> [Bytes; 2] {
        [self.weight_bytes, self.spilled_bytes].map(|bytes| Bytes(bytes.round() as u64))
    }

    /// Bytes of both.
    pub(crate) fn moved_bytes(&self) -> Bytes {
        self.bytes().into_iter().sum()
    }

    /// Bytes of all traffic.
    pub(super) fn traffic_bytes(&self) -> f64 {
        self.weight_bytes + self.spilled_bytes
    }

    /// Time to move the first `bytes` of its traffic, at most all of it.
    pub(super) fn traffic_us_of(&self, bytes: f64) -> f64 {
        let all = self.traffic_bytes();
        if bytes < all { self.traffic_us * bytes / all } else { self.traffic_us }
    }

    /// Sets the time when `ahead_us` of its traffic is done before it starts.
    pub(super) fn run_ahead(&mut self, ahead_us: f64) {
        self.working_us = self.compute_us.max(self.traffic_us - ahead_us - self.fixed_us);
    }

    /// Sets the least time in any graph: all of its traffic that there is place for is done before it starts.
    pub(super) fn run_far_ahead(&mut self, place: f64) {
        self.run_ahead(self.traffic_us_of(place));
    }
}

/// The rates of one number format.
pub(super) struct Rates<'a> {
    compiled: &'a CompiledGraphs,
    activation_bytes: f64,
    weight_bytes: f64,
    product: f64,
    volume: f64,
    vector: f64,
    fixed: f64,
    channel_reduction: f64,
    matrix_us: f64,
    /// Results of a stand-alone batch norm per nanosecond; `None` if it is bound by its operands'
    /// transfer.
    batch_norm: Option<f64>,
}

/// Bytes of a float in compiled graphs.
const FLOAT_BYTES: u64 = 2;

/// Bytes of an activation; the compiler converts 32-bit floats to 16 bits.
pub(super) fn activation_bytes(data_type: DataType) -> f64 {
    data_type.activation_bytes().min(FLOAT_BYTES) as f64
}

impl<'a> Rates<'a> {
    pub(super) fn of(compiled: &'a CompiledGraphs, data_type: DataType) -> Result<Self> {
        let float = Self {
            compiled,
            activation_bytes: activation_bytes(data_type),
            weight_bytes: data_type.weight_bits().min(8 * FLOAT_BYTES) as f64 / 8.0,
            product: 1.0,
            volume: 1.0,
            vector: 1.0,
            fixed: 1.0,
            channel_reduction: 1.0,
            matrix_us: compiled.matrix_us.value,
            batch_norm: None,
        };
        let unsupported = |reason| Unsupported::new("NPU", format!("a graph in {data_type}"), reason);
        let unknown = |what: &str| {
            unsupported(format!(
                "the device profile has no table [npu.compiled.{what}] with the rates of this number \
                 format; add it"
            ))
        };
        match data_type {
            DataType::F32 | DataType::F16 => Ok(float),
            DataType::I8 => {
                let value = |quantity: &Quantity| quantity.value;
                let integer = compiled.integer.as_ref().ok_or_else(|| unknown("integer"))?;
                Ok(Self {
                    product: integer.product_rate_factor.value,
                    volume: integer.volume_rate_factor.value,
                    vector: integer.vector_rate_factor.value,
                    fixed: integer.fixed_cost_factor.value,
                    channel_reduction: integer.channel_reduction_rate_factor.as_ref().map_or(1.0, value),
                    matrix_us: integer.matrix_us.as_ref().map_or(float.matrix_us, value),
                    batch_norm: Some(integer.batch_norm_elements_per_ns.value),
                    ..float
                })
            }
            DataType::I8Dynamic | DataType::I4Dynamic => Err(unsupported(
                "its activation scales are computed at run time, but a compiler needs them in advance"
                    .to_owned(),
            )),
            DataType::W8A16 | DataType::W4A16 => {
                let weights = compiled.integer_weights.as_ref().ok_or_else(|| unknown("integer_weights"))?;
                let factor = weights.product_rate_factor.value;
                Ok(Self {
                    product: factor,
                    volume: factor,
                    fixed: weights.fixed_cost_factor.value,
                    batch_norm: Some(weights.batch_norm_elements_per_ns.value),
                    ..float
                })
            }
        }
    }

    /// The cost of an operator, none of its traffic done ahead.
    pub(super) fn cost(&self, work: &Work, spill: Spill) -> Cost {
        let compiled = self.compiled;
        let micros = |elements: f64, per_ns: f64| elements / per_ns / NANOS_PER_MICRO;
        let weight_bytes = work.weights * self.weight_bytes;
        let tiled_bytes = compiled.spill_factor.value * self.streamed(work, spill.bytes);
        let spilled_bytes = tiled_bytes.max(spill.entering) + spill.leaving;
        // 1 GB/s is 1 byte per nanosecond.
        let [by_row, by_tile] = [&compiled.one_row_bandwidth_gbps, &compiled.bandwidth_gbps]
            .map(|bandwidth| micros(weight_bytes, bandwidth.value));
        // Measured with one row and with many tiles; between one row and a tile, it is assumed to change evenly.
        let weights_us = by_tile + work.missing_rows * (by_row - by_tile);
        let traffic_us = weights_us + micros(spilled_bytes, compiled.bandwidth_gbps.value);
        let operators_us = compiled.operator_us.value * self.fixed;
        let images_us = micros(work.image_pixels, compiled.image_pixel_ns.value.recip()) * self.fixed;
        let compute_us = self.compute_us(work);
        let (working_us, fixed_us) = (compute_us.max(traffic_us), operators_us + images_us);
        Cost { compute_us, traffic_us, working_us, fixed_us, weight_bytes, spilled_bytes, ahead_us: 0.0 }
    }

    fn bytes(&self, work: &Work) -> f64 {
        (work.read + work.written) * self.activation_bytes
    }

    /// Spill traffic in bytes: in attention with heads too large for the chip, at least the scores.
    fn streamed(&self, work: &Work, spilled: f64) -> f64 {
        if self.bytes(work) / work.slices <= ATTENTION_SLAB_FRACTION * self.compiled.on_chip_bytes.value {
            return spilled;
        }
        if work.kernel == Kernel::Softmax {
            spilled.max(self.bytes(work))
        } else if work.kernel == Kernel::BatchedProduct {
            spilled.max(work.read.max(work.written) * self.activation_bytes)
        } else {
            spilled
        }
    }

    fn compute_us(&self, work: &Work) -> f64 {
        let compiled = self.compiled;
        let micros = |elements: f64, per_ns: f64| elements / per_ns / NANOS_PER_MICRO;
        let bytes = self.bytes(work);
        let operands = micros(bytes, compiled.on_chip_gbps.value);
        let relaid = micros(bytes, compiled.layout_change_gbps.value);
        let by_shape = if work.tokens { micros(bytes, compiled.token_gbps.value) } else { operands };
        let nonlinear = compiled.nonlinear_elements_per_ns.value * self.vector;
        let weights = micros(work.weights * self.weight_bytes, compiled.on_chip_gbps.value);
        let products =
            micros(work.multiply_accumulates, compiled.multiply_accumulates_per_ns.value * self.product);
        match work.kernel {
            Kernel::Product => {
                let groups = compiled.group_us.value * self.fixed * work.groups;
                products + operands + weights + groups + if work.dilated { relaid } else { 0.0 }
            }
            Kernel::BatchedProduct => products + relaid + self.matrix_us * work.matrices,
            Kernel::Volume => {
                let rate = compiled.volume_multiply_accumulates_per_ns.value * self.volume;
                micros(work.multiply_accumulates, rate)
            }
            Kernel::Window => micros(work.taps, compiled.taps_per_ns.value * self.vector) + operands,
            Kernel::Elementwise => by_shape,
            Kernel::Nonlinear => micros(work.written, nonlinear) + by_shape,
            Kernel::Softmax => micros(work.written, nonlinear * SOFTMAX_RATE) + operands,
            Kernel::Normalisation => micros(work.read, nonlinear) + by_shape,
            Kernel::BatchNorm => self.batch_norm.map_or(operands, |rate| micros(work.written, rate)),
            Kernel::ImageNormalisation => {
                work.pixels * compiled.normalised_pixel_ns.value / NANOS_PER_MICRO * self.fixed
            }
            Kernel::Resize => {
                let large = LARGE_RESIZE_FRACTION * compiled.on_chip_bytes.value;
                let is_large = work.written / work.images * self.activation_bytes > large;
                let rate = &compiled.large_resize_elements_per_ns;
                let rate = if is_large { rate.value * self.vector } else { nonlinear };
                micros(work.written, rate) + operands
            }
            Kernel::ChannelReduction => {
                let rate = compiled.channel_reduction_elements_per_ns.value * self.channel_reduction;
                micros(work.read, rate) + operands
            }
            Kernel::Movement if work.aligned => operands,
            Kernel::Movement => relaid,
            Kernel::Gather => micros(work.read, compiled.gathered_elements_per_ns.value * self.vector),
            Kernel::Free => 0.0,
        }
    }
}

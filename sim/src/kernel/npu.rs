//! Matrix products on an NPU: systolic arrays with one stationary operand, fed from
//! memory by a compiler that requires static shapes.
//!
//! Responsible for: operators that are matrix products, the choice of the stationary
//! operand, on-chip capacity and the rereads it forces, padding to static graphs. Not
//! for: compiling graphs at run time ([`graph_preparation`] returns its cost), or
//! operators other than products, which another processor takes. Invariant: the time
//! of each graph is the larger of compute and traffic, after its dispatch.
//!
//! A fold has three parts: its stationary tile is loaded, the other operand streams
//! through, the last results drain. A graph has thousands of folds, so an execution has
//! one phase per part, summed over all folds; memory transfers are prefetched and
//! spread evenly over the whole time.
//!
//! The constants and their fits are in the device profile. Based on: the stage,
//! order and shape characteristics NPU-1 to NPU-3 of `HeteroInfer` (SOSP'25,
//! section 3.2) and its Table 3.

pub mod compiled;
mod cost;
mod graphs;
pub mod language;
mod product;
mod systolic;

#[cfg(test)]
mod tests;

use serde::Serialize;

use self::cost::Cost;
pub use self::graphs::graph_preparation;
use self::product::{Product, Rows};
pub use self::systolic::systolic_cycles;
use super::{Execution, Phase, PhaseKind, Phases, Result, saturated};
use crate::device::npu::Decode;
use crate::device::{Order, SystolicArrays};
use crate::units::{Bytes, BytesPerSecond, MICROS_PER_SECOND, Picos};
use crate::workload::{DataType, Layer};

/// The NPU's path for a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Path {
    /// Folds on the systolic arrays, in 16-bit floating point or 8-bit integers.
    Prefill,
    /// One row times a weight matrix; bound by weight traffic. The bandwidth is fitted to 4-bit weights, other formats
    /// are extrapolated by their bits.
    Decode,
}

/// What bounds a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, strum::Display)]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    /// Compute on the arrays.
    #[strum(to_string = "the arrays")]
    Compute,
    /// Memory traffic.
    #[strum(to_string = "memory traffic")]
    Traffic,
    /// Dispatching the graphs.
    #[strum(to_string = "the dispatch")]
    Dispatch,
}

/// The compiler's schedule of a layer `[M, N] x [N, K]`, with the second operand
/// stationary, and the counts that decide its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Schedule {
    /// The path.
    pub path: Path,
    /// Which operand is stationary.
    pub order: Order,
    /// Graphs executed in sequence.
    pub graphs: u32,
    /// M, N and K, padded to standard graph sizes and whole arrays, with the rows summed
    /// over all graphs.
    pub padded: [u32; 3],
    /// Stationary tiles loaded into arrays. Zero in decode, which has no folds.
    pub folds: u64,
    /// Cycles of the busiest array. Zero in decode.
    pub cycles: u64,
    /// Times that the streamed operand is read from memory, in the graph with the most.
    pub panels: u32,
    /// Time of the folds if no operand had to be waited for. Zero in decode.
    #[serde(rename = "compute_ps")]
    pub compute: Picos,
    /// Time of the memory traffic without contention.
    #[serde(rename = "traffic_time_ps")]
    pub traffic_time: Picos,
    /// Bytes moved to and from memory.
    pub bytes: Bytes,
    /// What bounds the time.
    pub limit: Limit,
}

/// How `layer` runs on `npu` without memory contention.
///
/// # Errors
/// If the operator is not a matrix product: another processor must take it.
pub fn execute(layer: &Layer, npu: &SystolicArrays) -> Result<Execution<Schedule>> {
    let product = Product::of(layer)?;
    match &npu.decode {
        Some(decode) if product.trained_weights && product.rows == 1 => {
            Ok(decode_execution(&product, layer.data_type, npu, decode))
        }
        _ => Ok(prefill_execution(&product, npu)),
    }
}

/// Time to move `bytes` at `bandwidth`, in microseconds.
fn micros_to_move(bytes: f64, bandwidth: BytesPerSecond) -> f64 {
    bytes / bandwidth.0 * MICROS_PER_SECOND
}

fn prefill_execution(product: &Product, npu: &SystolicArrays) -> Execution<Schedule> {
    // Engines choose the operand order of products that they lower themselves; a convolution is
    // compiled in the arrays' native order, weights stationary.
    let (order, sizes) = match product.kind {
        Rows::Tokens => (npu.order, npu.graph_sizes.as_slice()),
        Rows::Pixels => (Order::WeightsStationary, [].as_slice()),
    };
    let cover = graphs::cover(product.rows, sizes);
    let costs = cover.map(|(times, rows)| {
        let cost = Cost::of(product, rows, order, npu).repeated(times * product.batch);
        (times, cost)
    });
    let used = costs.iter().filter(|(times, _)| *times > 0);
    let cost = used.clone().map(|&(_, cost)| cost).reduce(Cost::then).unwrap_or_default();
    let graphs: u64 = cover.iter().map(|(times, _)| times).sum();
    let dispatch_us = npu.dispatch_us.value * graphs as f64;
    let rows = used.fold(0_u64, |rows, (times, cost)| {
        let extent = match order {
            Order::WeightsStream => cost.padded[2],
            Order::WeightsStationary => cost.padded[0],
        };
        rows.saturating_add(extent.saturating_mul(*times))
    });
    let padded = match order {
        Order::WeightsStream => [cost.padded[0], cost.padded[1], rows],
        Order::WeightsStationary => [rows, cost.padded[1], cost.padded[2]],
    };
    let schedule = Schedule {
        path: Path::Prefill,
        order,
        graphs: saturated(graphs),
        padded: padded.map(saturated),
        folds: cost.folds,
        cycles: cost.cycles,
        panels: saturated(cost.panels),
        compute: Picos::from_micros(cost.compute_us),
        traffic_time: Picos::from_micros(cost.traffic_us),
        bytes: Bytes(cost.bytes),
        limit: limit(dispatch_us, cost.compute_us, cost.traffic_us),
    };
    let mut phases = dispatch(dispatch_us, schedule.graphs);
    for (_, cost) in &costs {
        push_folds(&mut phases, cost, npu.array_dimension);
    }
    Execution { phases, detail: schedule }
}

/// Adds the three parts of the folds of equal graphs; time and traffic are divided in
/// proportion to their cycles.
fn push_folds(phases: &mut Phases, graphs: &Cost, array: u32) {
    let streamed = graphs.padded[0];
    let rows = u64::from(array);
    let parts =
        [(PhaseKind::StationaryLoad, rows), (PhaseKind::Stream, streamed), (PhaseKind::Drain, 2 * rows - 2)];
    let fold: u64 = parts.iter().map(|&(_, cycles)| cycles).sum();
    let (mut done, mut moved, mut past) = (Picos::ZERO, 0, 0);
    for (kind, cycles) in parts {
        past += cycles;
        let share = past as f64 / fold as f64;
        let end = Picos::from_micros(graphs.micros * share);
        let bytes = (u128::from(graphs.bytes) * u128::from(past) / u128::from(fold)) as u64;
        phases.push(Phase {
            kind,
            duration: end.saturating_sub(done),
            bytes: Bytes(bytes - moved),
            steps: saturated(graphs.folds),
        });
        (done, moved) = (end, bytes);
    }
}

fn dispatch(micros: f64, graphs: u32) -> Phases {
    let duration = Picos::from_micros(micros);
    Phases::from_iter([Phase { steps: graphs, ..Phase::new(PhaseKind::Launch, duration, Bytes::ZERO) }])
}

/// Bits of a weight for which [`Decode::bytes_per_weight`] is stated.
const DECODE_WEIGHT_BITS: f64 = 4.0;
/// Bits of the widest weights: 32-bit floats are converted to 16 bits.
const MAX_WEIGHT_BITS: u64 = 16;

fn decode_execution(
    product: &Product,
    data_type: DataType,
    npu: &SystolicArrays,
    decode: &Decode,
) -> Execution<Schedule> {
    let array = u64::from(npu.array_dimension);
    let (inner, outputs) = (product.inner as f64, product.outputs as f64);
    let weights = inner * outputs * product.batch as f64;
    let bits = data_type.weight_bits().min(MAX_WEIGHT_BITS) as f64;
    let bytes = weights * decode.bytes_per_weight.value * bits / DECODE_WEIGHT_BITS;
    let long_rows = (inner / decode.long_row_elements.value).max(1.0);
    let bandwidth = BytesPerSecond::from_gigabytes(decode.bandwidth_gbps.value);
    let traffic_us = micros_to_move(bytes, bandwidth) * long_rows;
    let dispatch_us = decode.dispatch_us.value;
    let padded = [product.outputs, product.inner, 1];
    let schedule = Schedule {
        path: Path::Decode,
        order: Order::WeightsStream,
        graphs: 1,
        padded: padded.map(|extent| saturated(extent.div_ceil(array).saturating_mul(array))),
        folds: 0,
        cycles: 0,
        panels: 1,
        compute: Picos::ZERO,
        traffic_time: Picos::from_micros(traffic_us),
        bytes: Bytes(bytes.round() as u64),
        limit: limit(dispatch_us, 0.0, traffic_us),
    };
    let mut phases = dispatch(dispatch_us, schedule.graphs);
    phases.push(Phase::new(PhaseKind::Stream, schedule.traffic_time, schedule.bytes));
    Execution { phases, detail: schedule }
}

fn limit(dispatch_us: f64, compute_us: f64, traffic_us: f64) -> Limit {
    if dispatch_us > compute_us.max(traffic_us) {
        Limit::Dispatch
    } else if traffic_us > compute_us {
        Limit::Traffic
    } else {
        Limit::Compute
    }
}

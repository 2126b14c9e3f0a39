//! How matrix products run on an NPU: weight-stationary systolic arrays fed from
//! memory by a compiler that knows every shape beforehand.
//!
//! Responsible for: the operators that are matrix products, the operands' order,
//! on-chip capacity and the re-reads it forces, padding to static graphs. Not
//! for: making graphs while a network runs ([`graph_preparation`] tells its cost
//! to whoever does it), or operators that are no products, which another
//! processor takes. Invariant: the time is the larger of compute and traffic in
//! each graph, behind its dispatch.
//!
//! The constants and their fits are in the device profile. Ground: the stage,
//! order and shape characteristics NPU-1 to NPU-3 of `HeteroInfer` (SOSP'25,
//! section 3.2) and its Table 3.

mod product;
mod systolic;

#[cfg(test)]
mod tests;

use serde::Serialize;

use self::product::{Product, Rows};
pub use self::systolic::systolic_cycles;
use super::{Execution, Phase, PhaseKind, Phases, Unsupported};
use crate::device::npu::{Decode, Npu, Order};
use crate::units::{Bytes, BytesPerSecond, Picos};
use crate::workload::Layer;

/// Which of the NPU's paths a layer takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Path {
    /// Folds of the systolic arrays, in 16-bit floats.
    Prefill,
    /// One row times a weight matrix, in integers: bound by the weights' traffic.
    Decode,
}

/// What decides how long a layer takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    /// The arrays.
    Compute,
    /// Bytes to and from memory.
    Traffic,
    /// Handing over the graphs.
    Dispatch,
}

/// How the compiler schedules a layer `[M, N] x [N, K]`, the second operand
/// stationary, and the counts that decide its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Schedule {
    /// The path taken.
    pub path: Path,
    /// Which operand stays in the arrays.
    pub order: Order,
    /// Graphs executed one after another.
    pub graphs: u32,
    /// M, N and K, padded to standard graph sizes and whole arrays; rows of all
    /// graphs together.
    pub padded: [u32; 3],
    /// Stationary tiles loaded into arrays. Zero in decode, which folds nothing.
    pub folds: u64,
    /// Array cycles of all folds. Zero in decode.
    pub cycles: u64,
    /// Times the streamed operand is read from memory (by the largest graph).
    pub panels: u32,
    /// What the folds take while every operand is at hand. Zero in decode.
    #[serde(rename = "compute_ps")]
    pub compute: Picos,
    /// What the traffic takes while nobody else uses the memory.
    #[serde(rename = "traffic_time_ps")]
    pub traffic_time: Picos,
    /// Bytes moved to and from memory.
    pub bytes: Bytes,
    /// What decides the time.
    pub limit: Limit,
}

/// How `layer` runs on `npu` while nobody else uses the memory.
///
/// # Errors
/// Where the operator is no matrix product: another processor must take it.
pub fn execute(layer: &Layer, npu: &Npu) -> Result<Execution<Schedule>, Unsupported> {
    let product = Product::of(layer)?;
    match &npu.decode {
        Some(decode) if product.trained_weights && product.rows == 1 => {
            Ok(decode_execution(&product, npu, decode))
        }
        _ => Ok(prefill_execution(&product, npu)),
    }
}

/// What making a network's graphs for `rows` rows (tokens) takes, where none lie
/// ready for that count. Not part of an execution.
pub fn graph_preparation(npu: &Npu, rows: u32) -> Picos {
    let preparation = &npu.graph_preparation;
    Picos::from_micros(preparation.base_us.value + f64::from(rows) * preparation.per_row_us.value)
}

/// The graphs that cover a number of rows: `full` of the largest size and, where
/// rows remain, one of the smallest size that takes them.
#[derive(Clone, Copy)]
struct Cover {
    full: u64,
    largest: u64,
    last: Option<u64>,
}

impl Cover {
    fn of(rows: u64, sizes: &[u32]) -> Self {
        let Some(&largest) = sizes.last() else {
            return Self { full: 1, largest: rows, last: None };
        };
        let largest = u64::from(largest);
        let remainder = rows % largest;
        let last = sizes.iter().map(|&size| u64::from(size)).find(|&size| size >= remainder);
        Self { full: rows / largest, largest, last: last.filter(|_| remainder > 0) }
    }

    fn graphs(self) -> u64 {
        self.full + u64::from(self.last.is_some())
    }
}

/// Counts and times of the graphs of a layer, before rounding.
#[derive(Clone, Copy, Default)]
struct Cost {
    padded: [u64; 3],
    folds: u64,
    cycles: u64,
    panels: u64,
    bytes: u64,
    compute_us: f64,
    traffic_us: f64,
    micros: f64,
}

impl Cost {
    /// The cost of one product of `rows` rows in one graph.
    fn of(product: &Product, rows: u64, order: Order, npu: &Npu) -> Self {
        let array = u64::from(npu.array_dimension);
        let (streamed, stationary) = match order {
            Order::WeightsStream => (product.outputs, rows),
            Order::WeightsStationary => (rows, product.outputs),
        };
        let padded @ [m, n, k] =
            [streamed, product.inner, stationary].map(|extent| extent.div_ceil(array).saturating_mul(array));
        let panels = panels(n, k, npu);
        let elements = m
            .saturating_mul(n)
            .saturating_mul(panels)
            .saturating_add(n.saturating_mul(k))
            .saturating_add(m.saturating_mul(k).saturating_mul(product.output_transfers));
        let bytes = elements.saturating_mul(u64::from(npu.element_bytes));
        let cycles = systolic_cycles(m, n, k, npu.array_dimension);
        let compute_us = cycles as f64 / npu.combined_clock_mhz.value;
        let bandwidth = BytesPerSecond::from_gigabytes(npu.bandwidth_gbps.value);
        let traffic_us = micros_to_move(bytes as f64, bandwidth);
        Self {
            padded,
            folds: (n / array).saturating_mul(k / array),
            cycles,
            panels,
            bytes,
            compute_us,
            traffic_us,
            micros: compute_us.max(traffic_us),
        }
    }

    /// This cost `times` over.
    fn repeated(self, times: u64) -> Self {
        Self {
            folds: self.folds.saturating_mul(times),
            cycles: self.cycles.saturating_mul(times),
            bytes: self.bytes.saturating_mul(times),
            compute_us: self.compute_us * times as f64,
            traffic_us: self.traffic_us * times as f64,
            micros: self.micros * times as f64,
            ..self
        }
    }

    /// This cost and then `next`'s; extents are left to the caller.
    fn then(self, next: Self) -> Self {
        Self {
            padded: self.padded,
            folds: self.folds.saturating_add(next.folds),
            cycles: self.cycles.saturating_add(next.cycles),
            panels: self.panels.max(next.panels),
            bytes: self.bytes.saturating_add(next.bytes),
            compute_us: self.compute_us + next.compute_us,
            traffic_us: self.traffic_us + next.traffic_us,
            micros: self.micros + next.micros,
        }
    }
}

/// Times the streamed operand is read from memory, for a stationary operand of
/// `n x k`: once where all of it stays on chip, once a block where the compiler
/// blocks it, and else once a panel of columns as wide as the array.
fn panels(n: u64, k: u64, npu: &Npu) -> u64 {
    let fits = |columns: u64| {
        let bytes = n.saturating_mul(columns).saturating_mul(u64::from(npu.element_bytes));
        bytes as f64 <= npu.on_chip_bytes.value
    };
    if fits(k) {
        return 1;
    }
    match &npu.column_block {
        Some(block) if k <= u64::from(block.most_columns) && fits(u64::from(block.columns)) => {
            k.div_ceil(u64::from(block.columns))
        }
        _ => k / u64::from(npu.array_dimension),
    }
}

fn micros_to_move(bytes: f64, bandwidth: BytesPerSecond) -> f64 {
    const MICROS_PER_SECOND: f64 = 1e6;
    bytes / bandwidth.0 * MICROS_PER_SECOND
}

fn prefill_execution(product: &Product, npu: &Npu) -> Execution<Schedule> {
    // Engines exchange the operands of a product they state themselves; a
    // convolution goes to the NPU as one, in the order the arrays are built for.
    let (order, sizes) = match product.kind {
        Rows::Tokens => (npu.order, npu.graph_sizes.as_slice()),
        Rows::Pixels => (Order::WeightsStationary, [].as_slice()),
    };
    let cover = Cover::of(product.rows, sizes);
    let full = Cost::of(product, cover.largest, order, npu).repeated(cover.full);
    let last = cover.last.map(|rows| Cost::of(product, rows, order, npu));
    let graphs = match (cover.full, last) {
        (0, Some(last)) => last,
        (_, Some(last)) => full.then(last),
        (_, None) => full,
    };
    let cost = graphs.repeated(product.batch);
    let dispatch_us = npu.dispatch_us.value * cover.graphs() as f64;
    let row_extents = |cost: Cost| match order {
        Order::WeightsStream => cost.padded[2],
        Order::WeightsStationary => cost.padded[0],
    };
    let rows = row_extents(full).saturating_mul(cover.full).saturating_add(last.map_or(0, row_extents));
    let padded = match order {
        Order::WeightsStream => [cost.padded[0], cost.padded[1], rows],
        Order::WeightsStationary => [rows, cost.padded[1], cost.padded[2]],
    };
    let schedule = Schedule {
        path: Path::Prefill,
        order,
        graphs: saturate(cover.graphs()),
        padded: padded.map(saturate),
        folds: cost.folds,
        cycles: cost.cycles,
        panels: saturate(cost.panels),
        compute: Picos::from_micros(cost.compute_us),
        traffic_time: Picos::from_micros(cost.traffic_us),
        bytes: Bytes(cost.bytes),
        limit: limit(dispatch_us, cost.compute_us, cost.traffic_us),
    };
    execution(dispatch_us, cost.micros, schedule)
}

fn decode_execution(product: &Product, npu: &Npu, decode: &Decode) -> Execution<Schedule> {
    let array = u64::from(npu.array_dimension);
    let (inner, outputs) = (product.inner as f64, product.outputs as f64);
    let weights = inner * outputs * product.batch as f64;
    let bytes = weights * decode.bytes_per_weight.value;
    let long_rows = (inner / outputs).max(1.0).powf(decode.long_row_exponent.value);
    let bandwidth = BytesPerSecond::from_gigabytes(decode.bandwidth_gbps.value);
    let traffic_us = micros_to_move(bytes, bandwidth) * long_rows;
    let dispatch_us = decode.dispatch_us.value;
    let padded = [product.outputs, product.inner, 1];
    let schedule = Schedule {
        path: Path::Decode,
        order: Order::WeightsStream,
        graphs: 1,
        padded: padded.map(|extent| saturate(extent.div_ceil(array).saturating_mul(array))),
        folds: 0,
        cycles: 0,
        panels: 1,
        compute: Picos::ZERO,
        traffic_time: Picos::from_micros(traffic_us),
        bytes: Bytes(bytes.round() as u64),
        limit: limit(dispatch_us, 0.0, traffic_us),
    };
    execution(dispatch_us, traffic_us, schedule)
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

fn execution(dispatch_us: f64, micros: f64, schedule: Schedule) -> Execution<Schedule> {
    let mut phases = Phases::default();
    phases.push(Phase {
        kind: PhaseKind::Launch,
        duration: Picos::from_micros(dispatch_us),
        bytes: Bytes::ZERO,
        steps: schedule.graphs,
    });
    phases.push(Phase {
        kind: PhaseKind::Folds,
        duration: Picos::from_micros(micros),
        bytes: schedule.bytes,
        steps: saturate(schedule.folds.max(1)),
    });
    Execution { phases, detail: schedule }
}

fn saturate(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

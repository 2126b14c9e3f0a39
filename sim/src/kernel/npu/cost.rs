//! Cost of the graphs of one layer: padding, panels, cycles, bytes.

use super::{Product, micros_to_move, systolic_cycles};
use crate::device::{Order, SystolicArrays};
use crate::units::BytesPerSecond;

/// Counts and times of the graphs of a layer, before rounding.
#[derive(Clone, Copy, Default)]
pub(super) struct Cost {
    /// Streamed, inner and stationary extents of one graph, padded.
    pub(super) padded: [u64; 3],
    pub(super) folds: u64,
    pub(super) cycles: u64,
    pub(super) panels: u64,
    pub(super) bytes: u64,
    pub(super) compute_us: f64,
    pub(super) traffic_us: f64,
    pub(super) micros: f64,
}

impl Cost {
    /// The cost of one product of `rows` rows in one graph.
    pub(super) fn of(product: &Product, rows: u64, order: Order, npu: &SystolicArrays) -> Self {
        let array = u64::from(npu.array_dimension);
        let (element_bytes, rate_factor) = match &npu.integer {
            Some(integer) if product.integers => {
                (u64::from(integer.element_bytes), integer.rate_factor.value)
            }
            _ => (u64::from(npu.element_bytes), 1.0),
        };
        let (streamed, stationary) = match order {
            Order::WeightsStream => (product.outputs, rows),
            Order::WeightsStationary => (rows, product.outputs),
        };
        let [m, n, k] =
            [streamed, product.inner, stationary].map(|extent| extent.div_ceil(array).saturating_mul(array));
        let [panels, k] = panels(n, k, element_bytes, npu);
        let elements = m
            .saturating_mul(n)
            .saturating_mul(panels)
            .saturating_add(n.saturating_mul(k))
            .saturating_add(m.saturating_mul(k).saturating_mul(product.output_transfers));
        let bytes = elements.saturating_mul(element_bytes);
        let folds = (n / array).saturating_mul(k / array);
        let (cycles, clock_mhz) = busiest_array([m, n, k], folds, npu);
        let compute_us = cycles as f64 / (clock_mhz * rate_factor);
        let bandwidth = BytesPerSecond::from_gigabytes(npu.bandwidth_gbps.value);
        let traffic_us = micros_to_move(bytes as f64, bandwidth);
        let micros = compute_us.max(traffic_us);
        Self { padded: [m, n, k], folds, cycles, panels, bytes, compute_us, traffic_us, micros }
    }

    /// The cost of `times` repetitions.
    pub(super) fn repeated(self, times: u64) -> Self {
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

    /// The cost of this and `next` in sequence; the extents are this one's.
    pub(super) fn then(self, next: Self) -> Self {
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

/// Cycles of the array with the most folds, and its clock in MHz. If the number of arrays is
/// unknown, they are modelled as one array at their combined clock.
fn busiest_array([m, n, k]: [u64; 3], folds: u64, npu: &SystolicArrays) -> (u64, f64) {
    let Some(arrays) = npu.arrays.map(u64::from) else {
        return (systolic_cycles(m, n, k, npu.array_dimension), npu.combined_clock_mhz.value);
    };
    let array = u64::from(npu.array_dimension);
    let rounds = folds.div_ceil(arrays);
    // `rounds` folds in sequence are a product whose stationary operand is `rounds` tiles wide.
    let cycles = systolic_cycles(m, array, rounds.saturating_mul(array), npu.array_dimension);
    (cycles, npu.combined_clock_mhz.value / arrays as f64)
}

/// Panels of columns into which the compiler divides the `n x k` stationary operand, and the columns
/// padded to whole panels. The streamed operand is read from memory once per panel: once if the
/// stationary operand fits on chip, once per block if the compiler blocks it, else once per panel of
/// the array's width.
fn panels(n: u64, k: u64, element_bytes: u64, npu: &SystolicArrays) -> [u64; 2] {
    let fits = |columns: u64| {
        let bytes = n.saturating_mul(columns).saturating_mul(element_bytes);
        bytes as f64 <= npu.on_chip_bytes.value
    };
    if fits(k) {
        return [1, k];
    }
    match &npu.column_block {
        Some(block) if k <= u64::from(block.most_columns) && fits(u64::from(block.columns)) => {
            let width = u64::from(block.columns);
            let count = k.div_ceil(width);
            [count, count * width]
        }
        _ => [k / u64::from(npu.array_dimension), k],
    }
}

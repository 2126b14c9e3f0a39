//! Matrix products, and convolutions as indirect products.
//!
//! Responsible for: the cost terms of a product, and its division into pieces. Not for:
//! the selection of tiles (`micro_kernel`).

use super::micro_kernel::window_micro_kernel;
use super::{FIRST_LEVEL_BYTES, Kernels, LAST_LEVEL_BYTES, contended};
use crate::device::XnnpackRates;
use crate::kernel::cpu::ruy::Tile;
use crate::kernel::cpu::tally::Shares;
use crate::kernel::cpu::traffic::{CACHE_LINE_BYTES, convolution_input_bytes, grouped_output_factor};
use crate::kernel::cpu::{Kernel, Member, Tally, contention};
use crate::workload::Conv2d;

/// Bytes of input rows under a window up to which they stay in cache until the next row of
/// outputs rereads them (CPU model, `A`).
const WINDOW_ROWS_BYTES: f64 = 131_072.0;
/// Tiles per thread that XNNPACK aims at when it chooses the width (nc) of a task.
const TILES_PER_THREAD: u64 = 5;

/// One product per group, each of `pixels x depth` times `depth x channels`.
#[derive(Clone, Copy)]
pub(super) struct Product {
    pixels: u64,
    channels: u64,
    depth: u64,
    groups: u64,
    window: u64,
    /// Bytes read from the input, in whole cache lines per pixel and group.
    input_traffic: f64,
    /// Size of the input in bytes.
    input_bytes: f64,
    /// Write amplification of the output.
    output_factor: f64,
    /// Slowdown of a multiply-accumulate by dependency chains; 1 for none.
    latency_factor: f64,
}

impl Product {
    /// Time per multiply-accumulate.
    fn multiply_accumulate_ns(&self, rates: &XnnpackRates) -> f64 {
        let under_window = rates.window_multiply_accumulate_ns.as_ref().filter(|_| self.window > 1);
        self.latency_factor * under_window.unwrap_or(&rates.multiply_accumulate_ns).value
    }
}

impl Kernels<'_> {
    /// A product whose left operand has contiguous rows.
    pub(super) fn plain_product(&self, pixels: u64, channels: u64, depth: u64, groups: u64) -> Product {
        let row = depth * self.element_bytes;
        Product {
            pixels,
            channels,
            depth,
            groups,
            window: 1,
            input_traffic: (groups * pixels * row.next_multiple_of(CACHE_LINE_BYTES)) as f64,
            input_bytes: (groups * pixels * row) as f64,
            output_factor: 1.0,
            latency_factor: 1.0,
        }
    }

    pub(super) fn convolution(&self, conv: &Conv2d) -> Tally {
        // Each output phase of a transposed convolution is a separate product.
        let groups = u64::from(conv.groups) * u64::from(conv.phases);
        let window_rows = u64::from(conv.window.kernel[0]) * u64::from(conv.input.width);
        let window_bytes = window_rows * u64::from(conv.input.channels) * self.element_bytes;
        let reread = if window_bytes as f64 > WINDOW_ROWS_BYTES {
            f64::from(conv.window.kernel[0]) / f64::from(conv.window.stride[0])
        } else {
            1.0
        };
        let (tile, latency_factor) = window_micro_kernel(self.first, self.format, conv);
        let product = Product {
            pixels: conv.output().pixels(),
            channels: u64::from(conv.output_channels).div_ceil(groups),
            depth: conv.window.taps() * u64::from(conv.group_channels()),
            groups,
            window: conv.window.taps(),
            input_traffic: convolution_input_bytes(conv, self.element_bytes) as f64 * reread,
            input_bytes: (conv.input.elements() * self.element_bytes) as f64,
            output_factor: grouped_output_factor(conv, self.element_bytes),
            latency_factor,
        };
        let kernel = if conv.window.is_pointwise() { Kernel::Gemm } else { Kernel::IndirectGemm };
        self.product(&product, tile, kernel, &[self.team.rates().convolution_ns.value], 0.0)
    }

    pub(super) fn product(
        &self,
        product: &Product,
        tile: Tile,
        kernel: Kernel,
        serial: &[f64],
        packed: f64,
    ) -> Tally {
        let channels = product.channels.next_multiple_of(tile.channels);
        let depth = product.depth.next_multiple_of(tile.depth);
        let packing = |member: &Member<'_, XnnpackRates>| {
            packed * member.rates.copy_element_ns.value * contended(member)
        };
        let weights = channels as f64 * depth as f64;
        // Reading all weights once is the whole cost of one row, and a lower bound for several.
        let read = weights * self.weight_size_ratio;
        let one_row = |member: &Member<'_, XnnpackRates>| {
            let memory = read * product.groups as f64 * member.rates.gemv_weight_ns.value * contended(member);
            Shares { memory, packing: packing(member), ..Shares::default() }
        };
        if product.pixels == 1 {
            return self.run(Kernel::Gemv, serial, one_row, self.threads);
        }
        let rows = product.pixels.div_ceil(tile.pixels);
        let columns = channels / tile.channels;
        let groups = product.groups as f64;
        let tiles = rows as f64 * columns as f64 * groups;
        let macs = tiles * (tile.pixels * tile.channels * depth) as f64;
        let weight_reads = read * rows as f64 * groups;
        let weight_bytes = read * self.element_bytes as f64;
        let output_bytes = (product.pixels * product.channels * self.result_bytes) as f64 * groups;
        let beyond = |bytes: f64, level: f64, amount: f64| if bytes > level { amount } else { 0.0 };
        let taps = if product.window > 1 { tiles * product.window as f64 } else { 0.0 };
        let beyond_l1 = beyond(weight_bytes, FIRST_LEVEL_BYTES, weight_reads);
        let beyond_l3 = beyond(weight_bytes, LAST_LEVEL_BYTES, weight_reads);
        let input_bytes = beyond(product.input_bytes, LAST_LEVEL_BYTES, product.input_traffic);
        let allocated = beyond(output_bytes, LAST_LEVEL_BYTES, output_bytes * product.output_factor);
        let shares = |member: &Member<'_, XnnpackRates>| {
            let rates = member.rates;
            let compute = macs * product.multiply_accumulate_ns(rates)
                + tiles * rates.tile_ns.value
                + taps * rates.tap_ns.value;
            let memory = beyond_l1 * rates.beyond_l1_ns.value
                + beyond_l3 * rates.beyond_l3_ns.value
                + input_bytes * rates.input_byte_ns.value
                + allocated * rates.allocated_byte_ns.value;
            // Memory terms have their own contention factor.
            let all = Shares {
                compute: compute * contended(member),
                packing: packing(member),
                memory: memory * contention(rates.memory_contention_factor.value, member.threads),
            };
            let least = one_row(member);
            if all.nanos() < least.nanos() { least } else { all }
        };
        let pieces = self.tiles(rows * product.groups, columns);
        let tally = self.run(kernel, serial, shares, pieces);
        Tally { tile: [tile.pixels as u32, tile.channels as u32], ..tally }
    }

    /// Tasks to distribute, each one tile tall: as wide as possible with
    /// [`TILES_PER_THREAD`] per thread.
    fn tiles(&self, rows: u64, columns: u64) -> u64 {
        if self.threads == 1 {
            return rows;
        }
        let width = (columns * rows).div_ceil(TILES_PER_THREAD * self.threads).clamp(1, columns);
        rows * columns.div_ceil(width)
    }
}

//! `conv_generic` and what runs on it: convolutions, grouped convolutions, matrix
//! products of several rows and Winograd's middle kernel. Also `conv_constants`, the
//! convolution with its weights in constant memory.

use super::{
    Cost, Dispatch, Kernel, Modelled, activations, elementwise, extent, lanes, missing_table, saturated,
    select, weight_blocks, work_group,
};
use crate::device::gpu::{ConvConstantsKernel, ConvGenericKernel, WinogradKernel};
use crate::device::{
    ConvGrid, Extent, Gpu, LinearLowering, Linearisation, Quantity, ResidentKernel, SLICE_BYTES, Tile,
    TileTask,
};
use crate::kernel::Result;
use crate::workload::{Conv2d, DataType, Layer, Product, slices};

/// Bytes of one 4x4 block of 16-bit weights, between one input slice and one output slice.
const WEIGHT_BLOCK_BYTES: u64 = 4 * SLICE_BYTES;
/// How far a working set must exceed the cache, as a fraction of the cache's size, before every access
/// misses: the set is traversed in the same order each time, so LRU evicts each line before its reuse.
const SPILL_RAMP: f64 = 0.2;
/// Side of a Winograd output tile in pixels, F(4x4, 3x3).
pub const WINOGRAD_TILE: u32 = 4;
/// Side of a transformed tile in points: the output tile plus the halo of a 3x3 window.
pub const WINOGRAD_SIDE: u32 = WINOGRAD_TILE + 2;
/// Points of a transformed tile, each an independent product over channels.
pub const WINOGRAD_POINTS: u32 = WINOGRAD_SIDE * WINOGRAD_SIDE;

/// Bytes of `blocks` 4x4 weight blocks. The delegate dequantises the weights of integer models to
/// 16 bits; only formats with packed weights keep their width.
pub(super) fn weight_bytes(blocks: u64, data_type: DataType) -> u64 {
    match data_type {
        DataType::F32 | DataType::F16 | DataType::I8 | DataType::I8Dynamic => blocks * WEIGHT_BLOCK_BYTES,
        DataType::I4Dynamic | DataType::W4A16 => blocks * WEIGHT_BLOCK_BYTES / 4,
        DataType::W8A16 => blocks * WEIGHT_BLOCK_BYTES / 2,
    }
}

/// A convolution or matrix product in the terms of `conv_generic`.
struct Problem {
    kernel: Kernel,
    task: TileTask,
    /// Output extent that the grid covers.
    output: Extent,
    /// Loop iterations of a thread.
    iterations: u32,
    /// The tile is folded into a row, (bx*by, 1, bs), as for matrix products and Winograd.
    folded: bool,
    /// Each output row has its own weights.
    row_weights: bool,
    /// Output slices per channel group; `None` for an ungrouped convolution.
    group_slices: Option<u32>,
    horizontal_stride: u32,
    input_bytes: u64,
    weight_bytes: u64,
    /// Tensors that linked functions read.
    operands: f64,
    /// Linked unary functions; see [`activations`].
    activations: u32,
}

/// Convolution with any window, stride, dilation and grouping.
pub(super) fn generic(conv: &Conv2d, layer: &Layer, gpu: &Gpu) -> Modelled {
    let table = if conv.groups > 1 { gpu.grouped_conv.as_ref() } else { None };
    of_convolution(conv, layer, gpu).model(table.unwrap_or(&gpu.conv_generic), gpu)
}

fn of_convolution(conv: &Conv2d, layer: &Layer, gpu: &Gpu) -> Problem {
    let output = extent(conv.output());
    let input = extent(conv.input);
    let grouped = conv.groups > 1;
    let group_source = slices(conv.group_channels()).max(1);
    let kernel = if grouped { Kernel::GroupedConv } else { Kernel::ConvGeneric };
    let pointwise = Problem::pointwise(kernel, output, [input.slices, output.slices], layer, gpu);
    Problem {
        task: TileTask { trivial: conv.window.is_pointwise(), ..pointwise.task },
        iterations: saturated(conv.window.taps()).saturating_mul(group_source),
        folded: false,
        row_weights: false,
        group_slices: grouped.then(|| (output.slices / conv.groups).max(1)),
        horizontal_stride: conv.window.stride[1],
        input_bytes: input.bytes(),
        weight_bytes: weight_bytes(weight_blocks(conv), layer.data_type),
        ..pointwise
    }
}

/// Matrix products: a 1x1 convolution over an image whose rows are the batch. In a product of two
/// activations the right operand becomes the weights, different for each image row: a preceding
/// launch converts it to the weight layout, and if there are several images, reshapes merge them
/// into one and split the result again. Language-model engines (16-bit activations, integer
/// weights) are assumed to append keys and values to the cache in that layout already.
pub(super) fn of_product(product: Product, layer: &Layer, gpu: &Gpu) -> Modelled {
    let source_slices = slices(product.inner);
    let output =
        Extent { batch: 1, width: product.rows, height: product.batch, slices: slices(product.outputs) };
    // The delegate evaluates the tile rule for the result's original shape, before images are merged.
    let images = Extent { batch: product.images, height: product.batch / product.images, ..output };
    let blocks = u64::from(product.batch) * u64::from(source_slices) * u64::from(output.slices);
    let trained = product.trained;
    let kernel = if trained { Kernel::ConvGeneric } else { Kernel::MatMul };
    let problem = Problem {
        folded: !trained || gpu.linear_lowering == LinearLowering::FullyConnected,
        row_weights: !trained,
        weight_bytes: if trained {
            weight_bytes(blocks, layer.data_type)
        } else {
            blocks * WEIGHT_BLOCK_BYTES
        },
        output,
        ..Problem::pointwise(kernel, images, [source_slices, output.slices], layer, gpu)
    };
    let mut modelled = problem.model(&gpu.conv_generic, gpu);
    if !trained && !layer.data_type.is_weight_only() {
        elementwise::rearrange_operands(&mut modelled.cost, product, gpu);
    }
    modelled
}

impl Problem {
    /// A 1x1 convolution of every pixel of `shape`, folded, with per-row weights. The caller sets
    /// `weight_bytes`.
    fn pointwise(
        kernel: Kernel,
        shape: Extent,
        [source_slices, output_slices]: [u32; 2],
        layer: &Layer,
        gpu: &Gpu,
    ) -> Self {
        let compute_units = gpu.compute_units;
        Self {
            kernel,
            task: TileTask { shape, source_slices, output_slices, trivial: true, compute_units },
            output: shape,
            iterations: source_slices,
            folded: true,
            row_weights: true,
            group_slices: None,
            horizontal_stride: 1,
            input_bytes: Extent { slices: source_slices, ..shape }.bytes(),
            weight_bytes: 0,
            operands: layer.linked.operand_tensors(layer.operator.output()),
            activations: activations(layer),
        }
    }

    /// The dispatch, plus the source unroll and the lanes' sharing, which only the cost needs.
    fn map(&self, gpu: &Gpu) -> (Dispatch, u32, lanes::Lanes) {
        let rules = gpu.family.rules();
        let (chosen, unroll) = (rules.tile)(&self.task);
        let mapping = (rules.map_convolution)(&ConvGrid {
            threads: work_group::grid(self.task.shape, chosen),
            folded: self.folded,
            row_weights: self.row_weights,
        });
        let chosen = if self.folded { chosen.folded() } else { chosen };
        let chosen = self.group_slices.map_or(chosen, |slices| within_group(chosen, slices));
        let threads = work_group::grid(self.output, chosen);
        let linearisation = mapping.linearisation;
        let grid = linearisation.grid(threads);
        let group = mapping.fixed_group.unwrap_or_else(|| work_group::conv_work_group(grid, gpu));
        let dispatch = Dispatch::new(self.kernel, chosen, grid, group, self.iterations);
        let dispatch = Dispatch { linearisation, ..dispatch };
        (dispatch, unroll, lanes_of(linearisation, &dispatch, threads, gpu))
    }

    /// Reuse of pixels between overlapping taps of the window; divides the pixel latency of `tile` by
    /// one plus this value.
    fn reuse(&self, tile: Tile, table: &ConvGenericKernel) -> f64 {
        if self.task.trivial {
            return 0.0;
        }
        let rows = if tile.y > 1 { Quantity::or_zero(table.row_reuse_factor.as_ref()) } else { 0.0 };
        Quantity::or_zero(table.window_reuse_factor.as_ref()) + rows
    }

    /// Relative rise of the latency once a working set of `bytes` exceeds the cache.
    fn spill(bytes: u64, table: &ConvGenericKernel) -> f64 {
        let Some(cache) = table.cache_bytes.as_ref().map(|cache| cache.value).filter(|&cache| cache > 0.0)
        else {
            return 0.0;
        };
        let spilled = ((bytes as f64 / cache - 1.0) / SPILL_RAMP).clamp(0.0, 1.0);
        Quantity::or_zero(table.spill_latency_factor.as_ref()) * spilled
    }

    fn model(&self, table: &ConvGenericKernel, gpu: &Gpu) -> Modelled {
        let (dispatch, unroll, lanes) = self.map(gpu);
        let trivial = self.task.trivial;
        let pixels = f64::from(dispatch.tile.pixels());
        let slices = f64::from(dispatch.tile.slices);
        let texels = f64::from(dispatch.tile.texels());
        let lines = lanes::relative_cache_lines(self.horizontal_stride);
        let kernel = if trivial { ResidentKernel::Trivial } else { ResidentKernel::Other };
        let waited = lanes.weights.min(gpu.family.rules().waited_weight_blocks);
        let window = |factor: f64| if trivial { 1.0 } else { 1.0 + factor };

        let mut latency_us = (table.latency_us.value
            + table.latency_pixel_us.value * pixels / (1.0 + self.reuse(dispatch.tile, table))
            + table.latency_slice_us.value * slices
            + table.latency_weight_us.value * waited * slices)
            * window(table.window_latency_factor.value);
        if unroll > 1 {
            latency_us *= f64::from(unroll).powf(-table.unroll_exponent.value);
        }
        let output_bytes = self.output.bytes();
        let bytes = self.input_bytes + output_bytes + self.weight_bytes;
        latency_us *= 1.0 + Self::spill(bytes, table);
        let throughput_us = (table.throughput_slice_us.value * slices
            + table.throughput_texel_us.value * texels
            + table.throughput_pixel_read_us.value * lanes.pixels * pixels * lines
            + table.throughput_weight_read_us.value * lanes.weights * slices)
            * window(table.window_throughput_factor.value);
        let mut loop_factor = 1.0;
        if self.operands > 0.0 && trivial {
            loop_factor += table.addition_factor.value;
        }
        if self.activations > 0 {
            loop_factor += table.activation_factor.value;
        }
        let second_operands = output_bytes as f64 * table.addition_traffic_factor.value * self.operands;
        let waves = dispatch.waves_per_unit(dispatch.groups, gpu);
        let cost = Cost {
            latency_us,
            throughput_us,
            loop_factor,
            resident_waves: gpu.resident_waves(dispatch.tile.texels(), kernel),
            tail_rounding: Quantity::or_zero(table.tail_rounding_factor.as_ref()),
            epilogue_us: table.wave_us.value * waves * texels,
            ..Cost::new(table.common(), bytes, bytes as f64 + second_operands)
        };
        Modelled { dispatch, cost }
    }
}

/// Shrinks a tile whose slices would straddle two channel groups of `group_slices` slices.
fn within_group(tile: Tile, group_slices: u32) -> Tile {
    match tile.slices {
        slices if group_slices.is_multiple_of(slices) => tile,
        4 if group_slices.is_multiple_of(2) => Tile { slices: 2, ..tile },
        _ => Tile { slices: 1, ..tile },
    }
}

fn lanes_of(linearisation: Linearisation, dispatch: &Dispatch, threads: [u32; 3], gpu: &Gpu) -> lanes::Lanes {
    let plane = u64::from(threads[0]) * u64::from(threads[1]);
    match linearisation {
        Linearisation::None => lanes::of_group(dispatch.work_group, gpu.simd_width),
        Linearisation::Spatial => lanes::of_linear(dispatch.threads(), plane, false),
        Linearisation::All => lanes::of_linear(dispatch.threads(), plane, true),
    }
}

/// Winograd F(4x4, 3x3): input tiles are transformed to 36 points, each point is a 1x1 convolution over
/// all tiles, and the products are transformed back. The reported launch is the middle kernel's.
pub(super) fn winograd(conv: &Conv2d, layer: &Layer, gpu: &Gpu) -> Result<Modelled> {
    let table = gpu.winograd.as_ref().ok_or_else(|| missing_table(layer, Kernel::Winograd, "winograd"))?;
    let input = extent(conv.input);
    let output = extent(conv.output());
    let tiles = output.batch.saturating_mul(select::winograd_tiles(conv));
    let points = Extent { batch: 1, width: tiles, height: WINOGRAD_POINTS, slices: output.slices };
    let blocks = u64::from(WINOGRAD_POINTS) * u64::from(input.slices) * u64::from(output.slices);
    // The delegate evaluates the tile rule for the shape of the convolution's input.
    let problem = Problem {
        output: points,
        weight_bytes: weight_bytes(blocks, layer.data_type),
        ..Problem::pointwise(Kernel::Winograd, input, [input.slices, output.slices], layer, gpu)
    };
    let bytes = problem.input_bytes + output.bytes() + problem.weight_bytes;
    let transformed_input = Extent { slices: input.slices, ..points }.bytes();
    let (dispatch, ..) = problem.map(gpu);
    let cost = winograd_cost(table, &dispatch, [transformed_input, points.bytes(), bytes], gpu);
    Ok(Modelled { dispatch, cost })
}

/// Cost of a Winograd convolution; `moved` is the bytes of the transformed input, of the
/// transformed output and of everything else. The launch's bytes exclude both transformed tensors, as in the
/// fits of the host path: they are as warm in an inference as in a repeated launch.
fn winograd_cost(table: &WinogradKernel, dispatch: &Dispatch, moved: [u64; 3], gpu: &Gpu) -> Cost {
    let [forward, inverse, bytes] = moved;
    let slices = f64::from(dispatch.tile.slices);
    let texels = f64::from(dispatch.tile.texels());
    let waves = dispatch.waves_per_unit(dispatch.groups, gpu);
    Cost {
        latency_us: table.latency_us.value + table.latency_slice_us.value * slices,
        throughput_us: table.throughput_slice_us.value * slices + table.throughput_texel_us.value * texels,
        transform_us: table.forward_us_per_byte.value * forward as f64
            + table.inverse_us_per_byte.value * inverse as f64,
        epilogue_us: table.wave_us.value * waves * texels,
        ..Cost::new(table.common(), bytes, bytes as f64)
    }
}

/// Convolution with weights in constant memory: one thread per pixel computes all
/// output slices, fully unrolled.
pub(super) fn constants(conv: &Conv2d, layer: &Layer, gpu: &Gpu) -> Result<Modelled> {
    let missing = || missing_table(layer, Kernel::ConvConstants, "conv_constants");
    let table: &ConvConstantsKernel = gpu.conv_constants.as_ref().ok_or_else(missing)?;
    let input = extent(conv.input);
    let output = extent(conv.output());
    let tile = Tile::new(1, 1, output.slices.max(1));
    let dispatch = Dispatch::over(Kernel::ConvConstants, output, tile, 1, gpu);

    let taps = conv.window.taps();
    let reads = taps as f64 * f64::from(input.slices);
    let slices = f64::from(output.slices);
    let products = taps as f64 * f64::from(conv.input.channels) * slices;
    let bytes = input.bytes() + output.bytes() + weight_bytes(weight_blocks(conv), layer.data_type);
    let operands = layer.linked.operand_tensors(layer.operator.output());
    let second_operands = output.bytes() as f64 * table.addition_traffic_factor.value * operands;
    let dot_latency =
        if select::in_dot_form(conv) { Quantity::or_zero(table.dot_latency_factor.as_ref()) } else { 0.0 };
    let cost = Cost {
        latency_us: table.latency_read_us.value * reads * (1.0 + dot_latency)
            + table.latency_slice_us.value * slices,
        throughput_us: table.throughput_read_us.value * reads
            + table.throughput_product_us.value * products
            + table.throughput_slice_us.value * slices,
        ..Cost::new(table.common(), bytes, bytes as f64 + second_operands)
    };
    Ok(Modelled { dispatch, cost })
}

#[cfg(test)]
mod tests;

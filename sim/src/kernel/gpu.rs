//! How one layer runs on a GPU: the TFLite GPU delegate's dispatch rules and a
//! latency model of the resulting launch.
//!
//! Responsible for: kernel selection (`select`), grid and work-group (`work_group`),
//! memory accesses that the lanes of a wave share (`lanes`), and the time of the launch
//! (`latency`). Not for: other processors, or memory contention. The rules are read
//! from the delegate's sources (LiteRT) and checked against the kernels that TFLite
//! 2.15 ran on six phones (mobile-ml-benchmark data set).
//! Invariant: nothing here allocates, so that a search can price every split.

mod conv;
mod depthwise;
mod elementwise;
mod fully_connected;
mod lanes;
pub mod language;
mod latency;
mod reduce;
mod residual;
mod select;
mod work_group;

use serde::Serialize;

use super::{Execution, Result, Unsupported, saturated};
use crate::device::{Extent, Gpu, KernelTable};
use crate::workload::{
    Class, Conv2d, DataType, Dimension, Layer, Movement, Operator, Pick, Recurrent, Reduction, Shape,
    Statistic, slices,
};

pub use crate::device::gpu::family::Linearisation;
pub use conv::{WINOGRAD_POINTS, WINOGRAD_SIDE, WINOGRAD_TILE};
use latency::Cost;
pub use residual::{correction, features};
pub use select::Kernel;
use work_group::Dispatch;

/// A kernel launch and the counts that decide its time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Launch {
    /// The kernel.
    pub kernel: Kernel,
    /// Output block of one thread: columns, rows, slices.
    pub tile: [u32; 3],
    /// Global size in threads, after linearisation; not rounded up to whole work-groups.
    pub grid: [u32; 3],
    /// Local size: threads of one work-group along each axis.
    pub work_group: [u32; 3],
    /// How columns, rows and slices were flattened into the grid.
    #[serde(skip)]
    pub linearisation: Linearisation,
    /// Work-groups of the launch.
    pub groups: u32,
    /// Threads of one work-group, the product over its axes.
    pub threads_per_group: u32,
    /// Waves of one work-group.
    pub waves_per_group: u32,
    /// Iterations of a thread's main loop.
    pub iterations: u32,
    /// Occupancy rounds in which every slot holds a work-group.
    pub full_rounds: u32,
    /// Work-groups in the last, partly filled round; 0 if the full rounds hold them all.
    pub last_round_groups: u32,
    /// Work-groups resident on the whole GPU at once; `None` for no limit.
    pub slots: Option<u32>,
    /// The largest contribution to the time.
    pub limit: Limit,
    /// Launches in the delegate's queue: this one and those around it, such as the converter of a product
    /// of activations or the steps of a norm. Winograd's three count as one, as the fits of the gap between
    /// launches (`[gpu.host]`) counted them.
    pub launches: u32,
    /// Factor by which the residual model scales the white-box time; `None` if the
    /// profile has no residual for the kernel.
    pub residual_factor: Option<f64>,
}

/// What bounds a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, strum::Display)]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    /// Launch overhead.
    #[strum(to_string = "the launch")]
    Launch,
    /// Latency of loop iterations: too few waves to hide it.
    #[strum(to_string = "loop latency (too few waves to hide it)")]
    Latency,
    /// The rate at which compute units retire wave iterations.
    #[strum(to_string = "throughput of the compute units")]
    Throughput,
    /// Memory traffic, and separate launches such as Winograd's transforms.
    #[strum(to_string = "memory traffic")]
    Traffic,
}

/// How `layer` runs on `gpu`.
///
/// The phases are the launch, further launches around the main kernel (such as Winograd's
/// transforms), the full occupancy rounds (one step each), the last round, the prologues
/// and epilogues of waves, and the traffic that the loop does not hide. Bytes count whole
/// slices of 16-bit channels.
///
/// # Errors
/// [`Unsupported`] if the profile lacks the parameter table of the kernel that the
/// delegate chooses.
pub fn execute(layer: &Layer, gpu: &Gpu) -> Result<Execution<Launch>> {
    let operator = &layer.operator;
    let output = extent(operator.output());
    let pick = |kernel, pick: &Pick| elementwise::pick(kernel, pick, operator.output(), gpu);
    let mut modelled = match operator.class() {
        Class::Product(product) if product.trained && product.rows == 1 => {
            let linear_us = gpu.fully_connected.linear_us.value;
            fully_connected::matrix_vector([product.inner, product.outputs], linear_us, layer, gpu)
        }
        Class::Product(product) => conv::of_product(product, layer, gpu),
        Class::Convolution(window) => convolution(window, layer, gpu)?,
        Class::Depthwise(conv) => depthwise::depthwise(conv, layer, gpu),
        Class::Pool(pool) if pool.is_global_average() => reduce::mean(pool.input, gpu),
        Class::Pool(pool) => reduce::pool(pool, gpu),
        Class::Reduction(Reduction::Pixels { input }) => reduce::mean(input, gpu),
        Class::Reduction(Reduction::Exponentials) => elementwise::softmax(operator.output(), gpu),
        Class::Reduction(Reduction::Normalisation(statistic))
            if is_decomposed(statistic, layer.data_type) =>
        {
            elementwise::decomposed_norm(operator.output(), statistic.steps(), gpu)
        }
        Class::Reduction(Reduction::Normalisation(_)) => elementwise::norm(output, gpu),
        Class::Elementwise(function) => elementwise::elementwise(&function, gpu),
        Class::Movement(Movement::Joined(concat)) if concat.dimension != Dimension::Channels => {
            elementwise::copy(Kernel::ConcatXy, output, gpu)
        }
        Class::Movement(Movement::Joined(concat)) => elementwise::concat(concat, layer, gpu),
        Class::Movement(Movement::Range(range)) => pick(Kernel::Slice, &range.pick()),
        Class::Movement(Movement::Transposed(transpose)) => pick(Kernel::Transpose, &transpose.pick()),
        Class::Movement(Movement::Padded(pad)) => pick(Kernel::Padding, &pad.pick()),
        Class::Movement(Movement::Resized(resize)) => elementwise::resize(resize, gpu),
        Class::Movement(Movement::Rearranged(moved)) => elementwise::reshape(moved.input, moved.output, gpu),
        Class::Gather(_) => elementwise::copy(Kernel::Gather, output, gpu),
        Class::Recurrent(recurrent) => return time_steps(recurrent, layer, gpu),
        Class::Generic(generic) => elementwise::generic(generic, gpu),
    };
    let operands = layer.linked.operand_tensors(layer.operator.output());
    let second_operands = (operands * output.bytes() as f64) as u64;
    if modelled.dispatch.kernel.table() == KernelTable::Elementwise {
        modelled.cost.traffic_us += gpu.elementwise.traffic_us_per_byte.value * second_operands as f64;
    }
    let mut execution = latency::execution(&modelled.dispatch, &modelled.cost, second_operands, gpu);
    residual::apply(layer, gpu, &mut execution);
    Ok(execution)
}

/// Whether the delegate has no fused kernel for a normalisation and runs reductions and element-wise
/// kernels instead. Language-model engines (16-bit activations, integer weights) do fuse RMS norms.
fn is_decomposed(statistic: Statistic, data_type: DataType) -> bool {
    match statistic {
        Statistic::MeanSquare => !data_type.is_weight_only(),
        Statistic::MeanAndVariance { in_steps } => in_steps,
        Statistic::NeighbourSquares { .. } => false,
    }
}

/// A recurrent layer: in every time step, the gates' product and their element-wise functions.
fn time_steps(recurrent: &Recurrent, layer: &Layer, gpu: &Gpu) -> Result<Execution<Launch>> {
    let of = |operator: Operator| execute(&Layer::new(operator, layer.data_type), gpu);
    let (mut product, functions) = (of(recurrent.product().into())?, of(recurrent.functions().into())?);
    functions.phases.as_slice().iter().for_each(|&phase| product.phases.merge(phase));
    product.phases.repeat(recurrent.steps);
    let launches = product.detail.launches + functions.detail.launches;
    product.detail.launches = launches.saturating_mul(recurrent.steps);
    Ok(product)
}

/// A convolution on the first kernel whose conditions hold, in the delegate's order.
fn convolution(window: &Conv2d, layer: &Layer, gpu: &Gpu) -> Result<Modelled> {
    let rules = gpu.family.rules();
    if select::needs_generic(window) {
        Ok(conv::generic(window, layer, gpu))
    } else if select::is_matrix_vector(window) {
        let features = [window.input.channels, window.output_channels];
        Ok(fully_connected::matrix_vector(features, 0.0, layer, gpu))
    } else if select::suits_winograd(window, rules) {
        conv::winograd(window, layer, gpu)
    } else if select::fits_constant_memory(window, rules) {
        conv::constants(window, layer, gpu)
    } else {
        Ok(conv::generic(window, layer, gpu))
    }
}

/// A dispatched kernel and the cost terms from which its time is computed.
#[derive(Clone, Copy)]
struct Modelled {
    dispatch: work_group::Dispatch,
    cost: latency::Cost,
}

/// Activation functions in the kernel's epilogue. The delegate runs 8-bit models in
/// floating point and links a quantise-dequantise function after every operator.
fn activations(layer: &Layer) -> u32 {
    layer.linked.activations() + u32::from(layer.data_type == DataType::I8)
}

/// 4x4 weight blocks of a convolution: each group has whole slices of its own.
fn weight_blocks(conv: &Conv2d) -> u64 {
    let group = [conv.group_channels(), conv.output_channels / conv.groups].map(slices);
    conv.window.taps() * u64::from(conv.groups) * u64::from(group[0]) * u64::from(group[1])
}

/// A tensor of `shape` in the delegate's layout, with channels in slices of four.
fn extent(shape: Shape) -> Extent {
    Extent { batch: shape.batch, width: shape.width, height: shape.height, slices: slices(shape.channels) }
}

/// The profile lacks `[gpu.{table}]`, the parameters of `kernel`.
fn missing_table(layer: &Layer, kernel: Kernel, table: &str) -> Unsupported {
    let reason =
        format!("the delegate runs it as {kernel}; add the table [gpu.{table}] to the device profile");
    Unsupported::new("GPU", &layer.operator, reason)
}

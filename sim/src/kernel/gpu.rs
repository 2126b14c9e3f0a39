//! How one layer runs on a GPU: the TFLite GPU delegate's dispatch rules and a
//! latency model of the launch they lead to.
//!
//! Responsible for: kernel selection (`select`),
//! grid and work-group (`work_group`), what the lanes of a wave share (`lanes`),
//! and the time of the launch (`latency`). Not for: other processors, or memory
//! contention. The rules are read from the delegate's sources (LiteRT) and
//! checked against the kernels that TFLite 2.15 ran on six phones
//! (mobile-ml-benchmark data set).
//! Invariant: nothing here allocates, so that a search may ask for every share.

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
use crate::device::{Extent, Gpu};
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
    /// What one thread computes: columns, rows, slices.
    pub tile: [u32; 3],
    /// Threads the launch needs, after linearisation.
    pub grid: [u32; 3],
    /// Threads of one work-group.
    pub work_group: [u32; 3],
    /// How the grid came from threads along columns, rows and slices.
    #[serde(skip)]
    pub linearisation: Linearisation,
    /// Work-groups.
    pub groups: u32,
    /// Threads of one work-group, its three axes together.
    pub threads_per_group: u32,
    /// Waves of one work-group.
    pub waves_per_group: u32,
    /// Trips of a thread's main loop.
    pub iterations: u32,
    /// Occupancy rounds in which every slot holds a group.
    pub full_rounds: u32,
    /// Groups of the last, partly filled round.
    pub last_round_groups: u32,
    /// Groups resident on the whole GPU at once; `None` for no limit.
    pub slots: Option<u32>,
    /// What takes the largest part of the time.
    pub limit: Limit,
    /// Factor on the time of the equations that was learned from runs of similar
    /// launches; `None` where the profile has no such correction of the kernel.
    pub residual_factor: Option<f64>,
}

/// What bounds a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, strum::Display)]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    /// Starting the kernel.
    #[strum(to_string = "the launch")]
    Launch,
    /// The latency of loop iterations: too few waves to hide it.
    #[strum(to_string = "loop latency (too few waves to hide it)")]
    Latency,
    /// The rate at which compute units retire wave iterations.
    #[strum(to_string = "throughput of the compute units")]
    Throughput,
    /// Bytes moved.
    #[strum(to_string = "memory traffic")]
    Traffic,
}

/// How `layer` runs on `gpu`.
///
/// The phases are the launch, the transforms of a Winograd convolution, the full
/// occupancy rounds (one step each), the last round, the prologues and epilogues of
/// waves, and the traffic which the loop does not hide. Bytes count whole slices of
/// 16-bit channels.
///
/// # Errors
/// [`Unsupported`] where the profile lacks the parameter table of the kernel that
/// the delegate chooses.
pub fn execute(layer: &Layer, gpu: &Gpu) -> Result<Execution<Launch>> {
    let operator = &layer.operator;
    let output = extent(operator.output());
    let mut operands = layer.linked.additions();
    let pick = |kernel, pick: &Pick| elementwise::pick(kernel, pick, operator.output(), gpu);
    let modelled = match operator.class() {
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
            if has_no_kernel(statistic, layer.data_type) =>
        {
            elementwise::norm_in_steps(operator.output(), statistic.steps(), gpu)
        }
        Class::Reduction(Reduction::Normalisation(_)) => elementwise::norm(output, gpu),
        Class::Elementwise(function) => elementwise::elementwise(&function, gpu),
        Class::Movement(Movement::Joined(concat)) if concat.dimension != Dimension::Channels => {
            elementwise::copy(Kernel::ConcatXy, output, gpu)
        }
        Class::Movement(Movement::Joined(concat)) => {
            operands = elementwise::tensor_operands(&layer.linked);
            elementwise::concat(concat, layer, gpu)
        }
        Class::Movement(Movement::Range(range)) => pick(Kernel::Slice, &range.pick()),
        Class::Movement(Movement::Transposed(transpose)) => pick(Kernel::Transpose, &transpose.pick()),
        Class::Movement(Movement::Padded(pad)) => pick(Kernel::Padding, &pad.pick()),
        Class::Movement(Movement::Resized(resize)) => elementwise::resize(resize, gpu),
        Class::Movement(Movement::Rearranged(moved)) => elementwise::reshape(moved.input, moved.output, gpu),
        Class::Gather(_) => elementwise::copy(Kernel::Gather, output, gpu),
        Class::Recurrent(recurrent) => return steps(recurrent, layer, gpu),
        Class::Generic(generic) => elementwise::generic(generic, gpu),
    };
    let second_operands = u64::from(operands) * output.bytes();
    let mut execution = latency::execution(&modelled.dispatch, &modelled.cost, second_operands, gpu);
    residual::apply(layer, gpu, &mut execution);
    Ok(execution)
}

/// Whether the delegate runs a normalisation in steps. Engines of language models, whose models have
/// 16-bit activations and integer weights, have a kernel for mean squares.
fn has_no_kernel(statistic: Statistic, data_type: DataType) -> bool {
    match statistic {
        Statistic::MeanSquare => !data_type.is_weight_only(),
        Statistic::MeanAndVariance { in_steps } => in_steps,
        Statistic::NeighbourSquares { .. } => false,
    }
}

/// The steps of a recurrent layer: for each, the product and the functions of its gates.
fn steps(recurrent: &Recurrent, layer: &Layer, gpu: &Gpu) -> Result<Execution<Launch>> {
    let of = |operator: Operator| execute(&Layer::new(operator, layer.data_type), gpu);
    let mut product = of(recurrent.product().into())?;
    for &phase in of(recurrent.functions().into())?.phases.as_slice() {
        product.phases.merge(phase);
    }
    product.phases.repeat(recurrent.steps);
    Ok(product)
}

/// A convolution by the first kernel that suits it, in the order in which the delegate tries them.
fn convolution(window: &Conv2d, layer: &Layer, gpu: &Gpu) -> Result<Modelled> {
    let rules = gpu.family.rules();
    if select::is_matrix_vector(window) {
        let features = [window.input.channels, window.output_channels];
        Ok(fully_connected::matrix_vector(features, 0.0, layer, gpu))
    } else if select::suits_winograd(window, rules) {
        conv::winograd(window, layer, gpu)
    } else if window.groups == 1 && select::fits_constant_memory(window, rules) {
        conv::constants(window, layer, gpu)
    } else {
        Ok(conv::generic(window, layer, gpu))
    }
}

/// A dispatched kernel and its cost, before time is computed.
struct Modelled {
    dispatch: work_group::Dispatch,
    cost: latency::Cost,
}

/// Activations that a kernel applies to what it computes. Behind each operator of a model in 8 bits,
/// which the delegate computes in floats, it rounds the result to the steps of its format.
fn activations(layer: &Layer) -> u32 {
    layer.linked.activations() + u32::from(layer.data_type == DataType::I8)
}

/// A tensor of `shape` as the delegate sees it.
fn extent(shape: Shape) -> Extent {
    Extent { batch: shape.batch, width: shape.width, height: shape.height, slices: slices(shape.channels) }
}

/// The layer's processor has no parameters for a kernel.
fn missing_table(layer: &Layer, kernel: Kernel, table: &str) -> Unsupported {
    let reason =
        format!("the delegate runs it as {kernel}; add the table [gpu.{table}] to the device profile");
    Unsupported::new("GPU", &layer.operator, reason)
}

//! How one layer runs on a GPU: the TFLite GPU delegate's dispatch rules and a
//! latency model of the launch they lead to.
//!
//! Responsible for: kernel selection (`select`), the tile of a thread (`tile`),
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
mod tile;
mod work_group;

use serde::Serialize;

use super::{Execution, Unsupported};
use crate::device::gpu::Gpu;
use crate::device::quantity::Quantity;
use crate::workload::{Layer, Operator, Shape, slices};

pub use residual::{correction, features};
pub use select::Kernel;

/// Bytes of one slice of one pixel: four 16-bit channels. The delegate computes
/// 32-bit models in 16 bits too.
const SLICE_BYTES: u64 = 8;

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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    /// Starting the kernel.
    Launch,
    /// The latency of loop iterations: too few waves to hide it.
    Latency,
    /// The rate at which compute units retire wave iterations.
    Throughput,
    /// Bytes moved.
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
pub fn execute(layer: &Layer, gpu: &Gpu) -> Result<Execution<Launch>, Unsupported> {
    let modelled = match &layer.operator {
        Operator::Linear(linear) if linear.rows == 1 => fully_connected::of_linear(linear, layer, gpu),
        Operator::Linear(linear) => conv::of_linear(linear, layer, gpu),
        Operator::MatMul(product) => conv::of_mat_mul(product, layer, gpu),
        Operator::Conv2d(conv) => match select::conv2d(conv, gpu) {
            Kernel::FullyConnected => fully_connected::of_conv(conv, layer, gpu),
            Kernel::Winograd => conv::winograd(conv, layer, gpu)?,
            Kernel::ConvConstants => conv::constants(conv, layer, gpu)?,
            _ => conv::generic(conv, layer, gpu),
        },
        Operator::DepthwiseConv2d(conv) => depthwise::depthwise(conv, layer, gpu),
        Operator::Pool(pool) if select::is_global_average(pool) => reduce::mean(pool.input, gpu),
        Operator::Pool(pool) => reduce::pool(pool, gpu),
        Operator::Mean(mean) => reduce::mean(mean.input, gpu),
        Operator::Concat(concat) => elementwise::concat(concat, layer, gpu),
        _ => elementwise::elementwise(&layer.operator, gpu),
    };
    let output = Extent::of(layer.operator.output());
    let operands = match layer.operator {
        Operator::Concat(_) => elementwise::tensor_operands(&layer.linked),
        _ => layer.linked.additions(),
    };
    let second_operands = u64::from(operands) * output.bytes();
    let mut execution = latency::execution(&modelled.dispatch, &modelled.cost, second_operands, gpu);
    residual::apply(layer, gpu, &mut execution);
    Ok(execution)
}

/// A dispatched kernel and its cost, before time is computed.
struct Modelled {
    dispatch: work_group::Dispatch,
    cost: latency::Cost,
}

/// A tensor as the delegate sees it: the batch is folded into the width, channels
/// are cut in slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Extent {
    width: u32,
    height: u32,
    slices: u32,
}

impl Extent {
    fn of(shape: Shape) -> Self {
        Self {
            width: shape.width.saturating_mul(shape.batch),
            height: shape.height,
            slices: slices(shape.channels),
        }
    }

    /// Texels of the tensor.
    fn texels(self) -> u64 {
        u64::from(self.width) * u64::from(self.height) * u64::from(self.slices)
    }

    /// Size in memory.
    fn bytes(self) -> u64 {
        self.texels() * SLICE_BYTES
    }
}

/// The layer's processor has no parameters for a kernel.
fn missing_table(layer: &Layer, kernel: Kernel, table: &str) -> Unsupported {
    Unsupported {
        processor: "GPU",
        operator: layer.operator.to_string(),
        reason: format!(
            "the delegate runs it as {kernel}; add the table [gpu.{table}] to the device profile"
        ),
    }
}

/// A parameter that a table may leave out, where it adds nothing.
fn value_or_zero(optional: Option<&Quantity>) -> f64 {
    optional.map_or(0.0, |quantity| quantity.value)
}

/// Narrows a count; a launch beyond 2^32 is no phone's business.
fn saturated(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

//! A layer ready to run on a device: kernels built, weights uploaded.
//!
//! Responsible for: choosing the steps of an operator on its tensors, running and timing them.
//! Invariant: a run allocates nothing on the device and sets no argument except the announced number.

pub(crate) mod arrangement;
mod builder;
mod pixelwise;
mod product;
mod winograd;

use std::sync::Arc;
use std::time::Duration;

use coexec_sim::Region;
use coexec_sim::kernel::gpu::{Kernel, Launch, Linearisation};
use coexec_sim::workload::{DataType, Layer, Layout, Operator, Shape};
use opencl3::event::Event;

use super::step::{Argument, ComputedPart, LaunchGrid, Operand, Step};
use super::{CHANNELS, OpenClError, Queued, Result, Runtime, Signals, Tensor, Timing};
use crate::cpu::Element;
use crate::operands::{self, OperandError, Weights};
use builder::Builder;

/// How a layer is launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dispatch {
    /// The kernel.
    pub kernel: Kernel,
    /// Outputs per thread: columns, rows, slices.
    pub tile: [u32; 3],
    /// Threads of a work-group.
    pub work_group: [u32; 3],
    /// Which axes of the grid are joined.
    pub linearisation: Linearisation,
}

impl From<&Launch> for Dispatch {
    fn from(launch: &Launch) -> Self {
        let &Launch { kernel, tile, work_group, linearisation, .. } = launch;
        Self { kernel, tile, work_group, linearisation }
    }
}

/// The shape in which a tensor of `operator` is stored. A batch of matrix products becomes the rows
/// of one image, as each product has weights of its own.
pub fn stored(operator: &Operator, shape: Shape) -> Shape {
    if operator.multiplies_activations() {
        Shape { batch: 1, height: shape.batch * shape.height, ..shape }
    } else {
        shape
    }
}

/// A layer, or a part of one, with its kernels, weights and tensors on a device.
pub struct Prepared<T: Element> {
    runtime: Arc<Runtime>,
    steps: Vec<Step<T>>,
}

impl<T: Element> Prepared<T> {
    /// Prepares `part` of `layer` to be launched as `dispatch` says. It reads the given inputs (the
    /// operator's own, then one for each linked binary function), which have one layout and the shapes
    /// that [`stored`] says, and writes its part of the output; in the plain layout the host may
    /// compute other parts, and a tensor may have any shape with the same number of elements. Parts
    /// along the channels are whole slices of four.
    ///
    /// # Errors
    /// Where the layer's number format is not `T` or not supported by the device, operator, weights
    /// or part are invalid or have no kernel, the number of inputs is wrong, a tensor has another
    /// shape or layout, a work-group is too large, or the device lacks memory.
    pub fn new(
        layer: &Layer,
        weights: &Weights<'_>,
        part: Region,
        tensors: (&[Arc<Tensor<T>>], &Arc<Tensor<T>>),
        dispatch: Dispatch,
    ) -> Result<Self> {
        Self::announcing(layer, weights, part, tensors, (dispatch, None))
    }

    /// As [`Self::new`], with kernels that can announce the layer's end through `signals`, which
    /// must outlive it.
    pub(crate) fn announcing(
        layer: &Layer,
        weights: &Weights<'_>,
        part: Region,
        (inputs, output): (&[Arc<Tensor<T>>], &Arc<Tensor<T>>),
        (dispatch, signals): (Dispatch, Option<&Signals>),
    ) -> Result<Self> {
        let runtime = output.runtime();
        let unsupported =
            |reason: String| OpenClError::Unsupported { operator: layer.operator.to_string(), reason };
        if layer.data_type != T::DATA_TYPE {
            let reason = format!("it is in {}, expected {}", layer.data_type, T::DATA_TYPE);
            return Err(unsupported(reason));
        }
        if T::DATA_TYPE == DataType::F16 && !runtime.device().half {
            return Err(OpenClError::NoHalf { device: runtime.device().name.clone() });
        }
        layer.operator.check().map_err(|error| unsupported(error.to_string()))?;
        weights.check(&layer.operator)?;
        operands::check_part(&layer.operator, part)?;
        let channels = layer.operator.output().channels;
        let whole_slices = part.channels.start.is_multiple_of(CHANNELS as u32)
            && (part.channels.end.is_multiple_of(CHANNELS as u32) || part.channels.end == channels);
        if !whole_slices || part.is_empty() {
            let found = part.channels.range();
            let expected = "a range of whole slices of four channels, and lines to compute".to_owned();
            return Err(OperandError::Part { which: "channels", found, expected }.into());
        }
        operands::check_inputs(layer, inputs.iter().map(|input| input.shape().elements() as usize))?;
        let layout = inputs.first().unwrap_or(output).layout();
        let operand = |tensor: &Arc<Tensor<T>>, shape: Shape, layout: Layout| {
            let (found, actual, expected) = (tensor.shape(), tensor.layout(), stored(&layer.operator, shape));
            let fits =
                found == expected || (layout == Layout::Buffer && found.elements() == expected.elements());
            if fits && actual == layout {
                return Ok(Operand { tensor: Arc::clone(tensor), shape: expected });
            }
            Err(unsupported(format!(
                "found a tensor of {found} in layout {actual:?}, expected {expected} in {layout:?}"
            )))
        };
        let read = inputs.iter().zip(layer.read_shapes()).map(|(input, shape)| operand(input, shape, layout));
        let inputs = read.collect::<Result<_>>()?;
        let output = operand(output, layer.operator.output(), output.layout())?;
        let steps = Vec::new();
        let mut builder =
            Builder { runtime, layer, part, weights, dispatch, layout, inputs, output, signals, steps };
        builder.build()?;
        Ok(Self { runtime: Arc::clone(runtime), steps: builder.steps })
    }

    /// Whether the layer's last kernel can announce its end.
    pub(crate) fn announces(&self) -> bool {
        self.steps.last().is_some_and(|last| last.kernel.announces())
    }

    /// Enqueues the layer's kernels, of which the last announces `number` if it announces at all,
    /// and returns their events in order.
    ///
    /// # Errors
    /// Where the driver rejects a launch.
    pub(crate) fn enqueue_announcing(&self, number: u32) -> Result<Vec<Event>> {
        if let Some(last) = self.steps.last() {
            last.kernel.announce(number)?;
        }
        self.steps.iter().map(|step| step.kernel.enqueue(&self.runtime)).collect()
    }

    /// Runs the layer once and waits for its end, at most for `limit`.
    ///
    /// # Errors
    /// Where the driver rejects a launch, or the device fails or exceeds the limit, in which case it
    /// is given up.
    pub fn run(&self, limit: Duration) -> Result<Timing> {
        self.queued()?.wait(limit)
    }

    /// Enqueues the layer's kernels, to be waited for later.
    ///
    /// # Errors
    /// As for [`Prepared::enqueue_announcing`].
    pub(crate) fn queued(&self) -> Result<Queued> {
        let last = self.steps.last().map_or("nothing", |step| step.kernel.name);
        Queued::new(&self.runtime, last, || self.enqueue_announcing(0))
    }
}

//! A layer ready to run on a device: kernels built, weights uploaded.
//!
//! Responsible for: choosing the steps of an operator, binding tensors to them, running and timing
//! them. Invariant: once bound, a run allocates nothing on the device and sets no argument except
//! the announced number.

pub(crate) mod arrangement;
mod builder;
mod pixelwise;
mod product;
mod step;
mod winograd;

use std::sync::Arc;
use std::time::{Duration, Instant};

use coexec_sim::Region;
use coexec_sim::kernel::gpu::{Kernel, Launch, Linearisation};
use coexec_sim::workload::{DataType, Layer, Layout, Operator, Shape};
use opencl3::event::Event;

use super::{CHANNELS, OpenClError, Result, Runtime, Signals, Tensor, Timing, wait};
use crate::cpu::Element;
use crate::operands::{self, OperandError, Weights};
use builder::Builder;
use step::Step;
use step::{Argument, ComputedPart, INPUT_TO_OUTPUT, LaunchGrid, TensorName};

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

/// The shape in which tensors of `operator` are stored. A batch of matrix products becomes the rows
/// of one image, as each product has weights of its own.
pub(super) fn stored(operator: &Operator, shape: Shape) -> Shape {
    if operator.multiplies_activations() {
        Shape { batch: 1, height: shape.batch * shape.height, ..shape }
    } else {
        shape
    }
}

/// A layer, or a part of one, with its kernels and weights on a device.
pub struct Prepared<T: Element> {
    runtime: Arc<Runtime>,
    layer: Layer,
    /// Layout of the layer's inputs.
    layout: Layout,
    /// Layout of the output.
    result: Layout,
    steps: Vec<Step<T>>,
    /// Intermediate tensors between the steps.
    inner: Vec<Tensor<T>>,
    /// The tensors that the steps' arguments refer to.
    bound: Vec<Arc<Tensor<T>>>,
}

impl<T: Element> Prepared<T> {
    /// Prepares `part` of `layer` to be launched as `dispatch` says. The inputs have the first
    /// layout, the output the second; in the plain layout the host may compute other parts. Parts
    /// along the channels are whole slices of four.
    ///
    /// # Errors
    /// Where the layer's number format is not `T` or not supported by the device, operator, weights
    /// or part are invalid or have no kernel, a work-group is too large, or the device lacks
    /// memory.
    pub fn new(
        runtime: &Arc<Runtime>,
        layer: &Layer,
        weights: &Weights<'_>,
        part: Region,
        layouts: [Layout; 2],
        dispatch: Dispatch,
    ) -> Result<Self> {
        Self::announcing(runtime, layer, weights, part, layouts, (dispatch, None))
    }

    /// As [`Self::new`], with kernels that can announce the layer's end through `signals`, which
    /// must outlive it.
    pub(crate) fn announcing(
        runtime: &Arc<Runtime>,
        layer: &Layer,
        weights: &Weights<'_>,
        part: Region,
        [layout, result]: [Layout; 2],
        (dispatch, signals): (Dispatch, Option<&Signals>),
    ) -> Result<Self> {
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
        let mut builder = Builder {
            runtime,
            layer,
            part,
            weights,
            dispatch,
            layout,
            result,
            signals,
            steps: Vec::new(),
            inner: Vec::new(),
        };
        builder.build()?;
        let Builder { steps, inner, .. } = builder;
        Ok(Self {
            runtime: Arc::clone(runtime),
            layer: layer.clone(),
            layout,
            result,
            steps,
            inner,
            bound: Vec::new(),
        })
    }

    /// Shapes of the layer's inputs as they are stored on the device: the operator's own, then the operands of
    /// linked functions.
    pub fn input_shapes(&self) -> impl Iterator<Item = Shape> + '_ {
        self.layer.read_shapes().map(|shape| stored(&self.layer.operator, shape))
    }

    /// Shape of the whole output as it is stored on the device.
    pub fn output_shape(&self) -> Shape {
        stored(&self.layer.operator, self.layer.operator.output())
    }

    /// Makes later runs read `inputs` (the operator's own, then one for each linked binary
    /// function) and write the part of `output`. In the plain layout a tensor may have any shape
    /// with the same number of elements.
    ///
    /// # Errors
    /// Where the number of inputs is wrong, or a tensor has another shape or layout.
    pub fn bind(&mut self, inputs: Vec<Arc<Tensor<T>>>, output: Arc<Tensor<T>>) -> Result<()> {
        let result = self.output_shape();
        let found = inputs.iter().map(|input| input.shape().elements() as usize);
        operands::check_inputs(&self.layer, found)?;
        let mut extents = Vec::with_capacity(inputs.len());
        for (input, expected) in inputs.iter().zip(self.input_shapes()) {
            self.check_tensor(input, expected, self.layout)?;
            extents.push(expected.into());
        }
        self.check_tensor(&output, result, self.result)?;
        for step in &self.steps {
            step.bind((&inputs, &extents), (&output, result.into()), &self.inner)?;
        }
        self.bound = inputs;
        self.bound.push(output);
        Ok(())
    }

    fn check_tensor(&self, tensor: &Tensor<T>, expected: Shape, layout: Layout) -> Result<()> {
        let found = tensor.shape();
        let fits = found == expected || (layout == Layout::Buffer && found.elements() == expected.elements());
        if fits && tensor.layout() == layout {
            return Ok(());
        }
        let operator = self.layer.operator.to_string();
        let actual = tensor.layout();
        let reason =
            format!("found a tensor of {found} in layout {actual:?}, expected {expected} in {layout:?}");
        Err(OpenClError::Unsupported { operator, reason })
    }

    /// Whether the layer's last kernel can announce its end.
    pub(crate) fn announces(&self) -> bool {
        self.steps.last().is_some_and(|last| last.kernel.announces())
    }

    /// Enqueues the layer's kernels, of which the last announces `number` if it announces at all,
    /// and returns their events in order.
    ///
    /// # Errors
    /// Where nothing was bound, or the driver rejects a launch.
    pub(crate) fn enqueue_announcing(&self, number: u32) -> Result<Vec<Event>> {
        if let Some(last) = self.steps.last() {
            last.kernel.announce(number)?;
        }
        if self.bound.is_empty() {
            let expected = self.layer.operator.inputs().len();
            return Err(OperandError::count(0, expected, "inputs").into());
        }
        self.steps.iter().map(|step| step.kernel.enqueue(&self.runtime)).collect()
    }

    /// Runs the layer once and waits for its end, at most for `limit`.
    ///
    /// # Errors
    /// Where nothing was bound, the driver rejects a launch, or the device fails or exceeds the
    /// limit, in which case it is given up.
    pub fn run(&self, limit: Duration) -> Result<Timing> {
        self.queued()?.wait(limit)
    }

    /// Enqueues the layer's kernels, to be waited for later.
    ///
    /// # Errors
    /// As for [`Prepared::enqueue_announcing`].
    pub(crate) fn queued(&self) -> Result<Queued> {
        let started = Instant::now();
        let last = self.steps.last().map_or("nothing", |step| step.kernel.name);
        Ok(Queued { runtime: Arc::clone(&self.runtime), events: self.enqueue_announcing(0)?, last, started })
    }
}

/// A layer whose kernels are enqueued.
pub(crate) struct Queued {
    runtime: Arc<Runtime>,
    events: Vec<Event>,
    /// Name of its last kernel.
    last: &'static str,
    started: Instant,
}

impl Queued {
    /// Waits for the layer's end, at most for `limit`.
    ///
    /// # Errors
    /// Where the device fails or exceeds the limit, in which case it is given up.
    pub(crate) fn wait(self, limit: Duration) -> Result<Timing> {
        if let Some(event) = self.events.last() {
            wait(&self.runtime, event, self.last, limit)?;
        }
        Timing::of(&self.events, self.started.elapsed())
    }
}

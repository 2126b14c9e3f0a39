//! A layer ready to run on a device: kernels built, weights in place.
//!
//! Responsible for: choosing the steps of an operator, binding tensors to them, running
//! and timing them. Invariant: once bound, a run allocates nothing on the device and
//! sets no argument but the number it announces.

mod arranged;
mod builder;
mod copies;
mod pixelwise;
mod product;
mod step;
mod window;
mod winograd;

use std::sync::Arc;
use std::time::{Duration, Instant};

use coexec_sim::workload::{DataType, Layer, Layout, Shape, check_operator};
use opencl3::event::Event;

use super::dispatch::{Dispatch, stored};
use super::error::OpenClError;
use super::runtime::Runtime;
use super::signals::Signals;
use super::tensor::Tensor;
use super::timing::{Timing, wait};
use super::weights::CHANNELS;
use crate::cpu::Element;
use crate::operands::{OperandError, Part, Weights};
use builder::Builder;
use step::Step;

/// A layer, or a part of one, with its kernels and weights on a device.
pub struct Prepared<T: Element> {
    runtime: Arc<Runtime>,
    layer: Layer,
    part: Part,
    dispatch: Dispatch,
    /// Layout of the inputs it is given.
    given: Layout,
    /// Layout of the output.
    result: Layout,
    steps: Vec<Step<T>>,
    /// Tensors between the steps.
    inner: Vec<Tensor<T>>,
    /// What the steps' arguments refer to.
    bound: Option<Bound<T>>,
}

struct Bound<T> {
    _inputs: Vec<Arc<Tensor<T>>>,
    _output: Arc<Tensor<T>>,
}

impl<T: Element> Prepared<T> {
    /// Prepares `part` of `layer` to be launched as `dispatch` says, on inputs in the first
    /// of the layouts and an output in the second: the same, or the plain one, of which the
    /// host may compute other parts. Parts along the channels are whole slices of four.
    ///
    /// # Errors
    /// Where the layer's number format is not `T` or not the device's, operator,
    /// weights or part make no sense or have no kernel, a work-group is too large, or
    /// the device has no room.
    pub fn new(
        runtime: &Arc<Runtime>,
        layer: &Layer,
        weights: &Weights<'_>,
        part: &Part,
        [layout, result]: [Layout; 2],
        dispatch: Dispatch,
    ) -> Result<Self, OpenClError> {
        Self::prepare(runtime, layer, weights, part, ([layout; 2], result), (dispatch, None))
    }

    /// The same with a plain output, which can tell the host of its end through `signals`,
    /// which outlive it. Inputs are given in the first of the `layouts`; where kernels read
    /// them again and again, they are brought into the second one before.
    pub(crate) fn announcing(
        runtime: &Arc<Runtime>,
        layer: &Layer,
        weights: &Weights<'_>,
        part: &Part,
        layouts: [Layout; 2],
        (dispatch, signals): (Dispatch, Option<&Signals>),
    ) -> Result<Self, OpenClError> {
        Self::prepare(runtime, layer, weights, part, (layouts, Layout::Buffer), (dispatch, signals))
    }

    fn prepare(
        runtime: &Arc<Runtime>,
        layer: &Layer,
        weights: &Weights<'_>,
        part: &Part,
        (layouts, result): ([Layout; 2], Layout),
        (dispatch, signals): (Dispatch, Option<&Signals>),
    ) -> Result<Self, OpenClError> {
        let unsupported =
            |reason: String| OpenClError::Unsupported { operator: layer.operator.to_string(), reason };
        if layer.data_type != T::DATA_TYPE {
            let reason = format!("it is in {}, expected {}", layer.data_type, T::DATA_TYPE);
            return Err(unsupported(reason));
        }
        if T::DATA_TYPE == DataType::F16 && !runtime.device().half {
            return Err(OpenClError::NoHalf { device: runtime.device().name.clone() });
        }
        check_operator(&layer.operator).map_err(|error| unsupported(error.to_string()))?;
        weights.check(&layer.operator)?;
        part.check(&layer.operator)?;
        let channels = layer.operator.output().channels;
        let whole_slices = part.channels.start.is_multiple_of(CHANNELS as u32)
            && (part.channels.end.is_multiple_of(CHANNELS as u32) || part.channels.end == channels);
        if !whole_slices || part.channels.is_empty() || part.lines.is_empty() {
            let found = part.channels.clone();
            let expected = "a range of whole slices of four channels, and lines to compute".to_owned();
            return Err(OperandError::Part { which: "channels", found, expected }.into());
        }
        let given = layouts[0];
        let layout = arranged::read_layout(layer, layouts);
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
        if layout != given {
            builder.arrange()?;
        }
        let Builder { steps, inner, .. } = builder;
        Ok(Self {
            runtime: Arc::clone(runtime),
            layer: layer.clone(),
            part: part.clone(),
            dispatch,
            given,
            result,
            steps,
            inner,
            bound: None,
        })
    }

    /// The layer.
    pub fn layer(&self) -> &Layer {
        &self.layer
    }

    /// The part that is computed.
    pub fn part(&self) -> &Part {
        &self.part
    }

    /// How the layer is launched.
    pub fn dispatch(&self) -> &Dispatch {
        &self.dispatch
    }

    /// Shapes of the operator's own inputs, as tensors on the device have them.
    pub fn input_shapes(&self) -> Vec<Shape> {
        self.layer.operator.inputs().into_iter().map(|shape| stored(&self.layer.operator, shape)).collect()
    }

    /// Shape of the whole output, as a tensor on the device has it; also that of the
    /// operands of linked functions, which may instead hold one value a channel.
    pub fn output_shape(&self) -> Shape {
        stored(&self.layer.operator, self.layer.operator.output())
    }

    /// Makes every later run read `inputs` (the operator's own, then one for each
    /// linked function of two tensors) and write its part of `output`. In plain layout a
    /// tensor may have any shape of as many elements.
    ///
    /// # Errors
    /// Where there are too few or too many inputs, or one has another shape or layout.
    pub fn bind(&mut self, inputs: Vec<Arc<Tensor<T>>>, output: Arc<Tensor<T>>) -> Result<(), OpenClError> {
        let own = self.input_shapes();
        let linked = self.layer.linked.functions().iter().filter(|function| function.is_binary()).count();
        if inputs.len() != own.len() + linked {
            let expected = own.len() + linked;
            return Err(OperandError::InputCount { found: inputs.len(), expected }.into());
        }
        let result = self.output_shape();
        let mut extents = Vec::with_capacity(inputs.len());
        for (index, input) in inputs.iter().enumerate() {
            let expected = own.get(index).copied().unwrap_or(result);
            let broadcast = index >= own.len() && input.shape() == Shape::image(1, 1, result.channels);
            if broadcast {
                extents.push(input.extent());
            } else {
                self.check_tensor(input, expected, Some(index))?;
                extents.push(expected.into());
            }
        }
        self.check_tensor(&output, result, None)?;
        for step in &self.steps {
            step.bind((&inputs, &extents), (&output, result.into()), &self.inner)?;
        }
        self.bound = Some(Bound { _inputs: inputs, _output: output });
        Ok(())
    }

    fn check_tensor(
        &self,
        tensor: &Tensor<T>,
        expected: Shape,
        input: Option<usize>,
    ) -> Result<(), OpenClError> {
        let [found, elements] = [tensor.shape(), expected].map(|shape| shape.elements() as usize);
        let layout = if input.is_some() { self.given } else { self.result };
        let fits = tensor.shape() == expected || (layout == Layout::Buffer && found == elements);
        if tensor.layout() != layout || !fits {
            return Err(match input {
                Some(index) if found != elements => {
                    OperandError::InputLength { index, found, expected: elements }.into()
                }
                None if found != elements => OperandError::OutputLength { found, expected: elements }.into(),
                _ => OpenClError::Unsupported {
                    operator: self.layer.operator.to_string(),
                    reason: format!(
                        "found a tensor of {} in layout {:?}, expected {expected} in {:?}",
                        tensor.shape(),
                        tensor.layout(),
                        layout
                    ),
                },
            });
        }
        Ok(())
    }

    /// Puts the layer's kernels in the queue and returns their events in order.
    ///
    /// # Errors
    /// Where nothing was bound, or the driver refuses a launch.
    pub fn enqueue(&self) -> Result<Vec<(&'static str, Event)>, OpenClError> {
        self.enqueue_announcing(0)
    }

    /// Whether the layer's last kernel can tell the host of its end.
    pub(crate) fn announces(&self) -> bool {
        self.steps.last().is_some_and(Step::announces)
    }

    /// The same, of which the last kernel announces `number` where it announces anything.
    pub(crate) fn enqueue_announcing(&self, number: u32) -> Result<Vec<(&'static str, Event)>, OpenClError> {
        if let Some(last) = self.steps.last() {
            last.announce(number)?;
        }
        if self.bound.is_none() {
            let expected = self.layer.operator.inputs().len();
            return Err(OperandError::InputCount { found: 0, expected }.into());
        }
        self.steps.iter().map(|step| Ok((step.name, step.enqueue(&self.runtime)?))).collect()
    }

    /// Runs the layer once and waits for its end, at most for `limit`.
    ///
    /// # Errors
    /// As [`Prepared::enqueue`], or where the device fails or does not finish in time:
    /// then it is given up and waited for no more.
    pub fn run(&self, limit: Duration) -> Result<Timing, OpenClError> {
        Ok(self.run_times(1, limit)?.swap_remove(0))
    }

    /// Runs the layer `count` times (at least once), one behind the other in the queue,
    /// and waits for the end of the last, at most for `limit`: a time for each, of which
    /// the host's clock saw but the whole.
    ///
    /// # Errors
    /// As [`Prepared::run`].
    pub fn run_times(&self, count: usize, limit: Duration) -> Result<Vec<Timing>, OpenClError> {
        let started = Instant::now();
        let runs = (0..count.max(1)).map(|_| self.enqueue()).collect::<Result<Vec<_>, _>>()?;
        if let Some((name, last)) = runs.last().and_then(|events| events.last()) {
            wait(&self.runtime, last, name, limit)?;
        }
        let wall = started.elapsed();
        runs.iter().map(|events| Timing::of(events, wall)).collect()
    }
}

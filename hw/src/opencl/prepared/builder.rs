//! From an operator to the steps that compute it.
//!
//! Responsible for: the sequence of steps and what they have in common. Not for: the arguments of each
//! kind of operator (the other files of this directory), or running the steps.

use std::sync::Arc;

use coexec_sim::kernel::gpu::Kernel;
use coexec_sim::plan::{Region, Span};
use coexec_sim::workload::{
    Class, Elementwise, Layer, Layout, Movement, Reduction, Shape, Statistic, Window, slices,
};

use super::{Argument, ComputedPart, Dispatch, LaunchGrid, Operand, Step, stored};
use crate::cpu::Element;
use crate::opencl::{CHANNELS, Home, OpenClError, Result, Runtime, Signals, Source, Tensor, weights};
use crate::operands::Weights;

/// Shared state while the steps of a layer are built.
pub(super) struct Builder<'a, T> {
    pub(super) runtime: &'a Arc<Runtime>,
    pub(super) layer: &'a Layer,
    pub(super) part: Region,
    pub(super) weights: &'a Weights<'a>,
    pub(super) dispatch: Dispatch,
    /// Layout of the inputs, and of what is between the steps.
    pub(super) layout: Layout,
    pub(super) inputs: Vec<Operand<T>>,
    pub(super) output: Operand<T>,
    /// Flags through which the step that writes the output announces its end.
    pub(super) signals: Option<&'a Signals>,
    pub(super) steps: Vec<Step<T>>,
}

impl<T: Element> Builder<'_, T> {
    pub(super) fn build(&mut self) -> Result<()> {
        let layer = self.layer;
        let operator = &layer.operator;
        match (operator.class(), self.dispatch.kernel) {
            (Class::Product(product), Kernel::FullyConnected)
                if product.trained && self.computes_one_row() =>
            {
                self.fully_connected([product.inner, product.outputs])
            }
            (Class::Convolution(conv), Kernel::FullyConnected)
                if conv.window.is_pointwise() && conv.input.pixels() == 1 && conv.groups == 1 =>
            {
                self.fully_connected([conv.input.channels, conv.output_channels])
            }
            (Class::Product(product), Kernel::ConvGeneric) if product.trained => {
                self.packed_product(self.dense_blocks([product.inner, product.outputs]), Window::valid(1))
            }
            (Class::Product(product), Kernel::MatMul) if !product.trained => self.mat_mul(product),
            (Class::Convolution(conv), Kernel::Winograd)
                if conv.window.kernel == [3; 2]
                    && conv.window.stride == [1; 2]
                    && conv.window.dilation == [1; 2]
                    && conv.groups == 1 =>
            {
                self.winograd(conv)
            }
            (Class::Convolution(conv), Kernel::ConvConstants) if conv.groups == 1 => {
                self.conv_constants(conv)
            }
            (Class::Convolution(conv), Kernel::ConvGeneric | Kernel::GroupedConv) => self.conv2d(conv),
            // For these the simulator's rules have one kernel each, or variants that differ little.
            (Class::Depthwise(conv), kernel) => self.depthwise(conv, kernel),
            (Class::Pool(pool), Kernel::Mean) if pool.is_global_average() => self.mean(pool.input),
            (Class::Pool(pool), _) => self.pool(pool),
            (Class::Reduction(Reduction::Pixels { input }), _) => self.mean(input),
            (Class::Reduction(Reduction::Exponentials), Kernel::Softmax1x1) => self.shared_softmax(),
            (Class::Reduction(Reduction::Exponentials), _) => self.softmax(),
            (Class::Reduction(Reduction::Normalisation(statistic)), _) => self.normalised(statistic),
            (Class::Elementwise(_), _) if operator.folds() => self.batch_norm(),
            (Class::Elementwise(elementwise), _) => self.elementwise(elementwise),
            (Class::Movement(movement), _) => self.movement(&movement),
            (Class::Gather(table), _) => self.embedding(table.vocabulary),
            (Class::Generic(generic), _) => self.generic(generic),
            (Class::Product(_) | Class::Convolution(_) | Class::Recurrent(_), kernel) => {
                Err(self.unsupported(format!("there is no kernel {kernel} for it")))
            }
        }
    }

    /// A normalisation: three launches by mean squares, else one, even where the delegate takes
    /// several.
    fn normalised(&mut self, statistic: Statistic) -> Result<()> {
        match statistic {
            Statistic::MeanAndVariance { .. } => self.norm(None),
            Statistic::NeighbourSquares { channels } => self.norm(Some(channels)),
            Statistic::MeanSquare => self.mean_square_norm(),
        }
    }

    /// An operator that moves elements.
    fn movement(&mut self, movement: &Movement<'_>) -> Result<()> {
        match *movement {
            Movement::Joined(concat) => self.concat(concat),
            Movement::Range(slice) => self.pick(&slice.pick()),
            Movement::Transposed(transpose) => self.pick(&transpose.pick()),
            Movement::Padded(pad) => self.pick(&pad.pick()),
            Movement::Resized(resize) => self.resize(resize),
            Movement::Rearranged(moved) => self.reshape(moved.input),
        }
    }

    /// Whether the part is a single row of a product. It then uses the matrix-vector kernel,
    /// however many rows the product has.
    fn computes_one_row(&self) -> bool {
        let part = self.part.part_of(self.layer);
        matches!(part.operator.class(), Class::Product(product) if product.rows == 1)
    }

    /// Appends a kernel of `source`; if it writes the output, it does so in the output's layout.
    pub(super) fn append(
        &mut self,
        source: &Source,
        entry: &'static str,
        grid: LaunchGrid,
        arguments: Vec<Argument<T>>,
    ) -> Result<()> {
        let output = &self.output.tensor;
        let writes_result = arguments
            .iter()
            .any(|argument| matches!(argument, Argument::Tensor(tensor) if Arc::ptr_eq(tensor, output)));
        let mut source = source.clone();
        source.result(if writes_result { output.layout() } else { self.layout });
        let signals = self.signals.filter(|_| writes_result);
        self.steps.push(Step::new(self.runtime, (source, signals), entry, grid, arguments)?);
        Ok(())
    }

    /// Appends a kernel from the first input to the output. `weights` are its arguments between the
    /// two tensors, `more` those after the extents and the region. It applies the layer's linked
    /// functions.
    pub(super) fn push(
        &mut self,
        source: &Source,
        entry: &'static str,
        threads: [u32; 3],
        weights: Vec<Argument<T>>,
        more: Vec<Argument<T>>,
    ) -> Result<()> {
        let grid = LaunchGrid { threads, work_group: self.dispatch.work_group };
        let [input, output] = self.input_to_output();
        self.push_between([&input, &output], self.region(), (source, entry), grid, [weights, more])
    }

    /// Appends a kernel from the first of two tensors to the second, of which `region` is computed.
    pub(super) fn push_between(
        &mut self,
        [from, to]: [&Operand<T>; 2],
        region: ComputedPart,
        (source, entry): (&Source, &'static str),
        grid: LaunchGrid,
        [weights, more]: [Vec<Argument<T>>; 2],
    ) -> Result<()> {
        let mut arguments = vec![from.memory()];
        arguments.extend(weights);
        arguments.extend([to.memory(), from.extent(), to.extent(), Argument::part(region)]);
        arguments.extend(more);
        if Arc::ptr_eq(&to.tensor, &self.output.tensor) {
            arguments.extend(self.linked_operands());
        }
        self.append(source, entry, grid, arguments)
    }

    /// The tensors of most kernels.
    pub(super) fn input_to_output(&self) -> [Operand<T>; 2] {
        [self.inputs[0].clone(), self.output.clone()]
    }

    /// A tensor of `shape` between two steps.
    pub(super) fn inner(&self, shape: Shape) -> Result<Operand<T>> {
        let tensor = Arc::new(Tensor::new(self.runtime, shape, self.layout, Home::Device)?);
        Ok(Operand { tensor, shape })
    }

    /// Constant data in a device buffer.
    pub(super) fn constants(&self, numbers: &[T]) -> Result<Argument<T>> {
        Ok(Argument::Buffer(Arc::new(self.runtime.buffer_of(numbers)?)))
    }

    /// One of `values` per computed channel, padded with zeros.
    pub(super) fn per_channel(&self, values: &[f32]) -> Result<Argument<T>> {
        self.constants(&weights::per_channel::<T>(values, self.first_channel(), self.slices()))
    }

    /// Rejects a part of the channels, because a thread needs all channels of a pixel.
    pub(super) fn check_whole_pixels(&self) -> Result<()> {
        if self.part.channels == Span::new(0, self.layer.operator.output().channels) {
            return Ok(());
        }
        Err(self.unsupported("a thread needs all channels of a pixel".to_owned()))
    }

    pub(super) fn unsupported(&self, reason: String) -> OpenClError {
        OpenClError::Unsupported { operator: self.layer.operator.to_string(), reason }
    }

    pub(super) fn first_channel(&self) -> usize {
        self.part.channels.start as usize
    }

    /// Number of output slices that are computed.
    pub(super) fn slices(&self) -> usize {
        slices(self.part.channels.length()) as usize
    }

    /// The part of the stored output that is computed.
    pub(super) fn region(&self) -> ComputedPart {
        let stored = self.output.shape;
        let mut part = ComputedPart {
            first: [0, 0, self.part.channels.start / CHANNELS as u32],
            size: [stored.width * stored.batch, stored.height, self.slices() as u32],
            images: stored.batch,
        };
        // Without a height, rows of the part are tokens, which are stored as columns.
        let height = self.layer.operator.output().height;
        let (axis, unit) = if height > 1 { (1, stored.height / height) } else { (0, stored.batch) };
        part.first[axis] = self.part.rows.start * unit;
        part.size[axis] = self.part.rows.length() * unit;
        part
    }

    /// The source of a kernel on tensors that applies the layer's linked functions.
    pub(super) fn source(&self, name: &'static str, body: &'static str) -> Source {
        self.source_linking(name, body, &self.linked())
    }

    pub(super) fn source_linking(
        &self,
        name: &'static str,
        body: &'static str,
        functions: &[Elementwise],
    ) -> Source {
        let mut source = Source::of_tensors(name, body, T::DATA_TYPE, self.layout);
        let operator = &self.layer.operator;
        source.link(functions, operator.multiplies_activations());
        let read = operator.inputs().into_iter().map(|shape| stored(operator, shape));
        if read.chain([self.output.shape]).any(|shape| shape.batch > 1) {
            source.option("BATCHED");
        }
        source
    }

    /// The layer's linked functions.
    pub(super) fn linked(&self) -> Vec<Elementwise> {
        self.layer.linked.operators(self.layer.operator.output()).collect()
    }

    /// The arguments of the layer's linked functions: tensors and extents of the inputs after the
    /// operator's own.
    pub(super) fn linked_operands(&self) -> Vec<Argument<T>> {
        let own = self.layer.operator.inputs().len();
        self.inputs[own..].iter().flat_map(|input| [input.memory(), input.extent()]).collect()
    }
}

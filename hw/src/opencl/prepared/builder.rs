//! From an operator to the steps that compute it.
//!
//! Responsible for: which steps there are, and what all of them have in common. Not for:
//! the arguments of each kind of operator (the files beside this one), or running them.

use std::sync::Arc;

use coexec_sim::kernel::gpu::Kernel;
use coexec_sim::workload::{Function, Layer, Layout, NormKind, Operator, PoolKind, Shape, slices};

use super::super::dispatch::{Dispatch, stored};
use super::super::error::OpenClError;
use super::super::runtime::Runtime;
use super::super::signals::Signals;
use super::super::source::Source;
use super::super::tensor::Tensor;
use super::super::weights::CHANNELS;
use super::step::{Argument, Grid, Region, Step};
use crate::cpu::Element;
use crate::operands::{Part, Weights};

/// What the steps of every operator are made from.
pub(super) struct Builder<'a, T> {
    pub(super) runtime: &'a Arc<Runtime>,
    pub(super) layer: &'a Layer,
    pub(super) part: &'a Part,
    pub(super) weights: &'a Weights<'a>,
    pub(super) dispatch: Dispatch,
    pub(super) layout: Layout,
    pub(super) result: Layout,
    /// Through which the step that writes the output announces itself.
    pub(super) signals: Option<&'a Signals>,
    pub(super) steps: Vec<Step<T>>,
    pub(super) inner: Vec<Tensor<T>>,
}

impl<T: Element> Builder<'_, T> {
    pub(super) fn build(&mut self) -> Result<(), OpenClError> {
        match (&self.layer.operator, self.dispatch.kernel) {
            (Operator::Linear(linear), Kernel::FullyConnected) if linear.rows == 1 => {
                self.fully_connected([linear.input_features, linear.output_features])
            }
            (Operator::Conv2d(conv), Kernel::FullyConnected)
                if conv.is_pointwise() && conv.input.pixels() == 1 && conv.groups == 1 =>
            {
                self.fully_connected([conv.input.channels, conv.output_channels])
            }
            (Operator::Linear(linear), Kernel::ConvGeneric) => self.linear(*linear),
            (Operator::MatMul(product), Kernel::MatMul) => self.mat_mul(*product),
            (Operator::Conv2d(conv), Kernel::Winograd)
                if conv.kernel == [3; 2]
                    && conv.stride == [1; 2]
                    && conv.dilation == [1; 2]
                    && conv.groups == 1 =>
            {
                self.winograd(conv)
            }
            (Operator::Conv2d(conv), Kernel::ConvConstants) if conv.groups == 1 => self.conv_constants(conv),
            (Operator::Conv2d(conv), Kernel::ConvGeneric | Kernel::GroupedConv) => self.conv2d(conv),
            (
                Operator::DepthwiseConv2d(conv),
                kernel @ (Kernel::Depthwise3x3 | Kernel::DepthwiseGeneric | Kernel::DepthwiseStrideH2),
            ) => self.depthwise(conv, kernel),
            (Operator::Pool(pool), Kernel::Pool) => self.pool(pool),
            (Operator::Pool(pool), Kernel::Mean)
                if pool.kind == PoolKind::Average
                    && pool.kernel == [pool.input.height, pool.input.width]
                    && pool.output().pixels() == u64::from(pool.input.batch) =>
            {
                self.mean(pool.input)
            }
            (Operator::Mean(mean), Kernel::Mean) => self.mean(mean.input),
            (Operator::Concat(concat), Kernel::Concat) => self.concat(concat),
            (Operator::Elementwise(elementwise), Kernel::Elementwise) => {
                self.elementwise(elementwise.function)
            }
            (Operator::Norm(norm), Kernel::Elementwise) if norm.kind == NormKind::Batch => {
                self.batch_norm(norm.input)
            }
            (Operator::Softmax(_), Kernel::Softmax) => self.softmax(),
            (Operator::Norm(norm), Kernel::Norm) if norm.kind != NormKind::Batch => self.norm(*norm),
            (Operator::Slice(slice), Kernel::Slice) => self.slice(*slice),
            (Operator::Reshape(reshape), Kernel::Reshape) => self.reshape(*reshape),
            (Operator::Embedding(table), Kernel::Gather) => self.embedding(*table),
            (_, kernel) => Err(self.unsupported(format!("there is no kernel {kernel} for it"))),
        }
    }

    /// A kernel of `source`; one that writes the output does so in the output's layout.
    pub(super) fn step(
        &self,
        source: &Source,
        entry: &'static str,
        grid: Grid,
        arguments: Vec<Argument<T>>,
    ) -> Result<Step<T>, OpenClError> {
        let writes_result = arguments.iter().any(|argument| matches!(argument, Argument::Output));
        let mut source = source.clone();
        if writes_result && self.result != self.layout {
            source.option("PLAIN_RESULT");
        }
        match self.signals.filter(|_| writes_result) {
            Some(signals) => Step::announcing(self.runtime, (&source, signals), entry, grid, arguments),
            None => Step::new(self.runtime, &source, entry, grid, arguments),
        }
    }

    pub(super) fn unsupported(&self, reason: String) -> OpenClError {
        OpenClError::Unsupported { operator: self.layer.operator.to_string(), reason }
    }

    /// The whole output, as it is stored.
    pub(super) fn output(&self) -> Shape {
        stored(&self.layer.operator, self.layer.operator.output())
    }

    pub(super) fn first_channel(&self) -> usize {
        self.part.channels.start as usize
    }

    /// Output slices that are computed.
    pub(super) fn slices(&self) -> usize {
        slices(self.part.channels.end - self.part.channels.start) as usize
    }

    pub(super) fn region(&self) -> Region {
        let stored = self.output();
        let lines = &self.part.lines;
        let count = (lines.end - lines.start) as i32;
        let mut region = Region {
            x: 0,
            y: 0,
            slice: (self.first_channel() / CHANNELS) as i32,
            width: (stored.width * stored.batch) as i32,
            height: stored.height as i32,
            slices: self.slices() as i32,
        };
        // Lines are rows where the output, as the operator has it, has several.
        if self.layer.operator.output().height > 1 {
            (region.y, region.height) = (lines.start as i32, count);
        } else {
            let batch = stored.batch as i32;
            (region.x, region.width) = (lines.start as i32 * batch, count * batch);
        }
        region
    }

    /// The source of a kernel on tensors with the layer's tile, behind which the
    /// layer's linked functions run.
    pub(super) fn source(&self, name: &'static str, body: &'static str) -> Source {
        self.source_linking(name, body, self.layer.linked.functions())
    }

    pub(super) fn source_linking(
        &self,
        name: &'static str,
        body: &'static str,
        functions: &[Function],
    ) -> Source {
        let mut source = Source::of_tensors(name, body, T::DATA_TYPE, self.layout);
        source.link(functions);
        let operator = &self.layer.operator;
        let read = operator.inputs().into_iter().map(|shape| stored(operator, shape));
        if read.chain([self.output()]).any(|shape| shape.batch > 1) {
            source.option("BATCHED");
        }
        source
    }

    /// The arguments that linked functions add: tensors and extents of the inputs from
    /// `first` on.
    pub(super) fn operands(first: usize, functions: &[Function]) -> Vec<Argument<T>> {
        let count = functions.iter().filter(|function| function.is_binary()).count();
        (first..first + count)
            .flat_map(|input| [Argument::Input(input), Argument::InputExtent(input)])
            .collect()
    }

    /// Operands of the layer's linked functions.
    pub(super) fn linked_operands(&self) -> Vec<Argument<T>> {
        Self::operands(self.layer.operator.inputs().len(), self.layer.linked.functions())
    }
}

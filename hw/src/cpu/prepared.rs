//! A layer ready to run: weights packed, buffers allocated.
//!
//! Responsible for: choosing the kernel of an operator, packing its weights, and deciding which
//! linked functions its kernel fuses. Invariant: running a prepared layer allocates nothing.

mod run;

use coexec_sim::InstructionSet;
use coexec_sim::kernel::cpu::linked_functions;
use coexec_sim::workload::{
    self, Class, Conv2d, DepthwiseConv2d, Function, Generic, Layer, Movement, Operator, Pick, PoolKind,
    Reduction, Resize, SecondOperand, Shape, Window,
};

use super::product::{Dimensions, Product};
use super::windowed::{Depthwise, Pooling};
use super::{Aligned, Element, Normalisation, SlidingWindow, is_available};
use crate::operands::{OperandError, Result, Weights};

/// A layer with packed weights and the buffers it needs.
pub struct Prepared<T: Element> {
    layer: Layer,
    /// The operator, then the linked functions that run as passes of their own.
    steps: Vec<Step<T>>,
    set: InstructionSet,
}

/// A computation of all results.
pub(super) struct Step<T> {
    pub(super) implementation: Implementation<T>,
    /// Bounds that it applies to the results (a fused activation).
    pub(super) clamp: Option<[T; 2]>,
}

/// The implementation of a step.
pub(super) enum Implementation<T> {
    Product(Product<T>),
    /// Both operands are inputs: the right one is packed on every run.
    BatchedProduct(Product<T>),
    Depthwise(Depthwise<T>),
    Pooling(Pooling),
    Elementwise(Function, SecondOperand),
    Softmax,
    Normalisation(Normalisation<T>),
    /// Contiguous elements of each input per repetition of the concatenation.
    Concat(Vec<usize>),
    Pick(Pick),
    Resize(Resize),
    Reshape,
    /// The embedding table.
    Embedding(Vec<T>),
    /// What is computed in place of an operator without a kernel of its own.
    Generic(Generic),
    /// A function of the preceding step's results. A binary one also reads the layer's input of this index.
    Linked(Function, Option<(usize, SecondOperand)>),
}

impl<T: Element> Prepared<T> {
    /// Prepares `layer` for `set`.
    ///
    /// # Errors
    /// Where the layer's number format is not `T`, this processor lacks `set`, the operator's
    /// dimensions are invalid or it has no kernel, or `weights` has the wrong number of elements.
    pub fn new(layer: &Layer, weights: &Weights<'_>, set: InstructionSet) -> Result<Self> {
        if layer.data_type != T::DATA_TYPE {
            return Err(OperandError::DataType { found: layer.data_type, expected: T::DATA_TYPE });
        }
        if !is_available(set) {
            return Err(OperandError::InstructionSet(set));
        }
        layer.operator.check()?;
        weights.check(&layer.operator)?;
        let operator = Implementation::new(&layer.operator, weights, set)?;
        Ok(Self { layer: layer.clone(), steps: steps(layer, operator), set })
    }
}

impl<T: Element> Implementation<T> {
    fn new(operator: &Operator, weights: &Weights<'_>, set: InstructionSet) -> Result<Self> {
        let product = |dimensions: Dimensions| Product::new(dimensions, T::micro_kernel(set));
        let pooling = |window: &Window, input, kind| {
            Self::Pooling(Pooling { window: SlidingWindow::new(window, input, operator.output()), kind })
        };
        let normalised = |statistic| {
            let [scale, shift] = [weights.kernel, weights.bias].map(converted);
            Self::Normalisation(Normalisation { statistic, scale, shift })
        };
        Ok(match operator.class() {
            Class::Product(factors) if factors.trained => {
                Self::Product(packed(product(product_dimensions(factors)), weights))
            }
            Class::Product(factors) => Self::BatchedProduct(product(product_dimensions(factors))),
            Class::Convolution(conv) => Self::Product(packed(product(conv2d_dimensions(conv)), weights)),
            Class::Depthwise(conv) => Self::Depthwise(depthwise(conv, weights)),
            Class::Pool(pool) => pooling(&pool.window, pool.input, pool.kind),
            Class::Reduction(Reduction::Pixels { input }) => {
                pooling(&Window::of([input.height, input.width]), input, PoolKind::Average)
            }
            Class::Reduction(Reduction::Exponentials) => Self::Softmax,
            Class::Reduction(Reduction::Normalisation(statistic)) => normalised(Some(statistic)),
            // A batch norm: its trained statistics are folded into scales and shifts.
            Class::Elementwise(_) if operator.folds() => normalised(None),
            Class::Elementwise(elementwise) => {
                Self::Elementwise(elementwise.function, elementwise.second_operand())
            }
            Class::Movement(Movement::Joined(concat)) => {
                Self::Concat(concat.runs().map(|run| run as usize).collect())
            }
            Class::Movement(Movement::Range(slice)) => Self::Pick(slice.pick()),
            Class::Movement(Movement::Transposed(transpose)) => Self::Pick(transpose.pick()),
            Class::Movement(Movement::Padded(pad)) => Self::Pick(pad.pick()),
            Class::Movement(Movement::Resized(resize)) => Self::Resize(*resize),
            Class::Movement(Movement::Rearranged(_)) => Self::Reshape,
            Class::Gather(_) => Self::Embedding(converted(weights.kernel)),
            Class::Generic(generic) => Self::Generic(generic.clone()),
            Class::Recurrent(_) => {
                return Err(OperandError::NoKernel { operator: operator.to_string() });
            }
        })
    }
}

/// Whether this crate has a kernel for `operator`, at least on the CPU.
pub(crate) fn has_kernel(operator: &Operator) -> bool {
    match operator.class() {
        Class::Recurrent(_) => false,
        Class::Product(_)
        | Class::Convolution(_)
        | Class::Depthwise(_)
        | Class::Pool(_)
        | Class::Reduction(_)
        | Class::Elementwise(_)
        | Class::Movement(_)
        | Class::Gather(_)
        | Class::Generic(_) => true,
    }
}

fn converted<T: Element>(numbers: &[f32]) -> Vec<T> {
    numbers.iter().map(|&number| T::from_f32(number)).collect()
}

/// Packs weights whose outermost dimension is the output channel.
fn packed<T: Element>(mut product: Product<T>, weights: &Weights<'_>) -> Product<T> {
    let mut first_channel = 0;
    for panels in &mut product.panels {
        let (depth, first) = (panels.depth, first_channel);
        first_channel += panels.channels;
        panels.fill(
            |channel, k| T::from_f32(weights.kernel[(first + channel) * depth + k]),
            |channel| T::from_f32(weights.bias.get(first + channel).copied().unwrap_or(0.0)),
        );
    }
    product
}

/// A convolution as one product per group; the groups split the channels of each pixel.
fn conv2d_dimensions(conv: &Conv2d) -> Dimensions {
    let [inputs, outputs, groups] =
        [conv.input.channels, conv.output_channels, conv.groups].map(|count| count as usize);
    Dimensions {
        window: SlidingWindow::new(&conv.window, conv.input, conv.output()),
        groups,
        group_channels: outputs / groups,
        group_inputs: inputs / groups,
        input_step: inputs / groups,
        output_step: outputs / groups,
        output_stride: outputs,
    }
}

/// A batch of products with separate matrices.
fn product_dimensions(product: workload::Product) -> Dimensions {
    let [batch, rows, inner, outputs] =
        [product.batch, product.rows, product.inner, product.outputs].map(|extent| extent as usize);
    let tokens = Shape::tokens(product.rows, product.inner);
    Dimensions {
        window: SlidingWindow::new(&Window::valid(1), tokens, tokens),
        groups: batch,
        group_channels: outputs,
        group_inputs: inner,
        input_step: rows * inner,
        output_step: rows * outputs,
        output_stride: outputs,
    }
}

fn depthwise<T: Element>(conv: &DepthwiseConv2d, weights: &Weights<'_>) -> Depthwise<T> {
    let channels = conv.output().channels as usize;
    Depthwise {
        window: SlidingWindow::new(&conv.window, conv.input, conv.output()),
        multiplier: conv.multiplier as usize,
        weights: Aligned::of(&converted(weights.kernel)),
        bias: if conv.bias { Aligned::of(&converted(weights.bias)) } else { Aligned::zeros(channels) },
    }
}

/// The steps of a layer. A linked function is bounds that the preceding step applies, or a step of its own.
fn steps<T: Element>(layer: &Layer, operator: Implementation<T>) -> Vec<Step<T>> {
    let mut steps = Vec::new();
    let mut last = Step { implementation: operator, clamp: None };
    let mut next_input = layer.operator.inputs().len();
    let linked = layer.linked.operators(layer.operator.output());
    for (elementwise, (function, is_fused)) in linked.zip(linked_functions(layer)) {
        match bounds(function) {
            Some(bounds) if is_fused => last.clamp = Some(bounds.map(T::from_f32)),
            _ => {
                let input = function.is_binary().then(|| (next_input, elementwise.second_operand()));
                next_input += usize::from(function.is_binary());
                let implementation = Implementation::Linked(function, input);
                steps.push(std::mem::replace(&mut last, Step { implementation, clamp: None }));
            }
        }
    }
    steps.push(last);
    steps
}

/// The bounds of a function that is a clamp.
fn bounds(function: Function) -> Option<[f32; 2]> {
    match function {
        Function::Relu => Some([0.0, f32::INFINITY]),
        Function::Relu6 => Some([0.0, 6.0]),
        _ => None,
    }
}

#[cfg(test)]
mod tests;

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
    implementation: Implementation<T>,
    /// Bounds that the operator's kernel applies to its results (a fused activation).
    clamp: Option<[T; 2]>,
    passes: Vec<Pass<T>>,
    set: InstructionSet,
}

/// The implementation of an operator.
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
}

/// A linked function that runs as a pass of its own after the operator.
pub(super) struct Pass<T> {
    pub(super) function: Function,
    /// Index of the layer's input that a binary function reads, and how.
    pub(super) input: Option<(usize, SecondOperand)>,
    pub(super) clamp: Option<[T; 2]>,
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
        let (clamp, passes) = epilogue(layer);
        let implementation = Implementation::new(&layer.operator, weights, clamp, set)?;
        Ok(Self { layer: layer.clone(), implementation, clamp, passes, set })
    }
}

impl<T: Element> Implementation<T> {
    fn new(
        operator: &Operator,
        weights: &Weights<'_>,
        clamp: Option<[T; 2]>,
        set: InstructionSet,
    ) -> Result<Self> {
        let unbounded = [f32::NEG_INFINITY, f32::INFINITY].map(T::from_f32);
        let product = |dimensions: Dimensions| {
            Product::new(dimensions, T::micro_kernel(set), clamp.unwrap_or(unbounded))
        };
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

/// Splits the linked functions into bounds that the operator's kernel applies, and passes for the
/// rest.
fn epilogue<T: Element>(layer: &Layer) -> (Option<[T; 2]>, Vec<Pass<T>>) {
    let mut clamp = None;
    let mut passes: Vec<Pass<T>> = Vec::new();
    let mut next_input = layer.operator.inputs().len();
    let linked = layer.linked.operators(layer.operator.output());
    for (elementwise, (function, is_fused)) in linked.zip(linked_functions(layer)) {
        match bounds(function) {
            Some(bounds) if is_fused => {
                let slot = passes.last_mut().map_or(&mut clamp, |pass| &mut pass.clamp);
                *slot = Some(bounds.map(T::from_f32));
            }
            _ => {
                let input = function.is_binary().then(|| (next_input, elementwise.second_operand()));
                next_input += usize::from(function.is_binary());
                passes.push(Pass { function, input, clamp: None });
            }
        }
    }
    (clamp, passes)
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

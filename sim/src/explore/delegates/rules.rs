//! Which operators each delegate takes, by its source code.
//!
//! The rules are in terms of workloads. They cannot see what the importer has resolved: tensors of more
//! than four dimensions that it expresses in four, and folded constants. A normalisation counts as the
//! sums and products that converters make of it; an operator and its fused functions count as one.
//!
//! Source: LiteRT f67457790c9c, `tflite/delegates/gpu/common/model_builder.cc`,
//! `tflite/delegates/xnnpack/xnnpack_delegate.cc`, `tflite/delegates/coreml/coreml_delegate.mm`.

use crate::workload::{
    Class, DataType, Dimension, Function, GenericKind, Interpolation, Layer, Movement, Reduction, Statistic,
};

/// Most tensors in one concatenation of XNNPACK's delegate.
const MAX_CONCATENATED_TENSORS: usize = 5;

/// Why the GPU delegate leaves a layer to the CPU; `None` if it takes the layer. TFLite's other
/// delegates leave all of these to the CPU, too.
pub(super) fn gpu(layer: &Layer) -> Option<&'static str> {
    if layer.data_type.is_weight_only() {
        return Some("weights of fewer bits than activations");
    }
    match layer.operator.class() {
        Class::Convolution(conv) if conv.slices.is_some() => Some("convolution over volumes"),
        Class::Reduction(Reduction::Normalisation(Statistic::NeighbourSquares { .. })) => {
            Some("local response normalisation")
        }
        // The delegate's check accepts it, but its parser requires a computed table.
        Class::Gather(_) => Some("look-up in a constant table"),
        Class::Recurrent(_) => Some("recurrent layer over a sequence"),
        Class::Generic(generic) => Some(match generic.kind {
            GenericKind::Elementwise => "element-wise operator unknown to the delegate",
            GenericKind::Reduction => "reduction unknown to the delegate",
            GenericKind::Movement => "data movement unknown to the delegate",
            GenericKind::Gather => "gather by computed positions",
            GenericKind::Transform => "Fourier transform",
            GenericKind::Search => "search or sort",
        }),
        Class::Product(_)
        | Class::Convolution(_)
        | Class::Depthwise(_)
        | Class::Pool(_)
        | Class::Reduction(_)
        | Class::Elementwise(_)
        | Class::Movement(_) => None,
    }
}

/// Why the XNNPACK delegate leaves a layer to the CPU; `None` if it takes the layer.
pub(super) fn xnnpack(layer: &Layer) -> Option<&'static str> {
    let class = layer.operator.class();
    let is_softmax = class == Class::Reduction(Reduction::Exponentials);
    if is_softmax && layer.data_type == DataType::I8 {
        return Some("softmax of integers");
    }
    let Class::Movement(movement) = class else { return gpu(layer) };
    let left = match movement {
        Movement::Joined(concat) => {
            (concat.extents.len() > MAX_CONCATENATED_TENSORS).then_some("more than five tensors concatenated")
        }
        Movement::Range(slice) => (slice.step != 1).then_some("slice with strides"),
        Movement::Resized(resize) => nearest(resize.interpolation),
        Movement::Transposed(_) | Movement::Padded(_) | Movement::Rearranged(_) => None,
    };
    left.or_else(|| gpu(layer))
}

/// Why the Core ML delegate leaves a layer to the CPU; `None` if it takes the layer.
pub(super) fn core_ml(layer: &Layer) -> Option<&'static str> {
    if !matches!(layer.data_type, DataType::F32 | DataType::F16) {
        return Some("integers");
    }
    let left = match layer.operator.class() {
        Class::Product(product) => (!product.trained).then_some("product of two activations"),
        Class::Reduction(Reduction::Normalisation(_)) => Some("normalisation"),
        Class::Elementwise(elementwise) => core_ml_function(elementwise.function),
        Class::Movement(movement) => match movement {
            Movement::Joined(concat) => (concat.dimension != Dimension::Channels)
                .then_some("concatenation along a dimension other than channels"),
            Movement::Range(_) => Some("slice"),
            Movement::Transposed(_) => Some("transposition"),
            Movement::Resized(resize) => nearest(resize.interpolation),
            Movement::Padded(_) | Movement::Rearranged(_) => None,
        },
        Class::Convolution(_)
        | Class::Depthwise(_)
        | Class::Pool(_)
        | Class::Reduction(_)
        | Class::Gather(_)
        | Class::Recurrent(_)
        | Class::Generic(_) => None,
    };
    let linked = || layer.linked.functions().iter().copied().find_map(core_ml_function);
    left.or_else(linked).or_else(|| gpu(layer))
}

fn core_ml_function(function: Function) -> Option<&'static str> {
    match function {
        Function::Divide => Some("quotient"),
        Function::Prelu => Some("rectifier with trained slopes"),
        Function::Gelu => Some("Gaussian error linear unit"),
        Function::Add
        | Function::Multiply
        | Function::Relu
        | Function::Relu6
        | Function::HardSwish
        | Function::HardSigmoid
        | Function::Sigmoid
        | Function::Silu
        | Function::Tanh => None,
    }
}

fn nearest(interpolation: Interpolation) -> Option<&'static str> {
    match interpolation {
        Interpolation::Nearest => Some("resizing to the nearest element"),
        Interpolation::Bilinear => None,
    }
}

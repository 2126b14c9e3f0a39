//! Operators without options: their names in ONNX, their numbers and names in TFLite, and
//! what they do.
//!
//! Responsible for: what needs no more than the name, and is unlike in neither format. Not
//! for: options, and the order of operands, which each format's reader knows. Invariant: no
//! name and no number stands twice.

use crate::model::Elemental::{
    Ceil, Cheap, Clip, Erf, Floor, Known, Negate, Reciprocal, ReciprocalSqrt, Sqrt, Square, Transcendental,
};
use crate::model::{Arithmetic, Reshaping, Slicing, Work};
use coexec_sim::workload::{Function, Interpolation, NormKind, PoolKind};

/// Names in ONNX, numbers and names in TFLite, and what it does.
type Entry = (&'static [&'static str], &'static [(i32, &'static str)], Work);

/// A product without further ado.
const PRODUCT: Work = Work::Product { transpose: [false; 2], flatten: false };

/// What is said of an operator of which nothing is known.
pub(super) const NOT_KNOWN: &str = "it is not in the vocabulary of workloads";

const fn known(function: Function) -> Work {
    Work::Function(Known(function))
}

const OPERATORS: &[Entry] = &[
    (&["Relu"], &[(19, "RELU")], known(Function::Relu)),
    (&[], &[(21, "RELU6")], known(Function::Relu6)),
    (&["Sigmoid"], &[(14, "LOGISTIC")], known(Function::Sigmoid)),
    (&["HardSigmoid"], &[], known(Function::HardSigmoid)),
    (&["HardSwish"], &[(117, "HARD_SWISH")], known(Function::HardSwish)),
    (&["Swish", "Silu", "QuickGelu"], &[], known(Function::Silu)),
    (&["Gelu", "FastGelu"], &[(150, "GELU")], known(Function::Gelu)),
    (&["Tanh"], &[(28, "TANH")], known(Function::Tanh)),
    (&["Clip"], &[(20, "RELU_N1_TO_1"), (152, "RELU_0_TO_1")], Work::Function(Clip)),
    (&["Erf"], &[], Work::Function(Erf)),
    (&["Sqrt"], &[(75, "SQRT")], Work::Function(Sqrt)),
    (&[], &[(76, "RSQRT")], Work::Function(ReciprocalSqrt)),
    (&["Reciprocal"], &[], Work::Function(Reciprocal)),
    (&[], &[(92, "SQUARE")], Work::Function(Square)),
    (&["Neg"], &[(59, "NEG")], Work::Function(Negate)),
    (&["Floor"], &[(8, "FLOOR")], Work::Function(Floor)),
    (&["Ceil"], &[(104, "CEIL")], Work::Function(Ceil)),
    (
        &["LeakyRelu", "PRelu", "Abs", "Sign", "Round", "ThresholdedRelu", "Not"],
        &[(98, "LEAKY_RELU"), (54, "PRELU"), (101, "ABS"), (158, "SIGN"), (116, "ROUND")],
        Work::Function(Cheap),
    ),
    (
        &["Elu", "Exp", "Log", "Sin", "Cos", "Selu", "Celu", "Softplus", "Softsign", "Mish"],
        &[(111, "ELU"), (47, "EXP"), (73, "LOG"), (66, "SIN"), (108, "COS")],
        Work::Function(Transcendental),
    ),
    (&["Add", "Sum", "Mean", "BiasAdd"], &[(0, "ADD"), (106, "ADD_N")], Work::Arithmetic(Arithmetic::Add)),
    (&["Sub"], &[(41, "SUB")], Work::Arithmetic(Arithmetic::Subtract)),
    (&["Mul"], &[(18, "MUL")], Work::Arithmetic(Arithmetic::Multiply)),
    (&["Div"], &[(42, "DIV"), (90, "FLOOR_DIV")], Work::Arithmetic(Arithmetic::Divide)),
    (&["Pow"], &[(78, "POW")], Work::Arithmetic(Arithmetic::Power)),
    (&["Max"], &[(55, "MAXIMUM")], Work::Arithmetic(Arithmetic::Maximum)),
    (&["Min"], &[(57, "MINIMUM")], Work::Arithmetic(Arithmetic::Minimum)),
    (&[], &[(99, "SQUARED_DIFFERENCE")], Work::Arithmetic(Arithmetic::SquaredDifference)),
    (&["Equal"], &[(71, "EQUAL")], Work::Arithmetic(Arithmetic::Equal)),
    (
        &["And", "Or", "Xor", "Greater", "Less", "GreaterOrEqual", "LessOrEqual"],
        &[],
        Work::Arithmetic(Arithmetic::Compare),
    ),
    (&["Mod"], &[(95, "FLOOR_MOD")], Work::Arithmetic(Arithmetic::Modulo)),
    (&["MatMul"], &[], PRODUCT),
    (&["BatchNormalization"], &[], Work::BatchNorm),
    (&["SkipLayerNormalization"], &[], Work::SkipNorm { kind: NormKind::Layer }),
    (&["SkipSimplifiedLayerNormalization"], &[], Work::SkipNorm { kind: NormKind::Rms }),
    (&["GlobalAveragePool", "GlobalLpPool"], &[], Work::GlobalPool(PoolKind::Average)),
    (&["GlobalMaxPool"], &[], Work::GlobalPool(PoolKind::Max)),
    (&[], &[(7, "EMBEDDING_LOOKUP")], Work::Gather { axis: 0 }),
    (
        &["Identity"],
        // Sparse weights become dense ones once, as the graph is prepared.
        &[(6, "DEQUANTIZE"), (53, "CAST"), (114, "QUANTIZE"), (124, "DENSIFY")],
        Work::Identity,
    ),
    (&[], &[(22, "RESHAPE")], Work::Reshape(Reshaping::ToOperand { zero_is_zero: true })),
    (&["Squeeze"], &[(43, "SQUEEZE")], Work::Reshape(Reshaping::Squeeze)),
    (&["Unsqueeze"], &[(70, "EXPAND_DIMS")], Work::Reshape(Reshaping::Unsqueeze)),
    (&["Transpose"], &[(39, "TRANSPOSE")], Work::Transpose),
    (&["Slice"], &[], Work::Slice(Slicing::Operands)),
    (&[], &[(65, "SLICE")], Work::Slice(Slicing::BySize)),
    (&["Split"], &[(49, "SPLIT"), (102, "SPLIT_V")], Work::Split { squeeze: false }),
    (&[], &[(88, "UNPACK")], Work::Split { squeeze: true }),
    (&["Pad"], &[(34, "PAD"), (60, "PADV2"), (100, "MIRROR_PAD")], Work::Pad),
    (&["Expand"], &[(130, "BROADCAST_TO")], Work::Expand),
    (&["Tile"], &[(69, "TILE")], Work::Tile),
    (&[], &[(23, "RESIZE_BILINEAR")], Work::Resize(Interpolation::Bilinear)),
    (&[], &[(97, "RESIZE_NEAREST_NEIGHBOR")], Work::Resize(Interpolation::Nearest)),
    (&[], &[(77, "SHAPE")], Work::Shape { from: 0, to: i64::MAX }),
    (&["Size"], &[], Work::Size),
    (&["Range"], &[(96, "RANGE")], Work::Range),
    (&["Where"], &[(123, "SELECT_V2")], Work::Where),
    (&["ScatterND", "ScatterElements"], &[], Work::Scatter),
    (
        &["LSTM", "GRU", "RNN"],
        &[(44, "UNIDIRECTIONAL_SEQUENCE_LSTM")],
        Work::Unknown("recurrent layers are not in the vocabulary of workloads"),
    ),
    (
        &["If", "Loop", "Scan"],
        &[(118, "IF"), (119, "WHILE")],
        Work::Unknown("control flow; export the model with it resolved"),
    ),
    (
        &["InstanceNormalization", "GroupNormalization", "MeanVarianceNormalization"],
        &[],
        Work::Unknown("norms over pixels are not in the vocabulary of workloads"),
    ),
    (
        &["NonMaxSuppression", "TopK", "ArgMax", "ArgMin", "NonZero"],
        &[(56, "ARG_MAX")],
        Work::Unknown("a search; export the model without what comes after the network"),
    ),
    (&[], &[(94, "FILL")], Work::Unknown("its extents are computed by the network")),
    (&[], &[(11, "L2_NORMALIZATION")], Work::Unknown(NOT_KNOWN)),
    (&[], &[(32, "CUSTOM")], Work::Unknown("an operator of the model's own; export it without")),
    (
        &[],
        &[(206, "STABLEHLO_COMPOSITE")],
        Work::Unknown("a function of the model's own; export it for the TFLite built-in operators"),
    ),
];

/// What the operator of that name in ONNX does.
pub(super) fn of_onnx(name: &str) -> Option<Work> {
    OPERATORS.iter().find(|entry| entry.0.contains(&name)).map(|entry| entry.2.clone())
}

/// Name of the operator of that number in TFLite, and what it does.
pub(super) fn of_tflite(code: i32) -> Option<(&'static str, Work)> {
    OPERATORS.iter().find_map(|(_, numbers, work)| {
        let &(_, name) = numbers.iter().find(|(number, _)| *number == code)?;
        Some((name, work.clone()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn no_name_and_no_number_stands_twice() {
        let names: Vec<&str> = OPERATORS.iter().flat_map(|entry| entry.0).copied().collect();
        assert_eq!(names.iter().collect::<HashSet<_>>().len(), names.len());
        let numbers: Vec<i32> = OPERATORS.iter().flat_map(|entry| entry.1).map(|one| one.0).collect();
        assert_eq!(numbers.iter().collect::<HashSet<_>>().len(), numbers.len());
    }
}

//! Operators without options: their names in ONNX, their numbers and names in TFLite, and
//! what they do.
//!
//! Responsible for: what needs no more than the name, and is unlike in neither format. Not
//! for: options, and the order of operands, which each format's reader knows. Invariant: no
//! name and no number stands twice.

use crate::model::Elemental::{
    Ceil, Cheap, Clip, Erf, Floor, Known, Negate, Not, Reciprocal, ReciprocalSqrt, Sqrt, Square,
    Transcendental,
};
use crate::model::{Arithmetic, Extents, Reshaping, Slicing, Work};
use coexec_sim::workload::GenericKind::{Elementwise, Gather, Movement, Reduction, Search};
use coexec_sim::workload::{Function, GenericKind, Interpolation, NormKind, PoolKind};

/// Names in ONNX, numbers and names in TFLite, and what it does.
type Entry = (&'static [&'static str], &'static [(i32, &'static str)], Work);

/// A product without further ado.
const PRODUCT: Work = Work::Product { transpose: [false; 2], flatten: false };

/// What is said of an operator of which nothing is known.
pub(super) const NOT_KNOWN: &str = "it is not in the vocabulary of workloads";

const fn known(function: Function) -> Work {
    Work::Function(Known(function))
}

/// What needs no kernel of its own, and goes over its elements so many times.
const fn generic(kind: GenericKind, extents: Extents, passes: u32) -> Work {
    Work::Generic { kind, extents, passes }
}

const OPERATORS: &[Entry] = &[
    (&["Relu"], &[(19, "RELU")], known(Function::Relu)),
    (&[], &[(21, "RELU6")], known(Function::Relu6)),
    (&["Sigmoid"], &[(14, "LOGISTIC")], known(Function::Sigmoid)),
    (&["HardSigmoid"], &[], known(Function::HardSigmoid)),
    (&["HardSwish"], &[(117, "HARD_SWISH")], known(Function::HardSwish)),
    (&["Swish", "Silu", "QuickGelu"], &[], known(Function::Silu)),
    (&["Gelu", "FastGelu", "BiasGelu"], &[(150, "GELU")], known(Function::Gelu)),
    (&["Tanh"], &[(28, "TANH")], known(Function::Tanh)),
    (&["Clip"], &[(20, "RELU_N1_TO_1"), (152, "RELU_0_TO_1")], Work::Function(Clip)),
    (&["Erf"], &[], Work::Function(Erf)),
    (&["Sqrt"], &[(75, "SQRT")], Work::Function(Sqrt)),
    (&[], &[(76, "RSQRT")], Work::Function(ReciprocalSqrt)),
    (&["Reciprocal"], &[], Work::Function(Reciprocal)),
    (&[], &[(92, "SQUARE")], Work::Function(Square)),
    (&["Neg"], &[(59, "NEG")], Work::Function(Negate)),
    (&["Not"], &[(87, "LOGICAL_NOT")], Work::Function(Not)),
    (&["Floor"], &[(8, "FLOOR")], Work::Function(Floor)),
    (&["Ceil"], &[(104, "CEIL")], Work::Function(Ceil)),
    (
        &["LeakyRelu", "Abs", "Sign", "Round", "ThresholdedRelu", "IsNaN", "IsInf", "BitwiseNot", "Shrink"],
        &[(98, "LEAKY_RELU"), (101, "ABS"), (158, "SIGN"), (116, "ROUND")],
        Work::Function(Cheap),
    ),
    (
        &[
            "Elu", "Exp", "Log", "Sin", "Cos", "Selu", "Celu", "Softplus", "Softsign", "Mish", "Tan", "Asin",
            "Acos", "Atan", "Sinh", "Cosh", "Asinh", "Acosh", "Atanh",
        ],
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
    (&["PRelu"], &[(54, "PRELU")], Work::Arithmetic(Arithmetic::Prelu)),
    (&["Equal"], &[(71, "EQUAL"), (72, "NOT_EQUAL")], Work::Arithmetic(Arithmetic::Equal)),
    (&["Greater"], &[(61, "GREATER")], Work::Arithmetic(Arithmetic::Greater)),
    (&["GreaterOrEqual"], &[(62, "GREATER_EQUAL")], Work::Arithmetic(Arithmetic::GreaterOrEqual)),
    (&["Less"], &[(58, "LESS")], Work::Arithmetic(Arithmetic::Less)),
    (&["LessOrEqual"], &[(63, "LESS_EQUAL")], Work::Arithmetic(Arithmetic::LessOrEqual)),
    (&["And"], &[(86, "LOGICAL_AND")], Work::Arithmetic(Arithmetic::And)),
    (&["Or"], &[(84, "LOGICAL_OR")], Work::Arithmetic(Arithmetic::Or)),
    (&["Xor"], &[], Work::Arithmetic(Arithmetic::Xor)),
    (&["Mod"], &[(95, "FLOOR_MOD")], Work::Arithmetic(Arithmetic::Modulo)),
    (&["MatMul"], &[], PRODUCT),
    (&["BatchNormalization"], &[], Work::BatchNorm),
    (&["SkipLayerNormalization"], &[], Work::SkipNorm { kind: NormKind::Layer }),
    (&["SkipSimplifiedLayerNormalization"], &[], Work::SkipNorm { kind: NormKind::Rms }),
    (&["GlobalAveragePool", "GlobalLpPool"], &[], Work::GlobalPool(PoolKind::Average)),
    (&["GlobalMaxPool"], &[], Work::GlobalPool(PoolKind::Max)),
    (&[], &[(7, "EMBEDDING_LOOKUP")], Work::Gather { axis: 0 }),
    (
        &["Identity", "BitCast"],
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
    (&["Where"], &[(64, "SELECT"), (123, "SELECT_V2")], Work::Where),
    (&["ScatterND", "ScatterElements", "Scatter"], &[(122, "SCATTER_ND")], Work::Scatter),
    (
        &["Loop", "Scan"],
        &[(118, "IF"), (119, "WHILE")],
        Work::Unknown("control flow; export the model with it resolved"),
    ),
    (&["InstanceNormalization"], &[], Work::GroupNorm { groups: None }),
    (&["EmbedLayerNormalization"], &[], Work::EmbeddingNorm),
    (
        &["BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor"],
        &[(156, "ATAN2"), (160, "BITWISE_XOR"), (161, "RIGHT_SHIFT")],
        generic(Elementwise, Extents::Broadcast, 1),
    ),
    (
        &["Bernoulli", "RandomNormalLike", "RandomUniformLike"],
        &[(93, "ZEROS_LIKE")],
        generic(Elementwise, Extents::Like(0), 1),
    ),
    // The function of the gate, and the product.
    (&["SwiGLU"], &[], generic(Elementwise, Extents::Like(0), 2)),
    // A product with the cosines, one with the sines, a sum.
    (&["RotaryEmbedding"], &[], generic(Elementwise, Extents::Like(0), 3)),
    (
        &["HannWindow", "HammingWindow", "BlackmanWindow", "MelWeightMatrix", "AffineGrid"],
        &[(94, "FILL")],
        generic(Elementwise, Extents::Said, 1),
    ),
    (
        &["Trilu", "ReverseSequence", "EyeLike"],
        &[(105, "REVERSE_V2"), (112, "REVERSE_SEQUENCE"), (115, "MATRIX_SET_DIAG")],
        generic(Movement, Extents::Like(0), 1),
    ),
    (
        &["Col2Im", "CenterCropPad"],
        &[(37, "BATCH_TO_SPACE_ND"), (38, "SPACE_TO_BATCH_ND"), (113, "MATRIX_DIAG")],
        generic(Movement, Extents::Said, 1),
    ),
    (&["CumSum", "CumProd"], &[(128, "CUMSUM")], generic(Reduction, Extents::Like(0), 1)),
    // The largest and the smallest, and each element by them.
    (&["DynamicQuantizeLinear"], &[], generic(Reduction, Extents::Quantised, 2)),
    // The statistic, and what becomes of each element by it.
    (&["LpNormalization"], &[(11, "L2_NORMALIZATION")], generic(Reduction, Extents::Like(0), 2)),
    (&["MeanVarianceNormalization"], &[], generic(Reduction, Extents::Like(0), 3)),
    // A fast transform of some hundreds of points goes over them about as often.
    (&["DFT", "STFT"], &[(131, "RFFT2D")], generic(Reduction, Extents::Said, 8)),
    (
        &["Det"],
        &[(91, "REDUCE_ANY"), (162, "REDUCE_ALL"), (125, "SEGMENT_SUM")],
        generic(Reduction, Extents::Said, 1),
    ),
    (&["GatherElements"], &[], generic(Gather, Extents::Like(1), 1)),
    // Four pixels for one.
    (&["GridSample"], &[], generic(Gather, Extents::Grid, 4)),
    (&["RoiAlign"], &[], generic(Gather, Extents::Said, 4)),
    (&["MaxRoiPool", "MaxUnpool"], &[(68, "SPARSE_TO_DENSE")], generic(Gather, Extents::Said, 1)),
    (&["TensorScatter"], &[(151, "DYNAMIC_UPDATE_SLICE")], generic(Gather, Extents::Like(0), 1)),
    (&["NonMaxSuppression"], &[], generic(Search, Extents::Boxes, 1)),
    (&["NonZero"], &[], generic(Search, Extents::NonZero, 1)),
    // The largest, and where it is.
    (&["Hardmax"], &[], generic(Search, Extents::Like(0), 2)),
    (
        &["Multinomial"],
        &[(48, "TOPK_V2"), (56, "ARG_MAX"), (79, "ARG_MIN"), (103, "UNIQUE"), (109, "WHERE")],
        generic(Search, Extents::Said, 1),
    ),
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

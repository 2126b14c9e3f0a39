//! ONNX's operators in the words of `model.rs`.

use super::messages::{AttributeProto, NodeProto};
use crate::functions;
use crate::model::{
    Arithmetic, Elemental, Pads, Reduction, Reshaping, Slicing, TensorId, Windowed, Work, as_extent,
};
use coexec_sim::workload::{Function, LocalResponseNorm, Norm, NormKind, PoolKind, Softmax};

/// A product without further ado.
const PRODUCT: Work = Work::Product { transpose: [false; 2], flatten: false };

/// The number of an operand that no node has.
const NONE: usize = usize::MAX;

/// A node's operands.
type Reads = Vec<Option<TensorId>>;

/// Attributes of a node.
struct Attributes<'a>(&'a [AttributeProto]);

impl Attributes<'_> {
    fn find(&self, name: &str) -> Option<&AttributeProto> {
        self.0.iter().find(|attribute| attribute.name == name)
    }

    fn integer(&self, name: &str, usual: i64) -> i64 {
        self.find(name).map_or(usual, |attribute| attribute.i)
    }

    /// Whole numbers that cannot be negative; what is too large stays too large.
    fn counts(&self, name: &str) -> Vec<u32> {
        let counts = self.find(name).into_iter().flat_map(|attribute| &attribute.ints);
        counts.copied().map(as_extent).collect()
    }

    fn text(&self, name: &str) -> &str {
        self.find(name).and_then(|attribute| std::str::from_utf8(&attribute.s).ok()).unwrap_or_default()
    }

    fn window(&self) -> Windowed {
        let pads = match self.text("auto_pad") {
            "SAME_UPPER" => Pads::Same,
            "SAME_LOWER" => Pads::SameLower,
            "VALID" => Pads::Explicit(Vec::new()),
            _ => Pads::Explicit(self.counts("pads")),
        };
        Windowed {
            kernel: self.counts("kernel_shape"),
            stride: self.counts("strides"),
            dilation: self.counts("dilations"),
            pads,
            ceil: self.integer("ceil_mode", 0) != 0,
        }
    }

    fn groups(&self) -> u32 {
        u32::try_from(self.integer("group", 1)).unwrap_or(0)
    }
}

/// The operand as which an attribute is read, where it says what an operand does in other
/// files.
pub(super) fn operand(kind: &str, attribute: &str) -> Option<usize> {
    match (kind, attribute) {
        ("Slice", "starts") | ("Pad", "pads") | ("Split", "split") | ("Transpose", "perm") => Some(1),
        ("Slice", "ends") | ("Split", "axis") => Some(2),
        ("Slice", "axes") => Some(3),
        (_, "axes") => Some(1),
        _ => None,
    }
}

/// What a node does, and the operands that it is about.
pub(super) fn work(node: &NodeProto, version: i64, reads: &[Option<TensorId>]) -> (Work, Reads) {
    let attributes = Attributes(&node.attribute);
    let kept =
        |operands: &[usize]| operands.iter().map(|&operand| reads.get(operand).copied().flatten()).collect();
    match node.op_type.as_str() {
        // Quantised: tensors, each with a scale and a zero.
        "QLinearConv" => (convolution(&attributes), kept(&[0, 3, 8])),
        "ConvInteger" => (convolution(&attributes), kept(&[0, 1])),
        "QLinearMatMul" => (PRODUCT, kept(&[0, 3])),
        "MatMulInteger" => (PRODUCT, kept(&[0, 1])),
        "QLinearAdd" => (Work::Arithmetic(Arithmetic::Add), kept(&[0, 3])),
        "QLinearMul" => (Work::Arithmetic(Arithmetic::Multiply), kept(&[0, 3])),
        "QLinearGlobalAveragePool" => (Work::GlobalPool(PoolKind::Average), kept(&[0])),
        "QLinearSigmoid" => (known(Function::Sigmoid), kept(&[0])),
        "QuantizeLinear" | "DequantizeLinear" | "DynamicQuantizeLinear" | "Dropout" | "Cast" | "CastLike" => {
            (Work::Identity, kept(&[0]))
        }
        "BatchNormalization" => (Work::BatchNorm, kept(&[0])),
        "Clip" | "LeakyRelu" | "PRelu" => {
            (functions::of_onnx(&node.op_type).unwrap_or(Work::Identity), kept(&[0]))
        }
        "Upsample" => (Work::Resize, kept(&[0, NONE, 1])),
        "Resize" if version < 11 => (Work::Resize, kept(&[0, NONE, 1])),
        kind => (plain(kind, &attributes, version), reads.to_vec()),
    }
}

fn convolution(attributes: &Attributes<'_>) -> Work {
    Work::Convolution { window: attributes.window(), groups: Some(attributes.groups()), is_depthwise: false }
}

fn known(function: Function) -> Work {
    Work::Function(Elemental::Known(function))
}

/// Operators whose operands are as ONNX has them.
fn plain(kind: &str, attributes: &Attributes<'_>, version: i64) -> Work {
    if let Some(work) = functions::of_onnx(kind).or_else(|| moved(kind, attributes)) {
        return work;
    }
    let flag = |name: &str| attributes.integer(name, 0) != 0;
    match kind {
        "Conv" => convolution(attributes),
        "ConvTranspose" => Work::TransposedConvolution {
            window: attributes.window(),
            groups: attributes.groups(),
            output_pads: attributes.counts("output_padding"),
        },
        "Gemm" | "FusedMatMul" => {
            Work::Product { transpose: [flag("transA"), flag("transB")], flatten: false }
        }
        "MatMul" => PRODUCT,
        "MaxPool" => Work::Pool { kind: PoolKind::Max, window: attributes.window() },
        "AveragePool" | "LpPool" => Work::Pool { kind: PoolKind::Average, window: attributes.window() },
        "GlobalAveragePool" | "GlobalLpPool" => Work::GlobalPool(PoolKind::Average),
        "GlobalMaxPool" => Work::GlobalPool(PoolKind::Max),
        "ReduceMean" => reduce(Reduction::Mean, attributes),
        "ReduceSum" | "ReduceSumSquare" | "ReduceL1" | "ReduceL2" => reduce(Reduction::Sum, attributes),
        "ReduceMax" | "ReduceMin" => reduce(Reduction::Max, attributes),
        "ReduceProd" => reduce(Reduction::Product, attributes),
        // Before version 13 over the axis and all behind it.
        "Softmax" | "LogSoftmax" if version < 13 => {
            Work::along_axis(Softmax::default(), attributes.integer("axis", 1), true)
        }
        "Softmax" | "LogSoftmax" => {
            Work::along_axis(Softmax::default(), attributes.integer("axis", -1), false)
        }
        "LayerNormalization" => {
            Work::along_axis(Norm::from(NormKind::Layer), attributes.integer("axis", -1), true)
        }
        "RMSNormalization" | "SimplifiedLayerNormalization" => {
            Work::along_axis(Norm::from(NormKind::Rms), attributes.integer("axis", -1), true)
        }
        "LRN" => {
            let size = u32::try_from(attributes.integer("size", 0)).unwrap_or(0);
            Work::along_axis(LocalResponseNorm::from(size), 1, false)
        }
        "SkipLayerNormalization" => Work::SkipNorm { kind: NormKind::Layer },
        "SkipSimplifiedLayerNormalization" => Work::SkipNorm { kind: NormKind::Rms },
        "LSTM" | "GRU" | "RNN" => Work::Unknown("recurrent layers are not in the vocabulary of workloads"),
        "If" | "Loop" | "Scan" => Work::Unknown("control flow; export the model with it resolved"),
        "InstanceNormalization" | "GroupNormalization" | "MeanVarianceNormalization" => {
            Work::Unknown("norms over pixels are not in the vocabulary of workloads")
        }
        "NonMaxSuppression" | "TopK" | "ArgMax" | "ArgMin" | "NonZero" => {
            Work::Unknown("a search; export the model without what comes after the network")
        }
        _ => Work::Unknown("it is not in the vocabulary of workloads"),
    }
}

fn reduce(reduction: Reduction, attributes: &Attributes<'_>) -> Work {
    Work::Reduce { reduction, keep: attributes.integer("keepdims", 1) != 0 }
}

/// Operators that compute nothing.
fn moved(kind: &str, attributes: &Attributes<'_>) -> Option<Work> {
    let block = || u32::try_from(attributes.integer("blocksize", 0)).unwrap_or(0);
    Some(match kind {
        "Concat" => Work::Concat { axis: attributes.integer("axis", 1), is_new: false },
        "Gather" => Work::Gather { axis: attributes.integer("axis", 0) },
        "Reshape" => {
            Work::Reshape(Reshaping::ToOperand { zero_is_zero: attributes.integer("allowzero", 0) != 0 })
        }
        "Flatten" => Work::Reshape(Reshaping::Flatten { axis: attributes.integer("axis", 1) }),
        "Squeeze" => Work::Reshape(Reshaping::Squeeze),
        "Unsqueeze" => Work::Reshape(Reshaping::Unsqueeze),
        "Transpose" => Work::Transpose,
        "Slice" => Work::Slice(Slicing::Operands),
        "Split" => Work::Split { squeeze: false },
        "Pad" => Work::Pad,
        "Expand" => Work::Expand,
        "Tile" => Work::Tile,
        "Resize" => Work::Resize,
        "DepthToSpace" => Work::BlockRearrangement { block: block(), to_space: true },
        "SpaceToDepth" => Work::BlockRearrangement { block: block(), to_space: false },
        "Shape" => {
            Work::Shape { from: attributes.integer("start", 0), to: attributes.integer("end", i64::MAX) }
        }
        "Size" => Work::Size,
        "Identity" => Work::Identity,
        "ConstantOfShape" => {
            let first = attributes.find("value").and_then(|value| value.t.as_ref()).and_then(super::numbers);
            Work::ConstantOfShape(first.and_then(|numbers| numbers.first().copied()).unwrap_or(0.0))
        }
        "Range" => Work::Range,
        "Where" => Work::Where,
        "ScatterND" | "ScatterElements" => Work::Scatter,
        _ => return None,
    })
}

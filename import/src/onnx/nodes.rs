//! Translates ONNX operators to the vocabulary of `model.rs`.

use super::messages::{AttributeProto, GraphProto, NodeProto};
use crate::model::{
    Convolution, Extents, Listing, Operands, Pads, Reduction, Reshaping, Spectrum, TensorId,
    TransposedConvolution, Windowed, Work, as_extent,
};
use crate::operators::{self, UNKNOWN_OPERATOR};
use coexec_sim::workload::{
    GenericKind, Interpolation, LocalResponseNorm, Norm, NormKind, PoolKind, Softmax,
};

mod attention;

/// Index of an operand that no node has.
const ABSENT: i32 = -1;

/// Attributes of a node.
pub(super) struct Attributes<'a>(pub(super) &'a [AttributeProto]);

impl<'a> Attributes<'a> {
    pub(super) fn find(&self, name: &str) -> Option<&'a AttributeProto> {
        self.0.iter().find(|attribute| attribute.name == name)
    }

    pub(super) fn integer(&self, name: &str, usual: i64) -> i64 {
        self.find(name).map_or(usual, |attribute| attribute.i)
    }

    /// Nonnegative integers; out-of-range ones become `u32::MAX`.
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

    pub(super) fn flag(&self, name: &str) -> bool {
        self.integer(name, 0) != 0
    }

    /// The value of a graph attribute.
    pub(super) fn graph(&self, name: &str) -> Option<&'a GraphProto> {
        self.find(name)?.g.as_ref()
    }

    pub(super) fn count(&self, name: &str, usual: i64) -> u32 {
        u32::try_from(self.integer(name, usual)).unwrap_or(0)
    }

    /// Whether reduced axes are kept with extent 1.
    fn keeps_axes(&self) -> bool {
        self.integer("keepdims", 1) != 0
    }
}

/// The index of the operand that replaces an attribute in later opsets; `None` for true
/// attributes.
pub(super) fn operand(kind: &str, attribute: &str) -> Option<usize> {
    match (kind, attribute) {
        ("Slice", "ends") | ("Split", "axis") => Some(2),
        ("Slice", "axes") => Some(3),
        // In ONNX Runtime's blocked layout.
        ("Upsample", "scales")
        | ("Slice", "starts")
        | ("Pad", "pads")
        | ("Split", "split")
        | ("Transpose", "perm")
        | (_, "axes") => Some(1),
        _ => None,
    }
}

/// Semantics of a node, and the operands that matter for it.
pub(super) fn work(node: &NodeProto, version: i64, reads: &[Option<TensorId>]) -> (Work, Operands) {
    let attributes = Attributes(&node.attribute);
    let (kind, kept): (&str, &[i32]) = match node.op_type.as_str() {
        // The third operand is multiplied by 0.
        "Gemm" if attributes.find("beta").is_some_and(|beta| beta.f == 0.0) => ("Gemm", &[0, 1]),
        // One slope per channel, which does not follow the broadcasting rules.
        "PRelu" if version < 7 => ("LeakyRelu", &[0]),
        "Attention" if attributes.find("num_heads").is_some() => {
            ("PackedAttention", &[0, ABSENT, ABSENT, 4, 4, 5, 1])
        }
        "Resize" if version < 11 => ("Resize", &[0, ABSENT, 1]),
        // Scale and zero point of the result, then each operand with its scale and zero point.
        "QLinearConcat" => {
            let operands = reads.iter().copied().skip(2).step_by(3).collect();
            return (of_kind("Concat", &attributes, version), operands);
        }
        kind => match operators::variant_of_onnx(kind) {
            Some(variant) => variant,
            None => return (of_kind(kind, &attributes, version), reads.to_vec()),
        },
    };
    let kept = kept.iter().map(|&operand| reads.get(usize::try_from(operand).ok()?).copied().flatten());
    (of_kind(kind, &attributes, version), kept.collect())
}

/// Semantics of an operator.
fn of_kind(kind: &str, attributes: &Attributes<'_>, version: i64) -> Work {
    if let Some(work) = operators::of_onnx(kind) {
        return work;
    }
    let axis = |usual: i64| attributes.integer("axis", usual);
    let block = |to_space| Work::BlockRearrangement { block: attributes.count("blocksize", 0), to_space };
    let known = attention::work(kind, attributes).or_else(|| layer(kind, attributes));
    let known =
        known.or_else(|| choice_of_elements(kind, attributes)).or_else(|| classical(kind, attributes));
    if let Some(work) = known {
        return work;
    }
    match kind {
        // Before version 13, over the axis and all later ones.
        "Softmax" | "LogSoftmax" if version < 13 => Work::along_axis(Softmax::default(), axis(1), true),
        "Softmax" | "LogSoftmax" => Work::along_axis(Softmax::default(), axis(-1), false),
        "LayerNormalization" => Work::along_axis(Norm::from(NormKind::Layer), axis(-1), true),
        "RMSNormalization" | "SimplifiedLayerNormalization" => {
            Work::along_axis(Norm::from(NormKind::Rms), axis(-1), true)
        }
        "LRN" => Work::along_axis(LocalResponseNorm::from(attributes.count("size", 0)), 1, false),
        "Concat" => Work::Concat { axis: axis(1), is_new: false },
        "ConcatFromSequence" => {
            Work::List(Listing::Join { axis: axis(0), is_new: attributes.flag("new_axis") })
        }
        "SplitToSequence" => Work::List(Listing::Cut { axis: axis(0), keep: attributes.keeps_axes() }),
        "Gather" => Work::Gather { axis: axis(0) },
        "GatherBlockQuantized" => Work::Gather { axis: attributes.integer("gather_axis", 0) },
        "Resize" if attributes.text("keep_aspect_ratio_policy").starts_with("not") => {
            Work::Unknown("it keeps the aspect ratio; export it with the extents of its result".to_owned())
        }
        // Cubic interpolation of sixteen neighbours counts as bilinear.
        "Resize" => Work::Resize(match attributes.text("mode") {
            "linear" | "cubic" => Interpolation::Bilinear,
            _ => Interpolation::Nearest,
        }),
        "Reshape" => Work::Reshape(Reshaping::ToOperand { zero_is_zero: attributes.flag("allowzero") }),
        "Flatten" => Work::Reshape(Reshaping::Flatten { axis: axis(1) }),
        "DepthToSpace" => block(true),
        "SpaceToDepth" => block(false),
        "Shape" => {
            Work::Shape { from: attributes.integer("start", 0), to: attributes.integer("end", i64::MAX) }
        }
        "ConstantOfShape" => {
            let first = attributes.find("value").and_then(|value| value.t.as_ref()).and_then(super::numbers);
            Work::ConstantOfShape(first.and_then(|numbers| numbers.first().copied()).unwrap_or(0.0))
        }
        _ => Work::Unknown(UNKNOWN_OPERATOR.to_owned()),
    }
}

/// Semantics of layers with weights or windows; `None` for other operators.
fn layer(kind: &str, attributes: &Attributes<'_>) -> Option<Work> {
    let count = |name: &str| attributes.count(name, 0);
    let pool = |kind| Work::Pool { kind, window: attributes.window() };
    let conv = |window, groups| Work::Convolution(Convolution { window, groups, is_depthwise: false });
    Some(match kind {
        "Einsum" => Work::Einsum(attributes.text("equation").to_owned()),
        "GroupNormalization" => Work::GroupNorm { groups: Some(count("num_groups")) },
        "LSTM" => Work::Recurrent {
            gates: None,
            features: attributes.find("hidden_size").map(|size| as_extent(size.i)),
            batch_first: attributes.flag("layout"),
        },
        "MatMulNBits" => Work::Linear { depth: count("K"), outputs: count("N") },
        "CausalConvWithState" => conv(Windowed { pads: Pads::Causal, ..attributes.window() }, None),
        "Conv" => conv(attributes.window(), Some(attributes.count("group", 1))),
        "ConvTranspose" => Work::TransposedConvolution(TransposedConvolution {
            window: attributes.window(),
            groups: attributes.count("group", 1),
            output_pads: attributes.counts("output_padding"),
        }),
        "FusedMatMul" if attributes.flag("transBatchA") || attributes.flag("transBatchB") => Work::Unknown(
            "a product with its batch axes inside the rows; export without that fusion".to_owned(),
        ),
        "Gemm" | "FusedMatMul" | "TransposeMatMul" => Work::Product {
            transpose: ["transA", "transB"].map(|side| attributes.flag(side)),
            flatten: false,
        },
        "MaxPool" => pool(PoolKind::Max),
        "AveragePool" | "LpPool" => pool(PoolKind::Average),
        _ => return None,
    })
}

/// Semantics of reductions, searches and gathers; `None` for other operators.
fn choice_of_elements(kind: &str, attributes: &Attributes<'_>) -> Option<Work> {
    let axis = |usual: i64| attributes.integer("axis", usual);
    let keep = attributes.keeps_axes();
    let reduce = |reduction| Work::Reduce { reduction, keep };
    let search = |extents| Work::single_pass(GenericKind::Search, extents);
    Some(match kind {
        "ReduceMean" => reduce(Reduction::Mean),
        "ReduceSum" | "ReduceSumSquare" | "ReduceL1" | "ReduceL2" | "ReduceLogSum" | "ReduceLogSumExp" => {
            reduce(Reduction::Sum)
        }
        "ReduceMax" => reduce(Reduction::Max),
        "ReduceMin" => reduce(Reduction::Min),
        "ReduceProd" => reduce(Reduction::Product),
        "TopK" => search(Extents::Counted { axis: axis(-1), is_new: false }),
        "ArgMax" | "ArgMin" => search(Extents::Reduced { axis: axis(0), keep }),
        "Unique" | "Compress" => search(Extents::Chosen { axis: attributes.find("axis").map(|axis| axis.i) }),
        // Reads four pixels per pixel of a region.
        "RoiAlign" => {
            let side = |name| attributes.count(name, 1);
            let extents = Extents::Regions { height: side("output_height"), width: side("output_width") };
            Work::Generic { kind: GenericKind::Gather, extents, passes: 4 }
        }
        "MaxRoiPool" => {
            let sides = attributes.counts("pooled_shape");
            let side = |axis: usize| sides.get(axis).copied().unwrap_or(0);
            Work::single_pass(GenericKind::Gather, Extents::Regions { height: side(0), width: side(1) })
        }
        "OneHot" => Work::single_pass(GenericKind::Gather, Extents::Counted { axis: axis(-1), is_new: true }),
        "GatherND" => {
            let shared = usize::try_from(attributes.integer("batch_dims", 0)).unwrap_or(0);
            Work::single_pass(GenericKind::Gather, Extents::Places { shared })
        }
        _ => return None,
    })
}

/// Semantics of Fourier transforms, and of classical machine learning (`ai.onnx.ml`); `None` for
/// other operators.
fn classical(kind: &str, attributes: &Attributes<'_>) -> Option<Work> {
    let rows = |numbers, has_kinds, kind, passes: usize| Work::Generic {
        kind,
        extents: Extents::Rows { numbers, has_kinds },
        passes: as_extent(passes.max(1)),
    };
    // Number of support vectors.
    let vectors = || {
        let kinds = attributes.counts("vectors_per_class").into_iter().fold(0, u32::saturating_add);
        attributes.count("n_supports", kinds.into()) as usize
    };
    let transform = |extents| Work::single_pass(GenericKind::Transform, extents);
    let frequencies = |spectrum| transform(Extents::Spectrum(spectrum));
    let targets = |name: &str| as_extent(attributes.integer(name, 1));
    let kinds = || {
        let lists = ["classlabels_int64s", "classlabels_ints", "classlabels_strings"];
        let counts = lists.iter().filter_map(|name| attributes.find(name));
        as_extent(counts.map(|list| list.ints.len().max(list.strings.len())).max().unwrap_or(1) as u64)
    };
    Some(match kind {
        // For an inverse transform to real numbers, the file states the extents.
        "DFT" if attributes.flag("inverse") && attributes.flag("onesided") => transform(Extents::Said),
        "DFT" => frequencies(Spectrum::Whole {
            axis: attributes.integer("axis", -2),
            is_half: attributes.flag("onesided"),
        }),
        "STFT" => frequencies(Spectrum::Windows { is_half: attributes.integer("onesided", 1) != 0 }),
        "TreeEnsemble" | "TreeEnsembleRegressor" => {
            rows(targets("n_targets"), false, GenericKind::Search, passes_of_trees(attributes))
        }
        "TreeEnsembleClassifier" => rows(kinds(), true, GenericKind::Search, passes_of_trees(attributes)),
        // Each result is a dot product with all features of the row.
        "LinearRegressor" => {
            let targets = targets("targets");
            rows(targets, false, GenericKind::Reduction, targets as usize)
        }
        "LinearClassifier" => rows(kinds(), true, GenericKind::Reduction, kinds() as usize),
        "SVMRegressor" => rows(1, false, GenericKind::Reduction, vectors()),
        "SVMClassifier" => rows(kinds(), true, GenericKind::Reduction, vectors()),
        _ => return None,
    })
}

/// Number of passes of trees over the features of a row. Each tree makes one comparison per level and is assumed to be
/// balanced.
fn passes_of_trees(attributes: &Attributes<'_>) -> usize {
    let list = |name: &str| attributes.find(name).map_or(&[][..], |list| &list.ints[..]);
    let most = |name: &str| list(name).iter().max().map_or(0, |&most| usize::try_from(most).unwrap_or(0) + 1);
    let trees = list("tree_roots").len().max(most("nodes_treeids")).max(1);
    let nodes = list("nodes_featureids").len();
    let levels = (nodes / trees + 1).ilog2() as usize;
    (trees.min(nodes) * levels).div_ceil(most("nodes_featureids").max(1))
}

//! Number formats of a file and its products.
//!
//! Responsible for: tracing operands back to weights, and counting weights by the format that they are computed in,
//! including those in branches and loop bodies. Not for: the semantics of operators. Invariant: embedding tables do not
//! count.

use std::collections::{HashMap, HashSet};

use super::messages::{GraphProto, NodeProto, TensorProto};
use super::nodes::Attributes;
use super::{constant, element};
use crate::majority::most;
use coexec_sim::DataType;

/// Operators that may lie between a tensor and the node that computes with it.
const REARRANGING: [&str; 7] =
    ["Transpose", "Reshape", "Identity", "Squeeze", "Unsqueeze", "QuantizeLinear", "DequantizeLinear"];

/// Maximum number of such operators in a row.
const MAX_BETWEEN: usize = 4;

/// Formats of files; ties go to the last one.
const FORMATS: [DataType; 6] =
    [DataType::F32, DataType::F16, DataType::W8A16, DataType::W4A16, DataType::I8Dynamic, DataType::I8];

/// The nodes and constants of a graph and all its subgraphs.
#[derive(Default)]
pub(super) struct Formats<'a> {
    nodes: Vec<&'a NodeProto>,
    tensors: HashMap<&'a str, &'a TensorProto>,
    /// The writer of each tensor.
    writers: HashMap<&'a str, &'a NodeProto>,
    /// Whether activations are quantised statically.
    is_static: bool,
    /// The format of integer products without scales.
    as_stored: DataType,
    /// The prevailing format in which weights are computed with; casts may store them in another. Integers require
    /// quantised activations, static or dynamic.
    pub(super) of_most: DataType,
}

/// Weights: their format, name and number of elements.
type Weights<'a> = (DataType, &'a str, u64);

/// The origin of a tensor, through rearranging operators.
struct Origin<'a> {
    constant: Option<&'a TensorProto>,
    is_quantised: bool,
    /// Whether it is quantised to 16 bits.
    is_wide: bool,
}

impl<'a> Formats<'a> {
    pub(super) fn of(graph: &'a GraphProto) -> Self {
        let mut formats = Self::default();
        formats.read(graph);
        let has = |kind: &str| formats.nodes.iter().any(|node| node.op_type == kind);
        let (is_static, is_dynamic) = (has("QuantizeLinear"), has("DynamicQuantizeLinear"));
        formats.is_static = is_static;
        formats.as_stored = if is_dynamic { DataType::I8Dynamic } else { DataType::I8 };
        formats.of_most = formats.counted();
        formats
    }

    /// The number format of a product: that of most of its weights; without weights, that of its operator or of its
    /// quantised operands.
    pub(super) fn of_product(&self, node: &'a NodeProto) -> Option<DataType> {
        let own = most(FORMATS, self.weights(node).into_iter().map(|(format, _, count)| (format, count)));
        let is_of_integers = self.is_static && [DataType::I8, DataType::W8A16].contains(&self.of_most);
        own.or_else(|| self.integers(node)).or_else(|| is_of_integers.then(|| self.of_quantised(node)))
    }

    fn read(&mut self, graph: &'a GraphProto) {
        self.tensors.extend(graph.initializer.iter().map(|tensor| (&tensor.name[..], tensor)));
        for node in &graph.node {
            if let ("Constant", Some(output)) = (&node.op_type[..], node.output.first()) {
                let held = node.attribute.iter().find_map(|attribute| attribute.t.as_ref());
                self.tensors.extend(held.map(|tensor| (&output[..], tensor)));
                continue;
            }
            self.writers.extend(node.output.iter().map(|output| (&output[..], node)));
            self.nodes.push(node);
            for branch in node.attribute.iter().filter_map(|attribute| attribute.g.as_ref()) {
                self.read(branch);
            }
        }
    }

    /// The prevailing format of weights, each counted once.
    fn counted(&self) -> DataType {
        let mut seen: HashSet<&str> = HashSet::new();
        let mut counts: Vec<(DataType, u64)> = Vec::new();
        for node in &self.nodes {
            // Integer operators count as one weight, which decides only where no weights are known.
            let integers =
                if node.op_type == "QuantizeLinear" { Some(DataType::I8) } else { self.integers(node) };
            counts.extend(integers.map(|format| (format, 1)));
            let weights = self.weights(node).into_iter().filter(|&(_, name, _)| seen.insert(name));
            counts.extend(weights.map(|(format, _, count)| (format, count)));
        }
        most(FORMATS, counts).unwrap_or_default()
    }

    /// The format of an operator that computes with integers; `None` for other operators.
    fn integers(&self, node: &NodeProto) -> Option<DataType> {
        match &node.op_type[..] {
            "QLinearConv" | "QLinearMatMul" | "QGemm" => Some(DataType::I8),
            "ConvInteger" | "MatMulInteger" | "MatMulIntegerToFloat" | "QAttention" => Some(self.as_stored),
            "DynamicQuantizeMatMul" | "DynamicQuantizeLSTM" => Some(DataType::I8Dynamic),
            _ => None,
        }
    }

    /// The weights that a node computes with.
    fn weights(&self, node: &'a NodeProto) -> Vec<Weights<'a>> {
        let integers = self.integers(node);
        let operands = match &node.op_type[..] {
            "MatMulNBits" | "MatMulBnb4" => {
                let extent = |name| u64::from(Attributes(&node.attribute).count(name, 0));
                let name = node.input.get(1).map_or("", String::as_str);
                return vec![(packed(node), name, extent("K") * extent("N"))];
            }
            // Tables are read, not computed with; rearranged weights count at their reader.
            "Gather"
            | "GatherBlockQuantized"
            | "EmbedLayerNormalization"
            | "QEmbedLayerNormalization"
            | "Cast" => {
                return Vec::new();
            }
            kind if REARRANGING.contains(&kind) => return Vec::new(),
            "QLinearConv" | "QLinearMatMul" | "QGemm" => 3..4,
            "DynamicQuantizeLSTM" => 1..3,
            _ if integers.is_some() => 1..2,
            _ => 0..node.input.len(),
        };
        let weights = node.input.iter().take(operands.end).skip(operands.start).filter_map(|name| {
            let origin = self.origin(name);
            let tensor = origin.constant?;
            let format = match (tensor.data_type, integers) {
                // Products unpack these weights on the fly; convolutions dequantise them first.
                (element::INT4 | element::UINT4, _) if !node.op_type.starts_with("Conv") => DataType::W4A16,
                (_, Some(format)) => format,
                _ if origin.is_quantised => self.of_quantised(node),
                (element::FLOAT | element::DOUBLE, None) => DataType::F32,
                (element::FLOAT16 | element::BFLOAT16, None) => DataType::F16,
                _ => return None,
            };
            Some((format, &tensor.name[..], constant(tensor).elements()))
        });
        weights.collect()
    }

    /// The format of a node with quantised weights: integers if its activations are statically quantised as well.
    fn of_quantised(&self, node: &'a NodeProto) -> DataType {
        let origins = node.input.iter().map(|name| self.origin(name));
        let mut given = origins.filter(|origin| origin.constant.is_none() && origin.is_quantised);
        match given.next() {
            Some(first) if self.is_static && first.is_wide => DataType::W8A16,
            Some(_) if self.is_static => DataType::I8,
            Some(_) | None => DataType::F32,
        }
    }

    fn origin(&self, name: &'a str) -> Origin<'a> {
        let mut origin = Origin { constant: None, is_quantised: false, is_wide: false };
        let mut name = name;
        for _ in 0..=MAX_BETWEEN {
            origin.constant = self.tensors.get(name).copied();
            let writer = self.writers.get(name).filter(|node| REARRANGING.contains(&&node.op_type[..]));
            let Some((writer, read)) = writer.and_then(|node| Some((node, node.input.first()?))) else {
                break;
            };
            origin.is_quantised |= writer.op_type == "DequantizeLinear";
            let zero = writer.input.get(2).and_then(|zero| self.tensors.get(&zero[..]));
            origin.is_wide |= zero.is_some_and(|zero| element::WIDE.contains(&zero.data_type));
            name = read;
        }
        origin
    }
}

/// The format of weights packed to the node's `bits`, with 16-bit activations.
fn packed(node: &NodeProto) -> DataType {
    if Attributes(&node.attribute).integer("bits", 4) <= 4 { DataType::W4A16 } else { DataType::W8A16 }
}

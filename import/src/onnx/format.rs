//! In which number format a file computes.
//!
//! Responsible for: counting weights by the format that they are computed with, in branches and bodies of loops as
//! well. Not for: what the operators do. Invariant: tables in which rows are looked up do not count.

use std::collections::{HashMap, HashSet};

use super::messages::{GraphProto, NodeProto, TensorProto};
use super::nodes::Attributes;
use super::{constant, element};
use coexec_sim::DataType;

/// What stands between a weight and who computes with it.
const REARRANGING: [&str; 7] =
    ["Transpose", "Reshape", "Identity", "Squeeze", "Unsqueeze", "QuantizeLinear", "DequantizeLinear"];

/// How many of those at most.
const MOST_BETWEEN: usize = 4;

/// Formats that files have; of equals the last counts.
const FORMATS: [DataType; 6] =
    [DataType::F32, DataType::F16, DataType::W8A16, DataType::W4A16, DataType::I8Dynamic, DataType::I8];

/// The number format of most weights, as they are computed with: what is cast is stored in another. Integers where
/// activations are quantised, in advance or as they come.
pub(super) fn of_most_weights(graph: &GraphProto) -> DataType {
    let mut weights = Weights::default();
    weights.read(graph);
    let counted = weights.counted();
    let total = |format: DataType| {
        let elements = counted.iter().filter(|one| one.0 == format).map(|one| one.1);
        (format, elements.fold(0, u64::saturating_add))
    };
    let known = FORMATS.map(total).into_iter().filter(|one| one.1 > 0);
    known.max_by_key(|one| one.1).map_or(DataType::F32, |one| one.0)
}

/// The nodes and constants of a graph and all graphs in it.
#[derive(Default)]
struct Weights<'a> {
    nodes: Vec<&'a NodeProto>,
    tensors: HashMap<&'a str, &'a TensorProto>,
    /// Who writes a tensor.
    writers: HashMap<&'a str, &'a NodeProto>,
}

impl<'a> Weights<'a> {
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

    /// Formats, and how many weights each has; each weight once. Operators count once more than they have weights.
    fn counted(&self) -> Vec<(DataType, u64)> {
        let has = |kinds: &[&str]| self.nodes.iter().any(|node| kinds.contains(&&node.op_type[..]));
        let is_static = has(&["QuantizeLinear"]);
        let as_they_come = if has(&["DynamicQuantizeLinear"]) { DataType::I8Dynamic } else { DataType::I8 };
        let casts = self.nodes.iter().filter(|node| node.op_type == "Cast");
        let mut seen: HashSet<&str> = casts.flat_map(|node| &node.input).map(String::as_str).collect();
        let mut counts = Vec::new();
        for node in &self.nodes {
            let (format, operands): (DataType, &[usize]) = match &node.op_type[..] {
                "MatMulNBits" | "MatMulBnb4" => {
                    let extent = |name| u64::from(Attributes(&node.attribute).count(name, 0));
                    counts.push((packed(node), extent("K") * extent("N")));
                    continue;
                }
                "QLinearConv" | "QLinearMatMul" | "QGemm" => (DataType::I8, &[3]),
                "QuantizeLinear" => (DataType::I8, &[0]),
                "ConvInteger" | "MatMulInteger" | "MatMulIntegerToFloat" | "QAttention" => {
                    (as_they_come, &[1])
                }
                "DynamicQuantizeMatMul" => (DataType::I8Dynamic, &[1]),
                "DynamicQuantizeLSTM" => (DataType::I8Dynamic, &[1, 2]),
                "DequantizeLinear" if is_static => (DataType::I8, &[0]),
                "DequantizeLinear" => (DataType::F32, &[0]),
                // Their rows are read, and not computed with.
                "Gather"
                | "GatherBlockQuantized"
                | "EmbedLayerNormalization"
                | "QEmbedLayerNormalization" => {
                    continue;
                }
                _ => {
                    counts.extend(self.floats(node, &mut seen));
                    continue;
                }
            };
            counts.push((format, 1));
            for name in operands.iter().filter_map(|&operand| node.input.get(operand)) {
                let Some(tensor) = self.stored(name).filter(|tensor| seen.insert(&tensor.name)) else {
                    continue;
                };
                let is_packed = [element::INT4, element::UINT4].contains(&tensor.data_type);
                counts.push((if is_packed { DataType::W4A16 } else { format }, constant(tensor).elements()));
            }
        }
        counts
    }

    /// The constant behind a tensor that is rearranged, or quantised, before it is computed with.
    fn stored(&self, name: &'a str) -> Option<&'a TensorProto> {
        let mut name = name;
        for _ in 0..MOST_BETWEEN {
            if let Some(tensor) = self.tensors.get(name) {
                return Some(tensor);
            }
            let writer = self.writers.get(name).filter(|node| REARRANGING.contains(&&node.op_type[..]))?;
            name = writer.input.first()?;
        }
        None
    }

    /// Weights that a node reads as they are.
    fn floats(&self, node: &'a NodeProto, seen: &mut HashSet<&'a str>) -> Vec<(DataType, u64)> {
        let read =
            node.input.iter().filter_map(|name| self.tensors.get(&name[..]).map(|tensor| (name, tensor)));
        let floats = read.filter_map(|(name, tensor)| {
            let format = match tensor.data_type {
                element::FLOAT | element::DOUBLE => DataType::F32,
                element::FLOAT16 | element::BFLOAT16 => DataType::F16,
                _ => return None,
            };
            seen.insert(name).then(|| (format, constant(tensor).elements()))
        });
        floats.collect()
    }
}

/// Weights that are packed to so many bits, of activations in 16.
fn packed(node: &NodeProto) -> DataType {
    if Attributes(&node.attribute).integer("bits", 4) <= 4 { DataType::W4A16 } else { DataType::W8A16 }
}

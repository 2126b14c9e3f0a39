//! Reads ONNX files.
//!
//! Responsible for: translating a file's nodes, tensors and symbolic dimensions to the
//! vocabulary of `model.rs`. Not for: extents inside the model, which are inferred from
//! those of its inputs, or for the values of weights.

mod external;
mod format;
mod functions;
mod fused;
pub(super) mod messages;
mod nodes;
mod order;
mod skim;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{Read, Seek};
use std::path::Path;

use bytes::Bytes;
use half::f16;
use prost::Message;

use super::dimensions;
use super::error::ImportError;
use super::model::{
    Arithmetic, Constant, Elemental, ImageOrder, Loop, Model, Operands, PADDED, SourceNode, SourceTensor,
    TensorId, Work, as_extent, written,
};
use super::{ImportOptions, OpenDimensions, Result};
use format::Formats;
use messages::{DimensionProto, GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto};
use nodes::Attributes;

/// Names that exporters write for any unknown dimension, so that equal names do not mean equal dimensions.
const NO_NAMES: [&str; 4] = ["", "?", "-1", "None"];

/// Placeholder for a symbolic dimension that was not set; the import fails later.
const OPEN_EXTENT: u32 = 1;

/// Reads a model of `length` bytes; returns it with its symbolic dimensions. Small tensors outside its file are read
/// from `folder`.
pub(super) fn read(
    (file, length): (impl Read + Seek, u64),
    folder: Option<&Path>,
    options: &ImportOptions,
) -> Result<(Model, OpenDimensions)> {
    if let Some(name) = &options.signature {
        return Err(ImportError::NoSuchSignature { name: name.clone(), known: Vec::new() });
    }
    let refused = |reason: String| ImportError::NotAModel { format: "ONNX", reason };
    let bytes = skim::without_weights(file, length).map_err(|error| refused(error.to_string()))?;
    let mut proto = ModelProto::decode(Bytes::from(bytes)).map_err(|error| refused(error.to_string()))?;
    functions::inline(&mut proto).map_err(refused)?;
    let Some(mut graph) = proto.graph.filter(|_| proto.ir_version.is_some()) else {
        return Err(refused("it has no graph".to_owned()));
    };
    if let Some(folder) = folder {
        external::read(&mut graph, folder);
    }
    fused::decompose(&mut graph);
    let standard = |set: &&messages::OperatorSetId| set.domain.is_empty() || set.domain == "ai.onnx";
    let version = proto.opset_import.iter().find(standard).map_or(i64::MAX, |set| set.version);
    let (formats, asked) = (Formats::of(&graph), options.dimensions.clone());
    let mut reader = Reader { formats, asked, version, ..Reader::default() };
    let mut model = reader.model(&graph);
    order::depth_first(&mut model);
    Ok((model, reader.open))
}

/// State while reading a model.
#[derive(Default)]
struct Reader<'a> {
    formats: Formats<'a>,
    /// Extents that the caller sets for symbolic dimensions, by name.
    asked: BTreeMap<String, u32>,
    /// Version of the standard operator set.
    version: i64,
    nodes: Vec<SourceNode>,
    /// Number of conditional branches around the current node.
    branches: u32,
    /// Types and shapes that graphs state for their tensors.
    stated: Vec<(TensorId, &'a ValueInfoProto)>,
    open: OpenDimensions,
    tensors: Vec<SourceTensor>,
    by_name: HashMap<String, TensorId>,
    /// Tensors that were cast to floats, and tensors computed from these.
    floats: HashSet<TensorId>,
}

impl<'a> Reader<'a> {
    fn model(&mut self, graph: &'a GraphProto) -> Model {
        let [given, outputs] = self.inner(graph).map(|tensors| tensors.into_iter().flatten());
        let outputs: Vec<TensorId> = outputs.collect();
        let nodes = std::mem::take(&mut self.nodes);
        let read = nodes.iter().flat_map(|node| &node.reads).copied().flatten();
        let read: HashSet<TensorId> = read.chain(outputs.iter().copied()).collect();
        let mut inputs = Vec::new();
        for (info, id) in graph.input.iter().zip(given) {
            // Old files list weights among the inputs. Unread inputs are skipped, so their dimensions need not be set.
            if self.tensors[id].constant.is_some() || !read.contains(&id) {
                continue;
            }
            if is_empty_list(info) {
                self.tensors[id].constant = Some(Constant::list([]));
            } else {
                self.tensors[id].extents = self.extents(info, true);
                inputs.push(id);
            }
        }
        for (id, info) in std::mem::take(&mut self.stated) {
            if self.tensors[id].extents.is_none() {
                self.tensors[id].extents = self.extents(info, false);
            }
        }
        let data_type = self.formats.of_most;
        let tensors = std::mem::take(&mut self.tensors);
        let order = ImageOrder::ChannelsFirst;
        Model { order, data_type, tensors, inputs, outputs, unset: Vec::new(), nodes }
    }

    /// The tensor called `name`, added if missing.
    fn tensor(&mut self, name: &str) -> TensorId {
        if let Some(&id) = self.by_name.get(name) {
            return id;
        }
        let id = self.tensors.len();
        self.tensors.push(SourceTensor { name: name.to_owned(), ..SourceTensor::default() });
        self.by_name.insert(name.to_owned(), id);
        id
    }

    /// The tensors with those names; `None` for empty names (absent operands).
    fn named(&mut self, names: &[String]) -> Operands {
        names.iter().map(|name| (!name.is_empty()).then(|| self.tensor(name))).collect()
    }

    /// Extents stated in the file. Symbolic ones of an input are recorded, and replaced by what the caller sets.
    /// `None` where other extents are unknown.
    fn extents(&mut self, info: &ValueInfoProto, is_input: bool) -> Option<Vec<u32>> {
        let shape = info.r#type.as_ref()?.tensor_type.as_ref()?.shape.as_ref()?;
        let mut extents = Vec::with_capacity(shape.dim.len());
        for (axis, dimension) in shape.dim.iter().enumerate() {
            let known = dimension.dim_value.filter(|&value| value > 0);
            if let Some(value) = known {
                extents.push(as_extent(value));
                continue;
            }
            let named = dimension.dim_param.clone().filter(|name| !NO_NAMES.contains(&name.as_str()));
            let name = named.unwrap_or_else(|| format!("{}.{axis}", info.name));
            let asked = self.asked.get(&name).copied();
            let sum = || dimensions::sum(&name, |part| self.asked.get(part).copied());
            let sum = if asked.is_none() { sum() } else { None };
            extents.push(asked.or(sum).unwrap_or(OPEN_EXTENT));
            if sum.is_some() {
                continue;
            }
            if is_input {
                self.open.entry(name).or_insert_with(|| format!("axis {axis} of {}", info.name));
            } else if !self.open.contains_key(&name) {
                return None;
            }
        }
        Some(extents)
    }

    fn nodes(&mut self, graph: &'a GraphProto) {
        for (index, node) in graph.node.iter().enumerate() {
            let node = match node.op_type.as_str() {
                "If" => Some(self.choice(index, node)),
                "Loop" => Some(self.read_loop(index, node)),
                _ => self.node(index, node),
            };
            self.nodes.extend(node);
        }
    }

    /// Reads the nodes of both branches of an `If`, and returns the node that selects the results.
    fn choice(&mut self, index: usize, node: &'a NodeProto) -> SourceNode {
        let mut reads = self.named(&node.input);
        reads.truncate(1);
        for branch in ["then_branch", "else_branch"] {
            self.branches += 1;
            let branch = Attributes(&node.attribute).graph(branch);
            let [_, mut outputs] = branch.map(|branch| self.inner(branch)).unwrap_or_default();
            self.branches -= 1;
            outputs.resize(node.output.len(), None);
            reads.extend(outputs);
        }
        let writes = self.named(&node.output);
        self.source(index, node, Work::Choice, reads, writes)
    }

    /// A loop with the nodes of its body. Its operands include the outer tensors that the body reads.
    fn read_loop(&mut self, index: usize, node: &'a NodeProto) -> SourceNode {
        let (mut reads, writes) = (self.named(&node.input), self.named(&node.output));
        let outside = std::mem::take(&mut self.nodes);
        let body = Attributes(&node.attribute).graph("body");
        let [inputs, outputs] = body.map(|body| self.inner(body)).unwrap_or_default();
        let nodes = std::mem::replace(&mut self.nodes, outside);
        let own = nodes.iter().flat_map(|node| &node.writes).chain(&inputs).copied().flatten();
        let own: HashSet<TensorId> = own.collect();
        let read = nodes.iter().flat_map(|node| &node.reads).chain(&outputs).copied().flatten();
        reads.resize(reads.len().max(inputs.len()), None);
        reads.extend(read.filter(|tensor| !own.contains(tensor)).map(Some));
        self.source(index, node, Work::Loop(Loop { nodes, inputs, outputs }), reads, writes)
    }

    /// Reads a graph, whose tensors shadow outer ones of the same names; returns its inputs and outputs.
    fn inner(&mut self, graph: &'a GraphProto) -> [Operands; 2] {
        let own = graph.initializer.iter().map(|tensor| &tensor.name);
        let own = own.chain(graph.node.iter().flat_map(|node| &node.output));
        let own = own.chain(graph.input.iter().map(|info| &info.name));
        let hidden: Vec<(&String, Option<TensorId>)> =
            own.map(|name| (name, self.by_name.remove(name))).collect();
        for tensor in &graph.initializer {
            let id = self.tensor(&tensor.name);
            self.tensors[id].constant = Some(constant(tensor));
            self.tensors[id].unread_file = external::unread_file(tensor);
        }
        let inputs = graph.input.iter().map(|info| Some(self.tensor(&info.name))).collect();
        for info in graph.value_info.iter().chain(&graph.output) {
            let id = self.tensor(&info.name);
            self.stated.push((id, info));
        }
        self.nodes(graph);
        let outputs = graph.output.iter().map(|info| Some(self.tensor(&info.name))).collect();
        for (name, before) in hidden.into_iter().rev() {
            match before {
                Some(id) => self.by_name.insert(name.clone(), id),
                None => self.by_name.remove(name),
            };
        }
        [inputs, outputs]
    }

    /// A node with its name, or with a name from its operator type and index if it has none.
    fn source(
        &self,
        index: usize,
        node: &NodeProto,
        work: Work,
        reads: Operands,
        writes: Operands,
    ) -> SourceNode {
        let name = if node.name.is_empty() { format!("{}_{index}", node.op_type) } else { node.name.clone() };
        let data_type = if work.multiplies() { self.formats.of_product(node) } else { None };
        let is_padded = node.domain == PADDED;
        let kind = if is_padded { format!("{PADDED}.{}", node.op_type) } else { node.op_type.clone() };
        let branches = self.branches;
        SourceNode { name, kind, branches, work, data_type, reads, writes }
    }

    /// Whether the results of a node are known to be floats.
    fn is_of_floats(&self, node: &NodeProto, reads: &[Option<TensorId>]) -> bool {
        match node.op_type.as_str() {
            "Cast" => element::FLOATS.contains(&Attributes(&node.attribute).integer("to", 0)),
            "Shape" | "Size" => false,
            _ => reads.iter().flatten().any(|tensor| self.floats.contains(tensor)),
        }
    }

    /// Reads a node; `None` for a `Constant`.
    fn node(&mut self, index: usize, node: &NodeProto) -> Option<SourceNode> {
        if node.op_type == "Constant" {
            let id = self.tensor(node.output.first()?);
            self.tensors[id].constant = Some(constant_node(node));
            return None;
        }
        let (mut reads, writes) = (self.named(&node.input), self.named(&node.output));
        for attribute in &node.attribute {
            if let Some(operand) = nodes::operand(&node.op_type, &attribute.name) {
                let numbers =
                    if attribute.name == "axis" { vec![attribute.i] } else { attribute.ints.clone() };
                reads.resize(reads.len().max(operand + 1), None);
                reads[operand] = Some(written(&mut self.tensors, numbers));
            }
        }
        let (mut work, reads) = nodes::work(node, self.version, &reads);
        if self.is_of_floats(node, &reads) {
            self.floats.extend(writes.iter().flatten());
            if work == Work::Arithmetic(Arithmetic::Divide) {
                work = Work::Arithmetic(Arithmetic::DivideFloats);
            }
        } else if node.op_type == "Cast" {
            work = Work::Function(Elemental::Truncate);
        }
        Some(self.source(index, node, work, reads, writes))
    }
}

/// Whether an input is an empty list (of axes, for instance).
fn is_empty_list(info: &ValueInfoProto) -> bool {
    let shape = info.r#type.as_ref().and_then(|kind| kind.tensor_type.as_ref()?.shape.as_ref());
    shape.is_some_and(|shape| matches!(shape.dim[..], [DimensionProto { dim_value: Some(0), .. }]))
}

/// Element types of tensors (`TensorProto.DataType`).
mod element {
    pub(super) const FLOAT: i32 = 1;
    pub(super) const UINT8: i32 = 2;
    pub(super) const INT8: i32 = 3;
    pub(super) const INT32: i32 = 6;
    pub(super) const INT64: i32 = 7;
    pub(super) const BOOL: i32 = 9;
    pub(super) const FLOAT16: i32 = 10;
    pub(super) const DOUBLE: i32 = 11;
    pub(super) const BFLOAT16: i32 = 16;
    /// Integers of 16 bits.
    pub(super) const WIDE: [i32; 2] = [4, 5];
    pub(super) const UINT4: i32 = 21;
    pub(super) const INT4: i32 = 22;
    pub(super) const FLOATS: [i64; 4] = [FLOAT as i64, FLOAT16 as i64, DOUBLE as i64, BFLOAT16 as i64];
}

/// Extents of a constant, and its values if they are few.
fn constant(tensor: &TensorProto) -> Constant {
    Constant::read(tensor.dims.iter().copied().map(as_extent).collect(), || numbers(tensor))
}

fn numbers(tensor: &TensorProto) -> Option<Vec<f64>> {
    let raw = &tensor.raw_data[..];
    let typed: Vec<f64> = match tensor.data_type {
        element::FLOAT if raw.is_empty() => tensor.float_data.iter().map(|&n| f64::from(n)).collect(),
        element::DOUBLE if raw.is_empty() => tensor.double_data.clone(),
        element::INT64 if raw.is_empty() => tensor.int64_data.iter().map(|&n| n as f64).collect(),
        element::INT32 | element::INT8 | element::UINT8 | element::BOOL if raw.is_empty() => {
            tensor.int32_data.iter().map(|&n| f64::from(n)).collect()
        }
        element::FLOAT16 if raw.is_empty() => {
            tensor.int32_data.iter().map(|&n| f16::from_bits(n as u16).to_f64()).collect()
        }
        element::FLOAT16 => raw.as_chunks().0.iter().map(|&n| f16::from_le_bytes(n).to_f64()).collect(),
        element::FLOAT => raw.as_chunks().0.iter().map(|&n| f64::from(f32::from_le_bytes(n))).collect(),
        element::DOUBLE => raw.as_chunks().0.iter().map(|&n| f64::from_le_bytes(n)).collect(),
        element::INT64 => raw.as_chunks().0.iter().map(|&n| i64::from_le_bytes(n) as f64).collect(),
        element::INT32 => raw.as_chunks().0.iter().map(|&n| f64::from(i32::from_le_bytes(n))).collect(),
        element::INT8 => raw.iter().map(|&n| f64::from(n.cast_signed())).collect(),
        element::UINT8 | element::BOOL => raw.iter().map(|&n| f64::from(n)).collect(),
        _ => return None,
    };
    Some(typed)
}

/// The value of a `Constant` node.
fn constant_node(node: &NodeProto) -> Constant {
    let Some(attribute) = node.attribute.first() else { return Constant::default() };
    let list = |numbers: Vec<f64>| Constant { extents: vec![numbers.len() as u32], numbers: Some(numbers) };
    match (attribute.name.as_str(), &attribute.t) {
        (_, Some(tensor)) => constant(tensor),
        ("value_ints", _) => Constant::list(attribute.ints.iter().copied()),
        ("value_int", _) => Constant::number(attribute.i as f64),
        ("value_float", _) => Constant::number(f64::from(attribute.f)),
        ("value_floats", _) => list(attribute.floats.iter().copied().map(f64::from).collect()),
        _ => Constant::default(),
    }
}

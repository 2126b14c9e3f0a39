//! Reads TFLite files.
//!
//! Responsible for: translating the nodes and tensors of the selected subgraph, and of those that its operators
//! call, to the vocabulary of `model.rs`. Slots of fields and codes of operators: `schema.fbs` of LiteRT, as in
//! the Python package tflite 2.18.0. Not for: the values of weights.

mod format;
mod nodes;
mod table;

use super::error::ImportError;
use super::model::{
    Constant, ImageOrder, Loop, MAX_CALL_DEPTH, MAX_NODES, Model, NUMBERS_PER_NODE, OPEN_EXTENT, Operands,
    SourceNode, SourceTensor, TensorId, Work,
};
use super::{ImportOptions, OpenDimensions, Result, UnsetDimension, node_name};
use format::Formats;
use std::collections::BTreeMap;
use table::Table;

/// File identifier after the root offset.
const IDENTIFIER: &[u8] = b"TFL3";

/// Element types (`TensorType`).
mod element {
    pub(super) const FLOAT32: u8 = 0;
    pub(super) const FLOAT16: u8 = 1;
    pub(super) const INT32: u8 = 2;
    pub(super) const UINT8: u8 = 3;
    pub(super) const INT64: u8 = 4;
    pub(super) const INT16: u8 = 7;
    pub(super) const INT8: u8 = 9;
    pub(super) const INT4: u8 = 17;
    pub(super) const INT2: u8 = 19;
    pub(super) const UINT4: u8 = 20;
}

/// Slots of a model and of a signature: its signatures, the name of one, and its subgraph.
const SIGNATURES: usize = 7;
const SIGNATURE_KEY: usize = 2;
const SIGNATURE_GRAPH: usize = 4;

/// Slots of a tensor: its shape, its shape signature (-1 for dynamic axes), and its data in an external file.
const SHAPE: usize = 0;
const SIGNATURE: usize = 7;
const EXTERNAL_BUFFER: usize = 10;

/// Slots of a buffer with data after the tables: its offset in the file, and its size in bytes.
const BUFFER_OFFSET: usize = 1;
const BUFFER_SIZE: usize = 2;

/// Reads a model; returns it with its dynamic dimensions that must be set. A dynamic first axis defaults to
/// one image or sequence, as in the runtime.
pub(super) fn read(bytes: &[u8], options: &ImportOptions) -> Result<(Model, OpenDimensions)> {
    if bytes.get(4..8) != Some(IDENTIFIER) {
        return Err(refused("it has no TFL3 file identifier"));
    }
    let root = Table::root(bytes).ok_or_else(|| refused("it ends before its root table"))?;
    let index = entry(&root, options.signature.as_deref())?;
    let mut reader = Reader {
        graphs: root.tables(2).collect(),
        buffers: root.tables(4).collect(),
        codes: root.tables(1).map(|code| code_of(&code)).collect(),
        ..Reader::default()
    };
    let [inputs, outputs] =
        reader.graph(index, &[])?.map(|tensors| tensors.into_iter().flatten().collect::<Vec<TensorId>>());
    let Reader { graphs, mut tensors, types, mut nodes, placeholders, .. } = reader;
    let formats = Formats { tensors: &tensors, types: &types };
    let data_type = formats.of_file(&inputs, &nodes);
    format::set_formats(&formats, data_type, &mut nodes);
    let mut unset = Vec::new();
    let open = graphs.get(index).map(|graph| opened(graph, &mut tensors, &options.dimensions, &mut unset));
    let open = open.unwrap_or_default();
    for (tensor, axis) in placeholders {
        let extents = tensors[tensor].extents.as_mut().filter(|_| !inputs.contains(&tensor));
        if let Some(extent) = extents.and_then(|extents| extents.get_mut(axis)) {
            // The runtime assumes one image unless another number is set.
            *extent = if axis == 0 && open.is_empty() { *extent } else { OPEN_EXTENT };
        }
    }
    Ok((Model { order: ImageOrder::ChannelsLast, data_type, tensors, inputs, outputs, unset, nodes }, open))
}

/// Index of the subgraph of a signature. Without `wanted`: the subgraph that all signatures share, or the first one in
/// a file without signatures.
fn entry(root: &Table<'_>, wanted: Option<&str>) -> Result<usize> {
    let entry = |table: Table<'_>| {
        Some((table.text(SIGNATURE_KEY)?, usize::try_from(table.int(SIGNATURE_GRAPH).unwrap_or(0)).ok()?))
    };
    let entries: Vec<(String, usize)> = root.tables(SIGNATURES).filter_map(entry).collect();
    let known = || entries.iter().map(|(name, _)| name.escape_debug().to_string()).collect();
    let Some(wanted) = wanted else {
        let first = entries.first().map_or(0, |(_, graph)| *graph);
        let is_only = entries.iter().all(|(_, graph)| *graph == first);
        return if is_only { Ok(first) } else { Err(ImportError::SeveralSignatures { known: known() }) };
    };
    let found = entries.iter().find(|(name, _)| name == wanted);
    found
        .map(|(_, graph)| *graph)
        .ok_or_else(|| ImportError::NoSuchSignature { name: wanted.to_owned(), known: known() })
}

/// Sets the dynamic dimensions of a graph's inputs, and returns those that were set or must be; others are added to
/// `unset`. `graph` must be the one read first, so that its tensors come first.
fn opened(
    graph: &Table<'_>,
    tensors: &mut [SourceTensor],
    dimensions: &BTreeMap<String, u32>,
    unset: &mut Vec<UnsetDimension>,
) -> OpenDimensions {
    let tables: Vec<Table<'_>> = graph.tables(0).collect();
    let mut open = OpenDimensions::new();
    for input in graph.ints(1).into_iter().filter_map(|input| usize::try_from(input).ok()) {
        let (Some(table), Some(tensor)) = (tables.get(input), tensors.get_mut(input)) else { continue };
        let name = if tensor.name.is_empty() { format!("input_{input}") } else { tensor.name.clone() };
        let axes = tensor.extents.iter_mut().flatten().enumerate().zip(table.ints(SIGNATURE));
        for ((axis, extent), _) in axes.filter(|(_, signed)| *signed < 0) {
            let (asked, place) = (format!("{name}.{axis}"), format!("axis {axis} of {name}"));
            let stated = dimensions.get(&asked).copied();
            // Dynamic axes are written as 1, as is a batch of one.
            if stated.is_some() || (axis > 0 && *extent == 1) {
                open.insert(asked, place);
            } else {
                unset.push(UnsetDimension { name: asked, extent: *extent, is_first: axis == 0 });
            }
            *extent = stated.unwrap_or(*extent);
        }
    }
    open
}

fn refused(reason: &str) -> ImportError {
    ImportError::NotAModel { format: "TensorFlow Lite", reason: reason.to_owned() }
}

/// Code of an operator, and the name of a custom one. The first field is a byte, from before there were more codes than
/// it can hold.
fn code_of(table: &Table<'_>) -> (i32, Option<String>) {
    let code = table.int(3).unwrap_or(0).max(i32::from(table.byte(0).unwrap_or(0)));
    (code, table.text(1).filter(|_| code == nodes::CUSTOM))
}

/// State while reading a file.
#[derive(Default)]
struct Reader<'a> {
    graphs: Vec<Table<'a>>,
    buffers: Vec<Table<'a>>,
    /// Operator codes, with the names of custom operators.
    codes: Vec<(i32, Option<String>)>,
    tensors: Vec<SourceTensor>,
    /// Element types of the tensors.
    types: Vec<u8>,
    /// Dynamic axes of tensors, whose extents the file writes as 1.
    placeholders: Vec<(TensorId, usize)>,
    nodes: Vec<SourceNode>,
    /// Number of nodes, tensors and calls read so far, and of units of their operands and numbers.
    pushed: usize,
    /// Call depth of the current subgraph.
    levels: u32,
    /// Number of conditional branches around the current node.
    branches: u32,
}

impl Reader<'_> {
    /// Reads a subgraph, with its inputs replaced by the `given` tensors; returns its inputs and outputs.
    fn graph(&mut self, index: usize, given: &[Option<TensorId>]) -> Result<[Operands; 2]> {
        let Some(graph) = self.graphs.get(index).copied() else { return Err(refused("a graph is missing")) };
        let [inputs, outputs] = [1, 2].map(|slot| graph.ints(slot));
        self.count(&format!("graph {index}"), inputs.len() + outputs.len())?;
        // Operands added by the reader are integers.
        self.types.resize(self.tensors.len(), element::INT32);
        let mut own: Vec<TensorId> = Vec::new();
        for table in graph.tables(0) {
            let id = self.tensors.len();
            own.push(id);
            let signature = table.ints(SIGNATURE);
            let signed = signature.iter().enumerate().filter(|(_, signed)| **signed < 0);
            self.placeholders.extend(signed.map(|(axis, _)| (id, axis)));
            self.types.push(table.byte(1).unwrap_or(element::FLOAT32));
            let tensor = tensor(&table, &self.buffers);
            self.count(&tensor.name, signature.len() + numbers_of(&tensor))?;
            self.tensors.push(tensor);
        }
        for (&input, given) in inputs.iter().zip(given) {
            if let (Some(place), Some(given)) =
                (usize::try_from(input).ok().and_then(|at| own.get_mut(at)), given)
            {
                *place = *given;
            }
        }
        for (index, table) in graph.tables(3).enumerate() {
            let place = usize::try_from(table.int(0).unwrap_or(0)).unwrap_or(usize::MAX);
            let Some((code, custom)) = self.codes.get(place).cloned() else {
                return Err(refused("an operator refers to an operator code that is not listed"));
            };
            let (reads, writes) = (ids(&table.ints(1), &own), ids(&table.ints(2), &own));
            let name = writes.iter().flatten().next().map(|&id| self.tensors[id].name.clone());
            let name = name.filter(|name| !name.is_empty()).unwrap_or_else(|| format!("operator_{index}"));
            if let Some(called) = nodes::called(code, &table) {
                self.called(&name, called, &reads, writes)?;
            } else {
                let before = self.tensors.len();
                let read = nodes::read(code, custom.as_deref(), &table, &reads, &mut self.tensors);
                self.count(&name, self.tensors[before..].iter().map(numbers_of).sum())?;
                self.push(&name, read, writes)?;
            }
        }
        Ok([ids(&inputs, &own), ids(&outputs, &own)])
    }

    /// Counts what is read, which holds so many operands and numbers: files may refer to one table any number of times.
    fn count(&mut self, name: &str, numbers: usize) -> Result<()> {
        self.pushed += 1 + numbers / NUMBERS_PER_NODE;
        if self.pushed > MAX_NODES {
            let name = node_name(name);
            return Err(refused(&format!(
                "its graphs are too large, or call each other too often, at {name}"
            )));
        }
        Ok(())
    }

    /// Inlines the subgraphs that an operator calls, with nodes that pass on their results.
    fn called(
        &mut self,
        name: &str,
        called: nodes::Called,
        reads: &[Option<TensorId>],
        writes: Operands,
    ) -> Result<()> {
        if self.levels >= MAX_CALL_DEPTH {
            return Err(refused("its graphs call each other too deeply"));
        }
        let nodes::Called { kind, graphs } = called;
        if let (nodes::WHILE, &[condition, body]) = (kind, &graphs[..]) {
            return self.read_loop(name, [condition, body], reads, writes);
        }
        let is_choice = graphs.len() > 1;
        // The condition of an `IF` comes first.
        let (condition, given) = reads.split_at(usize::from(is_choice).min(reads.len()));
        let mut results = condition.to_vec();
        self.levels += 1;
        self.branches += u32::from(is_choice);
        for index in graphs {
            let [_, mut outputs] = self.graph(index, given)?;
            outputs.resize(writes.len(), None);
            results.extend(outputs);
        }
        self.levels -= 1;
        self.branches -= u32::from(is_choice);
        if is_choice {
            return self.push(name, nodes::Read::of(kind, Work::Choice, results), writes);
        }
        for (result, write) in results.into_iter().zip(writes) {
            self.push(name, nodes::Read::of(kind, Work::Identity, vec![result]), vec![write])?;
        }
        Ok(())
    }

    /// A `WHILE` operator, as a loop whose body also computes the condition of the next iteration.
    fn read_loop(
        &mut self,
        name: &str,
        [condition, body]: [usize; 2],
        reads: &[Option<TensorId>],
        writes: Operands,
    ) -> Result<()> {
        self.levels += 1;
        let [_, first] = self.graph(condition, reads)?;
        let outside = std::mem::take(&mut self.nodes);
        let [inputs, results] = self.graph(body, &[])?;
        let [_, again] = self.graph(condition, &results)?;
        let nodes = std::mem::replace(&mut self.nodes, outside);
        self.levels -= 1;
        let [first, again] = [first, again].map(|holds| holds.first().copied().flatten());
        let body = Loop {
            nodes,
            inputs: [None, None].into_iter().chain(inputs).collect(),
            outputs: [again].into_iter().chain(results).collect(),
        };
        let reads = [None, first].into_iter().chain(reads.iter().copied()).collect();
        self.push(name, nodes::Read::of(nodes::WHILE, Work::Loop(body), reads), writes)
    }

    /// Adds a node, and a second one for its fused activation.
    fn push(&mut self, name: &str, read: nodes::Read, writes: Operands) -> Result<()> {
        self.count(name, read.reads.len() + writes.len())?;
        let nodes::Read { kind, work, reads, activation } = read;
        let (name, branches) = (name.to_owned(), self.branches);
        let mut node = SourceNode { name, kind, branches, data_type: None, work, reads, writes };
        let activation_node = activation.map(|work| {
            let between = vec![Some(self.tensors.len())];
            let written = node.writes.iter().flatten().next();
            let extents = written.and_then(|&id| self.tensors[id].extents.clone());
            let element = written.and_then(|&id| self.types.get(id).copied());
            self.types.resize(self.tensors.len(), element::INT32);
            self.types.push(element.unwrap_or(element::INT32));
            self.tensors.push(SourceTensor { name: node.name.clone(), extents, ..SourceTensor::default() });
            let writes = std::mem::replace(&mut node.writes, between.clone());
            let name = format!("{}.activation", node.name);
            SourceNode { name, work, reads: between, writes, kind: node.kind.clone(), ..node }
        });
        self.nodes.push(node);
        self.nodes.extend(activation_node);
        Ok(())
    }
}

/// Tensors by their indices in a subgraph; `None` for invalid indices (absent operands).
fn ids(numbers: &[i32], own: &[TensorId]) -> Operands {
    numbers.iter().map(|&number| own.get(usize::try_from(number).ok()?).copied()).collect()
}

/// Number of extents and known numbers of a tensor.
fn numbers_of(tensor: &SourceTensor) -> usize {
    let known = tensor.constant.as_ref().and_then(|constant| constant.numbers.as_ref());
    tensor.extents.as_ref().map_or(0, Vec::len) + known.map_or(0, Vec::len)
}

fn tensor(table: &Table<'_>, buffers: &[Table<'_>]) -> SourceTensor {
    let extents: Vec<u32> =
        table.ints(SHAPE).into_iter().map(|extent| u32::try_from(extent).unwrap_or(1)).collect();
    let buffer = usize::try_from(table.int(2).unwrap_or(0)).unwrap_or(0);
    // Buffer 0 is always empty. Quantisers and large files store data after the tables, or in an external file.
    let held = buffers.get(buffer).filter(|_| buffer > 0);
    let inside = held.and_then(|buffer| buffer.bytes(0)).filter(|data| !data.is_empty());
    let appended = held.and_then(|held| Some((held, held.long(BUFFER_OFFSET)?, held.long(BUFFER_SIZE)?)));
    let appended = appended.filter(|&(_, offset, size)| offset > 1 && size > 1);
    let is_outside = appended.is_some() || table.int(EXTERNAL_BUFFER).is_some_and(|number| number > 0);
    // An empty list, such as the extents of a scalar, needs no data.
    let constant = (inside.is_some() || is_outside || extents.contains(&0)).then(|| {
        let data =
            inside.or_else(|| appended.and_then(|(held, offset, size)| held.slice_of_file(offset, size)));
        let data = data.or(extents.contains(&0).then_some(&[]));
        let element = table.byte(1).unwrap_or(element::FLOAT32);
        Constant::read(extents.clone(), || numbers_in(data?, element))
    });
    let name = table.text(3).unwrap_or_default();
    SourceTensor { name, extents: Some(extents), constant, ..SourceTensor::default() }
}

fn numbers_in(data: &[u8], element_type: u8) -> Option<Vec<f64>> {
    Some(match element_type {
        element::FLOAT32 => data.as_chunks().0.iter().map(|&n| f64::from(f32::from_le_bytes(n))).collect(),
        element::INT32 => data.as_chunks().0.iter().map(|&n| f64::from(i32::from_le_bytes(n))).collect(),
        element::INT64 => data.as_chunks().0.iter().map(|&n| i64::from_le_bytes(n) as f64).collect(),
        _ => return None,
    })
}

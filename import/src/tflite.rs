//! TFLite files.
//!
//! Responsible for: the nodes and tensors of a file's first graph, and of those that its operators
//! call, in the words of `model.rs`. Slots of fields and numbers of operators: `schema.fbs` of LiteRT, as the
//! Python package tflite 2.18.0 has them. Not for: weights' values.

mod nodes;
mod table;

use super::OpenDimensions;
use super::error::ImportError;
use super::model::{
    Constant, ImageOrder, MAX_NUMBERS, MOST_LEVELS, MOST_NODES, Model, OPEN_EXTENT, Rounds, SourceNode,
    SourceTensor, TensorId, Work, elements,
};
use coexec_sim::DataType;
use std::collections::{BTreeMap, HashSet};
use table::Table;

/// What a file has behind its first offset.
const IDENTIFIER: &[u8] = b"TFL3";

/// Element types (`TensorType`).
mod element {
    pub(super) const FLOAT32: u8 = 0;
    pub(super) const FLOAT16: u8 = 1;
    pub(super) const INT32: u8 = 2;
    pub(super) const UINT8: u8 = 3;
    pub(super) const INT64: u8 = 4;
    pub(super) const INT8: u8 = 9;
}

/// Slots of a tensor: its extents, and those of them that are open, as -1.
const SHAPE: usize = 0;
const SIGNATURE: usize = 7;

/// Reads a model; with it the dimensions that it leaves open and that have to be said. A first axis is one
/// image or sequence unless it is said, as the runtime takes it.
pub(super) fn read(
    bytes: &[u8],
    dimensions: &BTreeMap<String, u32>,
) -> Result<(Model, OpenDimensions), ImportError> {
    if bytes.get(4..8) != Some(IDENTIFIER) {
        return Err(refused("it does not begin as one"));
    }
    let root = Table::root(bytes).ok_or_else(|| refused("it ends before it begins"))?;
    let mut reader = Reader {
        graphs: root.tables(2).collect(),
        buffers: root.tables(4).collect(),
        codes: root.tables(1).map(|code| (number_of(&code), code.text(1))).collect(),
        tensors: Vec::new(),
        types: Vec::new(),
        placeholders: Vec::new(),
        nodes: Vec::new(),
        pushed: 0,
        levels: 0,
        branches: 0,
    };
    let [inputs, outputs] =
        reader.graph(0, &[])?.map(|tensors| tensors.into_iter().flatten().collect::<Vec<TensorId>>());
    let Reader { graphs, mut tensors, types, nodes, placeholders, .. } = reader;
    let data_type = data_type(&tensors, &types, &inputs, &nodes);
    let open = graphs.first().map(|graph| opened(graph, &mut tensors, dimensions)).unwrap_or_default();
    for (tensor, axis) in placeholders {
        let extents = tensors[tensor].extents.as_mut().filter(|_| !inputs.contains(&tensor));
        if let Some(extent) = extents.and_then(|extents| extents.get_mut(axis)) {
            // One image is what the runtime takes unless another number is said.
            *extent = if axis == 0 && open.is_empty() { *extent } else { OPEN_EXTENT };
        }
    }
    Ok((Model { order: ImageOrder::ChannelsLast, data_type, tensors, inputs, outputs, nodes }, open))
}

/// Fills the dimensions of a graph's inputs that the file leaves open, and returns those that were said or
/// have to be. The graph is the first, whose tensors come first.
fn opened(
    graph: &Table<'_>,
    tensors: &mut [SourceTensor],
    dimensions: &BTreeMap<String, u32>,
) -> OpenDimensions {
    let tables: Vec<Table<'_>> = graph.tables(0).collect();
    let mut open = OpenDimensions::new();
    for input in graph.ints(1).into_iter().filter_map(|input| usize::try_from(input).ok()) {
        let (Some(table), Some(tensor)) = (tables.get(input), tensors.get_mut(input)) else { continue };
        let name = if tensor.name.is_empty() { format!("input_{input}") } else { tensor.name.clone() };
        let axes = tensor.extents.iter_mut().flatten().enumerate().zip(table.ints(SIGNATURE));
        for ((axis, extent), _) in axes.filter(|(_, signed)| *signed < 0) {
            let (asked, place) = (format!("{name}.{axis}"), format!("axis {axis} of {name}"));
            let said = dimensions.get(&asked).copied();
            // What is open is written as 1, and so is one image.
            if said.is_some() || (axis > 0 && *extent == 1) {
                open.insert(asked, place);
            }
            *extent = said.unwrap_or(*extent);
        }
    }
    open
}

fn refused(reason: &str) -> ImportError {
    ImportError::NotAModel { format: "TensorFlow Lite", reason: reason.to_owned() }
}

/// Number of an operator; the first field is a byte from when there were fewer.
fn number_of(code: &Table<'_>) -> i32 {
    code.int(3).unwrap_or(0).max(i32::from(code.byte(0).unwrap_or(0)))
}

/// A file as it is read.
struct Reader<'a> {
    graphs: Vec<Table<'a>>,
    buffers: Vec<Table<'a>>,
    /// Operators by number, and the names of the model's own.
    codes: Vec<(i32, Option<String>)>,
    tensors: Vec<SourceTensor>,
    /// Element types of the tensors.
    types: Vec<u8>,
    /// Axes of tensors whose extents the file leaves open, and writes as 1.
    placeholders: Vec<(TensorId, usize)>,
    nodes: Vec<SourceNode>,
    /// How many nodes were read.
    pushed: usize,
    /// In how many graphs the one lies that is read.
    levels: u32,
    /// In how many branches the nodes lie that are read.
    branches: u32,
}

impl Reader<'_> {
    /// Reads a graph, whose inputs are those tensors where they are given; its inputs and outputs.
    fn graph(
        &mut self,
        index: usize,
        given: &[Option<TensorId>],
    ) -> Result<[Vec<Option<TensorId>>; 2], ImportError> {
        let Some(graph) = self.graphs.get(index).copied() else { return Err(refused("a graph is missing")) };
        // Numbers that the reader wrote down have no type.
        self.types.resize(self.tensors.len(), element::INT32);
        let mut own: Vec<TensorId> = Vec::new();
        for table in graph.tables(0) {
            let id = self.tensors.len();
            own.push(id);
            let signature = table.ints(SIGNATURE).into_iter().enumerate();
            self.placeholders.extend(signature.filter(|&(_, signed)| signed < 0).map(|(axis, _)| (id, axis)));
            self.types.push(table.byte(1).unwrap_or(element::FLOAT32));
            self.tensors.push(tensor(&table, &self.buffers));
        }
        for (&input, given) in graph.ints(1).iter().zip(given) {
            if let (Some(place), Some(given)) =
                (usize::try_from(input).ok().and_then(|at| own.get_mut(at)), given)
            {
                *place = *given;
            }
        }
        for (index, table) in graph.tables(3).enumerate() {
            let place = usize::try_from(table.int(0).unwrap_or(0)).unwrap_or(usize::MAX);
            let Some((code, custom)) = self.codes.get(place).cloned() else {
                return Err(refused("an operator of a kind that is not listed"));
            };
            let (reads, writes) = (ids(&table.ints(1), &own), ids(&table.ints(2), &own));
            let name = writes.iter().flatten().next().map(|&id| self.tensors[id].name.clone());
            let name = name.filter(|name| !name.is_empty()).unwrap_or_else(|| format!("operator_{index}"));
            if let Some(called) = nodes::called(code, &table) {
                self.called(&name, called, &reads, writes)?;
            } else {
                let read = nodes::read(code, custom.as_deref(), &table, &reads, &mut self.tensors);
                self.push(name, read, writes)?;
            }
        }
        Ok([ids(&graph.ints(1), &own), ids(&graph.ints(2), &own)])
    }

    /// The nodes of the graphs that an operator calls, and what hands their results on.
    fn called(
        &mut self,
        name: &str,
        called: nodes::Called,
        reads: &[Option<TensorId>],
        writes: Vec<Option<TensorId>>,
    ) -> Result<(), ImportError> {
        if self.levels >= MOST_LEVELS {
            return Err(refused("its graphs call each other too deep"));
        }
        let nodes::Called { kind, graphs } = called;
        if let (nodes::WHILE, &[condition, body]) = (kind, &graphs[..]) {
            return self.rounds(name, [condition, body], reads, writes);
        }
        let is_choice = graphs.len() > 1;
        // The condition of a choice comes first.
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
        let read = |work, reads| nodes::Read { kind: kind.to_owned(), work, reads, activation: None };
        if is_choice {
            return self.push(name.to_owned(), read(Work::Choice, results), writes);
        }
        for (result, write) in results.into_iter().zip(writes) {
            self.push(name.to_owned(), read(Work::Identity, vec![result]), vec![write])?;
        }
        Ok(())
    }

    /// A node that runs a graph as long as what another writes holds.
    fn rounds(
        &mut self,
        name: &str,
        [condition, body]: [usize; 2],
        reads: &[Option<TensorId>],
        writes: Vec<Option<TensorId>>,
    ) -> Result<(), ImportError> {
        self.levels += 1;
        let [_, first] = self.graph(condition, reads)?;
        let outside = std::mem::take(&mut self.nodes);
        let [inputs, results] = self.graph(body, &[])?;
        let [_, again] = self.graph(condition, &results)?;
        let nodes = std::mem::replace(&mut self.nodes, outside);
        self.levels -= 1;
        let first = first.first().copied().flatten();
        let again = again.first().copied().flatten();
        let rounds = Rounds {
            nodes,
            inputs: [None, None].into_iter().chain(inputs).collect(),
            outputs: [again].into_iter().chain(results).collect(),
        };
        let reads = [None, first].into_iter().chain(reads.iter().copied()).collect();
        let work = Work::Rounds(rounds);
        self.push(
            name.to_owned(),
            nodes::Read { kind: nodes::WHILE.to_owned(), work, reads, activation: None },
            writes,
        )
    }

    /// A node, and one behind it for the function that is fused into it.
    fn push(
        &mut self,
        name: String,
        read: nodes::Read,
        writes: Vec<Option<TensorId>>,
    ) -> Result<(), ImportError> {
        self.pushed += 1;
        if self.pushed > MOST_NODES {
            return Err(refused("its graphs call each other too often"));
        }
        let nodes::Read { kind, work, reads, activation } = read;
        let mut node = SourceNode { name, kind, branches: self.branches, work, reads, writes };
        let behind = activation.map(|work| {
            let between = vec![Some(self.tensors.len())];
            let written = node.writes.iter().flatten().next();
            let extents = written.and_then(|&id| self.tensors[id].extents.clone());
            self.tensors.push(SourceTensor { name: node.name.clone(), extents, constant: None });
            let writes = std::mem::replace(&mut node.writes, between.clone());
            let name = format!("{}.activation", node.name);
            SourceNode { name, work, reads: between, writes, kind: node.kind.clone(), ..node }
        });
        self.nodes.push(node);
        self.nodes.extend(behind);
        Ok(())
    }
}

/// Tensors by their numbers in a graph; none where a number is of none.
fn ids(numbers: &[i32], own: &[TensorId]) -> Vec<Option<TensorId>> {
    numbers.iter().map(|&number| own.get(usize::try_from(number).ok()?).copied()).collect()
}

fn tensor(table: &Table<'_>, buffers: &[Table<'_>]) -> SourceTensor {
    let extents: Vec<u32> =
        table.ints(SHAPE).into_iter().map(|extent| u32::try_from(extent).unwrap_or(1)).collect();
    let buffer = usize::try_from(table.int(2).unwrap_or(0)).unwrap_or(0);
    // Buffer 0 is the empty one; large files have data behind the end of the tables.
    let held = buffers.get(buffer).filter(|_| buffer > 0);
    let data = held.and_then(|buffer| buffer.bytes(0)).filter(|data| !data.is_empty());
    let is_outside =
        held.is_some_and(|buffer| buffer.bytes(2).is_none() && buffer.int(2).is_some_and(|size| size > 1));
    // A list without elements, such as the extents of a scalar, needs no data.
    let constant = (data.is_some() || is_outside || extents.contains(&0)).then(|| {
        let count = elements(&extents);
        let data = data.or((count == 0).then_some(&[]));
        let numbers = data
            .filter(|_| count <= MAX_NUMBERS as u64)
            .and_then(|data| numbers_in(data, table.byte(1).unwrap_or(element::FLOAT32)));
        Constant {
            extents: extents.clone(),
            numbers: numbers.filter(|numbers| numbers.len() as u64 == count),
        }
    });
    SourceTensor { name: table.text(3).unwrap_or_default(), extents: Some(extents), constant }
}

fn numbers_in(data: &[u8], element_type: u8) -> Option<Vec<f64>> {
    Some(match element_type {
        element::FLOAT32 => data.as_chunks().0.iter().map(|&n| f64::from(f32::from_le_bytes(n))).collect(),
        element::INT32 => data.as_chunks().0.iter().map(|&n| f64::from(i32::from_le_bytes(n))).collect(),
        element::INT64 => data.as_chunks().0.iter().map(|&n| i64::from_le_bytes(n) as f64).collect(),
        _ => return None,
    })
}

/// What the activations are computed in: the format of most of their elements. Weights are often
/// stored in 16 bits behind a `DEQUANTIZE`, and computed with in 32. Integer weights that products
/// read as they are have their activations quantised as they come.
fn data_type(tensors: &[SourceTensor], types: &[u8], inputs: &[TensorId], nodes: &[SourceNode]) -> DataType {
    let count = |wanted: &[u8]| -> u64 {
        let chosen = tensors.iter().zip(types).enumerate().filter(|(id, (tensor, element_type))| {
            tensor.constant.is_none() && wanted.contains(element_type) && !inputs.contains(id)
        });
        let of = |tensor: &SourceTensor| tensor.extents.as_deref().map_or(0, elements);
        chosen.fold(0, |sum: u64, (_, (tensor, _))| sum.saturating_add(of(tensor)))
    };
    if count(&[element::INT8, element::UINT8]) > count(&[element::FLOAT32, element::FLOAT16]) {
        DataType::I8
    } else if count(&[element::FLOAT16]) > count(&[element::FLOAT32]) {
        DataType::F16
    } else if reads_integer_weights(tensors, types, nodes) {
        DataType::I8Dynamic
    } else {
        DataType::F32
    }
}

/// Whether most of the weights that products read are integers.
fn reads_integer_weights(tensors: &[SourceTensor], types: &[u8], nodes: &[SourceNode]) -> bool {
    let products = nodes.iter().filter(|node| {
        matches!(
            node.work,
            Work::Convolution { .. }
                | Work::TransposedConvolution { .. }
                | Work::Product { .. }
                | Work::Recurrent { .. }
        )
    });
    let weights: HashSet<TensorId> = products.flat_map(|node| node.reads.iter().flatten().copied()).collect();
    let count = |is_integer: bool| -> u64 {
        let of = |&&id: &&TensorId| {
            tensors[id].constant.is_some() && (types.get(id) == Some(&element::INT8)) == is_integer
        };
        let sizes = weights.iter().filter(of).filter_map(|&id| tensors[id].extents.as_deref().map(elements));
        // A damaged file's extents may be anything.
        sizes.fold(0, u64::saturating_add)
    };
    count(true) > count(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integer_weights_that_a_product_reads_have_their_activations_quantised_as_they_come() {
        let tensor = |extents: &[u32], is_constant: bool| SourceTensor {
            name: String::new(),
            extents: Some(extents.to_vec()),
            constant: is_constant.then(Constant::default),
        };
        let tensors =
            [tensor(&[1, 8], false), tensor(&[4, 8], true), tensor(&[4], true), tensor(&[1, 4], false)];
        let node = |work: Work| SourceNode {
            name: String::new(),
            kind: String::new(),
            branches: 0,
            work,
            reads: vec![Some(0), Some(1), Some(2)],
            writes: vec![Some(3)],
        };
        let of = |weights: u8, work: Work| {
            let types = [element::FLOAT32, weights, element::FLOAT32, element::FLOAT32];
            data_type(&tensors, &types, &[0], &[node(work)])
        };
        let product = || Work::Product { transpose: [false, true], flatten: false };
        assert_eq!(of(element::INT8, product()), DataType::I8Dynamic);
        assert_eq!(of(element::FLOAT32, product()), DataType::F32);
        // Behind a `DEQUANTIZE` they are floats.
        assert_eq!(of(element::INT8, Work::Identity), DataType::F32);
    }
}

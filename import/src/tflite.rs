//! TFLite files.
//!
//! Responsible for: the nodes and tensors of a file's first subgraph in the words of
//! `model.rs`. Slots of fields and numbers of operators: `schema.fbs` of LiteRT, as the
//! Python package tflite 2.18.0 has them. Not for: weights' values.

mod nodes;
mod table;

use super::error::ImportError;
use super::model::{
    Constant, ImageOrder, MAX_NUMBERS, Model, SourceNode, SourceTensor, TensorId, Work, elements,
};
use coexec_sim::DataType;
use std::collections::HashSet;
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

/// Reads a model.
pub(super) fn read(bytes: &[u8]) -> Result<Model, ImportError> {
    let refused =
        |reason: &str| ImportError::NotAModel { format: "TensorFlow Lite", reason: reason.to_owned() };
    if bytes.get(4..8) != Some(IDENTIFIER) {
        return Err(refused("it does not begin as one"));
    }
    let root = Table::root(bytes).ok_or_else(|| refused("it ends before it begins"))?;
    let graph = root.tables(2).next().ok_or_else(|| refused("it has no graph"))?;
    let buffers: Vec<Table<'_>> = root.tables(4).collect();
    let mut tensors: Vec<SourceTensor> = Vec::new();
    let mut types: Vec<u8> = Vec::new();
    for table in graph.tables(0) {
        types.push(table.byte(1).unwrap_or(element::FLOAT32));
        tensors.push(tensor(&table, &buffers));
    }
    let inputs = ids(&graph.ints(1), tensors.len()).into_iter().flatten().collect::<Vec<TensorId>>();
    let outputs = ids(&graph.ints(2), tensors.len()).into_iter().flatten().collect();
    let codes: Vec<(i32, Option<String>)> = root
        .tables(1)
        // The first field is a byte from when there were fewer operators.
        .map(|code| (code.int(3).unwrap_or(0).max(i32::from(code.byte(0).unwrap_or(0))), code.text(1)))
        .collect();
    let mut nodes = Vec::new();
    for (index, table) in graph.tables(3).enumerate() {
        let place = usize::try_from(table.int(0).unwrap_or(0)).unwrap_or(usize::MAX);
        let Some((code, custom)) = codes.get(place) else {
            return Err(refused("an operator of a kind that is not listed"));
        };
        let reads = ids(&table.ints(1), tensors.len());
        let writes = ids(&table.ints(2), tensors.len());
        let read = nodes::read(*code, custom.as_deref(), &table, &reads, &mut tensors);
        let name = writes.iter().flatten().next().map(|&id| tensors[id].name.clone());
        let name = name.filter(|name| !name.is_empty()).unwrap_or_else(|| format!("operator_{index}"));
        push(&mut nodes, &mut tensors, name, read, writes);
    }
    let data_type = data_type(&tensors, &types, &inputs, &nodes);
    Ok(Model { order: ImageOrder::ChannelsLast, data_type, tensors, inputs, outputs, nodes })
}

/// A node, and one behind it for the function that is fused into it.
fn push(
    nodes: &mut Vec<SourceNode>,
    tensors: &mut Vec<SourceTensor>,
    name: String,
    read: nodes::Read,
    writes: Vec<Option<TensorId>>,
) {
    let nodes::Read { kind, work, reads, activation } = read;
    let Some(activation) = activation else {
        nodes.push(SourceNode { name, kind, branches: 0, work, reads, writes });
        return;
    };
    let between = tensors.len();
    let extents = writes.iter().flatten().next().and_then(|&id| tensors[id].extents.clone());
    tensors.push(SourceTensor { name: name.clone(), extents, constant: None });
    nodes.push(SourceNode {
        name: name.clone(),
        kind: kind.clone(),
        branches: 0,
        work,
        reads,
        writes: vec![Some(between)],
    });
    let name = format!("{name}.activation");
    nodes.push(SourceNode { name, kind, branches: 0, work: activation, reads: vec![Some(between)], writes });
}

/// Tensors by their numbers; none where a number is of none.
fn ids(numbers: &[i32], count: usize) -> Vec<Option<TensorId>> {
    numbers.iter().map(|&number| usize::try_from(number).ok().filter(|&id| id < count)).collect()
}

fn tensor(table: &Table<'_>, buffers: &[Table<'_>]) -> SourceTensor {
    let extents: Vec<u32> =
        table.ints(0).into_iter().map(|extent| u32::try_from(extent).unwrap_or(1)).collect();
    let buffer = usize::try_from(table.int(2).unwrap_or(0)).unwrap_or(0);
    // Buffer 0 is the empty one; large files have data behind the end of the tables.
    let held = buffers.get(buffer).filter(|_| buffer > 0);
    let data = held.and_then(|buffer| buffer.bytes(0)).filter(|data| !data.is_empty());
    let is_outside =
        held.is_some_and(|buffer| buffer.bytes(2).is_none() && buffer.int(2).is_some_and(|size| size > 1));
    let constant = (data.is_some() || is_outside).then(|| {
        let count = elements(&extents);
        let numbers = data.filter(|_| count <= MAX_NUMBERS as u64);
        let numbers = numbers.and_then(|data| numbers_in(data, table.byte(1).unwrap_or(element::FLOAT32)));
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
        weights.iter().filter(of).filter_map(|&id| tensors[id].extents.as_deref().map(elements)).sum()
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

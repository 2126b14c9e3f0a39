//! Decomposes fused nodes of ONNX Runtime into ONNX nodes.
//!
//! Responsible for: nodes that differ from ONNX nodes in more than their name and the order of their operands, which
//! `nodes` handles. Not for: the semantics of nodes.

use super::messages::{AttributeProto, GraphProto, NodeProto, SparseTensorProto, TensorProto};
use super::nodes::Attributes;
use super::{constant, constant_node, element};

/// Index of a fused convolution's addend, after input, weights and bias.
const ADDEND: usize = 3;

/// Permutations of an image's axes from channels last to channels first, and back.
const INSIDE_TO_OUTSIDE: [i64; 4] = [0, 3, 1, 2];
const OUTSIDE_TO_INSIDE: [i64; 4] = [0, 2, 3, 1];

/// Decomposes the fused nodes of a graph and its subgraphs.
pub(super) fn decompose(graph: &mut GraphProto) {
    graph.initializer.extend(std::mem::take(&mut graph.sparse_initializer).into_iter().filter_map(dense));
    let mut nodes = Vec::with_capacity(graph.node.len());
    for mut node in std::mem::take(&mut graph.node) {
        for attribute in &mut node.attribute {
            attribute.t = attribute.t.take().or_else(|| dense(attribute.sparse_tensor.take()?));
            attribute.g.iter_mut().for_each(decompose);
        }
        let has_addend = node.input.get(ADDEND).is_some_and(|addend| !addend.is_empty());
        match &node.op_type[..] {
            "NhwcMaxPool" => {
                nodes.extend(with_channels_outside(NodeProto { op_type: "MaxPool".to_owned(), ..node }));
            }
            // In ONNX Runtime's blocked layout, a plain `Conv` may have an addend as well.
            "FusedConv" | "Conv" if has_addend => nodes.extend(with_sum(node)),
            "ReorderInput" | "ReorderOutput" => nodes.extend(reordered(node)),
            "GatherBlockQuantized" => {
                unpack_table(&mut node, graph, &nodes);
                nodes.push(node);
            }
            _ if Attributes(&node.attribute).flag("channels_last") => {
                nodes.extend(with_channels_outside(node));
            }
            _ => nodes.push(node),
        }
    }
    graph.node = nodes;
}

/// A sparse tensor as runtimes compute with it, without values.
fn dense(SparseTensorProto { values, dims }: SparseTensorProto) -> Option<TensorProto> {
    let TensorProto { name, data_type, .. } = values?;
    Some(TensorProto { dims, data_type, name, ..TensorProto::default() })
}

/// A conversion to or from ONNX Runtime's blocked layout. Other processors have their own layouts, so it becomes a
/// transpose at most, and a slice that drops the channels padding the last block.
fn reordered(node: NodeProto) -> Vec<NodeProto> {
    let attributes = Attributes(&node.attribute);
    let (is_input, is_inside) = (node.op_type == "ReorderInput", attributes.flag("channels_last"));
    let (Some(input), Some(output)) = (node.input.first(), node.output.first()) else { return vec![node] };
    if is_input && is_inside {
        return vec![transposition(input, output, INSIDE_TO_OUTSIDE)];
    }
    if is_input {
        return vec![NodeProto { op_type: "Identity".to_owned(), attribute: Vec::new(), ..node }];
    }
    let kept = [("starts", 0), ("ends", attributes.integer("channels", i64::MAX)), ("axes", 1)];
    let kept = kept.map(|(name, number)| AttributeProto {
        name: name.to_owned(),
        ints: vec![number],
        ..AttributeProto::default()
    });
    let inner = if is_inside { format!("{output}/input") } else { output.clone() };
    let after = is_inside.then(|| transposition(&inner, output, OUTSIDE_TO_INSIDE));
    let (op_type, attribute) = ("Slice".to_owned(), kept.to_vec());
    let slice = NodeProto { op_type, attribute, output: vec![inner], ..node };
    std::iter::once(slice).chain(after).collect()
}

/// Restores the extents of a table with two 4-bit weights per byte. Where the table is a product's weights in another
/// shape, the node reads a table of its own.
fn unpack_table(node: &mut NodeProto, graph: &mut GraphProto, nodes: &[NodeProto]) {
    let bits = Attributes(&node.attribute).integer("bits", 4);
    let Some(name) = node.input.first_mut().filter(|_| bits == 4) else { return };
    if let Some(reshape) = nodes.iter().find(|node| node.op_type == "Reshape" && node.output.contains(name)) {
        let stored = |name: &String| graph.initializer.iter().find(|tensor| tensor.name == *name);
        let written = |name: &String| nodes.iter().find(|node| node.output.contains(name));
        let [Some(packed), Some(extents)] = [0, 1].map(|operand| reshape.input.get(operand)) else { return };
        let Some(packed) = stored(packed) else { return };
        let extents = stored(extents).map(constant).or_else(|| written(extents).map(constant_node));
        let Some(extents) = extents.and_then(|extents| extents.integers()) else { return };
        let all = packed.dims.iter().copied().fold(1, i64::saturating_mul);
        let known = extents.iter().copied().filter(|&extent| extent > 0).fold(1, i64::saturating_mul);
        let dims = extents.into_iter().map(|extent| if extent > 0 { extent } else { all / known.max(1) });
        let table = TensorProto {
            dims: dims.collect(),
            name: format!("{name}/table"),
            data_type: packed.data_type,
            ..TensorProto::default()
        };
        name.clone_from(&table.name);
        graph.initializer.push(table);
    }
    for table in graph.initializer.iter_mut().filter(|table| table.name == *name) {
        if let (element::UINT8, Some(last)) = (table.data_type, table.dims.last_mut()) {
            *last = last.saturating_mul(2);
            table.data_type = element::UINT4;
        }
    }
}

/// A node on channels-last images, put between transposes; other nodes stay unchanged.
fn with_channels_outside(mut node: NodeProto) -> Vec<NodeProto> {
    let attributes = Attributes(&node.attribute);
    let kernel = attributes.find("kernel_shape");
    let is_of_images = kernel.is_none_or(|kernel| kernel.ints.len() + 2 == INSIDE_TO_OUTSIDE.len());
    let ends = (node.input.first().cloned(), node.output.first().cloned());
    let (true, (Some(input), Some(output))) = (is_of_images, ends) else { return vec![node] };
    let [inner_input, inner_output] = ["input", "output"].map(|end| format!("{output}/{end}"));
    let before = transposition(&input, &inner_input, INSIDE_TO_OUTSIDE);
    let after = transposition(&inner_output, &output, OUTSIDE_TO_INSIDE);
    (node.input[0], node.output[0]) = (inner_input, inner_output);
    vec![before, node, after]
}

fn transposition(input: &str, output: &str, axes: [i64; 4]) -> NodeProto {
    let axes = AttributeProto { name: "perm".to_owned(), ints: axes.to_vec(), ..AttributeProto::default() };
    NodeProto {
        input: vec![input.to_owned()],
        output: vec![output.to_owned()],
        name: format!("{output}/transpose"),
        op_type: "Transpose".to_owned(),
        attribute: vec![axes],
        domain: String::new(),
    }
}

/// A convolution followed by the sum of its result and the addend.
fn with_sum(mut node: NodeProto) -> Vec<NodeProto> {
    let Some(output) = node.output.first() else { return vec![node] };
    let product = format!("{output}/convolution");
    let addend = node.input.swap_remove(ADDEND);
    let sum = NodeProto {
        input: vec![product.clone(), addend],
        output: std::mem::replace(&mut node.output, vec![product]),
        name: format!("{}/sum", node.name),
        op_type: "Add".to_owned(),
        ..NodeProto::default()
    };
    vec![node, sum]
}

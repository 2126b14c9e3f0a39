//! Inlines the functions that a model defines.
//!
//! Responsible for: replacing each call by the function's nodes, with the caller's tensors and
//! attributes. Not for: the semantics of nodes.
//! Invariant: inlining adds at most [`MAX_NODES`] nodes and attributes, and in proportion to them bytes, however often
//! functions call each other.

use std::collections::HashMap;

use prost::Message;

use super::messages::{AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto};
use crate::model::{MAX_CALL_DEPTH, MAX_NODES, NUMBERS_PER_NODE};

/// Bytes of a call, mostly names and attributes, that are substituted at no extra count.
const USUAL_BYTES: usize = 256;

/// Inlines the model's functions.
///
/// # Errors
/// Functions call each other too deeply or too often.
pub(super) fn inline(model: &mut ModelProto) -> Result<(), String> {
    let functions = std::mem::take(&mut model.functions);
    let named = functions.iter().map(|function| {
        (
            (&function.domain[..], &function.name[..]),
            (function, count(&function.node, function.encoded_len())),
        )
    });
    let mut functions = Functions { named: named.collect(), room: MAX_NODES };
    match &mut model.graph {
        Some(graph) if !functions.named.is_empty() => functions.graph(graph, 0),
        _ => Ok(()),
    }
}

struct Functions<'a> {
    /// By domain and name, with their counts.
    named: HashMap<(&'a str, &'a str), (&'a FunctionProto, usize)>,
    /// The count of nodes that may still be added.
    room: usize,
}

/// Number of nodes and attributes, with those of inner graphs, and one for each few of their `bytes`.
fn count(nodes: &[NodeProto], bytes: usize) -> usize {
    let attributes = nodes.iter().flat_map(|node| &node.attribute);
    let each = attributes.map(|attribute| 1 + attribute.g.as_ref().map_or(0, |inner| count(&inner.node, 0)));
    nodes.len() + each.sum::<usize>() + bytes / NUMBERS_PER_NODE
}

impl Functions<'_> {
    fn graph(&mut self, graph: &mut GraphProto, levels: u32) -> Result<(), String> {
        let mut nodes = Vec::with_capacity(graph.node.len());
        for mut node in std::mem::take(&mut graph.node) {
            let Some(&(function, count)) = self.named.get(&(&node.domain[..], &node.op_type[..])) else {
                for branch in node.attribute.iter_mut().filter_map(|attribute| attribute.g.as_mut()) {
                    self.graph(branch, levels)?;
                }
                nodes.push(node);
                continue;
            };
            // Each node of the function may refer to the call's names and attributes, and to defaults of these.
            let defaults = function.attribute_proto.iter().map(Message::encoded_len);
            let count =
                count.saturating_mul(1 + (node.encoded_len() + defaults.sum::<usize>()) / USUAL_BYTES);
            let Some(room) = self.room.checked_sub(count).filter(|_| levels < MAX_CALL_DEPTH) else {
                let name = crate::node_name(if node.name.is_empty() { &node.op_type } else { &node.name });
                return Err(format!(
                    "up to {name} its functions expand to more than {MAX_NODES} nodes and attributes, or are \
                     recursive; export it with its functions inlined"
                ));
            };
            self.room = room;
            let mut body = GraphProto { node: function.node.clone(), ..GraphProto::default() };
            Call::new(function, &node, MAX_NODES - room).bind(&mut body);
            self.graph(&mut body, levels + 1)?;
            nodes.append(&mut body.node);
        }
        graph.node = nodes;
        Ok(())
    }
}

/// One call of a function.
struct Call<'a> {
    /// Unique prefix of the names of its nodes and inner tensors.
    prefix: String,
    /// The caller's tensors, by their names in the function.
    tensors: HashMap<&'a str, &'a str>,
    /// The caller's attributes, and the function's defaults.
    attributes: HashMap<&'a str, &'a AttributeProto>,
}

impl<'a> Call<'a> {
    fn new(function: &'a FunctionProto, node: &'a NodeProto, number: usize) -> Self {
        let given = function.input.iter().enumerate();
        let given = given.map(|(index, name)| (&name[..], node.input.get(index).map_or("", |own| own)));
        let written = function.output.iter().zip(&node.output).map(|(name, own)| (&name[..], &own[..]));
        let attributes = function.attribute_proto.iter().chain(&node.attribute);
        Self {
            prefix: format!("{}/{number}", node.name),
            tensors: given.chain(written).collect(),
            attributes: attributes.map(|attribute| (&attribute.name[..], attribute)).collect(),
        }
    }

    /// Substitutes the caller's tensors and attributes into the body.
    fn bind(&self, body: &mut GraphProto) {
        let tensors = body.initializer.iter_mut().map(|tensor| &mut tensor.name);
        let infos = body.input.iter_mut().chain(&mut body.output).chain(&mut body.value_info);
        tensors.chain(infos.map(|info| &mut info.name)).for_each(|name| self.rename(name));
        for node in &mut body.node {
            node.input.iter_mut().chain(&mut node.output).for_each(|name| self.rename(name));
            node.name = format!("{}/{}", self.prefix, node.name);
            node.attribute.retain_mut(|attribute| {
                let asked = std::mem::take(&mut attribute.ref_attr_name);
                if !asked.is_empty() {
                    let Some(&given) = self.attributes.get(&asked[..]) else { return false };
                    *attribute =
                        AttributeProto { name: std::mem::take(&mut attribute.name), ..given.clone() };
                } else if let Some(branch) = &mut attribute.g {
                    self.bind(branch);
                }
                true
            });
        }
    }

    fn rename(&self, name: &mut String) {
        *name = match self.tensors.get(&name[..]) {
            Some(&own) => own.to_owned(),
            None if name.is_empty() => return,
            None => format!("{}/{name}", self.prefix),
        };
    }
}

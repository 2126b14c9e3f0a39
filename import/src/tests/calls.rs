//! Functions and subgraphs that nodes call.

use prost::Message;

use super::{Builder, described};
use crate::onnx::messages::{
    AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, ValueInfoProto,
};
use crate::{ImportError, ImportOptions, Imported, ModelFormat, import};

/// Subgraphs that call each other; described in `tests/inputs/README.md`.
const CALLS: &[u8] = include_bytes!("../../tests/inputs/calls.tflite");

fn node(kind: &str, reads: &[&str], write: &str) -> NodeProto {
    let domain = if kind.starts_with(char::is_lowercase) { "own" } else { "" };
    NodeProto {
        op_type: kind.into(),
        domain: domain.into(),
        input: reads.iter().map(|&name| name.to_owned()).collect(),
        output: vec![write.into()],
        ..NodeProto::default()
    }
}

fn function(name: &str, reads: &[&str], write: &str, node: Vec<NodeProto>) -> FunctionProto {
    FunctionProto {
        name: name.into(),
        domain: "own".into(),
        input: reads.iter().map(|&name| name.to_owned()).collect(),
        output: vec![write.into()],
        node,
        ..FunctionProto::default()
    }
}

/// A model of one node that calls `calls`, with an attribute.
fn calling(calls: &str, functions: Vec<FunctionProto>) -> Result<Imported, ImportError> {
    let mut file = ModelProto::decode(&Builder::new(&[5, 64]).weights("w", &[64, 8]).bytes()[..]).unwrap();
    let axes = AttributeProto { name: "over".into(), ints: vec![1], ..AttributeProto::default() };
    let graph = file.graph.as_mut().unwrap();
    graph.node = vec![NodeProto { attribute: vec![axes], ..node(calls, &["x", "w"], "y") }];
    graph.output = vec![ValueInfoProto { name: "y".into(), r#type: None }];
    file.functions = functions;
    import(ModelFormat::Onnx, "m", file.encode_to_vec(), &ImportOptions::default())
}

#[test]
fn functions_are_inlined() {
    // An inner tensor with the name of one of the caller's, and an attribute of the caller.
    let axes =
        AttributeProto { name: "axes".into(), ref_attr_name: "over".into(), ..AttributeProto::default() };
    let mean = NodeProto { attribute: vec![axes], ..node("ReduceMean", &["x"], "b") };
    let inner = function("inner", &["a"], "b", vec![node("Sigmoid", &["a"], "x"), mean]);
    let body = vec![
        node("MatMul", &["left", "right"], "x"),
        NodeProto {
            attribute: vec![AttributeProto {
                name: "over".into(),
                ref_attr_name: "over".into(),
                ..AttributeProto::default()
            }],
            ..node("inner", &["x"], "z")
        },
    ];
    let outer = function("outer", &["left", "right"], "z", body);
    let imported = calling("outer", vec![outer, inner]).unwrap();
    let wanted = ["linear 5x64 -> 8", "Sigmoid 1x5x8", "generic reduction -> 1x5x1"];
    assert_eq!(described(&imported.graph), wanted);
}

#[test]
fn functions_that_call_themselves_or_each_other_too_often_are_refused() {
    let again = function("again", &["a"], "b", vec![node("again", &["a"], "b")]);
    let error = calling("again", vec![again]).unwrap_err();
    assert!(matches!(&error, ImportError::NotAModel { .. }), "{error}");
    // Each calls the next twice.
    let twice = |level: usize| {
        let next = format!("f{}", level + 1);
        let body = vec![node(&next, &["a"], "c"), node(&next, &["c"], "b")];
        function(&format!("f{level}"), &["a"], "b", body)
    };
    let error = calling("f0", (0..30).map(twice).collect()).unwrap_err();
    assert!(matches!(&error, ImportError::NotAModel { .. }), "{error}");
}

#[test]
fn functions_that_expand_to_large_attributes_or_many_inner_nodes_are_refused() {
    let twice = |level: usize| {
        let next = format!("f{}", level + 1);
        let body = vec![node(&next, &["a"], "c"), node(&next, &["c"], "b")];
        function(&format!("f{level}"), &["a"], "b", body)
    };
    let attribute = AttributeProto { ints: vec![1; 100_000], ..AttributeProto::default() };
    let inner = GraphProto { node: vec![node("Relu", &["a"], "c"); 2_000], ..GraphProto::default() };
    let branch = AttributeProto { name: "then_branch".into(), g: Some(inner), ..AttributeProto::default() };
    for attribute in [attribute, branch] {
        let last = NodeProto { attribute: vec![attribute], ..node("Relu", &["a"], "b") };
        let functions = (0..8).map(twice).chain([function("f8", &["a"], "b", vec![last])]);
        let error = calling("f0", functions.collect()).unwrap_err();
        assert!(error.to_string().contains("its functions expand to more than"), "{error}");
    }
}

/// A `TensorFlow Lite` file of graphs without tensors, each of which calls the next twice.
fn calling_twice(graphs: u32) -> Vec<u8> {
    let pair = |low: u32, high: u32| low | high << 16;
    // Vtables: at word 2 of the root, at 5 of a graph, at 8 of an operator, at 12 of a table with one number.
    let mut words = vec![14 * 4, u32::from_le_bytes(*b"TFL3"), pair(10, 12), pair(0, 4), pair(8, 0)];
    words.extend([pair(12, 8), pair(0, 0), pair(0, 4), pair(14, 8), pair(0, 0), pair(0, 0), pair(4, 0)]);
    words.extend([pair(6, 8), pair(4, 0)]);
    // The root, its operator codes (a call), and its graphs.
    words.extend([12 * 4, 2 * 4, 5 * 4, 1, 4, 7 * 4, 31, graphs]);
    let first = words.len() as u32 + graphs;
    words.extend((0..graphs).map(|graph| 4 * (graphs + 8 * graph)));
    for graph in 0..graphs {
        let place = first + 9 * graph;
        let calls = if graph + 1 < graphs { 2 } else { 0 };
        words.extend([4 * (place - 5), 4, calls, 8, 4, 4 * (place - 3), 4, 4 * (place - 5), graph + 1]);
    }
    words.into_iter().flat_map(u32::to_le_bytes).collect()
}

#[test]
fn graphs_that_call_each_other_too_often_are_refused() {
    let read = |graphs: u32| {
        import(ModelFormat::TfLite, "calls", calling_twice(graphs), &ImportOptions::default()).unwrap_err()
    };
    assert!(read(30).to_string().contains("call each other too often"), "{}", read(30));
    assert!(!read(3).to_string().contains("too often"), "{}", read(3));
}

#[test]
fn graphs_that_operators_call_are_part_of_the_model() {
    let options = ImportOptions::default();
    let imported = import(ModelFormat::TfLite, "calls", CALLS.to_vec(), &options).unwrap();
    // The function of a composite, the more expensive branch, and the state in a variable.
    let wanted = ["Prelu 4x4x8", "conv2d 1x1 4x4x8 -> 4x4x8", "Add 4x4x8"];
    assert_eq!(described(&imported.graph), wanted);
    let names: Vec<&str> = imported.inputs.iter().map(|input| &input.name[..]).collect();
    assert_eq!(names, ["x", "slopes", "state"]);
}

#[test]
fn a_graph_that_calls_itself_is_refused() {
    let is_too_deep = |place: usize| {
        let mut bytes = CALLS.to_vec();
        bytes[place] = 0;
        let result = import(ModelFormat::TfLite, "calls", bytes, &ImportOptions::default());
        result.is_err_and(|error| error.to_string().contains("call each other too deeply"))
    };
    // The index of the composite's subgraph is a 1 somewhere; replaced by 0, the subgraph calls itself.
    let ones = CALLS.windows(4).enumerate().filter(|(_, four)| *four == 1_u32.to_le_bytes());
    assert!(ones.map(|(place, _)| place).any(is_too_deep));
}

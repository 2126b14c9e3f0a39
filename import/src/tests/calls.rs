//! Functions and subgraphs that nodes call.

use prost::Message;

use super::{Builder, described};
use crate::onnx::messages::{AttributeProto, FunctionProto, ModelProto, NodeProto, ValueInfoProto};
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

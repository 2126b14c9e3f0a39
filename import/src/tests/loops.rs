//! Loops and sequences of tensors.

use prost::Message;

use super::{Builder, described};
use crate::onnx::messages::{AttributeProto, GraphProto, ModelProto, NodeProto, ValueInfoProto};
use crate::{ImportError, ImportOptions, Imported, ModelFormat, import};

const ROUNDS: &[u8] = include_bytes!("../../tests/inputs/rounds.tflite");

/// A model with a loop over `body`, which carries `a`: each iteration computes `b` (carried on as the
/// next `a`), `c` (a scan output) and `next` (the condition).
fn looped(model: Builder, most: &str, body: Builder) -> Result<Imported, ImportError> {
    import(ModelFormat::Onnx, "m", file(model, most, body), &ImportOptions::default())
}

fn file(model: Builder, most: &str, body: Builder) -> Vec<u8> {
    let named = |name: &str| ValueInfoProto { name: name.into(), r#type: None };
    let body = body.0.node;
    let g = GraphProto {
        node: body,
        input: ["i", "again", "a"].map(named).into(),
        output: ["next", "b", "c"].map(named).into(),
        ..GraphProto::default()
    };
    let attribute = AttributeProto { name: "body".into(), g: Some(g), ..AttributeProto::default() };
    let node = NodeProto {
        op_type: "Loop".into(),
        input: [most, "", "x"].map(str::to_owned).into(),
        output: ["last", "y"].map(str::to_owned).into(),
        attribute: vec![attribute],
        ..NodeProto::default()
    };
    let mut file = ModelProto::decode(&model.bytes()[..]).unwrap();
    let graph = file.graph.as_mut().unwrap();
    graph.node.push(node);
    graph.output = ["last", "y"].map(named).into();
    file.encode_to_vec()
}

/// A body that multiplies `a` by `w`, and continues while the iteration's number is less than `limit`.
fn round(limit: &str) -> Builder {
    Builder::new(&[]).node("MatMul", &["a", "w"], "b", &[]).node("Relu", &["b"], "c", &[]).node(
        "Less",
        &["i", limit],
        "next",
        &[],
    )
}

fn model() -> Builder {
    Builder::new(&[5, 8]).weights("w", &[8, 8]).integers("two", &[2]).integers("nine", &[9])
}

#[test]
fn loops_are_unrolled() {
    // At most nine iterations, but the third is the last: 0 and 1 are less than two, 2 is not.
    let imported = looped(model(), "nine", round("two")).unwrap();
    let one = ["linear 5x8 -> 8", "Relu 1x5x8"];
    assert_eq!(described(&imported.graph), [&one[..], &one, &one, &["concat -> 3x5x8"]].concat());
    assert_eq!(imported.graph.parameters(), 64, "all iterations share their weights");
    assert_eq!(looped(model(), "two", round("nine")).unwrap().graph.macs(), 2 * 5 * 64);
    assert_eq!(looped(model(), "", round("two")).unwrap().graph.macs(), 3 * 5 * 64);
}

#[test]
fn loops_ended_by_the_network_run_their_maximum_number_of_iterations() {
    let imported = looped(model(), "two", round("a")).unwrap();
    assert_eq!(imported.graph.macs(), 2 * 5 * 64);
    assert!(imported.approximated.iter().any(|node| node.instead == "the maximum number of iterations"));
    // Neither loop ends, and the body of the second lacks outputs.
    for body in [round("a"), Builder::new(&[]).node("Identity", &["a"], "b", &[])] {
        let error = looped(model(), "", body).unwrap_err();
        assert!(matches!(&error, ImportError::Node { kind, .. } if kind == "Loop"), "{error}");
    }
    let options = ImportOptions { skip_unknown: true, least_covered_percent: 0, ..ImportOptions::default() };
    let imported = import(ModelFormat::Onnx, "m", file(model(), "", round("a")), &options).unwrap();
    // One entry per result.
    let kinds: Vec<&str> = imported.skipped.iter().map(|node| &node.kind[..]).collect();
    assert_eq!((imported.graph.macs(), &kinds[..]), (0, &["Loop"; 2][..]));
    assert!(imported.coverage.to_string().starts_with("0 of 4 nodes"), "{}", imported.coverage);
    // The nodes of a body count where only one of them is left out.
    let body = Builder::new(&[]).node("Unheard", &["a"], "d", &[]).node("Add", &["a", "d"], "b", &[]);
    let body = body.node("Relu", &["a"], "c", &[]).node("Less", &["i", "nine"], "next", &[]);
    let imported = import(ModelFormat::Onnx, "m", file(model(), "two", body), &options).unwrap();
    assert_eq!((imported.coverage.nodes, imported.coverage.skipped), (5, 1));
}

#[test]
fn a_counted_loop_that_may_end_early_runs_to_its_count() {
    let chosen =
        round("two").node("Less", &["i", "two"], "counted", &[]).node("Greater", &["a", "a"], "open", &[]);
    let one = chosen.node("ReduceMax", &["open"], "computed", &[("keepdims", &[0])]);
    let body = one.node("And", &["counted", "computed"], "next", &[]);
    assert_eq!(looped(model(), "", body).unwrap().graph.macs(), 3 * 5 * 64);
}

#[test]
fn while_operators_are_unrolled() {
    let imported = import(ModelFormat::TfLite, "rounds", ROUNDS.to_vec(), &ImportOptions::default()).unwrap();
    assert_eq!(described(&imported.graph), ["linear 1x8 -> 8", "Relu 1x1x8"].repeat(3));
}

#[test]
fn sequences_return_the_tensors_inserted() {
    let model = Builder::new(&[4, 6])
        .integers("place", &[-1])
        .integers("first", &[0])
        .node("Relu", &["x"], "a", &[])
        .node("SequenceEmpty", &[], "none", &[])
        .node("SequenceInsert", &["none", "x"], "one", &[])
        .node("SequenceInsert", &["one", "a", "first"], "both", &[])
        .node("SequenceAt", &["both", "place"], "b", &[])
        .node("SequenceConstruct", &["a", "b"], "list", &[])
        .node("ConcatFromSequence", &["list"], "y", &[("axis", &[0])]);
    assert_eq!(model.operators(), ["Relu 1x4x6", "concat -> 1x8x6"]);
    let parts = |sizes: &[&str]| {
        Builder::new(&[5, 6])
            .integers("sizes", &[2, 3])
            .integers("place", &[1])
            .node("SplitToSequence", &[&["x"], sizes].concat(), "list", &[("axis", &[0]), ("keepdims", &[0])])
            .node("SequenceAt", &["list", "place"], "a", &[])
            .node("Relu", &["a"], "y", &[])
            .operators()
    };
    assert_eq!(parts(&["sizes"]).last().map(String::as_str), Some("Relu 1x3x6"));
    assert_eq!(parts(&[]).last().map(String::as_str), Some("Relu 1x1x6"));
}

#[test]
fn a_sequence_of_as_many_tensors_as_a_large_axis_has_elements_is_refused() {
    for count in [50_000, 16_000_000] {
        let model = Builder::new(&[count]).node("SplitToSequence", &["x"], "list", &[("axis", &[0])]);
        let model = model.node("ConcatFromSequence", &["list"], "y", &[("axis", &[0])]);
        let error = model.import().unwrap_err();
        let is_it = |node: &str| node == "SplitToSequence.list";
        assert!(matches!(&error, ImportError::Node { node, .. } if is_it(node)), "{error}");
    }
}

#[test]
fn operators_of_tensorflow_that_write_lists_are_lists() {
    let file = include_bytes!("../../tests/inputs/flex.tflite").to_vec();
    let imported = import(ModelFormat::TfLite, "flex", file, &ImportOptions::default()).unwrap();
    // The first iteration multiplies its state of zeros like the others.
    assert_eq!(imported.graph.macs(), 3 * 2 * (2 * 4 * 4));
    assert_eq!(imported.graph.nodes().last().unwrap().operator.output().elements(), 3 * 2 * 4);
}

/// The operators of two iterations of `body` with the initial loop-carried value `carried`.
fn carrying(carried: &str, body: Builder) -> Vec<String> {
    let model = model().weights("zeros", &[5, 8]);
    let mut file = ModelProto::decode(&file(model, "two", body)[..]).unwrap();
    file.graph.as_mut().unwrap().node.last_mut().unwrap().input[2] = carried.to_owned();
    let options = ImportOptions::default();
    described(&import(ModelFormat::Onnx, "m", file.encode_to_vec(), &options).unwrap().graph)
}

#[test]
fn initial_states_are_computed_with_and_invariant_loop_values_stay_constant() {
    let next = |body: Builder| body.node("Less", &["i", "nine"], "next", &[]);
    let state = Builder::new(&[]).node("MatMul", &["a", "w"], "p", &[]).node("Add", &["p", "x"], "b", &[]);
    let operators = carrying("zeros", next(state.node("Relu", &["b"], "c", &[])));
    assert_eq!(
        operators.iter().filter(|operator| operator.starts_with("linear")).count(),
        2,
        "{operators:?}"
    );
    let handed_on =
        Builder::new(&[]).node("Identity", &["a"], "b", &[]).node("MatMul", &["x", "a"], "c", &[]);
    let operators = carrying("w", next(handed_on));
    assert_eq!(operators[0], "linear 5x8 -> 8", "loop-carried weights remain weights");
}

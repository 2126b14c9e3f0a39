//! Operands that are broadcast, computed or constant.

use coexec_sim::workload::Source;

use super::functions::tokens;
use super::{Builder, described};

#[test]
fn one_value_per_channel_is_multiplied_without_copies() {
    let model = Builder::new(&[1, 16, 8, 8])
        .weights("w", &[16, 16, 1, 1])
        .node("GlobalAveragePool", &["x"], "a", &[])
        .node("Conv", &["a", "w"], "b", &[])
        .node("Sigmoid", &["b"], "c", &[])
        .node("Mul", &["x", "c"], "y", &[]);
    let wanted = ["mean -> 1x1x16", "conv2d 1x1 1x1x16 -> 1x1x16", "Sigmoid 1x1x16", "Multiply 8x8x16"];
    assert_eq!(model.operators(), wanted);
}

#[test]
fn an_operand_that_is_broadcast_is_read_as_it_is() {
    // A mask that heads share, and a gate of one value per pixel.
    let mask = Builder::new(&[4, 50, 50])
        .weights("w", &[50, 50])
        .integers("first", &[0])
        .node("Gather", &["x", "first"], "a", &[("axis", &[0])])
        .node("MatMul", &["a", "w"], "mask", &[])
        .node("Mul", &["x", "mask"], "y", &[]);
    let found = mask.operators();
    assert_eq!(found.last().map(String::as_str), Some("Multiply 4x1x50x50"), "{found:?}");
    assert!(!found.iter().any(|operator| operator.starts_with("concat")), "{found:?}");
    let gate = Builder::new(&[1, 16, 8, 8])
        .weights("w", &[1, 16, 1, 1])
        .node("Conv", &["x", "w"], "gate", &[])
        .node("Mul", &["gate", "x"], "y", &[]);
    assert_eq!(gate.operators(), ["conv2d 1x1 8x8x16 -> 8x8x1", "Multiply 8x8x16"]);
}

#[test]
fn operands_that_are_both_broadcast_are_read_once() {
    let model = Builder::new(&[1, 16, 8, 8])
        .weights("w", &[1, 16, 1, 1])
        .node("Conv", &["x", "w"], "gate", &[])
        .node("GlobalAveragePool", &["x"], "mean", &[])
        .node("Mul", &["gate", "mean"], "y", &[]);
    let found = model.operators();
    assert_eq!(found.len(), 3, "{found:?}");
    assert!(found[2].contains("8x8x16"), "{found:?}");
}

#[test]
fn a_constant_that_is_broadcast_both_ways_is_stored_as_its_reader_needs_it() {
    let model = tokens()
        .weights("w", &[64, 1])
        .node("MatMul", &["x", "w"], "a", &[])
        .weights("row", &[1, 64])
        .node("Mul", &["a", "row"], "y", &[]);
    let imported = model.import().unwrap();
    let found = described(&imported.graph);
    assert!(!found.iter().any(|operator| operator.starts_with("concat")), "{found:?}");
    let constants: Vec<bool> = imported.inputs.iter().map(|input| input.constant).collect();
    assert_eq!(constants, [false, true]);
    assert!(imported.graph.is_constant(Source::Input(1)) && !imported.graph.is_constant(Source::Input(0)));
}

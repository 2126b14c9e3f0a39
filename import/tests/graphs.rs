//! The graphs of public measurements, as networks of today are exported.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use coexec_import::{ImportOptions, ImportedScenario};
use coexec_sim::workload::{Class, Function, GenericKind, Movement, NormKind, Operator};

/// How far the multiply-adds of a graph may be from those counted without coexec.
const MAX_ERROR: f64 = 0.01;

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../data/aihub")
}

/// Millions of multiply-adds by graph, as `graphs.csv` has them.
fn counted() -> BTreeMap<String, f64> {
    let table = fs::read_to_string(data().join("graphs.csv")).unwrap();
    let row = |line: &str| {
        let mut cells = line.split(',');
        let graph = cells.next().unwrap().to_owned();
        (graph, cells.nth(1).unwrap().parse().unwrap())
    };
    table.lines().skip(1).map(row).collect()
}

fn imported(graph: &str) -> ImportedScenario {
    let path = data().join("graphs").join(format!("{graph}.onnx"));
    ImportedScenario::load(&path, &ImportOptions::default()).unwrap()
}

#[test]
fn every_graph_is_imported_whole_with_the_work_that_was_counted() {
    let counted = counted();
    let files = fs::read_dir(data().join("graphs")).unwrap().count();
    assert_eq!(files, counted.len());
    for (graph, millions) in counted {
        let model = imported(&graph).model;
        assert!(model.skipped.is_empty(), "{graph}: {:?}", model.skipped);
        let found = model.graph.macs() as f64 / 1e6;
        assert!((found / millions - 1.0).abs() < MAX_ERROR, "{graph}: {found} M, counted {millions} M");
    }
}

#[test]
fn operators_that_exporters_decompose_are_recognised() {
    // Norms, activations that are no bounds, softmaxes.
    for (graph, norms, activations, softmaxes) in [
        ("albert_base_v2_hf", 26, 13, 12),
        ("convnext_tiny", 23, 18, 0),
        ("levit", 0, 25, 11),
        ("mobile_bert_uncased_google", 1, 0, 24),
        ("nafnet_deblur", 72, 0, 0),
        ("openai_clip", 51, 24, 24),
        ("segformer_base", 30, 8, 8),
        ("swinv2_base", 53, 24, 24),
        ("whisper_base__encoder", 13, 8, 6),
    ] {
        let model = imported(graph).model;
        let count =
            |is: fn(&Operator) -> bool| model.graph.nodes().iter().filter(|node| is(&node.operator)).count();
        let found = [
            count(|operator| matches!(operator, Operator::Norm(norm) if norm.kind != NormKind::Batch)),
            count(|operator| matches!(operator, Operator::Elementwise(one) if is_smooth(one.function))),
            count(|operator| matches!(operator, Operator::Softmax(_))),
        ];
        assert_eq!(found, [norms, activations, softmaxes], "{graph}: norms, activations, softmaxes");
    }
}

fn is_smooth(function: Function) -> bool {
    !function.is_binary() && !matches!(function, Function::Relu | Function::Relu6)
}

#[test]
fn a_convolutional_network_copies_only_to_concatenate() {
    for graph in
        ["resnet50", "efficientnet_v2_s", "deeplabv3_resnet50", "regnet_y_800mf", "mnasnet05", "resnext101"]
    {
        let model = imported(graph).model;
        for node in model.graph.nodes() {
            let moves = match node.operator.class() {
                Class::Movement(Movement::Joined(_) | Movement::Resized(_)) => false,
                Class::Movement(_) => true,
                Class::Generic(generic) => generic.kind == GenericKind::Movement,
                _ => false,
            };
            // The layout of a single pixel is the same under any shape.
            let is_free = node.operator.is_view() && node.operator.output().pixels() == 1;
            assert!(!moves || is_free, "{graph}: {} ({})", node.name, node.operator);
        }
    }
}

//! Sizes that the user sets, and files that hold only a part of a model.

use std::path::Path;

use super::super::onnx::messages::{EntryProto, SparseTensorProto};
use super::{Builder, described};
use crate::onnx::messages::TensorProto;
use crate::{ImportError, ImportOptions, Imported, ModelFormat, import, read_each};

fn skipping(model: Builder) -> Result<Imported, ImportError> {
    let options = ImportOptions { skip_unknown: true, least_covered_percent: 0, ..ImportOptions::default() };
    import(ModelFormat::Onnx, "m", model.bytes(), &options)
}

#[test]
fn the_past_of_a_decoder_may_be_empty() {
    let model = || {
        let model = Builder::new(&[1, 4, 8]).input("past", &[1, 0, 8]).integers("one", &[1]);
        let model = model.node("Concat", &["past", "x"], "all", &[("axis", &[1])]);
        let model =
            model.node("Shape", &["past"], "extents", &[]).node("Gather", &["extents", "one"], "count", &[]);
        let model = model.node("Cast", &["count"], "added", &[("to", &[1])]);
        model.node("Add", &["all", "added"], "y", &[])
    };
    let operators = |past: u32| described(&model().import_with(&[("open", past)]).unwrap().graph);
    assert_eq!(operators(0), ["Add 1x4x8"]);
    assert_eq!(operators(3), ["concat -> 1x7x8", "Add 1x7x8"]);
    // A product has no counterpart of no elements.
    let product = Builder::new(&[1, 4, 8]).input("past", &[1, 0, 8]).weights("w", &[8, 8]);
    let product = product.node("MatMul", &["past", "w"], "keys", &[]);
    let product = product.node("Concat", &["keys", "x"], "y", &[("axis", &[1])]);
    let error = product.import_with(&[("open", 0)]).unwrap_err();
    assert_eq!(error.to_string(), "MatMul.keys (MatMul) is invalid: its operand 0 (past) has no elements");
    assert!(error.help().contains("--dim"));
}

#[test]
fn a_dimension_named_as_a_sum_follows_from_its_parts() {
    let model = |name: &str| {
        let mut model = Builder::new(&[1, 0]).input("mask", &[1, 0]);
        let shape =
            model.0.input[1].r#type.as_mut().and_then(|kind| kind.tensor_type.as_mut()?.shape.as_mut());
        shape.unwrap().dim[1].dim_param = Some(name.to_owned());
        model.node("Concat", &["x", "mask"], "y", &[("axis", &[1])])
    };
    let concat = |name: &str, set: &[(&str, u32)]| described(&model(name).import_with(set).unwrap().graph);
    assert_eq!(concat("open + open + 1", &[("open", 3)]), ["concat -> 1x1x10"]);
    assert_eq!(concat("open + 1", &[("open", 3), ("open + 1", 2)]), ["concat -> 1x1x5"]);
    let error = model("open + more").import_with(&[("open", 3)]).unwrap_err();
    assert_eq!(error.help(), "set their sizes: --dim 'open + more=N'");
    assert_eq!(model("open + 1").import().unwrap_err().help(), "set their sizes: --dim open=N");
}

#[test]
fn a_dimension_is_set_in_those_of_several_models_that_have_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, extents: &[i64]| {
        let path = folder.path().join(name);
        std::fs::write(&path, Builder::new(extents).node("Relu", &["x"], "y", &[]).bytes()).unwrap();
        path.display().to_string()
    };
    let names = [file("open.onnx", &[1, 0]), file("fixed.onnx", &[1, 8]), "vit-b32".to_owned()];
    let options = |name: &str| ImportOptions {
        dimensions: [(name.to_owned(), 4)].into_iter().collect(),
        ..ImportOptions::default()
    };
    let read = |names: &[String], name: &str| read_each(names, &options(name));
    assert_eq!(read(&names, "open").unwrap().len(), 3);
    // Each model refuses what none of them has, as it does alone.
    assert!(read(&names[1..], "open").unwrap_err().to_string().contains("open"));
    assert!(read(&names, "none").unwrap_err().to_string().contains("none"));
    assert!(read(&names[2..], "open").unwrap_err().to_string().contains("--dim"));
    assert!(read(&[names[0].clone(), "missing.onnx".to_owned()], "open").is_err());
    assert!(!Path::new("missing.onnx").exists());
}

#[test]
fn values_in_a_file_that_is_missing_are_named_where_they_matter() {
    let model = |kind: &str| {
        let mut model = Builder::new(&[2, 8]).weights("w", &[8, 8]).node("MatMul", &["x", "w"], "a", &[]);
        let value = "model.data".to_owned();
        let entry = EntryProto { key: "location".to_owned(), value };
        let tensor = TensorProto { dims: vec![2], data_type: 7, data_location: 1, ..TensorProto::default() };
        let outside = TensorProto { name: "extents".to_owned(), external_data: vec![entry], ..tensor };
        model.0.initializer.push(outside);
        model.node("Identity", &["extents"], "b", &[]).node(kind, &["a", "b"], "y", &[])
    };
    let error = model("Reshape").import().unwrap_err();
    let wanted =
        "needs the values of extents, which are in model.data, and that file is missing or incomplete";
    assert!(error.to_string().ends_with(wanted), "{error}");
    assert!(error.help().starts_with("put model.data into the model's folder"), "{}", error.help());
    // The values of weights do not matter.
    assert!(model("Unsqueeze").import().is_err());
    let mut model = model("Reshape");
    model.0.node.truncate(1);
    assert_eq!(model.operators(), ["linear 2x8 -> 8"]);
}

#[test]
fn sparse_weights_are_multiplied_like_others() {
    let mut model = Builder::new(&[2, 8]).node("MatMul", &["x", "w"], "y", &[]);
    let values = TensorProto { name: "w".to_owned(), dims: vec![3], data_type: 1, ..TensorProto::default() };
    model.0.sparse_initializer.push(SparseTensorProto { values: Some(values), dims: vec![8, 4] });
    assert_eq!(model.operators(), ["linear 2x8 -> 4"]);
}

#[test]
fn results_of_an_assumed_number_that_do_not_fit_are_no_fault_of_the_model() {
    let model = || {
        let model =
            Builder::new(&[64]).weights("z", &[64]).node("Concat", &["x", "z"], "c", &[("axis", &[0])]);
        let model = model.node("NonZero", &["x"], "a", &[]).node("NonZero", &["c"], "b", &[]);
        model.node("Add", &["a", "b"], "y", &[])
    };
    let error = model().import().unwrap_err();
    let wanted =
        "Add.y (Add) does not fit the largest number of results of NonZero.a, which the network computes";
    assert!(error.to_string().starts_with(wanted), "{error}");
    assert!(error.help().contains("--skip-unknown"), "{}", error.help());
    let imported = skipping(model()).unwrap();
    assert_eq!((imported.skipped.len(), imported.skipped[0].kind.as_str()), (1, "Add"));
    assert_eq!(imported.coverage.multiply_adds_percent, None);
}

#[test]
fn everything_that_a_skipped_node_reads_is_computed() {
    let model = Builder::new(&[1, 8]).weights("w", &[8, 4]).stated("y", &[1, 8]);
    let model = model.node("Tanh", &["x"], "a", &[]).node("MatMul", &["x", "w"], "b", &[]);
    let imported = skipping(model.node("Unheard", &["a", "b"], "y", &[])).unwrap();
    assert_eq!(described(&imported.graph), ["Tanh 1x1x8", "linear 1x8 -> 4", "Relu 1x1x8"]);
}

#[test]
fn an_operator_without_a_rule_for_its_extents_needs_those_of_the_file() {
    let model =
        Builder::new(&[1, 4, 8, 8]).input("i", &[1, 4, 8, 8]).node("MaxUnpool", &["x", "i"], "y", &[]);
    let stated = model.import().unwrap_err().to_string();
    let lone = Builder::new(&[8]).integers("a", &[4]).node("MelWeightMatrix", &["a"], "w", &[]);
    let error = skipping(lone.node("Mul", &["x", "w"], "y", &[])).unwrap_err();
    let wanted = "MelWeightMatrix.w (MelWeightMatrix) has no counterpart, and nothing can stand for it";
    assert!(error.to_string().starts_with(wanted) && error.help().contains("static shapes"), "{error}");
    let wanted = "the file does not state the extents of its result; ONNX's shape inference may add them";
    assert!(stated.ends_with(wanted), "{stated}");
}

#[test]
fn keys_and_values_may_be_packed_without_the_queries() {
    let model = Builder::new(&[1, 5, 64]).input("kv", &[1, 7, 4, 2, 16]);
    let attention =
        |model: Builder| model.node("MultiHeadAttention", &["x", "kv"], "y", &[("num_heads", &[4])]);
    assert_eq!(attention(model).import().unwrap().graph.macs(), 2 * 5 * 7 * 64);
    let model = Builder::new(&[1, 5, 64]).input("kv", &[1, 7, 4, 3, 16]);
    assert!(attention(model).import().unwrap_err().to_string().ends_with("3 packed tensors, expected 2"));
}

#[test]
fn the_window_of_a_spectrum_may_be_computed_and_its_signal_in_a_sequence_may_not() {
    let model = || Builder::new(&[1, 400, 1]).integers("length", &[64]).integers("step", &[16]);
    let spectrum =
        model().node("HannWindow", &["length"], "w", &[]).node("STFT", &["x", "step", "w"], "y", &[]);
    let graph = spectrum.import().unwrap().graph;
    assert_eq!(graph.nodes()[0].operator.output().elements(), 22 * 33 * 2);
    let listed = model().node("SplitToSequence", &["x"], "a", &[]).node("SequenceMap", &["a"], "b", &[]);
    let error = listed.node("ConcatFromSequence", &["b"], "y", &[("axis", &[0])]).import().unwrap_err();
    assert!(error.to_string().ends_with("has no counterpart: it reads a sequence of tensors"), "{error}");
}

#[test]
fn a_resize_that_keeps_the_aspect_ratio_is_refused() {
    let mut model = Builder::new(&[1, 4, 8, 16]).integers("extents", &[1, 4, 32, 32]);
    model = model.node("Resize", &["x", "", "", "extents"], "y", &[("keep_aspect_ratio_policy", &[0])]);
    model.0.node[0].attribute[0].s = "not_larger".into();
    let error = model.import().unwrap_err().to_string();
    assert!(error.contains("has no counterpart: it keeps the aspect ratio"), "{error}");
}

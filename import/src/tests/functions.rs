//! Functions: recognised, folded, approximated, unknown.

use super::{Builder, described};
use crate::{ImportError, ImportOptions, Imported, ModelFormat, Problem, import};

pub(super) fn tokens() -> Builder {
    Builder::new(&[1, 50, 64]).scalar("half", 0.5).scalar("one", 1.0).scalar("two", 2.0).scalar("root", 1.414)
}

#[test]
fn gelu_is_found_in_its_error_function() {
    let model = tokens()
        .node("Div", &["x", "root"], "a", &[])
        .node("Erf", &["a"], "b", &[])
        .node("Add", &["b", "one"], "c", &[])
        .node("Mul", &["x", "c"], "d", &[])
        .node("Mul", &["d", "half"], "y", &[]);
    assert_eq!(model.operators(), ["Gelu 1x50x64"]);
}

#[test]
fn gelu_is_found_in_its_hyperbolic_tangent() {
    let model = tokens()
        .scalar("three", 3.0)
        .scalar("small", 0.044_715)
        .node("Pow", &["x", "three"], "a", &[])
        .node("Mul", &["a", "small"], "b", &[])
        .node("Add", &["x", "b"], "c", &[])
        .node("Mul", &["c", "root"], "d", &[])
        .node("Tanh", &["d"], "e", &[])
        .node("Add", &["e", "one"], "f", &[])
        .node("Mul", &["x", "half"], "g", &[])
        .node("Mul", &["g", "f"], "y", &[]);
    assert_eq!(model.operators(), ["Gelu 1x50x64"]);
}

/// Nodes that quantise a tensor and dequantise it again.
fn quantised(model: Builder, from: &str, to: &str) -> Builder {
    let between = format!("{to}.integers");
    model.node("QuantizeLinear", &[from, "one"], &between, &[]).node(
        "DequantizeLinear",
        &[&between, "one"],
        to,
        &[],
    )
}

#[test]
fn gelu_and_norms_are_found_between_integers() {
    let mut model = tokens();
    for (from, to) in [("root", "r"), ("one", "o"), ("half", "h")] {
        model = quantised(model, from, to);
    }
    model = quantised(model.node("Div", &["x", "r"], "a", &[]), "a", "b");
    model = quantised(model.node("Erf", &["b"], "c", &[]), "c", "d");
    model = quantised(model.node("Add", &["d", "o"], "e", &[]), "e", "f");
    model = quantised(model.node("Mul", &["x", "f"], "g", &[]), "g", "i");
    assert_eq!(model.node("Mul", &["i", "h"], "y", &[]).operators(), ["Gelu 1x50x64"]);

    let mut model = tokens().scalar("small", 1e-6).integers("axis", &[-1]).weights("scale", &[64]);
    for (from, to) in [("small", "s"), ("scale", "t")] {
        model = quantised(model, from, to);
    }
    model = quantised(model.node("Mul", &["x", "x"], "a", &[]), "a", "b");
    model = quantised(model.node("ReduceMean", &["b", "axis"], "c", &[]), "c", "d");
    model = model.node("Add", &["d", "s"], "e", &[]).node("Sqrt", &["e"], "f", &[]);
    model = quantised(model.node("Div", &["x", "f"], "g", &[]), "g", "i");
    assert_eq!(model.node("Mul", &["i", "t"], "y", &[]).operators(), ["Rms norm 1x50x64"]);
}

#[test]
fn swish_and_hard_swish_are_found_and_a_gate_is_not_one() {
    let swish = tokens().node("Sigmoid", &["x"], "a", &[]).node("Mul", &["x", "a"], "y", &[]);
    assert_eq!(swish.operators(), ["Silu 1x50x64"]);
    let quantised = tokens()
        .node("Sigmoid", &["x"], "a", &[])
        .node("QuantizeLinear", &["a"], "b", &[])
        .node("DequantizeLinear", &["b"], "c", &[])
        .node("Mul", &["x", "c"], "y", &[]);
    assert_eq!(quantised.operators(), ["Silu 1x50x64"]);
    let hard = tokens()
        .scalar("three", 3.0)
        .scalar("six", 6.0)
        .node("Add", &["x", "three"], "a", &[])
        .node("Clip", &["a"], "b", &[])
        .node("Mul", &["x", "b"], "c", &[])
        .node("Div", &["c", "six"], "y", &[]);
    assert_eq!(hard.operators(), ["HardSwish 1x50x64"]);
    let gate = tokens()
        .weights("w", &[64, 64])
        .node("MatMul", &["x", "w"], "a", &[])
        .node("Sigmoid", &["a"], "b", &[])
        .node("Mul", &["x", "b"], "y", &[]);
    assert_eq!(gate.operators(), ["linear 50x64 -> 64", "Sigmoid 1x50x64", "Multiply 1x50x64"]);
    let quick = tokens().node("Mul", &["x", "root"], "a", &[]).node("Sigmoid", &["a"], "b", &[]).node(
        "Mul",
        &["x", "b"],
        "y",
        &[],
    );
    assert_eq!(quick.operators(), ["Multiply 1x50x64", "Sigmoid 1x50x64", "Multiply 1x50x64"]);
}

#[test]
fn a_quotient_of_tensors_is_not_a_product_and_prelu_is_not_relu() {
    let model = tokens().node("Exp", &["x"], "a", &[]).node("Div", &["x", "a"], "b", &[]).node(
        "Div",
        &["b", "two"],
        "y",
        &[],
    );
    assert_eq!(model.operators(), ["Sigmoid 1x50x64", "Divide 1x50x64", "Multiply 1x50x64"]);
    let slopes = Builder::new(&[1, 3, 8, 8])
        .weights("w", &[16, 3, 1, 1])
        .weights("slope", &[16, 1, 1])
        .node("Conv", &["x", "w"], "a", &[])
        .node("PRelu", &["a", "slope"], "y", &[]);
    assert_eq!(slopes.operators(), ["conv2d 1x1 8x8x3 -> 8x8x16", "Prelu 8x8x16"]);
}

#[test]
fn scaling_a_product_of_activations_takes_a_pass() {
    let scores = tokens()
        .node("Transpose", &["x"], "a", &[("perm", &[0, 2, 1])])
        .node("MatMul", &["x", "a"], "b", &[])
        .node("Mul", &["b", "half"], "y", &[]);
    let found = scores.operators();
    assert_eq!(found.last().map(String::as_str), Some("Multiply 1x50x50"), "{found:?}");
}

#[test]
fn constants_alone_are_computed_before() {
    // A position embedding through a layer of its own.
    let model = tokens()
        .weights("places", &[50, 2])
        .weights("w", &[2, 64])
        .node("MatMul", &["places", "w"], "a", &[])
        .node("Relu", &["a"], "b", &[])
        .node("Add", &["x", "b"], "y", &[])
        .import()
        .unwrap();
    assert_eq!(described(&model.graph), ["Add 1x50x64"]);
    assert_eq!(model.graph.macs(), 0);
    // A layer without a shape inference rule.
    let image = Builder::new(&[1, 16, 4, 4])
        .weights("places", &[1, 8, 4, 4])
        .weights("w", &[16, 8, 1, 1])
        .node("Conv", &["places", "w"], "a", &[])
        .node("Add", &["x", "a"], "y", &[]);
    assert_eq!(image.operators(), ["Add 4x4x16"]);
    let broken = tokens().weights("a", &[3, 4]).weights("b", &[5, 6]).node("MatMul", &["a", "b"], "y", &[]);
    assert!(broken.import().is_err());
}

#[test]
fn norms_are_found_in_their_means_and_roots() {
    let layer = tokens()
        .weights("gamma", &[64])
        .weights("beta", &[64])
        .node("ReduceMean", &["x"], "mean", &[("axes", &[-1])])
        .node("Sub", &["x", "mean"], "a", &[])
        .node("Pow", &["a", "two"], "b", &[])
        .node("ReduceMean", &["b"], "c", &[("axes", &[-1])])
        .node("Add", &["c", "half"], "d", &[])
        .node("Sqrt", &["d"], "e", &[])
        .node("Div", &["a", "e"], "f", &[])
        .node("Mul", &["f", "gamma"], "g", &[])
        .node("Add", &["g", "beta"], "h", &[])
        .node("Add", &["h", "x"], "y", &[]);
    assert_eq!(layer.operators(), ["Layer norm 1x50x64", "Add 1x50x64"]);
    let over_channels = Builder::new(&[1, 16, 8, 8])
        .scalar("two", 2.0)
        .scalar("small", 1e-6)
        .weights("gamma", &[1, 16, 1, 1])
        .weights("beta", &[1, 16, 1, 1])
        .node("ReduceMean", &["x"], "mean", &[("axes", &[1])])
        .node("Sub", &["x", "mean"], "a", &[])
        .node("Pow", &["a", "two"], "b", &[])
        .node("ReduceMean", &["b"], "c", &[("axes", &[1])])
        .node("Add", &["c", "small"], "d", &[])
        .node("Sqrt", &["d"], "e", &[])
        .node("Div", &["a", "e"], "f", &[])
        .node("Mul", &["gamma", "f"], "g", &[])
        .node("Add", &["g", "beta"], "y", &[]);
    assert_eq!(over_channels.operators(), ["Layer norm 8x8x16"]);
    let rms = tokens()
        .weights("gamma", &[64])
        .node("Pow", &["x", "two"], "a", &[])
        .node("ReduceMean", &["a"], "b", &[("axes", &[-1])])
        .node("Add", &["b", "half"], "c", &[])
        .node("Sqrt", &["c"], "d", &[])
        .node("Reciprocal", &["d"], "e", &[])
        .node("Mul", &["x", "e"], "f", &[])
        .node("Mul", &["gamma", "f"], "y", &[]);
    assert_eq!(rms.operators(), ["Rms norm 1x50x64"]);
}

#[test]
fn biases_and_scales_after_weights_are_part_of_them() {
    let model = tokens()
        .weights("w", &[64, 32])
        .weights("bias", &[32])
        .node("MatMul", &["x", "w"], "a", &[])
        .node("Add", &["bias", "a"], "b", &[])
        .node("Mul", &["b", "half"], "y", &[])
        .import()
        .unwrap();
    assert_eq!(described(&model.graph), ["linear 50x64 -> 32"]);
    assert_eq!(model.graph.parameters(), 64 * 32 + 32);
    let image = Builder::new(&[1, 3, 8, 8])
        .weights("w", &[16, 3, 1, 1])
        .weights("norm", &[16])
        .node("Conv", &["x", "w"], "a", &[])
        .node("BatchNormalization", &["a", "norm", "norm", "norm", "norm"], "b", &[])
        .node("Relu", &["b"], "y", &[]);
    assert_eq!(image.operators(), ["conv2d 1x1 8x8x3 -> 8x8x16", "Relu 8x8x16"]);
    let frozen = Builder::new(&[1, 3, 8, 8])
        .weights("w", &[16, 3, 1, 1])
        .weights("norm", &[1, 16, 1, 1])
        .node("Conv", &["x", "w"], "a", &[])
        .node("Mul", &["a", "norm"], "b", &[])
        .node("Add", &["b", "norm"], "y", &[]);
    assert_eq!(frozen.operators(), ["conv2d 1x1 8x8x3 -> 8x8x16"]);
    let behind_reshape = tokens()
        .weights("w", &[64, 32])
        .weights("norm", &[32])
        .integers("rows", &[50, 32])
        .node("MatMul", &["x", "w"], "a", &[])
        .node("Reshape", &["a", "rows"], "b", &[])
        .node("BatchNormalization", &["b", "norm", "norm", "norm", "norm"], "y", &[]);
    assert_eq!(behind_reshape.operators(), ["linear 50x64 -> 32", "Batch norm 1x50x32"]);
}

#[test]
fn approximations_are_reported() {
    let model = tokens().node("LeakyRelu", &["x"], "y", &[]).import().unwrap();
    assert_eq!(described(&model.graph), ["Relu 1x50x64"]);
    assert_eq!((model.approximated.len(), model.skipped.len()), (1, 0));
    assert_eq!(model.approximated[0].kind, "LeakyRelu");
}

#[test]
fn an_operator_without_counterpart_is_named_or_on_demand_replaced() {
    let model = || {
        tokens().weights("w", &[64, 8]).node("Unheard", &["x"], "a", &[]).node(
            "MatMul",
            &["a", "w"],
            "y",
            &[],
        )
    };
    let error = model().import().unwrap_err();
    assert!(
        matches!(&error, ImportError::Node { node, kind, problem: Problem::Unknown(_) } if node == "Unheard.a" && kind == "Unheard"),
        "{error}"
    );
    assert!(error.help().contains("--skip-unknown"));
    let model = || model().stated("a", &[1, 50, 64]);
    let error = skipping(model(), 90).unwrap_err();
    assert!(error.to_string().ends_with("left out: Unheard"), "{error}");
    let imported = skipping(model(), 30).unwrap();
    assert_eq!((imported.coverage.nodes, imported.coverage.skipped), (2, 1));
    // The skipped node reads and writes 50 x 64 elements, the product reads 50 x 64 and writes 50 x 8.
    assert_eq!(
        imported.coverage.to_string(),
        "1 of 2 nodes, 36.0 % of what they read and write, at most 100.0 % of their multiply-adds"
    );
    assert_eq!(described(&imported.graph), ["Relu 1x50x64", "linear 50x64 -> 8"]);
    assert_eq!(imported.skipped.len(), 1);
}

fn skipping(model: Builder, least_covered_percent: u32) -> Result<Imported, ImportError> {
    let options = ImportOptions { skip_unknown: true, least_covered_percent, ..ImportOptions::default() };
    import(ModelFormat::Onnx, "m", model.bytes(), &options)
}

#[test]
fn weights_of_skipped_nodes_count_as_multiplied_once() {
    let model = tokens().weights("w", &[64, 8]).weights("v", &[640, 120]).stated("a", &[1, 50, 64]);
    let model = model.node("Unheard", &["x", "v"], "a", &[]).node("MatMul", &["a", "w"], "y", &[]);
    // The product has 50 x 64 x 8 multiply-adds, the skipped node is counted with 640 x 120.
    let percent = skipping(model, 20).unwrap().coverage.multiply_adds_percent.unwrap();
    assert!((percent - 25.0).abs() < 0.01, "{percent}");
}

#[test]
fn nodes_after_guessed_extents_do_not_count_as_covered() {
    let model = |stated: &[i64]| {
        let model = tokens().weights("w", &[64, 64]).stated("c", stated).node("Unheard", &["x"], "a", &[]);
        let model = model.node("MatMul", &["a", "w"], "b", &[]).node("Relu", &["b"], "c", &[]);
        model.node("MatMul", &["c", "w"], "y", &[])
    };
    let error = skipping(model(&[1, 50, 64]), 1).unwrap_err().to_string();
    assert!(error.contains("1 of 4 nodes, an unknown part of what they read, write and multiply"), "{error}");
    // Where the file states other extents, everything after the node follows from the guess.
    let coverage = skipping(model(&[1, 20, 64]), 0).unwrap().coverage;
    assert_eq!((coverage.skipped, coverage.following, coverage.multiply_adds_percent), (1, 3, None));
    // A mismatch is then not the model's fault, and the node is left out, too.
    let model = || model(&[1, 20, 64]).input("z", &[1, 20, 64]).node("Add", &["y", "z"], "sum", &[]);
    let kinds: Vec<String> = skipping(model(), 0).unwrap().skipped.into_iter().map(|one| one.kind).collect();
    assert_eq!(kinds, ["Unheard", "Add"]);
    let error = skipping(model(), 1).unwrap_err();
    assert!(error.to_string().ends_with("left out: Add, Unheard"), "{error}");
    assert!(error.help().ends_with("accept that with --least-covered 0"), "{}", error.help());
}

#[test]
fn scalar_inputs_can_be_set() {
    let model = || {
        let model = Builder::new(&[1, 64]).input("k", &[]).integers("one", &[1]).integers("axis", &[0]);
        let model = model.node("Unsqueeze", &["k", "axis"], "row", &[]);
        let model = model.node("Concat", &["row", "one"], "copies", &[("axis", &[0])]);
        model.node("Tile", &["x", "copies"], "a", &[]).node("Relu", &["a"], "y", &[])
    };
    let error = model().import().unwrap_err().to_string();
    assert!(
        error.contains("from the model's input k (set it with --dim k=N), whose value is not known"),
        "{error}"
    );
    assert_eq!(described(&model().import_with(&[("k", 20)]).unwrap().graph).last().unwrap(), "Relu 1x20x64");
    assert!(model().import_with(&[("x", 4)]).is_err());
}

#[test]
fn a_table_may_be_the_weights_of_a_product_too() {
    let model = Builder::new(&[5]).weights("w", &[64, 64]).node("Gather", &["w", "x"], "a", &[]);
    let graph = model.node("MatMul", &["a", "w"], "y", &[]).import().unwrap().graph;
    assert_eq!(graph.parameters(), 64 * 64);
}

#[test]
fn places_along_the_first_axis_of_a_table_are_looked_up() {
    let model = || Builder::new(&[1, 2]).weights("w", &[8, 4, 16]).integers("last", &[2]);
    let gathered = model().node("Gather", &["w", "x"], "y", &[]).import().unwrap().graph;
    let placed = model().node("Unsqueeze", &["x", "last"], "i", &[]).node("GatherND", &["w", "i"], "y", &[]);
    let placed = placed.import().unwrap().graph;
    assert_eq!(described(&placed), described(&gathered));
    assert_eq!(placed.parameters(), 8 * 4 * 16);
}

#[test]
fn a_batch_of_one_is_suggested_only_for_a_symbolic_first_axis() {
    let help =
        |extents: &[i64]| Builder::new(extents).node("Relu", &["x"], "y", &[]).import().unwrap_err().help();
    assert_eq!(help(&[1, 0]), "set their sizes: --dim open=N");
    assert!(help(&[0, 4]).ends_with("; if open is the batch, 1 is one input at a time"));
}

#[test]
fn invalid_nodes_are_rejected_by_name() {
    let model = Builder::new(&[1, 3, 8, 8]).weights("w", &[4, 5, 3, 3]).node("Conv", &["x", "w"], "y", &[]);
    let error = model.import().unwrap_err();
    assert!(
        matches!(&error, ImportError::Node { node, problem: Problem::Unsound(_), .. } if node == "Conv.y"),
        "{error}"
    );
}

#[test]
fn recurrent_layers_of_more_than_two_directions_and_padding_beyond_every_image_are_refused() {
    let weights =
        Builder::new(&[2, 1, 1]).weights("w", &[20_000_000, 4, 1]).weights("r", &[20_000_000, 4, 1]);
    let padded = Builder::new(&[1, 1, u32::MAX.into(), 1]).integers("pads", &[0, 0, 8, 0, 0, 0, 8, 0]);
    let padded = padded.weights("w", &[1, 1, 1, 1]).node("Pad", &["x", "pads"], "a", &[]);
    for (model, name) in [
        (weights.node("LSTM", &["x", "w", "r"], "y", &[]), "LSTM.y"),
        (padded.node("Conv", &["a", "w"], "y", &[]), "Pad.a"),
    ] {
        let error = model.import().unwrap_err();
        assert!(
            matches!(&error, ImportError::Node { node, problem: Problem::Unsound(_), .. } if node == name),
            "{error}"
        );
    }
}

#[test]
fn a_transposed_convolution_with_a_stride_of_0_or_beyond_every_image_is_refused() {
    for (stride, padding) in [(0, 0), (i64::from(u32::MAX), i64::from(u32::MAX) - 2)] {
        let pads = i64::from(stride == 0);
        let window: &[(&str, &[i64])] =
            &[("strides", &[stride; 2]), ("pads", &[pads; 4]), ("output_padding", &[padding; 2])];
        let model = Builder::new(&[1, 4, 8, 8]).weights("w", &[4, 4, 2, 2]);
        let error = model.node("ConvTranspose", &["x", "w"], "y", window).import().unwrap_err();
        assert!(matches!(&error, ImportError::Node { problem: Problem::Unsound(_), .. }), "{error}");
    }
}

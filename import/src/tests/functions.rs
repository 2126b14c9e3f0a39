//! Functions: found again, folded, approximated, unknown.

use super::{Builder, described};
use crate::{ImportError, ImportOptions, ModelFormat, Problem, import};

fn tokens() -> Builder {
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

#[test]
fn swish_and_hard_swish_are_found_and_a_gate_is_not_one() {
    let swish = tokens().node("Sigmoid", &["x"], "a", &[]).node("Mul", &["x", "a"], "y", &[]);
    assert_eq!(swish.operators(), ["Silu 1x50x64"]);
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
fn a_quotient_of_tensors_is_no_product_and_a_trained_slope_no_rectifier() {
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
fn what_scales_the_product_of_activations_takes_a_pass() {
    let scores = tokens()
        .node("Transpose", &["x"], "a", &[("perm", &[0, 2, 1])])
        .node("MatMul", &["x", "a"], "b", &[])
        .node("Mul", &["b", "half"], "y", &[]);
    let found = scores.operators();
    assert_eq!(found.last().map(String::as_str), Some("Multiply 1x50x50"), "{found:?}");
}

#[test]
fn constants_alone_are_computed_before() {
    // What a position is worth, through a layer of its own.
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
    // Of a layer whose extents no rule says.
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
fn biases_and_scales_behind_weights_are_part_of_them() {
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
fn a_value_a_channel_is_multiplied_as_such() {
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
fn what_costs_about_as_much_is_told() {
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
    let options = ImportOptions { skip_unknown: true, ..ImportOptions::default() };
    let error = import(ModelFormat::Onnx, "m", model().bytes(), &options).unwrap_err();
    assert!(error.to_string().ends_with("without one: Unheard"), "{error}");
    let options = ImportOptions { least_covered_percent: 30, ..options };
    let imported = import(ModelFormat::Onnx, "m", model().bytes(), &options).unwrap();
    assert_eq!((imported.coverage.nodes, imported.coverage.skipped), (2, 1));
    // It reads and writes 50 x 64, the product 50 x 64 and 50 x 8.
    assert!((imported.coverage.elements_percent - 36.0).abs() < 0.01, "{:?}", imported.coverage);
    assert_eq!(described(&imported.graph), ["Relu 1x50x64", "linear 50x64 -> 8"]);
    assert_eq!(imported.skipped.len(), 1);
}

#[test]
fn a_node_that_cannot_be_is_refused_by_name() {
    let model = Builder::new(&[1, 3, 8, 8]).weights("w", &[4, 5, 3, 3]).node("Conv", &["x", "w"], "y", &[]);
    let error = model.import().unwrap_err();
    assert!(
        matches!(&error, ImportError::Node { node, problem: Problem::Unsound(_), .. } if node == "Conv.y"),
        "{error}"
    );
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
